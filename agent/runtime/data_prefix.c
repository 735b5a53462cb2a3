#include "agent/runtime/data_prefix.h"

#include "net/hash.h"

struct hashing {
    struct sha256 *hash;
    int (*go_on)(void *arg, struct err *err); /* NULL: none */
    void *arg;
};

static int add_to_hash(void *arg, const void *data, size_t size, struct err *err)
{
    const struct hashing *hashing = arg;
    sha256_update(hashing->hash, data, size);
    return hashing->go_on ? hashing->go_on(hashing->arg, err) : 0;
}

int data_hash_prefix(const struct data *data, uint64_t count,
                     int (*go_on)(void *arg, struct err *err), void *arg, char out[HASH_TEXT_SIZE],
                     struct err *err)
{
    struct sha256 *hash AUTO(sha256_free) = NULL;
    const unsigned char *bytes = data_inputs(data) - data_info(data)->inputs_offset;
    int rc = sha256_new(&hash, err);
    struct hashing hashing = {.hash = hash, .go_on = go_on, .arg = arg};
    rc = rc ? rc : dataset_send_prefix(bytes, count, add_to_hash, &hashing, err);
    if (rc == 0) {
        sha256_finish_text(hash, out);
    }
    return rc;
}
