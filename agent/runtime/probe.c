#include "agent/runtime/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/runtime/inventory.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/parse.h"
#include "libtrain/train.h"

#define PROBE_TIMEOUT_MS 60000
#define DISK_BYTES ((size_t)16 << 20)
#define DISK_PIECE_BYTES ((size_t)1 << 20)

/* ---- the child ---- */

/* Return the bytes per second at which a file is written and made durable; 0: the directory cannot
 * be written. */
static double measure_disk(const char *directory)
{
    char path[4096];
    const int length = snprintf(path, sizeof(path), "%s/probe-XXXXXX", directory);
    char *piece = calloc(1, DISK_PIECE_BYTES);
    FD_AUTO int fd =
        length > 0 && (size_t)length < sizeof(path) && piece ? mkostemp(path, O_CLOEXEC) : -1;
    double rate = 0;
    if (fd >= 0) {
        (void)unlink(path);
        const double began = clock_now_seconds();
        int rc = 0;
        for (size_t offset = 0; rc == 0 && offset < DISK_BYTES; offset += DISK_PIECE_BYTES) {
            rc = file_write_at(fd, piece, DISK_PIECE_BYTES, offset, NULL);
        }
        if (rc == 0 && fdatasync(fd) == 0) {
            rate = (double)DISK_BYTES / (clock_now_seconds() - began);
        }
    }
    free(piece);
    return rate;
}

int probe_child(int argc, char **argv, struct err *err)
{
    int64_t threads = 0;
    double seconds = 0;
    double slowdown = 0;
    if (argc != 4) {
        return err_set(err, ERR_INVALID, "%s is an internal command", PROBE_WORD);
    }
    int rc = parse_i64(argv[0], 1, 256, &threads, err);
    rc = rc ? rc : parse_double(argv[1], 0, PROBE_TIMEOUT_MS / 1e3, &seconds, err);
    rc = rc ? rc : parse_double(argv[2], 1, 1e6, &slowdown, err);
    struct train_pool *pool AUTO(train_pool_free) = NULL;
    struct train_probe measured;
    struct device_probe result = {.threads = threads};
    rc = rc ? rc : train_pool_new((size_t)threads, &pool, err);
    /* Measure free memory before the probe allocates its buffers. Their addresses would not count
     * as free. */
    result.free_memory_bytes = (int64_t)inventory_memory_for_plans();
    if (rc != 0) {
        return rc;
    }
    const double began = clock_now_seconds(), began_thread = clock_thread_seconds();
    train_pool_time_waits(pool, clock_now_seconds);
    rc = train_probe(pool, seconds, &measured, err);
    if (rc != 0) {
        return rc;
    }
    const double running = clock_thread_seconds() - began_thread + train_pool_waited_seconds(pool);
    result.processor_share = fmin(running / (clock_now_seconds() - began), 1);
    result.gemm_gflops = measured.gemm_gflops / slowdown;
    result.memory_bytes_per_second = measured.memory_bytes_per_second / slowdown;
    result.disk_write_bytes_per_second = argv[3][0] != '\0' ? measure_disk(argv[3]) : 0;
    if (write(STDOUT_FILENO, &result, sizeof(result)) != (ssize_t)sizeof(result)) {
        return err_set(err, ERR_IO, "write the result: %s", strerror(errno));
    }
    return 0;
}

/* ---- the parent ---- */

struct probe {
    pid_t child;
    int result;
};

/* In the child: become the probe. It ends with its parent. The signals that change the log level go
 * to all processes of a service and must not end the probe. */
static void become(int result, char **arguments)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)signal(SIGUSR1, SIG_IGN);
    (void)signal(SIGUSR2, SIG_IGN);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && dup2(result, STDOUT_FILENO) >= 0) {
        (void)execv("/proc/self/exe", arguments);
    }
    _exit(127);
}

static int start_child(const struct probe_request *request, struct probe *probe, struct err *err)
{
    char threads[32];
    char seconds[64];
    char slowdown[64];
    (void)snprintf(threads, sizeof(threads), "%zu", request->threads);
    (void)snprintf(seconds, sizeof(seconds), "%.17g", request->seconds);
    (void)snprintf(slowdown, sizeof(slowdown), "%.17g", request->slowdown);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_set(err, err_from_errno(errno), "pipe: %s", strerror(errno));
    }
    char *word = strdup(PROBE_WORD);
    char *directory = strdup(request->directory);
    char program[] = "paceline-agent";
    char *arguments[] = {program, word, threads, seconds, slowdown, directory, NULL};
    probe->child = word && directory ? fork() : -1;
    if (probe->child == 0) {
        become(ends[1], arguments);
    }
    free(word);
    free(directory);
    (void)close(ends[1]);
    if (probe->child < 0) {
        (void)close(ends[0]);
        return err_set(err, ERR_MEMORY, "start the probe: %s", strerror(errno));
    }
    probe->result = ends[0];
    return 0;
}

int probe_start(const struct probe_request *request, struct probe **out, struct err *err)
{
    struct probe *probe = calloc(1, sizeof(*probe));
    if (!probe) {
        return err_set(err, ERR_MEMORY, "probe");
    }
    int rc = start_child(request, probe, err);
    if (rc != 0) {
        free(probe);
        return rc;
    }
    *out = probe;
    return 0;
}

int probe_fd(const struct probe *probe)
{
    return probe->result;
}

void probe_cancel(struct probe **probe)
{
    if (*probe) {
        (void)kill((*probe)->child, SIGKILL);
        (void)waitpid((*probe)->child, NULL, 0);
        file_close(&(*probe)->result);
        free(*probe);
        *probe = NULL;
    }
}

int probe_take(struct probe **probe, struct device_probe *out, struct err *err)
{
    struct device_probe measured;
    const bool whole =
        read((*probe)->result, &measured, sizeof(measured)) == (ssize_t)sizeof(measured);
    probe_cancel(probe); /* the child has nothing left to do */
    if (!whole) {
        return err_set(err, ERR_STATE, "the probe failed (see its message above)");
    }
    *out = measured;
    return 0;
}

int probe_run(const struct probe_request *request, int cancel_fd, struct device_probe *out,
              struct err *err)
{
    struct probe *probe AUTO(probe_cancel) = NULL;
    int rc = probe_start(request, &probe, err);
    if (rc != 0) {
        return rc;
    }
    struct pollfd fd[] = {{.fd = probe_fd(probe), .events = POLLIN},
                          {.fd = cancel_fd, .events = POLLIN}};
    const int ready = poll(fd, 2, PROBE_TIMEOUT_MS);
    if (ready == 0) {
        return err_set(err, ERR_TIMEOUT, "the probe takes too long");
    }
    if (ready < 0) {
        return err_set(err, err_from_errno(errno), "wait for the probe: %s", strerror(errno));
    }
    if (fd[1].revents) {
        return err_set(err, ERR_CANCELLED, "interrupted");
    }
    return probe_take(&probe, out, err);
}
