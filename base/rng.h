/* rng.h: counter-based random numbers (Philox 4x32, 10 rounds). A draw is a pure function of a key
 * and a counter, so nothing needs saving and any device draws the same numbers. Any room, any
 * thread. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11; known
 * answers of the Random123 library. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng_block {
    uint32_t word[4];
};

/* Compute the raw function: key[2], counter[4] -> four uniform 32-bit words. */
struct rng_block rng_philox(const uint32_t key[2], const uint32_t counter[4]);

/* The purpose of a stream of numbers. It is part of the counter: no two purposes share a draw. */
enum rng_purpose {
    RNG_INITIALISE =
        1,           /* a = unit, b = parameter of the unit, index = element in PyTorch's order */
    RNG_SHUFFLE = 2, /* a = epoch, b = 0, index = position */
    RNG_DROPOUT =
        3, /* a = step, b = unit << 16 | op, index = sample position * elements + element */
    RNG_AUGMENT = 4, /* a = step, b = 0, index = 4 * sample position + draw: rows, columns, flip */
    RNG_ID = 5,      /* identifiers made by a core */
    RNG_SIMULATION = 6,
    RNG_JITTER = 7,       /* of waiting times, so that devices do not call in step */
    RNG_HOLDOUT = 8,      /* a = class, b = 0, index = place of the sample within its class; b = 1:
                             a phase */
    RNG_NEGATIVES = 9,    /* a = epoch, b = 0, index = place among the samples of other classes */
    RNG_SHARDS = 10,      /* a = class or shard, b = 0, index = draw; b = 1: the order of classes */
    RNG_SHARD_ORDER = 11, /* a = class, b = 0, index = place of the sample within its class */
    RNG_MATCH = 12,       /* a = life of the coordinator, b = 0, index = matches before; b > 0: the
                             order of a round, b - 1 = matches before */
    RNG_DRAWN = 13,       /* a = b = 0, index = draw: samples that all groups of a job evaluate */
    RNG_TURN = 14,        /* a = b = 0, index = place: the order of a shard's samples in turn */
    RNG_LIFE = 15,        /* a = the last life of the coordinator that is known, b = index = 0 */
};

/* One key of (seed, purpose, a, b); rng_word(stream, index) is then a pure function of index. */
struct rng_stream {
    uint32_t key[2];
    uint32_t high[2];
};

struct rng_stream rng_stream(uint64_t seed, enum rng_purpose purpose, uint64_t a, uint32_t b);
/* Return word number `index` of the stream: word index % 4 of block index / 4. */
uint32_t rng_word(const struct rng_stream *stream, uint64_t index);
/* Return block number `block_index` (from word 4 * block_index), for loops over all four words. */
struct rng_block rng_block(const struct rng_stream *stream, uint64_t block_index);
/* Return a uniform number in [0, 1) with 24 bits: exact in float. */
float rng_uniform(const struct rng_stream *stream, uint64_t index);
/* Return a uniform number in [0, bound), bound >= 1, by multiply-shift on 64 bits (two words at 2 *
 * index): bias below 2^-32. */
uint64_t rng_below(const struct rng_stream *stream, uint64_t index, uint64_t bound);
/* Shuffle item[count]. From the last position down, each position draws by rng_below, at its own
 * index, the position to swap with, which is at most its own. */
void rng_shuffle(const struct rng_stream *stream, uint32_t *item, size_t count);

#endif
