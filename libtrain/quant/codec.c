#include "libtrain/quant/codec.h"

#include <string.h>

#include "base/assert.h"

const char *const codec_names[] = {
    [CODEC_NONE] = "none",       [CODEC_BFLOAT16] = "bfloat16",
    [CODEC_Q8] = "q8",           [CODEC_Q6] = "q6",
    [CODEC_Q4] = "q4",           [CODEC_Q3] = "q3",
    [CODEC_Q2] = "q2",           [CODEC_BFLOAT16_ZSTD] = "bfloat16+zstd",
    [CODEC_Q8_ZSTD] = "q8+zstd", [CODEC_Q6_ZSTD] = "q6+zstd",
    [CODEC_Q4_ZSTD] = "q4+zstd", [CODEC_Q3_ZSTD] = "q3+zstd",
    [CODEC_Q2_ZSTD] = "q2+zstd", [CODECS] = NULL,
};

static const struct codec_info table[CODECS] = {
    [CODEC_NONE] = {"none", 32, false, false, CODEC_NONE, 0, 0},
    [CODEC_BFLOAT16] = {"bfloat16", 16, false, false, CODEC_BFLOAT16, 14e9, 17e9},
    [CODEC_Q8] = {"q8", 8, true, false, CODEC_Q8, 4.8e9, 16e9},
    [CODEC_Q6] = {"q6", 6, true, false, CODEC_Q6, 4.4e9, 14e9},
    [CODEC_Q4] = {"q4", 4, true, false, CODEC_Q4, 4.6e9, 15e9},
    [CODEC_Q3] = {"q3", 3, true, false, CODEC_Q3, 4.4e9, 14e9},
    [CODEC_Q2] = {"q2", 2, true, false, CODEC_Q2, 4.6e9, 14e9},
    [CODEC_BFLOAT16_ZSTD] = {"bfloat16+zstd", 16, false, true, CODEC_BFLOAT16, 0.5e9, 1.6e9},
    [CODEC_Q8_ZSTD] = {"q8+zstd", 8, true, true, CODEC_Q8, 0.9e9, 3.3e9},
    [CODEC_Q6_ZSTD] = {"q6+zstd", 6, true, true, CODEC_Q6, 1.6e9, 4.5e9},
    [CODEC_Q4_ZSTD] = {"q4+zstd", 4, true, true, CODEC_Q4, 2e9, 5.7e9},
    [CODEC_Q3_ZSTD] = {"q3+zstd", 3, true, true, CODEC_Q3, 2.7e9, 6.7e9},
    [CODEC_Q2_ZSTD] = {"q2+zstd", 2, true, true, CODEC_Q2, 2.5e9, 8e9},
};

const struct codec_info *codec_info(enum codec codec)
{
    ASSERT((unsigned)codec < CODECS);
    return &table[codec];
}

bool codec_find(const char *name, enum codec *out)
{
    for (unsigned i = 0; i < CODECS; i++) {
        if (strcmp(table[i].name, name) == 0) {
            *out = (enum codec)i;
            return true;
        }
    }
    return false;
}

bool codec_available(enum codec codec)
{
#if defined(PACELINE_ZSTD)
    (void)codec;
    return true;
#else
    return !codec_info(codec)->zstd;
#endif
}

static uint64_t table_bytes(const struct codec_info *info, uint64_t n)
{
    return info->grouped ? (n + CODEC_GROUP - 1) / CODEC_GROUP * CODEC_ENTRY_BYTES : 0;
}

/* The codes of a group begin at a byte boundary, and those of a whole group end at one. */
static uint64_t packed_bytes(const struct codec_info *info, uint64_t n)
{
    return n / 8 * info->bits + (n % 8 * info->bits + 7) / 8;
}

uint64_t codec_bytes(enum codec codec, uint64_t n)
{
    const struct codec_info *info = codec_info(codec);
    return table_bytes(info, n) + packed_bytes(info, n);
}

uint64_t codec_bytes_max(enum codec codec, uint64_t n)
{
    const struct codec_info *info = codec_info(codec);
    return table_bytes(info, n) + (info->grouped ? n * sizeof(float) : packed_bytes(info, n));
}

uint64_t codec_memory(enum codec codec, uint64_t n)
{
    const struct codec_info *info = codec_info(codec);
    if (codec == CODEC_NONE) {
        return 0;
    }
    return codec_bytes_max(codec, n) + (info->zstd ? packed_bytes(info, n) + CODEC_ZSTD_BYTES : 0);
}
