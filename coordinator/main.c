#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "base/secret.h"
#include "base/user.h"
#include "coordinator/backup.h"
#include "coordinator/certificates.h"
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

static int check_listen(const struct coordinator_config *config, struct err *err)
{
    const bool tls = config->tls_cert[0] || certificates_exist(config->state_dir);
    const int rc = address_check(&config->address, tls || config->insecure,
                                 "run 'paceline-coordinator init'", err);
    if (rc) {
        return err_wrap(err, "--listen");
    }
    /* What a relay passes on is encrypted from end to end exactly if agents speak TLS. */
    if (config->relay_address.length > 0 &&
        (address_check(&config->relay_address, tls || config->insecure,
                       "run 'paceline-coordinator init'", err))) {
        return err_wrap(err, "--relay");
    }
    return 0;
}

static int serve(int argc, char **argv, bool *misused, struct err *err)
{
    struct coordinator_config config;
    bool done = false;
    int rc = config_read(argc, argv, &config, &done, err);
    *misused = rc != 0;
    if (rc || done) {
        return rc;
    }
    rc = check_listen(&config, err);
    *misused = rc != 0;
    rc = rc ? rc : user_become_owner(config.state_dir, err);
    secret_hide_memory();
    rc = rc ? rc : loop_run(&config, err);
    config_done(&config);
    return rc;
}

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv, bool *misused, struct err *err);
} commands[] = {
    {"init", init_run},
    {"backup", backup_run},
    {"restore", backup_run_restore},
    {"check", backup_run_check},
};

static const struct command *command_of(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    tune_heap();
    struct err err = {0};
    const struct command *command = command_of(argc, argv);
    bool misused = false;
    const int rc = command ? command->run(argc - 1, argv + 1, &misused, &err)
                           : serve(argc, argv, &misused, &err);
    if (rc) {
        fprintf(stderr, "paceline-coordinator%s%s: %s\n", command ? " " : "",
                command ? command->name : "", err.text);
    }
    return misused ? 2 : rc ? 1 : 0;
}
