#include "cli/screen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COLUMNS_USUAL 80
#define ROWS_USUAL 24

static bool names_utf8(const char *locale)
{
    return strstr(locale, "UTF-8") || strstr(locale, "utf8") || strstr(locale, "utf-8");
}

/* The first of these variables that is set determines the character encoding (POSIX, 8.2). */
static bool is_unicode(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);
        if (value && value[0] != '\0') {
            return names_utf8(value);
        }
    }
    return false;
}

void screen_init(struct screen *screen, FILE *out)
{
    const char *term = getenv("TERM");
    const char *no_color = getenv("NO_COLOR");
    bool dumb = term && strcmp(term, "dumb") == 0;
    *screen = (struct screen){.out = out,
                              .terminal = isatty(fileno(out)) == 1 && !dumb,
                              .unicode = is_unicode(),
                              .colour = !no_color || no_color[0] == '\0'};
}

void screen_size(const struct screen *screen, size_t *columns, size_t *rows)
{
    struct winsize window = {0};
    bool known = ioctl(fileno(screen->out), TIOCGWINSZ, &window) == 0;
    *columns = known && window.ws_col > 1 ? window.ws_col : COLUMNS_USUAL;
    *rows = known && window.ws_row > 1 ? window.ws_row : ROWS_USUAL;
}

/* Columns of a line: characters, without the sequences that set colours. */
static size_t width_of(const char *line, size_t size)
{
    size_t width = 0;
    for (size_t i = 0; i < size; i++) {
        if (line[i] == '\033') {
            while (i < size && line[i] != 'm') {
                i++;
            }
        } else {
            width += ((unsigned char)line[i] & 0xC0) != 0x80;
        }
    }
    return width;
}

void screen_erase(struct screen *screen)
{
    size_t columns, rows, up = 0;
    screen_size(screen, &columns, &rows);
    for (size_t i = 0; i < screen->row_count; i++) {
        up += screen->width[i] > columns ? (screen->width[i] + columns - 1) / columns : 1;
    }
    if (up > 0) {
        fprintf(screen->out, "\033[%zuA\r\033[J", up);
        (void)fflush(screen->out);
    }
    screen->row_count = 0;
}

void screen_draw(struct screen *screen, const char *text)
{
    screen_erase(screen);
    while (*text && screen->row_count < SCREEN_ROWS_MAX) {
        size_t size = strcspn(text, "\n");
        fprintf(screen->out, "%.*s\n", (int)size, text);
        screen->width[screen->row_count++] = width_of(text, size);
        text += size + (text[size] == '\n');
    }
    (void)fflush(screen->out);
}
