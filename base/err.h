/* err.h: the error report of every function that can fail. Any room, any thread (the caller owns
 * the struct). A function returns 0 or a negative ERR_ code. It describes the failure in one line
 * that reads outside-in: "job 7: load checkpoint: open 'x': No such file". Callers branch on the
 * code, never on the text. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#define NODISCARD __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_index, first_index)                                                     \
    __attribute__((format(printf, format_index, first_index)))
/* A local that owns its value: AUTO(fn) runs fn(&local) when the scope ends. */
#define AUTO(cleanup_fn) __attribute__((cleanup(cleanup_fn)))

enum err_code {
    ERR_INVALID = -1, /* input that breaks a rule; the text says which */
    ERR_FORMAT = -2,  /* bytes that do not match their format (truncated, corrupt) */
    ERR_LIMIT = -3,   /* larger than a bound of limits.h or of the configuration */
    ERR_NOT_FOUND = -4,
    ERR_EXISTS = -5,   /* already there, with other content */
    ERR_STATE = -6,    /* not possible in the present state */
    ERR_MEMORY = -7,   /* out of memory, or over the device's cap */
    ERR_IO = -8,       /* disk or file system */
    ERR_FULL = -9,     /* no space left on the disk */
    ERR_NETWORK = -10, /* refused, reset, unreachable, unresolved */
    ERR_TIMEOUT = -11,
    ERR_PROTOCOL = -12,    /* the other side broke the protocol or speaks another version */
    ERR_STALE = -13,       /* an older generation, boot or revision */
    ERR_CANCELLED = -14,   /* the caller asked to stop */
    ERR_DIVERGED = -15,    /* a loss or gradient is not finite */
    ERR_UNSUPPORTED = -16, /* valid, but not supported here */
};

#define ERR_TEXT_MAX 512

struct err {
    int code; /* enum err_code; 0 while nothing has failed */
    char text[ERR_TEXT_MAX];
};

/* Describe a failure and return its code, in one move: `return err_set(err, ERR_IO, "open '%s':
 * %s", ...)`. err may be NULL: then only the code is returned. A text that does not fit is
 * truncated with "...". */
NODISCARD int err_set(struct err *err, int code, const char *format, ...) PRINTF_LIKE(3, 4);

/* Prepend the caller's context: "format: earlier text". Returns err's code. err is not NULL. */
NODISCARD int err_wrap(struct err *err, const char *format, ...) PRINTF_LIKE(2, 3);

#ifdef __clang_analyzer__
/* For the static analyser only: a failure code is never 0. Without it the analyser assumes that a
 * call can return 0 and leave its outputs unset. */
#define ERR_NEGATIVE(call)                                                                         \
    __extension__({                                                                                \
        int negative = (call);                                                                     \
        negative < 0 ? negative : (__builtin_unreachable(), 0);                                    \
    })
#define err_set(...) ERR_NEGATIVE((err_set)(__VA_ARGS__))
#define err_wrap(...) ERR_NEGATIVE((err_wrap)(__VA_ARGS__))
#endif

/* Return ERR_FULL for ENOSPC and EDQUOT, ERR_NOT_FOUND for ENOENT, ERR_MEMORY for ENOMEM, else
 * ERR_IO. */
int err_from_errno(int errno_value);

/* Return the lower-case name of a code ("invalid", "not_found"), for logs. */
const char *err_name(int code);

#endif
