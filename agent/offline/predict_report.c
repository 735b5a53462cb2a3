#include "agent/offline/predict_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/json_text.h"
#include "libtrain/train.h"

/* Limits for a table of classes: the first for memory, the second for the printed output. */
#define CONFUSION_CLASSES_MAX 1024
#define TABLE_CLASSES_MAX 20
#define LIST_MAX 20

struct report {
    struct report_config config;
    uint64_t *confusion;   /* [classes][classes] by label, then by prediction; NULL: not counted */
    struct json_text text; /* to config.out */
};

int report_new(const struct report_config *config, struct report **out, struct err *err)
{
    struct report *report AUTO(report_free) = calloc(1, sizeof(*report));
    if (!report) {
        return err_set(err, ERR_MEMORY, "no memory for a report");
    }
    report->config = *config;
    report->text = (struct json_text){.put = json_text_to_file, .to = config->out};
    if (config->labelled && config->classes <= CONFUSION_CLASSES_MAX) {
        report->confusion = calloc(config->classes * config->classes, sizeof(report->confusion[0]));
        if (!report->confusion) {
            return err_set(err, ERR_MEMORY, "no memory for a table of %zu classes",
                           config->classes);
        }
    }
    *out = report;
    report = NULL;
    return 0;
}

void report_free(struct report **report)
{
    if (*report) {
        free((*report)->confusion);
        free(*report);
        *report = NULL;
    }
}

/* ---- samples ---- */

/* Find the classes with the highest scores, in descending order; equal scores by class number. */
static size_t find_top(const struct report *report, const float *scores, size_t top[REPORT_TOP_MAX])
{
    size_t count = 0;
    for (size_t c = 0; c < report->config.classes; c++) {
        size_t at = count;
        while (at > 0 && scores[c] > scores[top[at - 1]]) {
            at--;
        }
        if (at == report->config.top) {
            continue;
        }
        count += count < report->config.top;
        for (size_t i = count - 1; i > at; i--) {
            top[i] = top[i - 1];
        }
        top[at] = c;
    }
    return count;
}

static const char *name_in(const struct name_list *list, uint64_t index)
{
    return index < list->count ? list->item[index] : NULL;
}

/* Return the name of a label's class; NULL: none. */
static const char *label_name(const struct report *report, size_t label)
{
    const struct name_list *names = report->config.class_names;
    return names ? name_in(names, label) : NULL;
}

/* Return the name of a class of the model; NULL: none. */
static const char *class_name(const struct report *report, size_t class)
{
    const struct name_list *names = report->config.class_names;
    const bool known = names && (report->config.named || names->count == report->config.classes);
    return known ? name_in(names, class) : NULL;
}

/* Print a class: "7", with a name "7 (circle)", for text "'e'" or "0x0a". */
static void print_class(const struct report *report, size_t class, const char *name)
{
    const bool shown = class > ' ' && class <= '~';
    if (!report->config.bytes) {
        (void)fprintf(report->config.out, "%zu", class);
    } else {
        (void)fprintf(report->config.out, shown ? "'%c'" : "0x%02x", (unsigned)class);
    }
    if (name) {
        (void)fprintf(report->config.out, " (%s)", name);
    }
}

static void print_top(struct report *report, size_t class, double probability, bool first)
{
    FILE *out = report->config.out;
    const char *name = class_name(report, class);
    if (report->config.json) {
        char digits[32];
        (void)snprintf(digits, sizeof(digits), "%.9g", probability);
        json_text_object(&report->text, NULL);
        json_text_integer(&report->text, "class", (int64_t) class);
        if (name) {
            json_text_string(&report->text, "name", name);
        }
        json_text_literal(&report->text, "probability", digits);
        json_text_end(&report->text);
        return;
    }
    (void)fprintf(out, first ? " " : ", ");
    print_class(report, class, name);
    (void)fprintf(out, " %.4f", probability);
}

