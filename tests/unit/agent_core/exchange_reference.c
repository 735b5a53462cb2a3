#include "tests/unit/agent_core/exchange_reference.h"

#include <string.h>

uint64_t reference_mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;
    return x ^ (x >> 29);
}

void reference_forward(const struct reference_state *state, int64_t step, size_t micro_batch,
                       size_t first, size_t end, struct reference_pass *pass)
{
    if (first == 0) {
        pass->activation[0] = reference_mix((uint64_t)step, micro_batch);
    }
    for (size_t i = first; i < end; i++) {
        pass->activation[i + 1] = reference_mix(state->parameter[i], pass->activation[i]);
        pass->statistic[i] = reference_mix(pass->activation[i], 13);
    }
    pass->loss = reference_mix(pass->activation[end], 77);
}

void reference_backward(const struct reference_state *state, size_t layers, size_t micro_batch,
                        struct reference_pass *pass)
{
    uint64_t gradient = reference_mix(pass->activation[layers], micro_batch);
    for (size_t i = layers; i-- > 0;) {
        pass->gradient[i] = reference_mix(gradient, pass->activation[i]);
        gradient = reference_mix(gradient, state->parameter[i]);
    }
}

uint64_t reference_tree(const struct reference_pass *pass, size_t layer, struct reduce_range range)
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
    return reference_mix(reference_tree(pass, layer, left), reference_tree(pass, layer, right));
}

uint64_t reference_norm(uint64_t norm, uint64_t sum)
{
    return reference_mix(norm, sum);
}

uint64_t reference_update(uint64_t parameter, uint64_t sum, bool clips, uint64_t total)
{
    const uint64_t updated = reference_mix(parameter, sum);
    return clips ? reference_mix(updated, total) : updated;
}

uint64_t reference_test(const struct reference_state *state, size_t layers, size_t micro_batch)
{
    uint64_t activation = micro_batch;
    for (size_t i = 0; i < layers; i++) {
        activation =
            reference_mix(reference_mix(state->parameter[i], state->statistic[i]), activation);
    }
    return activation;
}

double reference_metric(uint64_t tested)
{
    return (double)(tested % 100);
}

static void run_step(struct reference *job, int64_t step)
{
    static struct reference_pass pass[REFERENCE_MICRO];
    const struct reference_state *before = &job->state[step - 1];
    struct reference_state *after = &job->state[step];
    job->loss[step] = 0;
    *after = *before;
    for (size_t m = 0; m < job->micro_batches; m++) {
        reference_forward(before, step, m, 0, job->layers, &pass[m]);
        reference_backward(before, job->layers, m, &pass[m]);
        job->loss[step] = reference_mix(job->loss[step], pass[m].loss);
        for (size_t i = 0; i < job->layers; i++) {
            after->statistic[i] = reference_mix(after->statistic[i], pass[m].statistic[i]);
        }
    }
    uint64_t sum[REFERENCE_LAYERS], total = 0;
    for (size_t i = job->layers; i-- > 0;) {
        sum[i] = reference_tree(pass, i, (struct reduce_range){0, job->micro_batches});
        total = reference_norm(total, sum[i]);
    }
    for (size_t i = 0; i < job->layers; i++) {
        after->parameter[i] = reference_update(before->parameter[i], sum[i], job->clips, total);
    }
}

static bool is_tested(const struct reference *job, int64_t version)
{
    return job->tests > 0 && job->evaluate_every > 0 &&
           (version % job->evaluate_every == 0 || version == job->steps);
}

void reference_run(struct reference *job)
{
    job->judged = (struct early_stop){0};
    memset(job->tested, 0, sizeof(job->tested));
    for (size_t i = 0; i < job->layers; i++) {
        job->state[0].parameter[i] = reference_mix(1, i);
        job->state[0].statistic[i] = reference_mix(2, i);
    }
    job->last = job->steps;
    for (int64_t step = 1; step <= job->last; step++) {
        run_step(job, step);
        if (!is_tested(job, step)) {
            continue;
        }
        for (size_t i = 0; i < job->tests; i++) {
            job->tested[step] =
                reference_mix(job->tested[step], reference_test(&job->state[step], job->layers, i));
        }
        if (job->judges) {
            early_stop_judge(&job->stop, step, reference_metric(job->tested[step]), &job->judged);
            job->last = early_stop_last(&job->judged, job->last);
        }
    }
}
