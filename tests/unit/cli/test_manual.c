#include "cli/manual.h"

#include <stdbool.h>
#include <string.h>

#include "tests/support/test.h"

#define PAGE_BYTES_MAX (1 << 20)

/* Whether troff takes the line for text, or for a request that the page means. */
static bool is_meant(const char *line)
{
    static const char *const requests[] = {".\\\" ", ".TH ",  ".SH ", ".TP\n", ".PP\n",
                                           ".RS\n",  ".RE\n", ".B ",  ".I ",   ".RI ",
                                           ".BR ",   ".nf\n", ".fi\n"};
    if (line[0] != '.' && line[0] != '\'') {
        return true;
    }
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        if (strncmp(line, requests[i], strlen(requests[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void no_line_of_text_begins_like_a_request(void **state)
{
    (void)state;
    BUF_AUTO struct buf page;
    struct err err = {0};
    buf_init(&page, PAGE_BYTES_MAX);
    assert_ok(manual_page(&page, &err), &err);
    assert_ok(buf_append(&page, "", 1, &err), &err);
    size_t lines = 0;
    for (const char *line = page.data; *line; line = strchr(line, '\n') + 1) {
        if (!is_meant(line)) {
            fail_msg("line %zu: %.40s", lines + 1, line);
        }
        lines++;
    }
    assert_true(lines > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_line_of_text_begins_like_a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