static void begin_sample(struct report *report, uint64_t index, int32_t label)
{
    FILE *out = report->config.out;
    const struct dataset_names *names = report->config.names;
    const char *file = names ? name_in(&names->sample, index) : NULL;
    const char *name = label >= 0 ? label_name(report, (size_t)label) : NULL;
    if (!report->config.json) {
        (void)fprintf(out, "sample %" PRIu64 "%s%s%s:", index, file ? " (" : "", file ? file : "",
                      file ? ")" : "");
        return;
    }
    struct json_text *text = &report->text;
    json_text_object(text, NULL);
    json_text_integer(text, "sample", (int64_t)index);
    if (file) {
        json_text_string(text, "file", file);
    }
    if (label >= 0) {
        json_text_integer(text, "label", label);
    }
    if (name) {
        json_text_string(text, "label_name", name);
    }
    json_text_list(text, "top");
}

/* End a line, which is one JSON object. */
static void end_line(struct report *report)
{
    json_text_end(&report->text);
    (void)fputc('\n', report->config.out);
}

static void end_sample(struct report *report, int32_t label, size_t best)
{
    FILE *out = report->config.out;
    if (report->config.json) {
        json_text_end(&report->text);
        end_line(report);
        return;
    }
    if (label >= 0) {
        (void)fprintf(out, "; label ");
        print_class(report, (size_t)label, label_name(report, (size_t)label));
        (void)fprintf(out, (size_t)label == best ? "" : ", wrong");
    }
    (void)fprintf(out, "\n");
}

/* Return the divisor of softmax. */
static double sum_up(const float *scores, size_t classes)
{
    const double highest = (double)scores[train_best(scores, classes)];
    double sum = 0;
    for (size_t c = 0; c < classes; c++) {
        sum += exp((double)scores[c] - highest);
    }
    return sum;
}

static int check_sum(double sum, uint64_t index, struct err *err)
{
    return isfinite(sum) ? 0
                         : err_set(err, ERR_DIVERGED,
                                   "sample %" PRIu64 ": the model's scores are not finite", index);
}

int report_check(const float *scores, size_t classes, uint64_t index, struct err *err)
{
    return check_sum(sum_up(scores, classes), index, err);
}

int report_sample(struct report *report, uint64_t index, const float *scores, int32_t label,
                  struct err *err)
{
    const size_t classes = report->config.classes;
    size_t top[REPORT_TOP_MAX];
    const double sum = sum_up(scores, classes);
    int rc = check_sum(sum, index, err);
    if (rc || report->config.top == 0) {
        return rc;
    }
    const double highest = (double)scores[train_best(scores, classes)];
    const size_t count = find_top(report, scores, top);
    begin_sample(report, index, label);
    for (size_t i = 0; i < count; i++) {
        print_top(report, top[i], exp((double)scores[top[i]] - highest) / sum, i == 0);
    }
    end_sample(report, label, top[0]);
    return 0;
}

void report_count(struct report *report, size_t rows, const float *scores, const int32_t *labels)
{
    const size_t classes = report->config.classes;
    for (size_t n = 0; report->confusion && n < rows; n++) {
        report
            ->confusion[(size_t)labels[n] * classes + train_best(scores + n * classes, classes)]++;
    }
}

/* ---- the end ---- */

/* Find the classes that occur as a label or a prediction, in ascending order. Returns their number;
 * out: the first `capacity` of them. */
static size_t find_classes(const struct report *report, size_t *out, size_t capacity)
{
    const size_t classes = report->config.classes;
    size_t count = 0;
    for (size_t c = 0; c < classes; c++) {
        uint64_t sum = 0;
        for (size_t other = 0; other < classes; other++) {
            sum += report->confusion[c * classes + other] + report->confusion[other * classes + c];
        }
        if (sum > 0 && count++ < capacity) {
            out[count - 1] = c;
        }
    }
    return count;
}

/* The names of the classes, where there are any, follow the rows. */
static void print_table(const struct report *report, const size_t *class, size_t count)
{
    FILE *out = report->config.out;
    (void)fprintf(out, "\nlabel \\ taken for\n%7s", "");
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, " %7zu", class[i]);
    }
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, "\n%7zu", class[i]);
        for (size_t k = 0; k < count; k++) {
            (void)fprintf(out, " %7" PRIu64,
                          report->confusion[class[i] * report -> config.classes + class[k]]);
        }
        const char *name = label_name(report, class[i]);
        if (name) {
            (void)fprintf(out, "  %s", name);
        }
    }
    (void)fprintf(out, "\n");
}

