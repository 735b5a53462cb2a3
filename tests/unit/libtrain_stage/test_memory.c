/* A stage allocates the bytes of memory_of_stage, and a training stage allocates nothing from its
 * second step on. This program counts in place of the C library's allocator. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "libtrain/backend/simd.h"
#include "libtrain/kernels/kernel_table.h"
#include "libtrain/memory/arena.h"
#include "libtrain/stage/stage.h"
#include "tests/unit/libtrain_stage/pipeline.h"

#if !defined(                                                                                      \
    SIMD_BASELINE_ONLY) /* simd.h: no sanitizer, which would want the allocator for itself */
#define COUNTING 1

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

static atomic_ulong all_threads; /* calls that allocate */
static _Thread_local unsigned long this_thread;
static _Thread_local size_t aligned_bytes; /* of aligned_alloc: the arenas */

static void count_call(void)
{
    atomic_fetch_add(&all_threads, 1);
    this_thread++;
}

void *malloc(size_t size)
{
    count_call();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    count_call();
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    count_call();
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    count_call();
    aligned_bytes += size;
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    count_call();
    *memory = __libc_memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}

void free(void *memory)
{
    __libc_free(memory);
}
#else
#define COUNTING 0
static atomic_ulong all_threads;
static unsigned long this_thread;
static size_t aligned_bytes;
#endif

#define SKIP_WITHOUT_COUNTING()                                                                    \
    if (!COUNTING) {                                                                               \
        test_skip("the sanitizer owns the allocator");                                             \
    }

struct zoo_case {
    const char *name;
    uint32_t h, w, c;
};

static const struct zoo_case zoo[] = {
    {"mlp", 28, 28, 1},         {"lenet5", 28, 28, 1},    {"resnet8", 32, 32, 3},
    {"mobilenetv2", 32, 32, 3}, {"googlenet", 33, 40, 3}, {"dscnn-kws", 49, 10, 1},
};
#define ZOO_COUNT (sizeof(zoo) / sizeof(zoo[0]))

#define ADAM .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8
static const struct optimizer optimizers[] = {
    {.type = OPTIMIZER_SGD},
    {.type = OPTIMIZER_SGD, .momentum = 0.9},
    {.type = OPTIMIZER_ADAM, .momentum = 0.9, ADAM, .clip_value = 1},
    {.type = OPTIMIZER_ADAMW, .momentum = 0.9, ADAM, .clip_norm = 1},
};
static const size_t optimizer_arrays[] = {0, 1, 2, 2};

static uint64_t arena_bytes(const struct memory_bytes *bytes)
{
    return bytes->parameters + bytes->stashed + bytes->gradients + bytes->optimizer +
           bytes->activations + bytes->workspace + bytes->packed;
}

static void a_stage_allocates_exactly_the_bytes_of_memory_of_stage(void **state)
{
    SKIP_WITHOUT_COUNTING();
    const struct kernel_pools *pools = *state;
    struct draws draws = draws_new(1);
    for (size_t i = 0; i < 6 * ZOO_COUNT; i++) {
        const struct zoo_case *z = &zoo[i % ZOO_COUNT];
        struct model *model = zoo_model(z->name, z->h, z->w, z->c);
        struct err err = {0};
        struct train_stage *stage = NULL;
        struct memory_bytes bytes;
        size_t first = draw_size(&draws, 0, model->unit_count - 1);
        size_t in_flight = draw_size(&draws, 1, 4);
        const struct optimizer *optimizer = &optimizers[i / 4 % 4];
        size_t versions = optimizer->clip_norm > 0 ? 1 : in_flight + draw_size(&draws, 0, 2);
        versions = draw_size(&draws, 0, 1) ? versions : 1;
        const struct train_stage_config config = {
            .model = model,
            .first = first,
            .end = draw_size(&draws, first + 1, model->unit_count),
            .micro_batch = draw_size(&draws, 1, 6),
            .micro_batches = versions > 1 ? 1 : 4,
            .in_flight = in_flight,
            .versions = versions,
            .recompute = i / 2 % 2,
            .optimizer = *optimizer,
            .pool = pools->pool[i % KERNEL_POOLS]};
        const struct memory_request request = {.first = config.first,
                                               .end = config.end,
                                               .micro_batch = config.micro_batch,
                                               .in_flight = config.in_flight,
                                               .versions = config.versions,
                                               .threads = pool_threads(config.pool),
                                               .recompute = config.recompute,
                                               .backend = train_backend()};
        assert_ok(memory_of_stage(model, &config.optimizer, &request, &bytes, &err), &err);
        assert_int_equal(bytes.optimizer, bytes.gradients * optimizer_arrays[i / 4 % 4]);
        size_t before = aligned_bytes;
        assert_ok(train_stage_new(&config, &stage, &err), &err);
        if (train_backend() == CONV2D_BACKEND_ONEDNN) { /* estimated there */
            bytes = stage->bytes;
        }
        assert_int_equal(aligned_bytes - before, arena_bytes(&bytes));
        assert_int_equal(bytes.stashed,
                         (versions - 1) * stage->arena->trained_floats * sizeof(float));
        assert_int_equal(bytes.total, arena_bytes(&bytes) + bytes.borders + bytes.snapshot);
        uint64_t snapshot = 0;
        for (size_t unit = config.first; unit < config.end; unit++) {
            snapshot += stage->layout[unit - config.first]->header.data_bytes;
        }
        assert_int_equal(bytes.snapshot, snapshot);
        train_stage_free(&stage);
        model_free(&model);
    }
}

