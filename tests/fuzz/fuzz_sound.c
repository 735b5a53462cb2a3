/* A tar archive of WAV files, with either rule for the classes. */
#include "tests/fuzz/dataset_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    convert_archive(data, size, "sound=8000,clip_ms=50,window_ms=20,mels=4");
    convert_archive(data, size, "sound=8000,clip_ms=50,window_ms=20,mels=4,label=prefix");
    return 0;
}
