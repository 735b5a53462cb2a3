#include "bench/load/line.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"

void line_close(struct line *line)
{
    if (line->fd >= 0) {
        close(line->fd);
    }
    line->fd = -1;
    line->busy = false;
}

static bool connect_line(struct line *line, int epoll_fd, const struct sockaddr_in *address)
{
    line->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (line->fd < 0 || connect(line->fd, (const struct sockaddr *)address, sizeof(*address)) ||
        fcntl(line->fd, F_SETFL, O_NONBLOCK)) {
        return false;
    }
    (void)setsockopt(line->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = line};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, line->fd, &event) == 0;
}

bool line_send(struct line *line, int epoll_fd, const struct sockaddr_in *address,
               const char *method, const char *target, const char *body)
{
    char text[LINE_REQUEST_BYTES];
    char length[96] = "";
    size_t body_size = strlen(body);
    if (body_size > 0) {
        (void)snprintf(length, sizeof(length),
                       "Content-Type: application/json\r\nContent-Length: %zu\r\n", body_size);
    }
    int size = snprintf(text, sizeof(text),
                        "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: crowd\r\nAccept: */*\r\n"
                        "%s\r\n%s",
                        method, target, length, body);
    ASSERT(size > 0 && (size_t)size < sizeof(text));
    line->began = clock_now_seconds();
    line->head_size = 0;
    line->in_body = line->endless = false;
    line->busy = (line->fd >= 0 || connect_line(line, epoll_fd, address)) &&
                 send(line->fd, text, (size_t)size, MSG_NOSIGNAL) == size;
    return line->busy;
}

void line_copy_between(const char *text, const char *before, char end, char *out, size_t size)
{
    const char *from = strstr(text, before);
    if (from) {
        from += strlen(before);
        (void)snprintf(out, size, "%.*s", (int)strcspn(from, (char[]){end, '\0'}), from);
    }
}

/* The head is complete: read the length of the body. */
static void take_head(struct line *line, size_t head_bytes, size_t size)
{
    char length[24] = "";
    line->status = (int)strtol(line->head + sizeof("HTTP/1.1"), NULL, 10);
    line_copy_between(line->head, "Content-Length: ", '\r', length, sizeof(length));
    line->endless = length[0] == '\0' && strstr(line->head, "chunked");
    line->left = strtoull(length, NULL, 10) - (size - head_bytes);
    line->in_body = true;
}

enum line_progress line_take(struct line *line, const char *data, size_t size)
{
    if (line->in_body && line->endless) {
        return LINE_PIECE;
    }
    if (line->in_body) {
        line->left -= size;
    } else {
        size_t room = sizeof(line->head) - 1 - line->head_size;
        memcpy(line->head + line->head_size, data, size < room ? size : room);
        line->head_size += size < room ? size : room;
        line->head[line->head_size] = '\0';
        const char *end = strstr(line->head, "\r\n\r\n");
        if (!end) {
            return LINE_PART;
        }
        take_head(line, (size_t)(end + 4 - line->head),
                  line->head_size - (size < room ? size : room) + size);
    }
    return !line->endless && line->left == 0 ? LINE_ANSWER : LINE_PART;
}
