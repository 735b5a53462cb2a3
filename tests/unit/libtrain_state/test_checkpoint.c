#include <stdlib.h>
#include <string.h>

#include "libtrain/state/checkpoint.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"

static const char pair[] =
    "{\"name\":\"m\",\"input\":{\"shape\":[1,1,3],\"dtype\":\"float32\"},\"units\":["
    "{\"name\":\"a\",\"ops\":[{\"type\":\"linear\",\"units\":2},{\"type\":\"batch_norm\"}]},"
    "{\"name\":\"ab\",\"ops\":[{\"type\":\"linear\",\"units\":2,\"bias\":false}]}]}";
static const struct optimizer adam = {.type = OPTIMIZER_ADAM};

/* A file in memory, and how often it was read. */
struct memory {
    unsigned char bytes[4096];
    size_t size, reads, fail_at;
};

static int read_memory(void *arg, uint64_t offset, void *out, size_t size, struct err *err)
{
    struct memory *memory = arg;
    if (++memory->reads == memory->fail_at || offset > memory->size ||
        size > memory->size - offset) {
        return err_set(err, ERR_IO, "read %zu bytes at %zu", size, (size_t)offset);
    }
    memcpy(out, memory->bytes + offset, size);
    return 0;
}

/* One tensor of the file: its floats are base, base + 1 ... */
struct content {
    const char *name;
    enum dtype dtype;
    size_t rank;
    uint64_t dim[4];
    float base;
};

static const char *note; /* metadata of the next file's model; NULL: none */

static void write_file(struct memory *memory, const struct content *content, size_t count)
{
    struct safetensors_tensor tensor[16] = {0};
    struct safetensors_header header = {
        .tensor = tensor, .tensor_capacity = 16, .tensor_count = count};
    struct err err = {0};
    if (note) {
        header.metadata[0] =
            (struct safetensors_metadata){.key = STATE_NOTE_KEY, .long_value = note};
        header.metadata_count = 1;
    }
    for (size_t i = 0; i < count; i++) {
        tensor[i].dtype = content[i].dtype;
        tensor[i].rank = content[i].rank;
        memcpy(tensor[i].dim, content[i].dim, sizeof(content[i].dim));
        (void)snprintf(tensor[i].name, sizeof(tensor[i].name), "%s", content[i].name);
    }
    size_t size = 0;
    assert_ok(safetensors_write(&header, (char *)memory->bytes, sizeof(memory->bytes), &size, &err),
              &err);
    memset(memory->bytes + size, 0, sizeof(memory->bytes) - size);
    memory->size = size + (size_t)header.data_bytes;
    memory->reads = memory->fail_at = 0;
    assert_true(memory->size <= sizeof(memory->bytes));
    for (size_t i = 0; i < count; i++) {
        for (uint64_t k = 0;
             content[i].dtype == DTYPE_F32 && k < (tensor[i].end - tensor[i].begin) / 4; k++) {
            const float value = content[i].base + (float)k;
            memcpy(memory->bytes + size + tensor[i].begin + 4 * k, &value, 4);
        }
    }
}

/* In another order than the model's, with PyTorch's counters and with a unit that the model
 * lacks. */
static const struct content good[] = {
    {"ab.0.weight", DTYPE_F32, 2, {2, 2}, 70},   {"a.1.running_var", DTYPE_F32, 1, {2}, 60},
    {"a.1.running_mean", DTYPE_F32, 1, {2}, 50}, {"a.1.num_batches_tracked", DTYPE_I64, 0, {0}, 0},
    {"a.1.bias", DTYPE_F32, 1, {2}, 40},         {"a.1.weight", DTYPE_F32, 1, {2}, 30},
    {"a.0.bias", DTYPE_F32, 1, {2}, 20},         {"a.0.weight", DTYPE_F32, 2, {2, 3}, 10},
    {"abc.0.weight", DTYPE_F32, 1, {1}, 80},
};
#define GOOD_COUNT (sizeof(good) / sizeof(good[0]))

