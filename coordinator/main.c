#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/config.h"
#include "coordinator/init.h"
#include "coordinator/loop.h"

/* Idle memory stays small: buffers of uploads and downloads go back to the system when they are
 * freed, and the few threads share one heap. */
static void tune_heap(void)
{
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_THRESHOLD, 256 << 10);
    (void)mallopt(M_TRIM_THRESHOLD, 256 << 10);
}

int main(int argc, char **argv)
{
    tune_heap();
    if (argc > 1 && strcmp(argv[1], "init") == 0) {
        return init_run(argc - 1, argv + 1);
    }
    struct coordinator_config config;
    struct err err = {0};
    bool done = false;
    if (config_read(argc, argv, &config, &done, &err)) {
        fprintf(stderr, "paceline-coordinator: %s\n", err.text);
        return 2;
    }
    if (done) {
        return 0;
    }
    int rc = loop_run(&config, &err);
    config_done(&config);
    if (rc) {
        fprintf(stderr, "paceline-coordinator: %s\n", err.text);
    }
    return rc ? 1 : 0;
}