/* Print the most frequent mistakes and set them to zero. */
static void print_mistakes(const struct report *report)
{
    const size_t classes = report->config.classes;
    FILE *out = report->config.out;
    for (size_t c = 0; c < classes; c++) {
        report->confusion[c * classes + c] = 0;
    }
    (void)fprintf(out, "\nmost frequent mistakes\n");
    for (size_t line = 0; line < LIST_MAX; line++) {
        size_t most = 0;
        for (size_t i = 1; i < classes * classes; i++) {
            most = report->confusion[i] > report->confusion[most] ? i : most;
        }
        if (report->confusion[most] == 0) {
            return;
        }
        print_class(report, most / classes, label_name(report, most / classes));
        (void)fprintf(out, " taken for ");
        print_class(report, most % classes, class_name(report, most % classes));
        (void)fprintf(out, ": %" PRIu64 "\n", report->confusion[most]);
        report->confusion[most] = 0;
    }
}

/* Write one line for each label that occurs. */
static void write_rows(struct report *report)
{
    const size_t classes = report->config.classes;
    for (size_t label = 0; label < classes; label++) {
        const uint64_t *row = report->confusion + label * classes;
        bool any = false;
        for (size_t c = 0; c < classes; c++) {
            if (row[c] == 0) {
                continue;
            }
            if (!any) {
                json_text_object(&report->text, NULL);
                json_text_integer(&report->text, "label", (int64_t)label);
                json_text_object(&report->text, "taken_for");
            }
            char key[24];
            (void)snprintf(key, sizeof(key), "%zu", c);
            json_text_integer(&report->text, key, (int64_t)row[c]);
            any = true;
        }
        if (any) {
            json_text_end(&report->text);
            end_line(report);
        }
    }
}

static void end_without_labels(struct report *report, uint64_t samples)
{
    if (report->config.json) {
        json_text_object(&report->text, NULL);
        json_text_integer(&report->text, "samples", (int64_t)samples);
        end_line(report);
    } else {
        (void)fprintf(report->config.out, "samples %" PRIu64 "\n", samples);
    }
}

void report_end(struct report *report, uint64_t samples, uint64_t labels, uint64_t correct,
                double loss)
{
    FILE *out = report->config.out;
    const double accuracy = (double)correct / (double)labels;
    size_t class[TABLE_CLASSES_MAX];
    if (!report->config.labelled) {
        end_without_labels(report, samples);
        return;
    }
    if (report->config.json) {
        json_text_object(&report->text, NULL);
        json_text_integer(&report->text, "samples", (int64_t)samples);
        json_text_integer(&report->text, "labels", (int64_t)labels);
        json_text_integer(&report->text, "correct", (int64_t)correct);
        json_text_number(&report->text, "accuracy", accuracy);
        json_text_number(&report->text, "loss", loss);
        end_line(report);
        if (report->confusion) {
            write_rows(report);
        }
        return;
    }
    (void)fprintf(out,
                  "samples %" PRIu64 "\naccuracy %.4f (%" PRIu64 " of %" PRIu64 ")\nloss %.6f\n",
                  samples, accuracy, correct, labels, loss);
    const size_t count = report->confusion ? find_classes(report, class, TABLE_CLASSES_MAX) : 0;
    if (count > TABLE_CLASSES_MAX) {
        print_mistakes(report);
    } else if (count > 0) {
        print_table(report, class, count);
    }
}

void report_bytes(struct report *report, const unsigned char *bytes, size_t count)
{
    FILE *out = report->config.out;
    if (!report->config.json) {
        (void)fwrite(bytes, 1, count, out);
        (void)fprintf(out, "\n");
        return;
    }
    json_text_object(&report->text, NULL);
    json_text_list(&report->text, "bytes");
    for (size_t i = 0; i < count; i++) {
        json_text_integer(&report->text, NULL, bytes[i]);
    }
    json_text_end(&report->text);
    end_line(report);
}
