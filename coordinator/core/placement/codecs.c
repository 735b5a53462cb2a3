#include "coordinator/core/placement/codecs.h"

/* The first version of the protocol that agrees on a codec. */
#define PROTOCOL_OF_CODECS 2
#define NO_TIME 1e300

/* Values of a tensor that is large enough for the compression ratio of large tensors. */
#define VALUES 1048576u

const enum codec codecs_auto[CODECS_AUTO] = {CODEC_NONE, CODEC_Q8, CODEC_Q4};

struct partition_codec codecs_cost(enum codec codec)
{
    const struct codec_info *info = codec_info(codec);
    const bool codes = codec != CODEC_NONE;
    return (struct partition_codec){
        .ratio = (double)(VALUES * sizeof(float)) / (double)codec_bytes(codec, VALUES),
        .encode_bytes_per_second = codes ? info->encode_bytes_per_second : NO_TIME,
        .decode_bytes_per_second = codes ? info->decode_bytes_per_second : NO_TIME};
}

enum codec codecs_wanted(const struct job_spec *spec)
{
    return spec->compression == COMPRESSION_AUTO ? CODEC_NONE : (enum codec)spec->compression;
}

enum codecs codecs_of_device(const struct device *device)
{
    return device->protocol < PROTOCOL_OF_CODECS ? CODECS_NO
           : device->inventory.zstd              ? CODECS_ALL
                                                 : CODECS_PLAIN;
}

enum codec codecs_of_link(enum codec wanted, enum codecs a, enum codecs b)
{
    switch (a < b ? a : b) {
    case CODECS_NO: return CODEC_NONE;
    case CODECS_PLAIN: return codec_info(wanted)->plain;
    case CODECS_ALL: return wanted;
    }
    return CODEC_NONE;
}

bool codecs_in_plan(const struct plan *plan)
{
    for (size_t s = 0; s < plan->stage_count; s++) {
        if (plan->stage[s].codec != CODEC_NONE) {
            return true;
        }
    }
    return false;
}