/* oneDNN makes a table of the arguments at every call. */
static void use_own_kernels(struct model *model)
{
    json_t *table = kernel_table_describe(model, CONV2D_BACKEND_OWN);
    struct err err = {0};
    assert_ok(kernel_table_apply(model, table, NULL, &err), &err);
    json_decref(table);
}

static void training_and_evaluating_allocate_nothing_after_the_second_step(void **state)
{
    SKIP_WITHOUT_COUNTING();
#if defined(TEST_EMULATED)
    test_skip("too slow under an emulator; what allocates does not depend on the processor");
#endif
    const struct kernel_pools *pools = *state;
    for (size_t i = 0; i < 4 * ZOO_COUNT; i++) {
        const struct zoo_case *z = &zoo[i / 4];
        struct draws draws = draws_new(i);
        struct model *model = zoo_model(z->name, z->h, z->w, z->c);
        model->unit[1].frozen = i % 4 > 1;
        use_own_kernels(model);
        const struct pipeline_recipe recipe = {
            .model = model,
            .batch = 8,
            .micro_batches = 4,
            .optimizer = optimizers[(i + i / 4) % 4],
            .learning_rate = 0.001,
            .reduction = i % 3 == 0 ? REDUCTION_TREE : REDUCTION_IN_PLACE,
            .recompute = i % 2 ? RECOMPUTE_NONE : RECOMPUTE_UNIT};
        const size_t end[] = {1, model->unit_count};
        struct pipeline *pipeline = pipeline_new(&recipe, end, 2, pools->pool[i / 4 % 2]);
        unsigned char *inputs = draw_bytes(&draws, 8 * shape_elements(model->input));
        int32_t *labels = draw_labels(&draws, 8, 10);
        double loss = 0.0;
        uint64_t correct = 0;
        pipeline_initialise(pipeline);
        pipeline_step(pipeline, 1, inputs, labels, &draws);
        pipeline_step(pipeline, 2, inputs, labels, &draws);
        unsigned long all = atomic_load(&all_threads);
        unsigned long own = this_thread;
        assert_true(own > 0 && all >= own);
        for (int64_t step = 3; step <= 5; step++) {
            pipeline_step(pipeline, step, inputs, labels, &draws);
            pipeline_evaluate(pipeline, 2, inputs, labels, &loss, &correct);
        }
        assert_int_equal(this_thread - own, 0);
        assert_int_equal(atomic_load(&all_threads) - all, 0);
        free(inputs);
        free(labels);
        pipeline_free(pipeline);
        model_free(&model);
    }
}

