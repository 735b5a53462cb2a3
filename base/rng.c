#include "base/rng.h"

#include "base/assert.h"

#define ROUNDS 10
#define MULTIPLIER_0 0xD2511F53u
#define MULTIPLIER_1 0xCD9E8D57u
#define WEYL_0 0x9E3779B9u /* golden ratio */
#define WEYL_1 0xBB67AE85u /* sqrt(3) - 1 */

struct rng_block rng_philox(const uint32_t key[2], const uint32_t counter[4])
{
    uint32_t key_0 = key[0];
    uint32_t key_1 = key[1];
    struct rng_block block = {{counter[0], counter[1], counter[2], counter[3]}};
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t product_0 = (uint64_t)MULTIPLIER_0 * block.word[0];
        uint64_t product_1 = (uint64_t)MULTIPLIER_1 * block.word[2];
        block = (struct rng_block){{
            (uint32_t)(product_1 >> 32) ^ block.word[1] ^ key_0,
            (uint32_t)product_1,
            (uint32_t)(product_0 >> 32) ^ block.word[3] ^ key_1,
            (uint32_t)product_0,
        }};
        key_0 += WEYL_0;
        key_1 += WEYL_1;
    }
    return block;
}

/* Philox under a fixed key is a bijection of counters, so for one seed different (purpose, a, b)
 * yield different (key, high). Two streams of a seed never use the same key with the same
 * counter. */
struct rng_stream rng_stream(uint64_t seed, enum rng_purpose purpose, uint64_t a, uint32_t b)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)a, (uint32_t)(a >> 32), b, (uint32_t)purpose};
    struct rng_block block = rng_philox(key, counter);
    return (struct rng_stream){
        .key = {block.word[0], block.word[1]},
        .high = {block.word[2], block.word[3]},
    };
}

struct rng_block rng_block(const struct rng_stream *stream, uint64_t block_index)
{
    const uint32_t counter[4] = {(uint32_t)block_index, (uint32_t)(block_index >> 32),
                                 stream->high[0], stream->high[1]};
    return rng_philox(stream->key, counter);
}

uint32_t rng_word(const struct rng_stream *stream, uint64_t index)
{
    return rng_block(stream, index / 4).word[index % 4];
}

float rng_uniform(const struct rng_stream *stream, uint64_t index)
{
    return (float)(rng_word(stream, index) >> 8) * 0x1p-24f;
}

/* The upper half of the product's 128 bits, by the four products of halves: there is no wider type
 * in 32-bit ARM. */
static uint64_t high_product(uint64_t a, uint64_t b)
{
    const uint64_t low = UINT32_MAX;
    uint64_t a_low_b_high = (a & low) * (b >> 32);
    uint64_t a_high_b_low = (a >> 32) * (b & low);
    uint64_t middle = ((a & low) * (b & low) >> 32) + (a_low_b_high & low) + (a_high_b_low & low);
    return (a >> 32) * (b >> 32) + (a_low_b_high >> 32) + (a_high_b_low >> 32) + (middle >> 32);
}

uint64_t rng_below(const struct rng_stream *stream, uint64_t index, uint64_t bound)
{
    ASSERT(bound >= 1);
    /* Words 2 * index and 2 * index + 1 lie in the same block. */
    struct rng_block block = rng_block(stream, index / 2);
    const uint32_t *pair = &block.word[index % 2 * 2];
    uint64_t number = (uint64_t)pair[1] << 32 | pair[0];
    return high_product(number, bound);
}

/* Source: Durstenfeld, "Algorithm 235: random permutation", CACM 1964. */
void rng_shuffle(const struct rng_stream *stream, uint32_t *item, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        const size_t at = (size_t)rng_below(stream, i - 1, i);
        const uint32_t last = item[i - 1];
        item[i - 1] = item[at];
        item[at] = last;
    }
}
