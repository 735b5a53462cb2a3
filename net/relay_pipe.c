#include "net/relay_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"

#define PIECE_BYTES ((size_t)256 << 10)
#define TURN_BYTES ((size_t)1 << 20)

int relay_pipe_open(struct relay_pipe *pipe, struct err *err)
{
    *pipe = (struct relay_pipe){.end = {-1, -1}};
    if (pipe2(pipe->end, O_CLOEXEC | O_NONBLOCK) != 0) {
        return err_set(err, ERR_IO, "open a pipe: %s", strerror(errno));
    }
    /* A larger pipe saves turns. If the system does not allow it, the usual size suffices. */
    (void)fcntl(pipe->end[1], F_SETPIPE_SZ, (int)PIECE_BYTES);
    return 0;
}

void relay_pipe_close(struct relay_pipe *pipe)
{
    file_close(&pipe->end[0]);
    file_close(&pipe->end[1]);
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EINTR;
}

/* Move bytes from the sender into the pipe. A full pipe and a socket without bytes both fail with
 * EAGAIN, so the caller tries both ends until neither moves. */
static bool fill(struct relay_pipe *pipe, int from_fd, bool *moved)
{
    if (pipe->ended) {
        return true;
    }
    const ssize_t count =
        splice(from_fd, NULL, pipe->end[1], NULL, PIECE_BYTES, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (count < 0) {
        return would_block();
    }
    pipe->ended = count == 0;
    pipe->held += (size_t)count;
    *moved = true;
    return true;
}

static bool drain(struct relay_pipe *pipe, int to_fd, bool *moved, size_t *passed)
{
    if (pipe->held == 0) {
        return true;
    }
    const ssize_t count =
        splice(pipe->end[0], NULL, to_fd, NULL, pipe->held, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (count < 0) {
        return would_block();
    }
    pipe->held -= (size_t)count;
    *passed += (size_t)count;
    *moved = count > 0;
    return true;
}

enum relay_move relay_pipe_move(struct relay_pipe *pipe, int from_fd, int to_fd, uint64_t *bytes)
{
    size_t passed = 0;
    bool moved = true;
    bool whole = true;
    while (moved && whole && passed < TURN_BYTES) {
        moved = false;
        bool drained = false;
        whole = fill(pipe, from_fd, &moved) && drain(pipe, to_fd, &drained, &passed);
        moved = moved || drained;
    }
    *bytes += passed;
    if (!whole) {
        return RELAY_BROKEN;
    }
    if (pipe->ended && pipe->held == 0 && !pipe->passed) {
        pipe->passed = true;
        (void)shutdown(to_fd, SHUT_WR); /* fails only if the receiver has gone */
    }
    return moved ? RELAY_MORE : RELAY_WAITS;
}
