/* One file of any format; the first inputs are CIFAR-10 records and the one form. */
#include "tests/fuzz/dataset_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    convert_one(data, size);
    return 0;
}
