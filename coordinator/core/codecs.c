#include "coordinator/core/codecs.h"

/* The first version of the protocol that agrees on a codec. */
#define PROTOCOL_OF_CODECS 2

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

enum codec codecs_of_link(const struct job_spec *spec, enum codecs a, enum codecs b)
{
    const enum codec wanted = codecs_wanted(spec);
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
