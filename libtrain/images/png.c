/* PNG by libpng. Its errors return by longjmp to png_decode. */
#include <setjmp.h>
#include <string.h>

#include <png.h>

#include "libtrain/images/pixels.h"

#define MARK_BYTES 8

struct png {
    png_structp decoder;
    png_infop info;
    jmp_buf escape;
    const uint8_t *bytes;
    size_t size, at;
    uint32_t channels;
    struct image_size found;
    struct pixels *pixels;
    int rc; /* rc and err: the fault found */
    struct err *err;
};

bool png_recognise(const uint8_t *bytes, size_t size)
{
    static const uint8_t mark[MARK_BYTES] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    return size >= MARK_BYTES && memcmp(bytes, mark, MARK_BYTES) == 0;
}

/* ---- callbacks of libpng ---- */

_Noreturn static void on_error(png_structp decoder, png_const_charp text)
{
    struct png *png = png_get_error_ptr(decoder);
    if (png->rc == 0) {
        png->rc = err_set(png->err, ERR_FORMAT, "PNG: %s", text);
    }
    longjmp(png->escape, 1);
}

static void on_warning(png_structp decoder, png_const_charp text)
{
    (void)decoder;
    (void)text;
}

static void read_bytes(png_structp decoder, png_bytep out, png_size_t size)
{
    struct png *png = png_get_io_ptr(decoder);
    if (size > png->size - png->at) {
        png->rc = err_set(png->err, ERR_FORMAT, "PNG: ends early, at byte %zu", png->size);
        png_error(decoder, "ends early");
    }
    memcpy(out, png->bytes + png->at, size);
    png->at += size;
}

/* ---- decoding ---- */

/* Request 8 bits per channel without transparency: RGB if the image has colour or three channels
 * are wanted, otherwise grey. */
static void ask_for_bytes(struct png *png)
{
    const bool colour = png_get_color_type(png->decoder, png->info) & PNG_COLOR_MASK_COLOR;
    png_set_scale_16(png->decoder);
    png_set_expand(png->decoder);
    png_set_strip_alpha(png->decoder);
    if (!colour && png->channels == 3) {
        png_set_gray_to_rgb(png->decoder);
    }
}

static void decode_lines(struct png *png)
{
    const bool colour = png_get_color_type(png->decoder, png->info) & PNG_COLOR_MASK_COLOR;
    struct pixels *pixels = png->pixels;
    png->rc =
        pixels_shape(pixels, png->found.h, png->found.w, colour ? 3 : png->channels, png->err);
    if (png->rc) {
        return;
    }
    ask_for_bytes(png);
    const int passes = png_set_interlace_handling(png->decoder);
    const size_t line = (size_t)pixels->w * pixels->c;
    png_read_update_info(png->decoder, png->info);
    if (png_get_rowbytes(png->decoder, png->info) != line) {
        png_error(png->decoder, "its colours cannot be read");
    }
    for (int pass = 0; pass < passes; pass++) {
        for (size_t h = 0; h < pixels->h; h++) {
            png_read_row(png->decoder, pixels->data + h * line, NULL);
        }
    }
    png_read_end(png->decoder, NULL);
    if (colour && png->channels == 1) {
        pixels_to_grey(pixels);
    }
}

static void run(struct png *png)
{
    png->decoder = png_create_read_struct(PNG_LIBPNG_VER_STRING, png, on_error, on_warning);
    png->info = png->decoder ? png_create_info_struct(png->decoder) : NULL;
    if (!png->info) {
        png->rc = err_set(png->err, ERR_MEMORY, "PNG: no memory");
        return;
    }
    png_set_read_fn(png->decoder, png, read_bytes);
    png_set_user_limits(png->decoder, PNG_UINT_31_MAX,
                        PNG_UINT_31_MAX); /* our own limit, below, has a better message */
    /* Skip texts, profiles and other chunks that no pixel needs: libpng allocates their announced
     * length, up to 2 GiB, before it reads them. -1: all except the needed ones. */
    png_set_keep_unknown_chunks(png->decoder, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(png->decoder, png->info);
    const uint32_t h = png_get_image_height(png->decoder, png->info);
    const uint32_t w = png_get_image_width(png->decoder, png->info);
    png->rc = image_check_size(h, w, png->err);
    png->found = (struct image_size){.h = h, .w = w};
    if (png->rc == 0 && png->pixels) {
        decode_lines(png);
    }
}

/* A separate function, because locals of the caller of setjmp must not change after the call. */
static void guard(struct png *png)
{
    if (setjmp(png->escape) == 0) {
        run(png);
    }
}

int png_decode(const uint8_t *bytes, size_t size, uint32_t channels, struct image_size *out,
               struct pixels *pixels, struct err *err)
{
    struct png png = {
        .bytes = bytes, .size = size, .channels = channels, .pixels = pixels, .err = err};
    guard(&png);
    png_destroy_read_struct(&png.decoder, &png.info, NULL);
    if (png.rc == 0) {
        *out = png.found;
    }
    return png.rc;
}
