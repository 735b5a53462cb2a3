/* `paceline-agent predict` as a function: error texts, and the output of
 * scores. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/offline/predict.h"
#include "agent/offline/predict_report.h"
#include "agent/offline/train.h"
#include "base/file.h"
#include "tests/support/test.h"
#include "tests/unit/agent_offline/command.h"
#include "tests/unit/agent/tiny.h"

static int predict(const char *directory, struct err *err, const char *const *words)
{
    bool misused = false;
    return command_run(predict_command, directory, words, &misused, err);
}

/* "model": the tiny model, trained; "b": its test set. */
static void prepare(const char *directory)
{
    struct err err = {0};
    bool misused = false;
    command_write_job(directory);
    command_write_data(directory, "a", TINY_SAMPLES, 1);
    command_write_data(directory, "b", TINY_TESTS, 2);
    assert_ok(command_run(train_command, directory,
                          WORDS("@job.json", "--dataset=a=@a", "--dataset=b=@b", "--output=@model"),
                          &misused, &err),
              &err);
}

/* The file without its first `skip` and last `cut` bytes. */
static void copy_part(const char *directory, const char *from, const char *to, size_t skip,
                      size_t cut)
{
    BUF_AUTO struct buf file;
    struct err err = {0};
    buf_init(&file, 1 << 20);
    assert_ok(file_read(test_path_in(directory, from).text, &file, &err), &err);
    assert_ok(file_write_atomic(test_path_in(directory, to).text, file.data + skip,
                                file.size - skip - cut, 0600, &err),
              &err);
}

/* The model's file with another name for what it says of itself, as one that says nothing. */
static void forget_description(const char *directory)
{
    BUF_AUTO struct buf file;
    struct err err = {0};
    buf_init(&file, 1 << 20);
    assert_ok(file_read(test_path_in(directory, "model").text, &file, &err), &err);
    char *key = memmem(file.data, file.size, "\"paceline\"", 10);
    assert_non_null(key);
    memcpy(key, "\"anything\"", 10);
    assert_ok(
        file_write_atomic(test_path_in(directory, "bare").text, file.data, file.size, 0600, &err),
        &err);
}

