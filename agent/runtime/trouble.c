#include "agent/runtime/trouble.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"

struct troubles {
    pthread_mutex_t lock;
    struct trouble_list list;
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

void troubles_note(struct troubles *troubles, enum trouble_source source,
                   const struct device_id *device, enum repeat_news news, enum peer_trouble kind,
                   const struct err *why)
{
    bool changed = false;
    const int64_t now_ms = clock_now_ms();
    (void)pthread_mutex_lock(&troubles->lock);
    if (news == REPEAT_IN_TROUBLE) {
        changed = trouble_list_add(&troubles->list, source, device, kind, now_ms);
    } else if (news == REPEAT_ANSWERED) {
        changed = trouble_list_clear(&troubles->list, source);
    }
    (void)pthread_mutex_unlock(&troubles->lock);
    if (changed && news == REPEAT_IN_TROUBLE) {
        log_warn("peer_trouble", "device=%s kind=%s error=%s", device->text,
                 peer_trouble_names[kind], log_quote(why->text).text);
    } else if (changed) {
        log_info("peer_answers", "device=%s", device->text);
    }
    if (changed) {
        troubles->changed(troubles->arg);
    }
}

void troubles_forget(struct troubles *troubles, enum trouble_source source)
{
    (void)pthread_mutex_lock(&troubles->lock);
    const bool changed = trouble_list_clear(&troubles->list, source);
    (void)pthread_mutex_unlock(&troubles->lock);
    if (changed) {
        troubles->changed(troubles->arg);
    }
}

void troubles_list(struct troubles *troubles, struct heartbeat *out)
{
    const int64_t now_ms = clock_now_ms();
    (void)pthread_mutex_lock(&troubles->lock);
    trouble_list_report(&troubles->list, now_ms, out);
    (void)pthread_mutex_unlock(&troubles->lock);
}

enum peer_trouble trouble_kind(int code, enum http_breakage breakage)
{
    if (code == ERR_TIMEOUT || breakage == HTTP_UNREACHED) {
        return PEER_STALLED;
    }
    return breakage == HTTP_REFUSED ? PEER_REFUSED : PEER_BROKEN;
}
