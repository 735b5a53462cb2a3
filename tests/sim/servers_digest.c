#include "tests/sim/servers_digest.h"

#include "base/assert.h"
#include "libtrain/model/layers.h"

#define PARAMETER UINT64_C(0x70617261)
#define STATISTIC UINT64_C(0x73746174)
#define TARGET UINT64_C(0x746172676574)

void servers_layers_of(const struct model *model, struct servers_layers *out)
{
    struct model_layer layer[DIGEST_LAYERS_MAX];
    ASSERT(model->unit_count <= DIGEST_UNITS_MAX);
    out->units = model->unit_count;
    out->count = layers_list(model, 0, model->unit_count, layer, DIGEST_LAYERS_MAX);
    ASSERT(out->count > 0 && out->count <= DIGEST_LAYERS_MAX);
    for (size_t u = 0, l = 0; u <= model->unit_count; u++) {
        out->first[u] = l;
        for (; l < out->count && layer[l].unit == u; l++) {
            out->unit[l] = u;
            out->bytes[l] = (double)(layer[l].floats * sizeof(float));
        }
    }
}

static bool is_still(const struct servers_layers *layers, size_t unit)
{
    return layers->first[unit] == layers->first[unit + 1];
}

uint64_t servers_parameter(uint64_t state, size_t layer)
{
    return digest_mix(state, PARAMETER + layer);
}

uint64_t servers_statistic(uint64_t state, size_t layer)
{
    return digest_mix(state, STATISTIC + layer);
}

/* ---- a worker ---- */

/* Units without layers belong to the layer after them, at the end of the model to the last one. */
void servers_forward(const struct servers_layers *layers, const struct servers_arena *arena,
                     uint64_t input, size_t first, size_t end, struct servers_pass *pass)
{
    uint64_t x = first == 0 ? input : pass->output;
    for (size_t u = 0; u < layers->units; u++) {
        const size_t next = layers->first[u];
        if (is_still(layers, u) && next >= first && (next < end || end == layers->count)) {
            x = digest_mix(arena->still[u], x);
        }
        for (size_t l = next; l < layers->first[u + 1]; l++) {
            if (l >= first && l < end) {
                pass->input[l] = x;
                pass->statistic[l] = digest_mix(x, STATISTIC);
                x = digest_mix(arena->parameter[l], x);
            }
        }
    }
    pass->output = x;
}

void servers_backward(const struct servers_layers *layers, const struct servers_arena *arena,
                      struct servers_pass *pass)
{
    uint64_t g = digest_mix(pass->output, TARGET);
    for (size_t l = layers->count; l-- > 0;) {
        pass->gradient[l] = digest_mix(g, pass->input[l]);
        g = digest_mix(pass->gradient[l], arena->parameter[l]);
    }
}

/* reduce.h's law, written down once more. */
uint64_t servers_tree(const struct servers_pass *pass, size_t layer, struct reduce_range range)
{
    if (range.end - range.first == 1) {
        return pass[range.first].gradient[layer];
    }
    size_t power = 1;
    while (2 * power < range.end - range.first) {
        power *= 2;
    }
    const struct reduce_range left = {range.first, range.first + power};
    const struct reduce_range right = {range.first + power, range.end};
    return digest_mix(servers_tree(pass, layer, left), servers_tree(pass, layer, right));
}

uint64_t servers_evaluate(const struct servers_layers *layers, const struct servers_arena *arena,
                          uint64_t input)
{
    uint64_t x = input;
    for (size_t u = 0; u < layers->units; u++) {
        x = is_still(layers, u) ? digest_mix(arena->still[u], x) : x;
        for (size_t l = layers->first[u]; l < layers->first[u + 1]; l++) {
            x = digest_mix(digest_mix(arena->parameter[l], arena->statistic[l]), x);
        }
    }
    return x;
}

/* ---- a server ---- */

void servers_gather(const struct servers_layers *layers, const struct servers_step *step,
                    size_t micro_batches, struct digest_stage *stage)
{
    for (size_t u = stage->first; u < stage->end; u++) {
        stage->still[u] = is_still(layers, u);
        stage->gradient[u] = stage->running[u] = 0;
        for (size_t l = layers->first[u]; l < layers->first[u + 1]; l++) {
            stage->gradient[u] = digest_mix(stage->gradient[u], step->sum[l]);
            for (size_t m = 0; m < micro_batches; m++) {
                stage->running[u] = digest_mix(stage->running[u], step->statistic[m][l]);
            }
        }
    }
}

/* ---- the reference ---- */

static void read_arena(const struct servers_layers *layers, const uint64_t *state,
                       struct servers_arena *out)
{
    for (size_t u = 0; u < layers->units; u++) {
        out->still[u] = state[u];
        for (size_t l = layers->first[u]; l < layers->first[u + 1]; l++) {
            out->parameter[l] = servers_parameter(state[u], l);
            out->statistic[l] = servers_statistic(state[u], l);
        }
    }
}

void servers_train_step(struct digest_stage *stage, const struct reference_job *job, int64_t step)
{
    struct servers_layers layers;
    struct servers_arena arena;
    struct servers_pass pass[DIGEST_MICRO_BATCHES_MAX];
    struct servers_step whole;
    ASSERT(job->micro_batches <= DIGEST_MICRO_BATCHES_MAX);
    servers_layers_of(job->model, &layers);
    read_arena(&layers, stage->state, &arena);
    stage->loss = 0;
    for (size_t m = 0; m < job->micro_batches; m++) {
        servers_forward(&layers, &arena, digest_samples(job->samples_seed, step, m), 0,
                        layers.count, &pass[m]);
        servers_backward(&layers, &arena, &pass[m]);
        stage->loss = digest_mix(stage->loss, pass[m].output);
        for (size_t l = 0; l < layers.count; l++) {
            whole.statistic[m][l] = pass[m].statistic[l];
        }
    }
    for (size_t l = 0; l < layers.count; l++) {
        whole.sum[l] = servers_tree(pass, l, (struct reduce_range){0, job->micro_batches});
    }
    servers_gather(&layers, &whole, job->micro_batches, stage);
}

uint64_t servers_test(const struct digest_stage *stage, const struct reference_job *job,
                      uint64_t input)
{
    struct servers_layers layers;
    struct servers_arena arena;
    servers_layers_of(job->model, &layers);
    read_arena(&layers, stage->state, &arena);
    return servers_evaluate(&layers, &arena, input);
}
