#include "tests/unit/libtrain_formats/images_support.h"

#include <stdio.h>

#include "base/file.h"
#include "tests/support/test.h"

struct bytes archive;

int append_bytes(void *arg, const void *data, size_t size, struct err *err)
{
    return buf_append(arg, data, size, err);
}

void load_image(const char *name, struct buf *out)
{
    char path[256];
    struct err err = {0};
    (void)snprintf(path, sizeof(path), TEST_SOURCE_DIR "/tests/golden/images/%s", name);
    buf_init(out, 1 << 16);
    assert_ok(file_read(path, out, &err), &err);
}

void put_image(const char *entry, const char *image, size_t size)
{
    BUF_AUTO struct buf file;
    load_image(image, &file);
    put_tar_entry(&archive, entry, '0', file.data, size ? size : file.size);
}

const struct dataset_limits labelled_only = {.total_bytes = 1 << 20, .entries = 100};

int convert_archive(const char *text, struct converted *out, struct err *err)
{
    struct reading reading = reading_default;
    if (text) {
        assert_ok(reading_parse(text, &reading, err), err);
    }
    int fd = memory_file(&archive);
    buf_init(&out->file, 1 << 20);
    int rc = dataset_convert(&fd, 1, &reading, &labelled_only, append_bytes, &out->file, &out->info,
                             err);
    file_close(&fd);
    return rc;
}

void runs(const char *text, struct converted *out)
{
    struct err err = {0};
    put_tar_end(&archive);
    assert_ok(convert_archive(text, out, &err), &err);
    assert_int_equal(out->file.size, out->info.total_bytes);
    archive.size = 0;
}

void fails(const char *text, int code, const char *part)
{
    struct converted converted;
    struct err err = {0};
    put_tar_end(&archive);
    assert_int_equal(convert_archive(text, &converted, &err), code);
    assert_holds(err.text, part);
    converted_done(&converted);
    archive.size = 0;
}