static void train_alone(struct train_stage *stage, int64_t step, const unsigned char *inputs,
                        const int32_t *labels)
{
    double loss = 0;
    struct err err = {0};
    assert_ok(train_forward(stage, 0, (struct train_position){step, 0}, inputs, NULL, labels, &loss,
                            &err),
              &err);
    train_backward(stage, 0, NULL, NULL);
    assert_ok(train_update(stage, step, 0.001, &err), &err);
}

static void a_stage_of_several_versions_allocates_nothing_after_the_second_step(void **state)
{
    SKIP_WITHOUT_COUNTING();
    const struct kernel_pools *pools = *state;
    struct draws draws = draws_new(1);
    struct model *model = zoo_model("resnet8", 32, 32, 3);
    use_own_kernels(model);
    const struct train_stage_config config = {.model = model,
                                              .end = model->unit_count,
                                              .micro_batch = 2,
                                              .micro_batches = 1,
                                              .in_flight = 2,
                                              .versions = 3,
                                              .aggregate_every = 2,
                                              .optimizer = optimizers[1],
                                              .pool = pools->pool[1]};
    struct train_stage *stage = NULL;
    struct err err = {0};
    unsigned char *inputs = draw_bytes(&draws, 2 * shape_elements(model->input));
    int32_t *labels = draw_labels(&draws, 2, 10);
    assert_ok(train_stage_new(&config, &stage, &err), &err);
    for (size_t unit = 0; unit < model->unit_count; unit++) {
        train_unit_initialise(stage, unit);
    }
    train_restart(stage, 0);
    train_alone(stage, 1, inputs, labels);
    train_alone(stage, 2, inputs, labels);
    unsigned long all = atomic_load(&all_threads);
    for (int64_t step = 3; step <= 6; step++) {
        train_alone(stage, step, inputs, labels);
    }
    train_restart(stage, 6);
    assert_int_equal(atomic_load(&all_threads) - all, 0);
    free(inputs);
    free(labels);
    train_stage_free(&stage);
    model_free(&model);
}

/* The first half of the units, then the memory of a stage of all units. */
static struct memory_bytes freeze_half(const struct kernel_pools *pools, struct model *model)
{
    struct memory_bytes bytes;
    struct err err = {0};
    struct train_stage *stage = NULL;
    const struct train_stage_config config = {.model = model,
                                              .end = model->unit_count,
                                              .micro_batch = 2,
                                              .micro_batches = 4,
                                              .in_flight = 1,
                                              .optimizer = optimizers[2],
                                              .pool = pools->pool[0]};
    const struct memory_request request = {
        .end = config.end, .micro_batch = 2, .in_flight = 1, .threads = 1};
    for (size_t unit = 0; unit < model->unit_count / 2; unit++) {
        model->unit[unit].frozen = true;
    }
    assert_ok(memory_of_stage(model, &config.optimizer, &request, &bytes, &err), &err);
    size_t before = aligned_bytes;
    assert_ok(train_stage_new(&config, &stage, &err), &err);
    assert_int_equal(aligned_bytes - before, arena_bytes(&bytes));
    assert_int_equal(bytes.optimizer, 2 * sizeof(float) * stage->arena->trained_floats);
    uint64_t snapshot = 0;
    for (size_t unit = 0; unit < model->unit_count; unit++) {
        snapshot += stage->layout[unit]->header.data_bytes;
    }
    assert_int_equal(bytes.snapshot, snapshot);
    train_stage_free(&stage);
    return bytes;
}

static void frozen_units_take_no_gradients_no_optimizer_state_and_no_slots(void **state)
{
    SKIP_WITHOUT_COUNTING();
    for (size_t i = 0; i < ZOO_COUNT; i++) {
        struct model *model = zoo_model(zoo[i].name, zoo[i].h, zoo[i].w, zoo[i].c);
        use_own_kernels(model);
        const struct memory_request request = {
            .end = model->unit_count, .micro_batch = 2, .in_flight = 1, .threads = 1};
        struct memory_bytes plain;
        struct err err = {0};
        assert_ok(memory_of_stage(model, &optimizers[2], &request, &plain, &err), &err);
        struct memory_bytes frozen = freeze_half(*state, model);
        assert_int_equal(frozen.parameters, plain.parameters);
        assert_true(frozen.optimizer < plain.optimizer);
        assert_true(frozen.snapshot < plain.snapshot);
        assert_true(frozen.gradients <= plain.gradients);
        assert_true(frozen.activations < plain.activations);
        assert_true(frozen.total < plain.total);
        model_free(&model);
    }
}

