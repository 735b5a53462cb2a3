/* The seconds of a step's transfers and passes by the times that a worker measured, for
 * bench/exchange.py and exchange_drift.py
 *
 *   segment_times <TIMES
 *
 * TIMES: JSON, of a worker of one server: `bytes`, `forward` and `backward` (seconds) of each
 * layer; `pull` and `push`, the links, as [seconds of a request, bytes per second]; `chosen`,
 * choices of segments, each [ends of the pulls, ends of the pushes]. Prints `optimal` and every
 * other way (bench/segments/ways.h), and `chosen`, the seconds of each choice, as JSON: the pull
 * with the forward pass plus the push with the backward pass. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/json.h"
#include "bench/segments/ways.h"

#define LAYERS_MAX SEGMENTS_LAYERS_MAX
#define TEXT_MAX (16 << 20)

static double bytes[LAYERS_MAX], seconds[2][LAYERS_MAX];
static size_t server[LAYERS_MAX], end[LAYERS_MAX];
static struct segments_link link_of[2];
static struct segments_scratch *scratch;

/* Index of directions: push, pull. */
static const char *const passes[] = {"backward", "forward"}, *const links[] = {"push", "pull"};

static int read_numbers(const json_t *value, const char *name, size_t count, double *out,
                        struct err *err)
{
    const json_t *list = json_object_get(value, name);
    if (json_array_size(list) != count) {
        return err_set(err, ERR_FORMAT, "'%s' is not a list of %zu numbers", name, count);
    }
    for (size_t i = 0; i < count; i++) {
        out[i] = json_number_value(json_array_get(list, i));
        if (!(out[i] >= 0)) {
            return err_set(err, ERR_FORMAT, "'%s' has a negative number", name);
        }
    }
    return 0;
}

/* The two directions. */
static int read_problems(const json_t *value, struct segments_problem problem[2], struct err *err)
{
    const size_t count = json_array_size(json_object_get(value, "bytes"));
    if (count < 1 || count > LAYERS_MAX) {
        return err_set(err, ERR_FORMAT, "'bytes' has 1 to %d layers", LAYERS_MAX);
    }
    int rc = read_numbers(value, "bytes", count, bytes, err);
    for (size_t pull = 0; pull < 2 && rc == 0; pull++) {
        double speed[2];
        rc = read_numbers(value, passes[pull], count, seconds[pull], err);
        rc = rc ? rc : read_numbers(value, links[pull], 2, speed, err);
        if (rc == 0 && speed[1] <= 0) {
            rc = err_set(err, ERR_FORMAT, "'%s' has no bandwidth", links[pull]);
        }
        if (rc == 0) {
            link_of[pull] =
                (struct segments_link){.request_seconds = speed[0], .bytes_per_second = speed[1]};
            problem[pull] = (struct segments_problem){.count = count,
                                                      .bytes = bytes,
                                                      .seconds = seconds[pull],
                                                      .server = server,
                                                      .link = &link_of[pull],
                                                      .pull = pull == 1,
                                                      .first_request_seconds = speed[0] / 2};
        }
    }
    return rc;
}

static int read_ends(const json_t *list, size_t layers, size_t *count, struct err *err)
{
    *count = json_array_size(list);
    for (size_t i = 0; i < *count && i < layers; i++) {
        const json_int_t value = json_integer_value(json_array_get(list, i));
        if (value <= (i > 0 ? (json_int_t)end[i - 1] : 0) || value > (json_int_t)layers) {
            return err_set(err, ERR_FORMAT, "'chosen' has ends that do not rise");
        }
        end[i] = (size_t)value;
    }
    return *count >= 1 && *count <= layers && end[*count - 1] == layers
               ? 0
               : err_set(err, ERR_FORMAT, "'chosen' does not end with layer %zu", layers);
}

static int add_choices(const json_t *value, const struct segments_problem problem[2], json_t *out,
                       struct err *err)
{
    const json_t *chosen = json_object_get(value, "chosen");
    json_t *list = json_array();
    (void)json_object_set_new(out, "chosen", list);
    for (size_t i = 0; i < json_array_size(chosen); i++) {
        double sum = 0;
        for (size_t pull = 0; pull < 2; pull++) {
            const json_t *ends = json_array_get(json_array_get(chosen, i), 1 - pull);
            size_t count;
            const int rc = read_ends(ends, problem->count, &count, err);
            if (rc != 0) {
                return rc;
            }
            sum += segments_evaluate(&problem[pull], end, count);
        }
        (void)json_array_append_new(list, json_real(sum));
    }
    return 0;
}

static int answer(const json_t *value, json_t *out, struct err *err)
{
    struct segments_problem problem[2];
    size_t count;
    int rc = read_problems(value, problem, err);
    rc = rc ? rc : segments_scratch_new(problem->count, &scratch, err);
    if (rc != 0) {
        return rc;
    }
    (void)json_object_set_new(out, "optimal",
                              json_real(segments_solve(&problem[0], scratch, end, &count) +
                                        segments_solve(&problem[1], scratch, end, &count)));
    for (size_t w = 0; w < WAYS; w++) {
        (void)json_object_set_new(out, ways[w].name,
                                  json_real(way_seconds(&problem[0], &ways[w], scratch, end) +
                                            way_seconds(&problem[1], &ways[w], scratch, end)));
    }
    return add_choices(value, problem, out, err);
}

int main(void)
{
    struct err err = {0};
    struct buf text BUF_AUTO;
    json_auto_t *value = NULL, *out = json_object();
    char *input = malloc(TEXT_MAX);
    buf_init(&text, TEXT_MAX);
    const size_t size = input ? fread(input, 1, TEXT_MAX, stdin) : 0;
    int rc = json_parse(input ? input : "", size, &value, &err);
    rc = rc ? rc : answer(value, out, &err);
    rc = rc ? rc : json_write(out, &text, &err);
    free(input);
    segments_scratch_free(&scratch);
    if (rc != 0) {
        (void)fprintf(stderr, "segment_times: %s\n", err.text);
        return 1;
    }
    (void)printf("%.*s\n", (int)text.size, text.data);
    return 0;
}