static void errors_say_what_is_wrong(void **state)
{
    const char *directory = *state;
    prepare(directory);
    forget_description(directory);
    copy_part(directory, "model", "short", 0, 1);
    struct err empty_err = {0};
    assert_ok(file_write_atomic(test_path_in(directory, "empty").text, "\x02\0\0\0\0\0\0\0{}", 10,
                                0600, &empty_err),
              &empty_err);
    copy_part(directory, "model", "shifted", 1, 0);
    command_write_text(directory, "few", "12345");
    command_write_text(directory, "rubbish", "this is neither a model nor a data set");
    command_write_text(
        directory, "other.json",
        "{\"name\":\"other\",\"units\":[{\"name\":\"a\",\"ops\":[{\"type\":\"flatten\"},"
        "{\"type\":\"linear\",\"units\":10}]}]}");
    const struct {
        const char *const *words;
        const char *part;
    } wrong[] = {
        {WORDS("@model"), "usage"},
        {WORDS("@nothing", "@b"), "nothing"},
        {WORDS("@few", "@b"), "is not a model: it has only 5 bytes"},
        {WORDS("@rubbish", "@b"), "is not a model"},
        {WORDS("@shifted", "@b"), "is not a model"},
        {WORDS("@short", "@b"), "bytes, its header says"},
        {WORDS("@model", "@nothing"), "open '"},
        {WORDS("@model", "@rubbish"), "unknown format; expected IDX"},
        {WORDS("@model", "@model"), "data '"},
        {WORDS("@empty", "@b", "--model=mlp"), "is not a model: it has no tensors"},
        {WORDS("@bare", "@b"), "add --model, with a name of the zoo"},
        {WORDS("@bare", "@b", "--model=nosuch"), "--model 'nosuch'"},
        {WORDS("@bare", "@b", "--model=@rubbish"), "--model"},
        {WORDS("@bare", "@b", "--model=@other.json"), "is missing"},
        {WORDS("@model", "@b", "--model=mlp"), "contains its description: omit --model"},
        {WORDS("@model", "@b", "--as=text=8"), "the model 'tiny' expects 8 x 8 x 1 uint8"},
        {WORDS("@model", "@b", "--as=texts=8"), "did you mean 'text'"},
        {WORDS("@model", "@b", "--generate=3"), "--generate needs plain text"},
        {WORDS("@model", "@b", "@few", "--as=text=8", "--generate=3"),
         "--generate continues one file; 2 are given"},
        {WORDS("@model", "@few", "--as=text=8", "--generate=3"),
         "the model 'tiny' expects 8 x 8 x 1 uint8"},
        {WORDS("@model", "@nothing", "--as=text=8", "--generate=3"), "nothing': open '"},
        {WORDS("@model", "@b", "--top=101"), "top"},
        {WORDS("@model", "@b", "--micro-batch=0"), "micro-batch"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct err err = {0};
        assert_int_not_equal(predict(directory, &err, wrong[i].words), 0);
        assert_holds(err.text, wrong[i].part);
    }
}

/* "text": a model of text, trained; "broken": the same, whose numbers are none. */
static void prepare_text(const char *directory)
{
    BUF_AUTO struct buf file;
    struct err err = {0};
    bool misused = false;
    uint64_t header = 0;
    command_write_text(
        directory, "text.json",
        "{\"model\":{\"description\":{\"name\":\"t\",\"units\":[{\"name\":\"a\",\"ops\":["
        "{\"type\":\"embedding\",\"rows\":256,\"units\":4},{\"type\":\"linear\",\"units\":256}]}],"
        "\"input\":{\"scale\":1}}},\"dataset\":{\"train\":\"a\"},\"batch\":2,\"micro_batches\":1,"
        "\"steps\":2}");
    command_write_text(directory, "words", "the quick brown fox jumps over the lazy dog");
    assert_ok(
        command_run(train_command, directory,
                    WORDS("@text.json", "--dataset=a=@words", "--as=text=8", "--output=@text"),
                    &misused, &err),
        &err);
    buf_init(&file, 1 << 20);
    assert_ok(file_read(test_path_in(directory, "text").text, &file, &err), &err);
    memcpy(&header, file.data, sizeof(header));
    memset(file.data + 8 + header, 0xFF, file.size - 8 - (size_t)header);
    assert_ok(
        file_write_atomic(test_path_in(directory, "broken").text, file.data, file.size, 0600, &err),
        &err);
}

static void a_model_that_diverged_makes_no_text(void **state)
{
    const char *directory = *state;
    struct err err = {0};
    prepare_text(directory);
    assert_ok(
        predict(directory, &err, WORDS("@text", "@words", "--as=text=8", "--generate=3", "--json")),
        &err);
    assert_int_equal(
        predict(directory, &err, WORDS("@broken", "@words", "--as=text=8", "--generate=3")),
        ERR_DIVERGED);
    assert_holds(err.text, "sample 0: the model's scores are not finite");
}

/* The output of a report, as text of the heap. */
struct paper {
    char *text;
    size_t size;
    struct report *report;
    struct report_config config;
};

static void paper_open(struct paper *paper)
{
    struct err err = {0};
    paper->config.out = open_memstream(&paper->text, &paper->size);
    assert_non_null(paper->config.out);
    assert_ok(report_new(&paper->config, &paper->report, &err), &err);
}

static const char *paper_text(struct paper *paper)
{
    report_free(&paper->report);
    assert_int_equal(fclose(paper->config.out), 0);
    return paper->text;
}

static void the_most_probable_classes_stand_first_and_of_equal_ones_the_lower(void **state)
{
    (void)state;
    static const float scores[4] = {0.0f, 2.0f, -1.0f, 2.0f};
    struct paper paper = {.config = {.classes = 4, .top = 3}};
    struct err err = {0};
    paper_open(&paper);
    assert_ok(report_sample(paper.report, 5, scores, 3, &err), &err);
    assert_ok(report_sample(paper.report, 6, scores, -1, &err), &err);
    report_end(paper.report, 2, 0, 0, 0);
    assert_string_equal(paper_text(&paper),
                        "sample 5: 1 0.4576, 3 0.4576, 0 0.0619; label 3, wrong\n"
                        "sample 6: 1 0.4576, 3 0.4576, 0 0.0619\nsamples 2\n");
    free(paper.text);

    paper = (struct paper){.config = {.classes = 4, .top = 9, .json = true}};
    paper_open(&paper);
    assert_ok(report_sample(paper.report, 7, scores, -1, &err), &err);
    assert_holds(paper_text(&paper), "{\"sample\":7,\"top\":[{\"class\":1,\"probability\":0.457");
    assert_holds(paper.text, ",{\"class\":2,\"probability\":0.0227");
    free(paper.text);
}

static void names_of_the_data_stand_beside_the_numbers(void **state)
{
    (void)state;
    static const float scores[2] = {0.0f, 2.0f};
    static char file[][16] = {"a/1.png", "b\\\"2\".png"}, class[][16] = {"circle", "square"};
    const struct dataset_names names = {
        .sample = {.item = (char *[]){file[0], file[1]}, .count = 2},
        .class = {.item = (char *[]){class[0], class[1]}, .count = 2}};
    struct paper paper = {
        .config = {.classes = 2, .top = 2, .names = &names, .class_names = &names.class}};
    struct err err = {0};
    paper_open(&paper);
    assert_ok(report_sample(paper.report, 0, scores, 0, &err), &err);
    assert_ok(report_sample(paper.report, 2, scores, -1, &err), &err);
    assert_string_equal(
        paper_text(&paper),
        "sample 0 (a/1.png): 1 (square) 0.8808, 0 (circle) 0.1192; label 0 (circle), wrong\n"
        "sample 2: 1 (square) 0.8808, 0 (circle) 0.1192\n");
    free(paper.text);

    paper = (struct paper){
        .config = {
            .classes = 2, .top = 1, .json = true, .names = &names, .class_names = &names.class}};
    paper_open(&paper);
    assert_ok(report_sample(paper.report, 1, scores, 1, &err), &err);
    assert_holds(paper_text(&paper),
                 "{\"sample\":1,\"file\":\"b\\\\\\\"2\\\".png\",\"label\":1,"
                 "\"label_name\":\"square\",\"top\":[{\"class\":1,\"name\":\"square\",");
    free(paper.text);
}

static void other_numbers_of_classes_name_only_the_labels(void **state)
{
    (void)state;
    static const float scores[2] = {0.0f, 2.0f};
    static char class[] = "circle";
    const struct name_list names = {.item = (char *[]){class}, .count = 1};
    struct paper paper = {.config = {.classes = 2, .top = 1, .class_names = &names}};
    struct err err = {0};
    paper_open(&paper);
    assert_ok(report_sample(paper.report, 0, scores, 0, &err), &err);
    assert_string_equal(paper_text(&paper), "sample 0: 1 0.8808; label 0 (circle), wrong\n");
    free(paper.text);
}

static void names_of_the_model_are_those_of_its_first_classes(void **state)
{
    (void)state;
    static const float scores[2] = {0.0f, 2.0f};
    static char class[] = "circle";
    const struct name_list names = {.item = (char *[]){class}, .count = 1};
    struct paper paper = {.config = {.classes = 2, .top = 2, .class_names = &names, .named = true}};
    struct err err = {0};
    paper_open(&paper);
    assert_ok(report_sample(paper.report, 0, scores, 0, &err), &err);
    assert_string_equal(paper_text(&paper),
                        "sample 0: 1 0.8808, 0 (circle) 0.1192; label 0 (circle), wrong\n");
    free(paper.text);
}

static void scores_that_are_not_finite_are_an_error(void **state)
{
    (void)state;
    static const float scores[2][2] = {{0.0f, NAN}, {INFINITY, 0.0f}};
    struct paper paper = {.config = {.classes = 2}};
    paper_open(&paper);
    for (size_t i = 0; i < 2; i++) {
        struct err err = {0};
        assert_int_equal(report_sample(paper.report, 0, scores[i], -1, &err), ERR_DIVERGED);
    }
    assert_string_equal(paper_text(&paper), "");
    free(paper.text);
}

static void the_table_has_the_classes_that_occur(void **state)
{
    (void)state;
    static const int32_t labels[3] = {4, 4, 9};
    static float scores[3][12];
    scores[0][4] = scores[1][9] = scores[2][9] = 1.0f;
    struct paper paper = {.config = {.classes = 12, .labelled = true}};
    paper_open(&paper);
    report_count(paper.report, 3, scores[0], labels);
    report_end(paper.report, 3, 3, 2, 0.5);
    assert_string_equal(paper_text(&paper), "samples 3\naccuracy 0.6667 (2 of 3)\nloss 0.500000\n"
                                            "\nlabel \\ taken for\n              4       9\n"
                                            "      4       1       1\n      9       0       1\n");
    free(paper.text);

    paper.config.json = true;
    paper_open(&paper);
    report_count(paper.report, 3, scores[0], labels);
    report_end(paper.report, 3, 3, 2, 0.5);
    assert_string_equal(
        paper_text(&paper),
        "{\"samples\":3,\"labels\":3,\"correct\":2,\"accuracy\":0.6666666666666666,\"loss\":0.5}\n"
        "{\"label\":4,\"taken_for\":{\"4\":1,\"9\":1}}\n{\"label\":9,\"taken_for\":{\"9\":1}}\n");
    free(paper.text);
}

static void the_table_names_the_classes(void **state)
{
    (void)state;
    static const float scores[2] = {0.0f, 2.0f};
    static char class[] = "circle";
    const struct name_list names = {.item = (char *[]){class}, .count = 1};
    struct paper paper = {
        .config = {.classes = 2, .labelled = true, .class_names = &names, .named = true}};
    paper_open(&paper);
    report_count(paper.report, 1, scores, &(const int32_t){0});
    report_end(paper.report, 1, 1, 0, 0.5);
    assert_holds(paper_text(&paper), "\n              0       1\n"
                                     "      0       0       1  circle\n"
                                     "      1       0       0\n");
    free(paper.text);
}

static void of_many_classes_the_most_frequent_mistakes_are_listed(void **state)
{
    (void)state;
    static float scores[100];
    struct paper paper = {.config = {.classes = 100, .labelled = true, .bytes = true}};
    paper_open(&paper);
    for (int32_t label = 0; label < 100; label++) {
        scores[label] = 1.0f; /* the class itself, except two */
        report_count(paper.report, 1, scores, &label);
        scores[label] = 0.0f;
    }
    scores['a'] = 1.0f;
    for (size_t i = 0; i < 3; i++) {
        report_count(paper.report, 1, scores, &(const int32_t){i == 0 ? 10 : '!'});
    }
    report_end(paper.report, 103, 103, 100, 0.5);
    assert_holds(paper_text(&paper),
                 "\nmost frequent mistakes\n'!' taken for 'a': 2\n0x0a taken for 'a': 1\n");
    free(paper.text);
}

static void too_many_classes_have_no_table(void **state)
{
    (void)state;
    static float scores[5000];
    struct paper paper = {.config = {.classes = 5000, .labelled = true}};
    paper_open(&paper);
    report_count(paper.report, 1, scores, &(const int32_t){4999});
    report_end(paper.report, 1, 1, 0, 8.5);
    assert_string_equal(paper_text(&paper), "samples 1\naccuracy 0.0000 (0 of 1)\nloss 8.500000\n");
    free(paper.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(errors_say_what_is_wrong),
        test_with_directory(a_model_that_diverged_makes_no_text),
        cmocka_unit_test(the_most_probable_classes_stand_first_and_of_equal_ones_the_lower),
        cmocka_unit_test(names_of_the_data_stand_beside_the_numbers),
        cmocka_unit_test(other_numbers_of_classes_name_only_the_labels),
        cmocka_unit_test(names_of_the_model_are_those_of_its_first_classes),
        cmocka_unit_test(scores_that_are_not_finite_are_an_error),
        cmocka_unit_test(the_table_has_the_classes_that_occur),
        cmocka_unit_test(the_table_names_the_classes),
        cmocka_unit_test(of_many_classes_the_most_frequent_mistakes_are_listed),
        cmocka_unit_test(too_many_classes_have_no_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