/* The stage is never updated. */
static void a_worker_takes_no_optimizer_state_and_no_snapshot(void **state)
{
    SKIP_WITHOUT_COUNTING();
    const struct kernel_pools *pools = *state;
    for (size_t i = 0; i < 4; i++) {
        struct model *model = zoo_model("resnet8", 32, 32, 3);
        use_own_kernels(model);
        const struct reduce_range share = {i, 4 + i};
        const struct train_stage_config config = {.model = model,
                                                  .end = model->unit_count,
                                                  .micro_batch = 2,
                                                  .micro_batches = 8,
                                                  .in_flight = 1,
                                                  .reduction = REDUCTION_TREE,
                                                  .share = share,
                                                  .worker = true,
                                                  .optimizer = optimizers[i],
                                                  .pool = pools->pool[0]};
        struct memory_request request = {.end = config.end,
                                         .micro_batch = 2,
                                         .in_flight = 1,
                                         .threads = 1,
                                         .tree = 8,
                                         .share = share};
        struct memory_bytes plain, worker;
        struct memory_growth growth;
        struct train_stage *stage = NULL;
        struct err err = {0};
        assert_ok(memory_of_stage(model, &config.optimizer, &request, &plain, &err), &err);
        request.worker = true;
        assert_ok(memory_of_stage(model, &config.optimizer, &request, &worker, &err), &err);
        assert_ok(memory_of_range(model, &config.optimizer, &request, &growth, &err), &err);
        assert_int_equal(worker.optimizer, 0);
        assert_int_equal(worker.snapshot, 0);
        assert_true(plain.snapshot > 0 && (plain.optimizer > 0) == (optimizer_arrays[i] > 0));
        assert_int_equal(worker.total, plain.total - plain.optimizer - plain.snapshot);
        assert_int_equal(growth.base, worker.total);
        assert_int_equal(growth.snapshot, 0);
        const size_t before = aligned_bytes;
        assert_ok(train_stage_new(&config, &stage, &err), &err);
        assert_int_equal(aligned_bytes - before, arena_bytes(&worker));
        assert_null(stage->optimizer_state);
        train_stage_free(&stage);
        model_free(&model);
    }
}

static uint64_t border_bytes(const struct model *model, size_t first, size_t end, bool coded)
{
    struct memory_request request = {
        .first = first, .end = end, .micro_batch = 2, .in_flight = 1, .threads = 1};
    struct memory_bytes bytes;
    struct err err = {0};
    if (coded) {
        request.codec[MEMORY_INPUT] = CODEC_Q8;
        request.codec[MEMORY_OUTPUT] = CODEC_Q4_ZSTD;
    }
    assert_ok(memory_of_stage(model, &optimizers[0], &request, &bytes, &err), &err);
    return bytes.borders;
}

static void a_link_with_a_codec_takes_a_coder_for_each_direction(void **state)
{
    (void)state;
    struct model *model = zoo_model("lenet5", 28, 28, 1);
    const size_t units = model->unit_count;
    for (size_t first = 0; first < units; first++) {
        for (size_t end = first + 1; end <= units; end++) {
            const uint64_t input = 2 * shape_elements(model->unit[first].in);
            const uint64_t output = 2 * shape_elements(model->unit[end - 1].out);
            const uint64_t before = first > 0 ? 2 * codec_memory(CODEC_Q8, input) : 0;
            const uint64_t after = end < units ? 2 * codec_memory(CODEC_Q4_ZSTD, output) : 0;
            assert_int_equal(border_bytes(model, first, end, true) -
                                 border_bytes(model, first, end, false),
                             before + after);
        }
    }
    model_free(&model);
}

