/* A tar archive, whose checksums are made right, so that mutations reach what lies behind them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/fuzz/dataset_input.h"

#define BLOCK_BYTES 512
#define CHECKSUM_AT 148
#define CHECKSUM_BYTES 8
#define MAGIC_AT 257

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void repair_checksum(uint8_t *block)
{
    unsigned sum = 0;
    memset(block + CHECKSUM_AT, ' ', CHECKSUM_BYTES);
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        sum += block[i];
    }
    char text[CHECKSUM_BYTES];
    (void)snprintf(text, sizeof(text), "%06o", sum & 0777777);
    memcpy(block + CHECKSUM_AT, text, sizeof(text) - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    ASSERT(copy);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    for (size_t at = 0; at + BLOCK_BYTES <= size; at += BLOCK_BYTES) {
        if (memcmp(copy + at + MAGIC_AT, "ustar", 5) == 0) {
            repair_checksum(copy + at);
        }
    }
    convert_one(copy, size);
    free(copy);
    return 0;
}