static void a_unit_reads_its_tensors_by_name_and_resets_its_optimizer(void **state)
{
    (void)state;
    static const float first[] = {10, 11, 12, 13, 14, 15, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61};
    struct model *model = good_model(pair, NULL);
    struct memory *memory = calloc(1, sizeof(*memory));
    struct checkpoint_file *file = NULL;
    struct state_layout *layout = NULL;
    struct err err = {0};
    assert_non_null(memory);
    write_file(memory, good, GOOD_COUNT);
    assert_ok(checkpoint_file_open(read_memory, memory, &file, &err), &err);
    assert_int_equal(checkpoint_file_bytes(file), memory->size);
    assert_int_equal(checkpoint_file_tensors(file), GOOD_COUNT);
    assert_ok(state_layout_new(model, 0, &adam, &layout, &err), &err);
    unsigned char *blob = malloc((size_t)layout->blob_bytes);
    assert_non_null(blob);
    memset(blob, 0xAB, (size_t)layout->blob_bytes);
    assert_ok(checkpoint_read_unit(file, model, 0, layout, blob, &err), &err);
    assert_memory_equal(blob, layout->header_text, (size_t)layout->header.data_offset);
    assert_int_equal(layout->export_count, 6);
    assert_int_equal(layout->export_bytes, sizeof(first));
    assert_memory_equal(blob + layout->header.data_offset, first, sizeof(first));
    for (uint64_t i = layout->header.data_offset + layout->export_bytes; i < layout->blob_bytes;
         i++) {
        assert_int_equal(blob[i], 0);
    }
    assert_ok(checkpoint_check_unit(file, model, 0, &err), &err);
    assert_ok(checkpoint_check_unit(file, model, 1, &err), &err);
    free(blob);
    state_layout_free(&layout);
    checkpoint_file_close(&file);
    assert_null(file);
    checkpoint_file_close(&file);
    free(memory);
    model_free(&model);
}

/* The good file with one tensor put in place of another. */
static void assert_refused(struct memory *memory, size_t at, struct content other, size_t unit,
                           const char *text)
{
    struct model *model = good_model(pair, NULL);
    struct checkpoint_file *file = NULL;
    struct content content[GOOD_COUNT];
    struct err err = {0};
    memcpy(content, good, sizeof(good));
    content[at] = other;
    write_file(memory, content, GOOD_COUNT);
    assert_ok(checkpoint_file_open(read_memory, memory, &file, &err), &err);
    assert_int_equal(checkpoint_check_unit(file, model, unit, &err), ERR_INVALID);
    assert_string_equal(err.text, text);
    assert_ok(checkpoint_check_unit(file, model, 1 - unit, &err),
              &err); /* the other unit is not affected */
    checkpoint_file_close(&file);
    model_free(&model);
}

static void mismatching_tensors_are_named(void **state)
{
    (void)state;
    struct memory *memory = calloc(1, sizeof(*memory));
    assert_non_null(memory);
    assert_refused(memory, 7, (struct content){"a.7.weight", DTYPE_F32, 2, {2, 3}, 0}, 0,
                   "unit 'a': the model has no tensor 'a.7.weight' of the checkpoint");
    assert_refused(memory, 7, (struct content){"other.0.weight", DTYPE_F32, 2, {2, 3}, 0}, 0,
                   "unit 'a': the checkpoint has no tensor 'a.0.weight'");
    assert_refused(memory, 7, (struct content){"a.0.weight", DTYPE_F32, 2, {3, 2}, 0}, 0,
                   "unit 'a': tensor 'a.0.weight' is 3 x 2 in the checkpoint, 2 x 3 in the model");
    assert_refused(memory, 7, (struct content){"a.0.weight", DTYPE_F32, 1, {6}, 0}, 0,
                   "unit 'a': tensor 'a.0.weight' is 6 in the checkpoint, 2 x 3 in the model");
    assert_refused(memory, 7, (struct content){"a.0.weight", DTYPE_F64, 2, {2, 3}, 0}, 0,
                   "unit 'a': tensor 'a.0.weight' is F64 in the checkpoint: expected F32");
    assert_refused(memory, 8, (struct content){"ab.0.bias", DTYPE_F32, 1, {2}, 0}, 1,
                   "unit 'ab': the model has no tensor 'ab.0.bias' of the checkpoint");
    free(memory);
}

