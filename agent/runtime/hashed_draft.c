#include "agent/runtime/hashed_draft.h"

int hashed_draft_open(struct hashed_draft *draft, const char *path, unsigned mode, struct err *err)
{
    const int rc = sha256_new(&draft->hash, err);
    return rc ? rc : file_draft_open(&draft->draft, path, mode, err);
}

int hashed_draft_append(void *arg, const void *data, size_t size, struct err *err)
{
    struct hashed_draft *draft = arg;
    sha256_update(draft->hash, data, size);
    return file_draft_append(&draft->draft, data, size, err);
}

int hashed_draft_keep(struct hashed_draft *draft, char sha256[HASH_TEXT_SIZE], struct err *err)
{
    sha256_finish_text(draft->hash, sha256);
    return file_draft_keep(&draft->draft, err);
}

void hashed_draft_drop(struct hashed_draft *draft)
{
    file_draft_drop(&draft->draft);
    sha256_free(&draft->hash);
}
