#include "libtrain/formats/reading.h"

#include <string.h>

#include "tests/support/test.h"

static void fails(const char *text, const char *part)
{
    struct reading reading = {.text = -1};
    struct err err = {0};
    assert_int_not_equal(reading_parse(text, &reading, &err), 0);
    assert_holds(err.text, part);
    assert_int_equal(reading.text, -1);
}

static void without_parameters_the_format_follows_from_the_content(void **state)
{
    (void)state;
    struct reading reading = reading_default;
    struct err err = {0};
    assert_ok(reading_check(&reading, &err), &err);
    assert_int_equal(reading.kind, READING_RECOGNISED);
}

static void a_text_states_the_bytes_of_a_sample(void **state)
{
    (void)state;
    struct reading reading;
    struct err err = {0};
    assert_ok(reading_parse("text=64", &reading, &err), &err);
    assert_int_equal(reading.kind, READING_TEXT);
    assert_int_equal(reading.text, 64);
}

static void sounds_state_their_rate_and_optional_parameters(void **state)
{
    (void)state;
    struct reading reading;
    struct err err = {0};
    assert_ok(reading_parse("sound=8000", &reading, &err), &err);
    assert_int_equal(reading.kind, READING_SOUND);
    assert_int_equal(reading.clip_ms, 1000);
    assert_int_equal(reading.window_ms, 40);
    assert_int_equal(reading.hop_ms, 20);
    assert_int_equal(reading.mels, 10);
    assert_int_equal(reading.floor_db, 60);
    assert_int_equal(reading.label, DATASET_LABEL_DIRECTORY);
    assert_ok(reading_parse("label=prefix,mels=40,sound=16000,floor_db=0", &reading, &err), &err);
    assert_int_equal(reading.sound, 16000);
    assert_int_equal(reading.mels, 40);
    assert_int_equal(reading.floor_db, 0);
    assert_int_equal(reading.label, DATASET_LABEL_PREFIX);
}

static void images_have_a_size_and_channels(void **state)
{
    (void)state;
    struct reading reading;
    struct err err = {0};
    assert_ok(reading_parse("size=32x48", &reading, &err), &err);
    assert_int_equal(reading.kind, READING_IMAGES);
    assert_int_equal(reading.size.h, 32);
    assert_int_equal(reading.size.w, 48);
    assert_int_equal(reading.channels, 3);
    assert_ok(reading_parse("channels=1", &reading, &err), &err);
    assert_int_equal(reading.kind, READING_IMAGES);
    assert_int_equal(reading.size.h, 0);
    assert_ok(reading_parse("channels=3,size=1x1024", &reading, &err), &err);
    fails("size=32", "'size': '32': expected two numbers, as in 32x48");
    fails("size=32x", "'size': '' is not a whole number");
    fails("size=x32", "'size': '' is not a whole number");
    fails("size=1x2x3", "'size': '2x3' is not a whole number");
    fails("size=0x5", "'size': '0' is out of range; expected 1 to 1024");
    fails("size=5x1025", "'size': '1025' is out of range; expected 1 to 1024");
    fails("size=1111111111111111111111111x5", "expected two numbers");
    fails("channels=2", "'channels': expected 1 or 3");
    fails("channels=4", "'channels': '4' is out of range");
    fails("text=5,size=3x3", "'size': the data set is a text already");
}

static void unstated_parameters_of_images_can_be_added(void **state)
{
    (void)state;
    static const struct {
        const char *said; /* NULL: nothing */
        uint32_t to[3];
        int64_t h, w, channels;
    } cases[] = {
        {NULL, {28, 30, 1}, 28, 30, 1},         {"size=5x6", {28, 30, 1}, 5, 6, 1},
        {"channels=3", {28, 30, 1}, 28, 30, 3}, {"size=5x6,channels=1", {28, 30, 3}, 5, 6, 1},
        {NULL, {1, 1, 784}, 0, 0, 3},     /* no image becomes that */
        {NULL, {1025, 1025, 1}, 0, 0, 1}, /* none is made so large; it may have the size itself */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct reading reading = reading_default;
        struct err err = {0};
        if (cases[i].said) {
            assert_ok(reading_parse(cases[i].said, &reading, &err), &err);
        }
        const enum reading_kind kind = reading.kind;
        reading_fill_images(&reading, cases[i].to[0], cases[i].to[1], cases[i].to[2]);
        assert_int_equal(reading.kind, kind);
        assert_int_equal(reading.size.h, cases[i].h);
        assert_int_equal(reading.size.w, cases[i].w);
        assert_int_equal(reading.channels, cases[i].channels);
    }
}