static void an_invalid_or_unreadable_file_is_rejected(void **state)
{
    (void)state;
    struct model *model = good_model(pair, NULL);
    struct memory *memory = calloc(1, sizeof(*memory));
    struct checkpoint_file *file = NULL;
    struct state_layout *layout = NULL;
    struct err err = {0};
    assert_non_null(memory);
    memset(memory->bytes, 0xFF, 64);
    memory->size = 64;
    assert_int_equal(checkpoint_file_open(read_memory, memory, &file, &err), ERR_FORMAT);
    write_file(memory, good, GOOD_COUNT);
    for (size_t read = 1; read <= 2; read++) { /* the length, then the header */
        memory->reads = 0;
        memory->fail_at = read;
        assert_int_equal(checkpoint_file_open(read_memory, memory, &file, &err), ERR_IO);
        assert_null(file);
    }
    memory->reads = memory->fail_at = 0;
    assert_ok(checkpoint_file_open(read_memory, memory, &file, &err), &err);
    assert_ok(state_layout_new(model, 0, &adam, &layout, &err), &err);
    unsigned char *blob = malloc((size_t)layout->blob_bytes);
    memory->reads = 0;
    memory->fail_at = 3;
    assert_int_equal(checkpoint_read_unit(file, model, 0, layout, blob, &err), ERR_IO);
    free(blob);
    state_layout_free(&layout);
    checkpoint_file_close(&file);
    free(memory);
    model_free(&model);
}

#define PAIR(input, names)                                                                         \
    "{\"name\":\"m\",\"input\":{\"shape\":[1,1,3],\"dtype\":\"float32\"" input "},\"units\":["     \
    "{\"name\":\"a\",\"ops\":[{\"type\":\"linear\",\"units\":2},{\"type\":\"batch_norm\"}]},"      \
    "{\"name\":\"ab\",\"ops\":[{\"type\":\"linear\",\"units\":2,\"bias\":false}]}]" names "}"
#define NOTE(input, names) "{\"model\":" PAIR(input, names) "}"
#define NORMAL ",\"mean\":[0.5,0.25,0],\"std\":[2,1,1]"
#define SOUND(floor)                                                                               \
    ",\"reading\":\"sound=8000,clip_ms=1000,window_ms=40,hop_ms=20,mels=3,floor_db=" floor "\""
#define PETS ",\"class_names\":[\"cat\",\"dog\"]"
#define BIRDS ",\"class_names\":[\"owl\",\"tit\"]"

