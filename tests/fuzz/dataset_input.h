/* dataset_input.h: fuzzed bytes as files for dataset_convert; asserts the invariants of every
 * outcome. For the fuzz targets of libtrain/formats. One thread. */
#ifndef TESTS_FUZZ_DATASET_INPUT_H
#define TESTS_FUZZ_DATASET_INPUT_H

#include <stddef.h>
#include <stdint.h>

/* One file of `size` bytes. */
void convert_one(const uint8_t *data, size_t size);
/* Two files: the first two bytes say how long the first is, little endian. `mark` (may be empty) is
 * put in front of both, so that a format's mark need not be guessed. */
void convert_two(const uint8_t *data, size_t size, const char *mark, size_t mark_size);
/* A tar archive, whose checksums are made right, so that mutations reach the content after them.
 * `how` is an argument of reading_parse; empty: recognised by content. */
void convert_archive(const uint8_t *data, size_t size, const char *how);

#endif
