#include "base/process_metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"

#define STATM_MAX 256

static double seconds_of(const struct timeval *time)
{
    return (double)time->tv_sec + (double)time->tv_usec * 1e-6;
}

static void write_memory(struct exposition *exposition)
{
    BUF_AUTO struct buf text;
    buf_init(&text, STATM_MAX);
    struct err err = {0};
    uint64_t pages = 0;
    const long page_bytes = sysconf(_SC_PAGESIZE);
    if (page_bytes > 0 && file_read("/proc/self/statm", &text, &err) == 0 &&
        sscanf(text.data, "%*u %" SCNu64, &pages) == 1) {
        exposition_single(exposition, "process_resident_memory_bytes", EXPOSITION_GAUGE,
                          "Memory of this process.", (double)pages * (double)page_bytes);
    }
}

static void write_descriptors(struct exposition *exposition)
{
    DIR *directory = opendir("/proc/self/fd");
    struct rlimit limit;
    if (!directory) {
        return;
    }
    double count = -3; /* without ".", ".." and the one of `directory` */
    while (readdir(directory)) {
        count++;
    }
    (void)closedir(directory);
    exposition_single(exposition, "process_open_fds", EXPOSITION_GAUGE, "Open descriptors.", count);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        exposition_single(exposition, "process_max_fds", EXPOSITION_GAUGE,
                          "Limit of open descriptors.", (double)limit.rlim_cur);
    }
}

void process_metrics_write(struct exposition *exposition, int64_t started_ms)
{
    struct rusage usage;
    write_memory(exposition);
    write_descriptors(exposition);
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        exposition_single(exposition, "process_cpu_seconds_total", EXPOSITION_COUNTER,
                          "Processor time of this process.",
                          seconds_of(&usage.ru_utime) + seconds_of(&usage.ru_stime));
    }
    exposition_single(exposition, "process_start_time_seconds", EXPOSITION_GAUGE,
                      "Time of the start, in seconds since 1970.", (double)started_ms / 1000.0);
}