static void a_request_out_of_bounds_is_rejected(void **state)
{
    (void)state;
    struct model *model = zoo_model("lenet5", 28, 28, 1);
    const struct optimizer optimizer = {.type = OPTIMIZER_SGD};
    struct memory_bytes bytes;
    struct err err = {0};
    static const struct memory_request bad[] = {
        {.first = 0, .end = 0, .micro_batch = 1, .in_flight = 1, .threads = 1},
        {.first = 0, .end = 6, .micro_batch = 1, .in_flight = 1, .threads = 1},
        {.first = 3, .end = 2, .micro_batch = 1, .in_flight = 1, .threads = 1},
        {.first = 0, .end = 2, .micro_batch = 0, .in_flight = 1, .threads = 1},
        {.first = 0, .end = 2, .micro_batch = SIZE_MAX, .in_flight = 1, .threads = 1},
        {.first = 0, .end = 2, .micro_batch = 1, .in_flight = 0, .threads = 1},
        {.first = 0, .end = 2, .micro_batch = 1, .in_flight = SIZE_MAX, .threads = 1},
        {.first = 0, .end = 2, .micro_batch = 1, .in_flight = 1, .threads = 0},
        {.first = 0, .end = 2, .micro_batch = 1, .in_flight = 1, .threads = SIZE_MAX},
        {.end = 2, .micro_batch = 1, .in_flight = 1, .threads = 1, .versions = SIZE_MAX},
        {.end = 2, .micro_batch = 1, .in_flight = 1, .threads = 1, .worker = true},
        {.end = 2, .micro_batch = 1, .in_flight = 1, .threads = 1, .tree = 4, .worker = true},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(memory_of_stage(model, &optimizer, &bad[i], &bytes, &err), ERR_INVALID);
    }
    const struct memory_request huge = {.end = 5,
                                        .micro_batch = ARENA_MICRO_BATCH_MAX,
                                        .in_flight = MEMORY_IN_FLIGHT_MAX,
                                        .threads = 256};
    assert_ok(memory_of_stage(model, &optimizer, &huge, &bytes, &err), &err);
    assert_true(bytes.total > UINT64_C(1) << 40);
    model_free(&model);
}

static void a_range_includes_the_memory_of_all_threads_micro_batches_and_versions(void **state)
{
    (void)state;
    struct err err = {0};
    for (size_t i = 0; i < ZOO_COUNT; i++) {
        struct model *model = zoo_model(zoo[i].name, zoo[i].h, zoo[i].w, zoo[i].c);
        for (size_t first = 0; first < model->unit_count; first++) {
            struct memory_request request = {.first = first,
                                             .end = first + (model->unit_count - first + 1) / 2,
                                             .micro_batch = 2};
            struct memory_growth growth;
            struct memory_bytes bytes;
            request.recompute = first % 2 ? RECOMPUTE_UNIT : RECOMPUTE_NONE;
            request.versions = 1 + first % 3 * 2;
            assert_ok(memory_of_range(model, &optimizers[i % 4], &request, &growth, &err), &err);
            request.threads = 1 + i;
            request.in_flight = 1 + 2 * first;
            assert_ok(memory_of_stage(model, &optimizers[i % 4], &request, &bytes, &err), &err);
            assert_int_equal(growth.base + i * growth.per_thread +
                                 2 * first * growth.per_micro_batch +
                                 (request.versions - 1) * growth.per_version,
                             bytes.total);
            assert_int_equal(growth.snapshot, bytes.snapshot);
        }
        const struct memory_request none = {.micro_batch = 2};
        struct memory_growth growth;
        assert_int_equal(memory_of_range(model, &optimizers[0], &none, &growth, &err), ERR_INVALID);
        model_free(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_allocates_exactly_the_bytes_of_memory_of_stage),
        cmocka_unit_test(a_worker_takes_no_optimizer_state_and_no_snapshot),
        cmocka_unit_test(frozen_units_take_no_gradients_no_optimizer_state_and_no_slots),
        cmocka_unit_test(training_and_evaluating_allocate_nothing_after_the_second_step),
        cmocka_unit_test(a_stage_of_several_versions_allocates_nothing_after_the_second_step),
        cmocka_unit_test(a_range_includes_the_memory_of_all_threads_micro_batches_and_versions),
        cmocka_unit_test(a_link_with_a_codec_takes_a_coder_for_each_direction),
        cmocka_unit_test(a_request_out_of_bounds_is_rejected),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
