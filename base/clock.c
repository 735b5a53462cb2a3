#include "base/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "base/assert.h"

/* 0001-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z: the range of RFC 3339 with a year of four
 * digits. */
#define WALL_MS_MIN (-INT64_C(62135596800000))
#define WALL_MS_MAX INT64_C(253402300799999)

static struct timespec read_clock(clockid_t id)
{
    struct timespec now;
    ASSERT(clock_gettime(id, &now) == 0);
    return now;
}

int64_t clock_now_ms(void)
{
    struct timespec now = read_clock(CLOCK_BOOTTIME);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

double clock_now_seconds(void)
{
    struct timespec now = read_clock(CLOCK_BOOTTIME);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double clock_thread_seconds(void)
{
    struct timespec now = read_clock(CLOCK_THREAD_CPUTIME_ID);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double clock_process_seconds(void)
{
    struct timespec now = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int64_t clock_wall_ms(void)
{
    struct timespec now = read_clock(CLOCK_REALTIME);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void clock_format_rfc3339(int64_t wall_ms, char out[CLOCK_RFC3339_SIZE])
{
    if (wall_ms == 0) {
        out[0] = '\0';
        return;
    }
    wall_ms = wall_ms < WALL_MS_MIN ? WALL_MS_MIN : wall_ms > WALL_MS_MAX ? WALL_MS_MAX : wall_ms;
    int64_t ms = wall_ms % 1000;
    if (ms < 0) {
        ms += 1000;
    }
    time_t seconds = (time_t)((wall_ms - ms) / 1000);
    struct tm date;
    ASSERT(gmtime_r(&seconds, &date));
    /* The remainders tell the compiler what the range above ensures: the text fits. */
    (void)snprintf(out, CLOCK_RFC3339_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
                   (unsigned)(date.tm_year + 1900) % 10000, (unsigned)(date.tm_mon + 1) % 100,
                   (unsigned)date.tm_mday % 100, (unsigned)date.tm_hour % 100,
                   (unsigned)date.tm_min % 100, (unsigned)date.tm_sec % 100, (unsigned)ms % 1000);
}

/* Take exactly `count` digits and the byte `after` that must follow them ('\0': none). */
static bool take_number(const char **text, int count, char after, int *out)
{
    int value = 0;
    const char *at = *text;
    for (int i = 0; i < count; i++, at++) {
        if (*at < '0' || *at > '9') {
            return false;
        }
        value = value * 10 + (*at - '0');
    }
    if (after != '\0' && *at++ != after) {
        return false;
    }
    *out = value;
    *text = at;
    return true;
}

/* ".5" is 500 ms; digits after the third are dropped. */
static bool take_fraction(const char **text, int *ms)
{
    *ms = 0;
    if (**text != '.') {
        return true;
    }
    const char *at = *text + 1;
    int digits = 0;
    for (int weight = 100; *at >= '0' && *at <= '9'; at++, weight /= 10, digits++) {
        *ms += (*at - '0') * weight;
    }
    *text = at;
    return digits > 0 && digits <= 9;
}

static bool take_zone(const char **text, int *offset_minutes)
{
    char sign = **text;
    (*text)++;
    *offset_minutes = 0;
    if (sign == 'Z') {
        return true;
    }
    int hours;
    int minutes;
    if ((sign != '+' && sign != '-') || !take_number(text, 2, ':', &hours) ||
        !take_number(text, 2, '\0', &minutes) || hours > 23 || minutes > 59) {
        return false;
    }
    *offset_minutes = (hours * 60 + minutes) * (sign == '-' ? -1 : 1);
    return true;
}

int clock_parse_rfc3339(const char *text, int64_t *wall_ms, struct err *err)
{
    const char *at = text;
    struct tm date = {0};
    int ms;
    int offset_minutes;
    bool good = take_number(&at, 4, '-', &date.tm_year) && take_number(&at, 2, '-', &date.tm_mon) &&
                take_number(&at, 2, 'T', &date.tm_mday) &&
                take_number(&at, 2, ':', &date.tm_hour) && take_number(&at, 2, ':', &date.tm_min) &&
                take_number(&at, 2, '\0', &date.tm_sec) && take_fraction(&at, &ms) && *at != '\0' &&
                take_zone(&at, &offset_minutes) && *at == '\0';
    if (!good || date.tm_year < 1 || date.tm_hour > 23 || date.tm_min > 59 || date.tm_sec > 59) {
        return err_set(err, ERR_INVALID,
                       "'%s' is not a time; expected RFC 3339 such as 2026-01-31T12:00:00Z", text);
    }
    date.tm_year -= 1900;
    date.tm_mon -= 1;
    struct tm normal = date;
    int64_t seconds = (int64_t)timegm(&normal);
    if (normal.tm_mon != date.tm_mon || normal.tm_mday != date.tm_mday) {
        return err_set(err, ERR_INVALID, "'%s' names a day that does not exist", text);
    }
    int64_t result = (seconds - (int64_t)offset_minutes * 60) * 1000 + ms;
    if (result < WALL_MS_MIN || result > WALL_MS_MAX) {
        return err_set(err, ERR_INVALID, "'%s' is outside the years 1 to 9999 UTC", text);
    }
    *wall_ms = result;
    return 0;
}
