/* The first bytes of a connection to a relay: in pieces or at once, the answer is the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/relay_preface.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct relay_preface preface;
    struct err err = {0};
    char *text = malloc(size > 0 ? size : 1); /* no byte more: a sanitizer sees reads beyond it */
    if (!text) {
        return 0;
    }
    memcpy(text, data, size);
    const int whole = relay_preface_read(text, size, &preface, &err);
    if (whole > 0) {
        char again[RELAY_PREFACE_BYTES];
        if ((size_t)whole > size || strlen(preface.name) == 0 || strlen(preface.ticket) == 0) {
            abort();
        }
        const size_t written = relay_preface_park(preface.name, preface.ticket, again);
        if (relay_preface_read(again, written, &preface, &err) != (int)written) {
            abort();
        }
        for (int i = 0; i < whole; i++) {
            if (relay_preface_read(text, (size_t)i, &preface, &err) != 0) {
                abort(); /* an end before its end */
            }
        }
    }
    free(text);
    return 0;
}
