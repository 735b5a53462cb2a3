/* JPEG by libjpeg-turbo. Its errors return by longjmp to jpeg_decode. The slow exact transform and
 * full upsampling are used, because all of its builds compute them alike. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
/* After jpeglib.h: its macros decide the numbers of the messages. */
#include <jerror.h>

#include "libtrain/images/pixels.h"

#define SCANS_MAX 100 /* of a progressive image; encoders write about ten */
#define DECODER_BYTES_MAX                                                                          \
    (256L << 20) /* 6 bytes for each pixel of a progressive image, and tables */

struct jpeg {
    struct jpeg_decompress_struct decoder;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    const uint8_t *bytes;
    size_t size;
    uint32_t channels;
    struct image_size found;
    struct pixels *pixels;
    int rc; /* rc and err: the fault found */
    struct err *err;
};

bool jpeg_recognise(const uint8_t *bytes, size_t size)
{
    return size >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

/* ---- callbacks of libjpeg ---- */

_Noreturn static void on_error(j_common_ptr common)
{
    struct jpeg *jpeg = common->client_data;
    char text[JMSG_LENGTH_MAX];
    common->err->format_message(common, text);
    jpeg->rc =
        err_set(jpeg->err, common->err->msg_code == JERR_OUT_OF_MEMORY ? ERR_MEMORY : ERR_FORMAT,
                "JPEG: %s", text);
    longjmp(jpeg->escape, 1);
}

/* Level -1 is a warning. After the fatal ones, libjpeg invents pixels. */
static void on_message(j_common_ptr common, int level)
{
    static const int fatal[] = {JWRN_JPEG_EOF, JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE,
                                JWRN_ARITH_BAD_CODE, JWRN_MUST_RESYNC};
    for (size_t i = 0; level < 0 && i < sizeof(fatal) / sizeof(fatal[0]); i++) {
        if (common->err->msg_code == fatal[i]) {
            on_error(common);
        }
    }
}

static void print_nothing(j_common_ptr common)
{
    (void)common;
}

static void on_progress(j_common_ptr common)
{
    struct jpeg *jpeg = common->client_data;
    if (jpeg->decoder.input_scan_number > SCANS_MAX) {
        jpeg->rc = err_set(jpeg->err, ERR_LIMIT, "JPEG: more than %d scans", SCANS_MAX);
        longjmp(jpeg->escape, 1);
    }
}

/* ---- decoding ---- */

static int check_header(struct jpeg *jpeg)
{
    const struct jpeg_decompress_struct *decoder = &jpeg->decoder;
    int rc = image_check_size(decoder->image_height, decoder->image_width, jpeg->err);
    if (rc) {
        return rc;
    }
    const J_COLOR_SPACE colours = decoder->jpeg_color_space;
    if (colours != JCS_GRAYSCALE && colours != JCS_RGB && colours != JCS_YCbCr) {
        return err_set(jpeg->err, ERR_UNSUPPORTED,
                       "JPEG: its colours are neither grey, RGB nor YCbCr");
    }
    jpeg->found = (struct image_size){.h = decoder->image_height, .w = decoder->image_width};
    return 0;
}

/* Check that all scans together are complete. jpeg_start_decompress has read them if there are
 * several. The decoder takes missing data as zeros, which would give a coarser picture, or one
 * without a colour. */
static bool is_whole(const struct jpeg_decompress_struct *decoder)
{
    for (int c = 0; c < decoder->num_components; c++) {
        if (!decoder->comp_info[c].quant_table) {
            return false; /* no scan had this component */
        }
        for (int i = 0; decoder->coef_bits && i < DCTSIZE2; i++) {
            if (decoder->coef_bits[c][i] != 0) {
                return false; /* progressive: bits are missing, or -1: no scan had this coefficient
                               */
            }
        }
    }
    return true;
}

static void decode_lines(struct jpeg *jpeg)
{
    struct jpeg_decompress_struct *decoder = &jpeg->decoder;
    struct pixels *pixels = jpeg->pixels;
    jpeg->rc = pixels_shape(pixels, jpeg->found.h, jpeg->found.w, jpeg->channels, jpeg->err);
    if (jpeg->rc) {
        return;
    }
    decoder->out_color_space = jpeg->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    decoder->dct_method = JDCT_ISLOW;
    decoder->do_fancy_upsampling = TRUE;
    decoder->do_block_smoothing = FALSE;
    (void)jpeg_start_decompress(decoder);
    if (!is_whole(decoder)) {
        jpeg->rc = err_set(jpeg->err, ERR_FORMAT, "JPEG: scans are missing");
        return;
    }
    while (decoder->output_scanline < decoder->output_height) {
        JSAMPROW line = pixels->data + (size_t)decoder->output_scanline * pixels->w * pixels->c;
        (void)jpeg_read_scanlines(decoder, &line, 1);
    }
    (void)jpeg_finish_decompress(decoder);
}

static void run(struct jpeg *jpeg)
{
    struct jpeg_decompress_struct *decoder = &jpeg->decoder;
    jpeg_create_decompress(decoder);
    decoder->mem->max_memory_to_use = DECODER_BYTES_MAX;
    decoder->progress = &jpeg->progress;
    jpeg_mem_src(decoder, jpeg->bytes, jpeg->size);
    (void)jpeg_read_header(decoder, TRUE);
    jpeg->rc = check_header(jpeg);
    if (jpeg->rc == 0 && jpeg->pixels) {
        decode_lines(jpeg);
    }
}

/* A separate function, because locals of the caller of setjmp must not change after the call. */
static void guard(struct jpeg *jpeg)
{
    if (setjmp(jpeg->escape) == 0) {
        run(jpeg);
    }
}

int jpeg_decode(const uint8_t *bytes, size_t size, uint32_t channels, struct image_size *out,
                struct pixels *pixels, struct err *err)
{
    struct jpeg jpeg = {
        .bytes = bytes, .size = size, .channels = channels, .pixels = pixels, .err = err};
    jpeg.decoder.err = jpeg_std_error(&jpeg.errors);
    jpeg.decoder.client_data = &jpeg;
    jpeg.errors.error_exit = on_error;
    jpeg.errors.emit_message = on_message;
    jpeg.errors.output_message = print_nothing;
    jpeg.progress.progress_monitor = on_progress;
    guard(&jpeg);
    jpeg_destroy_decompress(&jpeg.decoder);
    if (jpeg.rc == 0) {
        *out = jpeg.found;
    }
    return jpeg.rc;
}
