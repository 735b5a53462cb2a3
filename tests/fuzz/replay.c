/* The main of a fuzz target outside the fuzz preset. It feeds every file of the directories given
 * to LLVMFuzzerTestOneInput, in the order of their names, and prints the count. It makes the
 * committed corpus an ordinary test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"

#define INPUT_MAX_BYTES (16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *directory, const char *name, struct err *err)
{
    char path[4096];
    int length = snprintf(path, sizeof(path), "%s/%s", directory, name);
    if (length < 0 || (size_t)length >= sizeof(path)) {
        return err_set(err, ERR_LIMIT, "path '%s/%s' is too long", directory, name);
    }
    BUF_AUTO struct buf input;
    buf_init(&input, INPUT_MAX_BYTES);
    int rc = file_read(path, &input, err);
    if (rc) {
        return rc;
    }
    /* A copy of the exact size: the buffer's spare room would hide a read beyond the end from the
     * sanitizer. */
    uint8_t *exact = malloc(input.size ? input.size : 1);
    if (!exact) {
        return err_set(err, ERR_MEMORY, "no memory for '%s'", path);
    }
    if (input.size > 0) {
        memcpy(exact, input.data, input.size);
    }
    (void)LLVMFuzzerTestOneInput(exact, input.size);
    free(exact);
    return 0;
}

static int replay_directory(const char *directory, size_t *count, struct err *err)
{
    struct dirent **entries;
    int found = scandir(directory, &entries, NULL, alphasort);
    if (found < 0) {
        return err_set(err, ERR_IO, "cannot list '%s'", directory);
    }
    int rc = 0;
    for (int i = 0; i < found; i++) {
        if (rc == 0 && entries[i]->d_name[0] != '.') {
            rc = replay_file(directory, entries[i]->d_name, err);
            *count += rc == 0;
        }
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    size_t count = 0;
    for (int i = 1; i < argc; i++) {
        if (replay_directory(argv[i], &count, &err)) {
            fprintf(stderr, "%s: %s\n", argv[0], err.text);
            return EXIT_FAILURE;
        }
    }
    if (count == 0) {
        fprintf(stderr, "%s: no inputs\n", argv[0]);
        return EXIT_FAILURE;
    }
    printf("%zu inputs\n", count);
    return EXIT_SUCCESS;
}
