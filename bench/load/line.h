/* line.h: one connection of the crowd with at most one open request: it sends the request, reads
 * the answer's head and counts its body. One thread. */
#ifndef BENCH_LOAD_LINE_H
#define BENCH_LOAD_LINE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINE_HEAD_BYTES 1024 /* of a response that are inspected */
#define LINE_REQUEST_BYTES 4096

struct line {
    int fd;                      /* -1: none */
    int kind;                    /* the owner's */
    bool busy, in_body, endless; /* endless: the body has no stated length */
    double began;
    size_t device; /* of a device's lines */
    size_t turn;   /* of an API client: its place in the rota */
    char head[LINE_HEAD_BYTES];
    size_t head_size;
    int status;
    uint64_t left; /* of the body */
};

void line_close(struct line *line);
/* Connect if the line is closed, watch it in the epoll set (data.ptr is the line) and send a
 * request with one write. body "" for none. false: it failed, with errno. */
bool line_send(struct line *line, int epoll_fd, const struct sockaddr_in *address,
               const char *method, const char *target, const char *body);

/* The part that bytes complete. */
enum line_progress {
    LINE_PART,  /* nothing */
    LINE_PIECE, /* a piece of an endless body */
    LINE_ANSWER,
};
enum line_progress line_take(struct line *line, const char *data, size_t size);

/* Copy the text between the first `before` and the character `end`; nothing without `before`. */
void line_copy_between(const char *text, const char *before, char end, char *out, size_t size);

#endif
