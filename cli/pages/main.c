/* command-pages: writes what is made from the table of commands of `paceline`: its manual page, its
 * completions, and the tables of docs/command-line.md. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/completion.h"
#include "cli/manual.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define PATH_BYTES 4096

static const char usage[] = "usage: command-pages [--check] ROOT\n"
                            "Write the pages that are made from the table of commands.\n"
                            "--check  only say which pages are stale. Default: off.\n";

static int bash(struct buf *out, struct err *err)
{
    return completion_add(0, out, err);
}

static int zsh(struct buf *out, struct err *err)
{
    return completion_add(1, out, err);
}

static int fish(struct buf *out, struct err *err)
{
    return completion_add(2, out, err);
}

static const struct page {
    const char *path;
    const char *begin, *end; /* the lines around the part; NULL: the whole file */
    int (*add)(struct buf *out, struct err *err);
} pages[] = {
    {"cli/pages/paceline.1", NULL, NULL, manual_page},
    {"cli/pages/paceline.bash", NULL, NULL, bash},
    {"cli/pages/_paceline", NULL, NULL, zsh},
    {"cli/pages/paceline.fish", NULL, NULL, fish},
    {"docs/command-line.md", "<!-- command-pages: begin -->\n", "<!-- command-pages: end -->\n",
     manual_tables},
};

/* Write the page around which `old` has text of its own. */
static int render(const struct page *page, const struct buf *old, struct buf *out, struct err *err)
{
    if (!page->begin) {
        return page->add(out, err);
    }
    const char *begin = old->size > 0 ? strstr(old->data, page->begin) : NULL;
    const char *end = begin ? strstr(begin, page->end) : NULL;
    if (!end) {
        return err_set(err, ERR_FORMAT, "%s: expects the lines '%.*s' and '%.*s'", page->path,
                       (int)strlen(page->begin) - 1, page->begin, (int)strlen(page->end) - 1,
                       page->end);
    }
    begin += strlen(page->begin);
    int rc = buf_append(out, old->data, (size_t)(begin - old->data), err);
    rc = rc ? rc : page->add(out, err);
    return rc ? rc : buf_printf(out, err, "%s", end);
}

/* Bring the page up to date; with `check` only say whether it is: *stale. */
static int update(const char *root, const struct page *page, bool check, bool *stale,
                  struct err *err)
{
    char path[PATH_BYTES];
    BUF_AUTO struct buf old;
    BUF_AUTO struct buf text;
    (void)snprintf(path, sizeof(path), "%s/%s", root, page->path);
    buf_init(&old, FILE_BYTES_MAX);
    buf_init(&text, FILE_BYTES_MAX);
    int rc = file_read(path, &old, err);
    rc = rc == ERR_NOT_FOUND ? 0 : rc;
    rc = rc ? rc : render(page, &old, &text, err);
    if (rc) {
        return rc;
    }
    *stale = text.size != old.size || memcmp(text.data, old.data, text.size) != 0;
    return *stale && !check ? file_write_atomic(path, text.data, text.size, 0644, err) : 0;
}

int main(int count, char **argument)
{
    const bool check = count == 3 && strcmp(argument[1], "--check") == 0;
    if (!check && (count != 2 || argument[1][0] == '-')) {
        (void)fputs(usage, stderr);
        return 2;
    }
    int status = 0;
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        bool stale = false;
        struct err err = {0};
        if (update(argument[count - 1], &pages[i], check, &stale, &err)) {
            (void)fprintf(stderr, "command-pages: %s\n", err.text);
            return 1;
        }
        if (stale && check) {
            (void)fprintf(stderr,
                          "%s differs from the table of commands in cli/command_table.c; run "
                          "build/dev/bin/command-pages .\n",
                          pages[i].path);
            status = 1;
        }
    }
    return status;
}
