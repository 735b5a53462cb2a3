/* codec.h: the codecs of tensors between two stages, as data: what they are called and how many
 * bytes n values take. How values become bytes: coder.h. Pure; the coordinator uses it too. */
#ifndef LIBTRAIN_QUANT_CODEC_H
#define LIBTRAIN_QUANT_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values of a group, which have one lowest value and one scale. */
#define CODEC_GROUP 256
/* Bytes of a group's entry in the table: two float32. */
#define CODEC_ENTRY_BYTES 8
/* The most that the compressor and its counterpart take, whatever the tensor. */
#define CODEC_ZSTD_BYTES (1536u << 10)

enum codec {
    CODEC_NONE,
    CODEC_BFLOAT16,
    CODEC_Q8,
    CODEC_Q6,
    CODEC_Q4,
    CODEC_Q3,
    CODEC_Q2,
    CODEC_BFLOAT16_ZSTD,
    CODEC_Q8_ZSTD,
    CODEC_Q6_ZSTD,
    CODEC_Q4_ZSTD,
    CODEC_Q3_ZSTD,
    CODEC_Q2_ZSTD,
    CODECS,
};

/* By number, for tables of records; ends with NULL. */
extern const char *const codec_names[];

struct codec_info {
    const char *name;
    unsigned bits;    /* of a value */
    bool grouped;     /* codes of groups, with a table */
    bool zstd;        /* the codes are compressed where that pays */
    enum codec plain; /* the same without zstd */
    /* Of float32 on one core with AVX-512, for plans before anything was measured (bench codec). */
    double encode_bytes_per_second, decode_bytes_per_second;
};
const struct codec_info *codec_info(enum codec codec);
/* False: no codec has this name. */
bool codec_find(const char *name, enum codec *out);
/* Whether this build has it: zstd is an option of the build. */
bool codec_available(enum codec codec);

/* Bytes of n values without a group that travels raw and before zstd. */
uint64_t codec_bytes(enum codec codec, uint64_t n);
/* The most that n values take: every group raw. */
uint64_t codec_bytes_max(enum codec codec, uint64_t n);
/* What a sender or a receiver of up to n values allocates (coder_new). 0 for CODEC_NONE. */
uint64_t codec_memory(enum codec codec, uint64_t n);

#endif