static void weights_mean_the_same_only_with_the_same_input_and_classes(void **state)
{
    (void)state;
    static const struct {
        const char *note, *model;
        bool taken[2];
        const char *part; /* NULL: it fits */
    } cases[] = {
        {NULL, PAIR(NORMAL, PETS), {true, true}, NULL},
        {NOTE(NORMAL, PETS), PAIR(NORMAL, PETS), {true, true}, NULL},
        {NOTE(NORMAL, ""), PAIR(NORMAL, PETS), {true, true}, NULL},
        {NOTE("", PETS), PAIR("", ""), {true, true}, NULL},
        {NOTE("", PETS), PAIR("", ",\"class_names\":[\"cat\"]"), {true, true}, NULL},
        {NOTE("", PETS), PAIR("", BIRDS), {true, false}, NULL},
        {NOTE(NORMAL, PETS), PAIR("", PETS), {false, true}, NULL},
        {NOTE(SOUND("60"), ""), PAIR(SOUND("60"), ""), {true, true}, NULL},
        {NOTE(SOUND("60"), ""), PAIR("", ""), {true, true}, NULL},
        {NOTE("", PETS),
         PAIR("", BIRDS),
         {false, true},
         "(missing: 'cat', 'dog'; unknown: 'owl', 'tit'); name 'ab' in init.except to learn other "
         "classes"},
        {NOTE(NORMAL, PETS),
         PAIR("", PETS),
         {true, false},
         "trained on samples times 1, mean 0.5, std 2, the job's are times 1; state the same in "
         "augment"},
        {NOTE("", ""),
         PAIR(",\"scale\":0.5", ""),
         {true, true},
         "samples times 1, the job's are times 0.5;"},
        {NOTE(SOUND("60"), ""),
         PAIR(SOUND("50"), ""),
         {true, true},
         "floor_db=60, the job's by sound=8000"},
        {"{\"model\":{}}",
         PAIR("", ""),
         {true, true},
         "what the checkpoint says of its model: /name: "},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct model *model = good_model(cases[i].model, NULL);
        struct memory *memory = calloc(1, sizeof(*memory));
        struct checkpoint_file *file = NULL;
        struct err err = {0};
        assert_non_null(memory);
        note = cases[i].note;
        write_file(memory, good, GOOD_COUNT);
        assert_ok(checkpoint_file_open(read_memory, memory, &file, &err), &err);
        const int rc = checkpoint_check_samples(file, model, cases[i].taken, &err);
        assert_int_equal(rc, cases[i].part ? ERR_INVALID : 0);
        assert_holds(err.text, cases[i].part ? cases[i].part : "");
        checkpoint_file_close(&file);
        free(memory);
        model_free(&model);
    }
    note = NULL;
}

/* A model of three outputs, alone and in a note with the classes of a view. */
#define THREE                                                                                      \
    "{\"name\":\"m\",\"input\":{\"shape\":[1,1,3],\"dtype\":\"float32\"},\"units\":["              \
    "{\"name\":\"x\",\"ops\":[{\"type\":\"linear\",\"units\":4}]},"                                \
    "{\"name\":\"head\",\"ops\":[{\"type\":\"linear\",\"units\":3}]}]}"
#define OUTPUTS(classes) "{\"model\":" THREE ",\"evaluation\":{\"classes\":[" classes "]}}"

static void outputs_stand_for_the_same_classes_unless_they_start_anew(void **state)
{
    (void)state;
    static const struct view view = {.class = {3, 7}, .class_count = 2, .negatives = 1};
    static const struct {
        const char *note;
        const struct view *view;
        bool taken[2];
        const char *part; /* NULL: it fits */
    } cases[] = {
        {NULL, &view, {true, true}, NULL},
        {OUTPUTS("3,7"), &view, {true, true}, NULL},
        {OUTPUTS(""), NULL, {true, true}, NULL},
        {OUTPUTS("7,3"), &view, {true, false}, NULL},
        {OUTPUTS("7,3"),
         &view,
         {true, true},
         "stand for a view's classes, those of the job for another view's; name 'head' in"},
        {OUTPUTS("3,7"), NULL, {false, true}, "a view's classes, those of the job for all classes"},
        {OUTPUTS(""), &view, {true, true}, "all classes, those of the job for a view's classes"},
    };
    struct model *model = good_model(THREE, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct memory *memory = calloc(1, sizeof(*memory));
        struct checkpoint_file *file = NULL;
        struct err err = {0};
        assert_non_null(memory);
        note = cases[i].note;
        write_file(memory, good, GOOD_COUNT);
        assert_ok(checkpoint_file_open(read_memory, memory, &file, &err), &err);
        const int rc = checkpoint_check_view(file, model, cases[i].taken, cases[i].view, &err);
        assert_int_equal(rc, cases[i].part ? ERR_INVALID : 0);
        assert_holds(err.text, cases[i].part ? cases[i].part : "");
        checkpoint_file_close(&file);
        free(memory);
    }
    model_free(&model);
    note = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unit_reads_its_tensors_by_name_and_resets_its_optimizer),
        cmocka_unit_test(mismatching_tensors_are_named),
        cmocka_unit_test(an_invalid_or_unreadable_file_is_rejected),
        cmocka_unit_test(weights_mean_the_same_only_with_the_same_input_and_classes),
        cmocka_unit_test(outputs_stand_for_the_same_classes_unless_they_start_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
