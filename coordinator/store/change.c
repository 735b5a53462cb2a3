#include "coordinator/store/change.h"

#include <string.h>

/* A record is the struct, with meaningless pointers, and then its three texts with their NULs. */
int change_log_append(struct buf *log, const struct change *change, struct err *err)
{
    size_t id_size = strlen(change->row.id) + 1;
    size_t parent_size = strlen(change->row.parent) + 1;
    size_t total = sizeof(*change) + id_size + parent_size + change->row.document_size + 1;
    char *to = buf_reserve(log, total, err);
    if (!to) {
        return err_wrap(err, "changes of one turn");
    }
    memcpy(to, change, sizeof(*change));
    to += sizeof(*change);
    memcpy(to, change->row.id, id_size);
    to += id_size;
    memcpy(to, change->row.parent, parent_size);
    to += parent_size;
    memcpy(to, change->row.document, change->row.document_size);
    to[change->row.document_size] = '\0';
    log->size += total;
    return 0;
}

bool change_log_next(const struct buf *log, size_t *offset, struct change *out)
{
    if (*offset >= log->size) {
        return false;
    }
    const char *from = log->data + *offset;
    memcpy(out, from, sizeof(*out));
    out->row.id = from + sizeof(*out);
    out->row.parent = out->row.id + strlen(out->row.id) + 1;
    out->row.document = out->row.parent + strlen(out->row.parent) + 1;
    *offset = (size_t)(out->row.document - log->data) + out->row.document_size + 1;
    return true;
}
