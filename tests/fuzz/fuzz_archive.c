/* A tar archive, or one image, whose content is recognised. The images of tests/golden are among
 * its first inputs. */
#include "tests/fuzz/dataset_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    convert_archive(data, size, "");
    return 0;
}
