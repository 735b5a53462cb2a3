/* A tar archive whose content is recognised. */
#include "tests/fuzz/dataset_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    convert_archive(data, size, "");
    return 0;
}