static void parsed(const char *text, struct reading *out)
{
    struct err err = {0};
    assert_ok(reading_parse(text, out, &err), &err);
}

static void the_parameters_of_sounds_have_one_written_form(void **state)
{
    (void)state;
    static const char *const nothing[] = {"text=64", "size=8x8,channels=1"};
    struct reading reading, again;
    struct err err = {0};
    char text[READING_TEXT_MAX];
    parsed("mels=40,label=prefix,sound=16000", &reading);
    reading_write(&reading, text);
    assert_string_equal(text,
                        "sound=16000,clip_ms=1000,window_ms=40,hop_ms=20,mels=40,floor_db=60");
    assert_ok(reading_parse_written(text, &again, &err), &err);
    assert_int_equal(again.mels, 40);
    assert_int_equal(reading_parse_written("sound=16000,mels=40", &again, &err), ERR_INVALID);
    for (size_t i = 0; i < 2; i++) {
        parsed(nothing[i], &reading);
        reading_write(&reading, text);
        assert_string_equal(text, "");
        assert_int_equal(reading_parse_written(nothing[i], &again, &err), ERR_INVALID);
    }
    parsed("sound=96000,clip_ms=10000,window_ms=200,hop_ms=200,mels=256,floor_db=200", &reading);
    reading_write(&reading, text);
    assert_int_equal(strlen(text), 72);
}

static void unstated_parameters_of_sounds_follow_another_reading(void **state)
{
    (void)state;
    struct reading reading, other;
    struct err err = {0};
    parsed("sound=8000,clip_ms=500,floor_db=40", &other);
    parsed("sound=8000,label=prefix", &reading);
    assert_ok(reading_follow(&reading, &other, &err), &err);
    assert_int_equal(reading.clip_ms, 500);
    assert_int_equal(reading.floor_db, 40);
    assert_int_equal(reading.label, DATASET_LABEL_PREFIX);
    parsed("sound=8000,clip_ms=1000", &reading);
    assert_int_equal(reading_follow(&reading, &other, &err), ERR_INVALID);
    assert_string_equal(err.text, "'clip_ms' is 500, not 1000");
}

static void faults_name_the_parameter(void **state)
{
    (void)state;
    fails("text=0", "'text': '0' is out of range; expected 1 to 32767");
    fails("text=32768", "'text': '32768' is out of range");
    fails("text=many", "'text': 'many' is not a whole number");
    fails("text=1,text=1", "'text' occurs twice");
    fails("txt=1", "'txt' is unknown; did you mean 'text'?");
    fails("force=1", "'force' is unknown");
    fails("sound=8000,text=3", "'sound': the data set is a text already");
    fails("text=3,mels=10", "'mels' does not go with a text");
    fails("mels=10", "'mels' does not go with data that are recognised");
    fails("sound=8000,label=folder",
          "'label': 'folder' is invalid; expected 'directory', 'prefix'");
    fails("sound=8000,mel=4", "'mel' is unknown; did you mean 'mels'?");
    fails("sound=44100000", "'sound': '44100000' is out of range; expected 4000 to 96000");
    fails("text", "'text': expected NAME=VALUE");
    fails("", "'': expected NAME=VALUE");
    char many[600];
    memset(many, 'x', sizeof(many) - 1);
    many[sizeof(many) - 1] = '\0';
    fails(many, "more than 511 characters");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_parameters_the_format_follows_from_the_content),
        cmocka_unit_test(a_text_states_the_bytes_of_a_sample),
        cmocka_unit_test(sounds_state_their_rate_and_optional_parameters),
        cmocka_unit_test(images_have_a_size_and_channels),
        cmocka_unit_test(unstated_parameters_of_images_can_be_added),
        cmocka_unit_test(the_parameters_of_sounds_have_one_written_form),
        cmocka_unit_test(unstated_parameters_of_sounds_follow_another_reading),
        cmocka_unit_test(faults_name_the_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
