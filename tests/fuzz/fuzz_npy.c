/* Two files, images and labels in NPY; their mark is given. */
#include "tests/fuzz/dataset_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    convert_two(data, size, "\x93NUMPY", 6);
    return 0;
}
