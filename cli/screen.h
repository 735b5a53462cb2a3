/* screen.h: lines of a terminal that are written over. One thread. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define SCREEN_ROWS_MAX 64

struct screen {
    FILE *out;
    bool terminal, unicode, colour;
    size_t row_count; /* drawn and not yet erased */
    size_t width[SCREEN_ROWS_MAX];
};

/* Learn what the output can show: from the terminal, and from NO_COLOR, TERM and the locale's name
 * in the environment. */
void screen_init(struct screen *screen, FILE *out);
/* The present size of the terminal. */
void screen_size(const struct screen *screen, size_t *columns, size_t *rows);
/* Replace what was drawn by these lines. Rows that a narrower terminal has wrapped are erased
 * too. */
void screen_draw(struct screen *screen, const char *text);
void screen_erase(struct screen *screen);

#endif
