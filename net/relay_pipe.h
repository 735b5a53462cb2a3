/* relay_pipe.h: moves bytes from one socket to another through a pipe of the kernel (splice), for
 * relay.c. The bytes are never in the memory of the process. One thread. */
#ifndef NET_RELAY_PIPE_H
#define NET_RELAY_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The path of the bytes from one socket to the other. */
struct relay_pipe {
    int end[2];  /* read, write; -1: closed */
    size_t held; /* bytes in it */
    bool ended;  /* the sender has closed its side */
    bool passed; /* the receiver's socket was closed for writing too */
};

/* Create the pipe. ERR_IO: no descriptors. */
NODISCARD int relay_pipe_open(struct relay_pipe *pipe, struct err *err);
void relay_pipe_close(struct relay_pipe *pipe);

enum relay_move {
    RELAY_WAITS,  /* a socket is not ready; epoll will report an edge */
    RELAY_MORE,   /* the turn has ended, but more bytes can be moved */
    RELAY_BROKEN, /* a socket broke */
};
/* Move bytes until a socket is not ready, but at most about a megabyte. Adds the moved bytes to
 * *bytes. */
enum relay_move relay_pipe_move(struct relay_pipe *pipe, int from_fd, int to_fd, uint64_t *bytes);

#endif
