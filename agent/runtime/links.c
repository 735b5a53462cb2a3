#include "agent/runtime/links.h"

#include <pthread.h>
#include <stdlib.h>

struct links {
    pthread_mutex_t lock;
    struct timing_transfers transfers; /* guarded by lock */
};

int links_new(struct links **out, struct err *err)
{
    struct links *links = calloc(1, sizeof(*links));
    if (!links || pthread_mutex_init(&links->lock, NULL) != 0) {
        free(links);
        return err_set(err, ERR_MEMORY, "measurements of links");
    }
    *out = links;
    return 0;
}

void links_free(struct links **links)
{
    if (*links) {
        (void)pthread_mutex_destroy(&(*links)->lock);
        free(*links);
        *links = NULL;
    }
}

void links_note(struct links *links, enum link_kind kind, const struct device_id *device,
                double bytes, double seconds)
{
    (void)pthread_mutex_lock(&links->lock);
    timing_transfer_add(&links->transfers, kind, device, bytes, seconds);
    (void)pthread_mutex_unlock(&links->lock);
}

void links_report(struct links *links, struct heartbeat *out)
{
    (void)pthread_mutex_lock(&links->lock);
    timing_transfers_report(&links->transfers, out);
    (void)pthread_mutex_unlock(&links->lock);
}
