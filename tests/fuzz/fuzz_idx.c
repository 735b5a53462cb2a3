/* Two files, images and labels in IDX (or anything else that dataset_convert recognises). */
#include "tests/fuzz/dataset_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    convert_two(data, size, "", 0);
    return 0;
}
