#include "agent/runtime/trouble.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

_Static_assert(TROUBLE_SOURCES <= PEER_REPORTS_MAX, "each source has its place in a heartbeat");

struct trouble {
    bool active;
    struct device_id device;
    enum peer_trouble kind;
    int64_t since_ms;
};

struct troubles {
    pthread_mutex_t lock;
    struct trouble item[TROUBLE_SOURCES];
    void (*changed)(void *arg);
    void *arg;
};

int troubles_new(void (*changed)(void *arg), void *arg, struct troubles **out, struct err *err)
{
    struct troubles *troubles = calloc(1, sizeof(*troubles));
    if (!troubles || pthread_mutex_init(&troubles->lock, NULL) != 0) {
        free(troubles);
        return err_set(err, ERR_MEMORY, "reports of peers");
    }
    troubles->changed = changed;
    troubles->arg = arg;
    *out = troubles;
    return 0;
}

void troubles_free(struct troubles **troubles)
{
    if (*troubles) {
        (void)pthread_mutex_destroy(&(*troubles)->lock);
        free(*troubles);
        *troubles = NULL;
    }
}

void troubles_report(struct troubles *troubles, enum trouble_source source,
                     const struct device_id *device, enum peer_trouble kind)
{
    const int64_t now_ms = clock_now_ms();
    (void)pthread_mutex_lock(&troubles->lock);
    struct trouble *trouble = &troubles->item[source];
    const bool same = trouble->active && strcmp(trouble->device.text, device->text) == 0;
    const bool news = !same || trouble->kind != kind;
    *trouble = (struct trouble){.active = true,
                                .device = *device,
                                .kind = kind,
                                .since_ms = same ? trouble->since_ms : now_ms};
    (void)pthread_mutex_unlock(&troubles->lock);
    if (news) {
        log_warn("peer_trouble", "device=%s kind=%s", device->text, peer_trouble_names[kind]);
        troubles->changed(troubles->arg);
    }
}

void troubles_clear(struct troubles *troubles, enum trouble_source source)
{
    (void)pthread_mutex_lock(&troubles->lock);
    const struct trouble trouble = troubles->item[source];
    troubles->item[source].active = false;
    (void)pthread_mutex_unlock(&troubles->lock);
    if (trouble.active) {
        log_info("peer_answers", "device=%s", trouble.device.text);
        troubles->changed(troubles->arg);
    }
}

size_t troubles_list(struct troubles *troubles, struct peer_report out[PEER_REPORTS_MAX])
{
    const int64_t now_ms = clock_now_ms();
    size_t count = 0;
    (void)pthread_mutex_lock(&troubles->lock);
    for (size_t i = 0; i < TROUBLE_SOURCES; i++) {
        const struct trouble *trouble = &troubles->item[i];
        if (!trouble->active) {
            continue;
        }
        size_t at = 0;
        while (at < count && strcmp(out[at].device.text, trouble->device.text) != 0) {
            at++;
        }
        const int64_t for_ms = now_ms - trouble->since_ms;
        if (at == count) {
            out[count++] = (struct peer_report){
                .device = trouble->device, .kind = (int)trouble->kind, .for_ms = for_ms};
            continue;
        }
        /* The kinds are in the order of what they prove. */
        out[at].kind = (int)trouble->kind < out[at].kind ? (int)trouble->kind : out[at].kind;
        out[at].for_ms = for_ms > out[at].for_ms ? for_ms : out[at].for_ms;
    }
    (void)pthread_mutex_unlock(&troubles->lock);
    return count;
}

enum peer_trouble trouble_kind(int code, enum http_breakage breakage)
{
    if (code == ERR_TIMEOUT || breakage == HTTP_UNREACHED) {
        return PEER_STALLED;
    }
    return breakage == HTTP_REFUSED ? PEER_REFUSED : PEER_BROKEN;
}
