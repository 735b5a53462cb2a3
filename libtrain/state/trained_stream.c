#include "libtrain/state/trained_stream.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "libtrain/description/description.h"

#define NUMBER_BYTES TRAINED_NUMBER_BYTES

void trained_stream_init(struct trained_stream *stream)
{
    *stream = (struct trained_stream){0};
    safetensors_head_init(&stream->head);
}

void trained_stream_done(struct trained_stream *stream)
{
    safetensors_head_done(&stream->head);
}

/* ---- the header ---- */

static bool is_same_model(const struct model *a, const struct model *b)
{
    json_auto_t *one = description_write(a);
    json_auto_t *two = description_write(b);
    return one && two && json_equal(one, two);
}

static bool is_same_evaluation(const struct evaluation *a, const struct evaluation *b)
{
    return a->micro_batch == b->micro_batch && a->view.class_count == b->view.class_count &&
           memcmp(a->view.class, b->view.class, a->view.class_count * sizeof(a->view.class[0])) ==
               0;
}

static int judge_header(struct trained_stream *stream, const struct model *model,
                        const struct evaluation *evaluation, struct err *err)
{
    struct trained_file *file AUTO(trained_free) = NULL;
    int rc = trained_read(stream->head.bytes.data, stream->head.bytes.size, &file, err);
    rc = rc ? rc : trained_check(file, model, err);
    if (rc) {
        return rc;
    }
    stream->data_bytes = file->header.data_bytes;
    if (!file->model || !is_same_model(file->model, model)) {
        return err_set(err, ERR_INVALID, "the file describes another model than the job's");
    }
    return is_same_evaluation(&file->evaluation, evaluation)
               ? 0
               : err_set(err, ERR_INVALID, "the file states another evaluation than the job's");
}

/* ---- numbers ---- */

/* Exponent bits of a little-endian F32. All ones mean an infinite number or NaN. */
#define EXPONENT 0x7F800000u

static bool is_finite(const unsigned char number[NUMBER_BYTES])
{
    uint32_t bits;
    memcpy(&bits, number, sizeof(bits));
    return (bits & EXPONENT) != EXPONENT;
}

/* Return how many of the numbers come before the first that is not finite. */
static size_t count_finite(const unsigned char *data, size_t count)
{
    size_t finite = 0;
    while (finite < count && is_finite(data + finite * NUMBER_BYTES)) {
        finite++;
    }
    return finite;
}

static int refuse_number(const struct trained_stream *stream, uint64_t before, struct err *err)
{
    return err_set(err, ERR_INVALID, "number %" PRIu64 " of the file is not finite",
                   stream->seen / NUMBER_BYTES + before);
}

/* Reject a number that is not finite. trained_check has found that all numbers are F32. A piece may
 * end within a number. */
static int judge_numbers(struct trained_stream *stream, const unsigned char *data, size_t size,
                         struct err *err)
{
    if (size > stream->data_bytes - stream->seen) {
        return err_set(err, ERR_FORMAT, "the file is longer than its header describes");
    }
    while (size > 0) {
        const size_t begun = (size_t)(stream->seen % NUMBER_BYTES);
        size_t taken = size - size % NUMBER_BYTES;
        if (begun > 0 || taken == 0) {
            taken = size < NUMBER_BYTES - begun ? size : NUMBER_BYTES - begun;
            memcpy(stream->number + begun, data, taken);
            if (begun + taken == NUMBER_BYTES && !is_finite(stream->number)) {
                return refuse_number(stream, 0, err);
            }
        } else {
            const size_t count = taken / NUMBER_BYTES, finite = count_finite(data, count);
            if (finite < count) {
                return refuse_number(stream, finite, err);
            }
        }
        stream->seen += taken;
        data += taken;
        size -= taken;
    }
    return 0;
}

int trained_stream_take(struct trained_stream *stream, const struct model *model,
                        const struct evaluation *evaluation, const void *data, size_t size,
                        struct err *err)
{
    const unsigned char *left = data;
    size_t taken = 0;
    if (!stream->head.complete) {
        int rc = safetensors_head_take(&stream->head, data, size, &taken, err);
        rc = rc || !stream->head.complete ? rc : judge_header(stream, model, evaluation, err);
        if (rc || !stream->head.complete) {
            return rc;
        }
    }
    return judge_numbers(stream, left + taken, size - taken, err);
}

int trained_stream_end(const struct trained_stream *stream, struct err *err)
{
    if (!stream->head.complete) {
        return err_set(err, ERR_FORMAT, "the file ends before its header does");
    }
    return stream->seen == stream->data_bytes
               ? 0
               : err_set(err, ERR_FORMAT,
                         "the file has %" PRIu64 " bytes of tensors; its header describes %" PRIu64,
                         stream->seen, stream->data_bytes);
}
