#include "coordinator/init.h"

#include <stdio.h>

#include "base/conf.h"
#include "base/file.h"
#include "coordinator/access/setup.h"

struct init_config {
    char state_dir[512];
};

static const struct conf_option options[] = {
    {.name = "state-dir",
     .type = CONF_TEXT,
     .offset = offsetof(struct init_config, state_dir),
     .size = sizeof(((struct init_config *)0)->state_dir),
     .value_name = "DIR",
     .help = "That of the coordinator. Default: $XDG_STATE_HOME/paceline/coordinator."},
};

static const struct conf_program program = {
    .name = "paceline-coordinator init",
    .summary = "Make an admin token: from the next start on, requests need a token.",
    .usage = "",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
};

static int fail(const struct err *err, int status)
{
    fprintf(stderr, "paceline-coordinator init: %s\n", err->text);
    return status;
}

int init_run(int argc, char **argv)
{
    struct init_config config = {0};
    struct conf_list positional = {0};
    struct err err = {0};
    char secret[TOKEN_TEXT_SIZE];
    bool done = false;
    if (conf_parse(&program, argc, argv, &config, &positional, &done, &err)) {
        return fail(&err, 2);
    }
    if (done) {
        return 0;
    }
    if (!config.state_dir[0] && file_default_state_directory("coordinator", config.state_dir,
                                                             sizeof(config.state_dir), &err)) {
        return fail(&err, 1);
    }
    if (access_make_admin(config.state_dir, secret, &err)) {
        return fail(&err, 1);
    }
    printf("An admin token for the coordinator of %s. It is shown only here; keep it secret:\n"
           "token: %s\n",
           config.state_dir, secret);
    return 0;
}
