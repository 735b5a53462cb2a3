/* paceline-agent: trains the stages that its coordinator assigns to this device. The first word may
 * name another command instead: join, or one without a coordinator (agent/offline): train, batches,
 * predict, replay. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/offline/batches.h"
#include "agent/config.h"
#include "agent/identity.h"
#include "agent/join.h"
#include "agent/loop.h"
#include "agent/offline/predict.h"
#include "agent/offline/replay.h"
#include "agent/offline/train.h"
#include "agent/runtime/offers.h"
#include "agent/runtime/probe.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/secret.h"
#include "base/stop_signals.h"
#include "base/user.h"

#define OFFERS_PATIENCE_MS 30000

static int open_offers(const struct config *config, int leave_fd, struct offers **out,
                       struct err *err)
{
    char directory[CONFIG_PATH_MAX];
    const struct offers_config offers = {.directory = directory,
                                         .data = &config->data_list,
                                         .reading = config->data_reading,
                                         .cancel_fd = leave_fd,
                                         .look_ms = config->data_seconds * 1000,
                                         .patience_ms = OFFERS_PATIENCE_MS};
    int rc = config_path(config, "data", directory, err);
    return rc ? rc : offers_open(&offers, out, err);
}

static int run(const struct config *config, const struct identity *identity, int leave_fd,
               struct err *err)
{
    const struct probe_request request = {.threads = (size_t)config->threads,
                                          .seconds = PROBE_ENROLL_SECONDS,
                                          .slowdown = config->slowdown,
                                          .directory = config->state_directory};
    struct device_probe probe;
    int rc = probe_run(&request, leave_fd, &probe, err);
    if (rc == ERR_CANCELLED) {
        return 0;
    }
    if (rc != 0) {
        return err_wrap(err, "probe");
    }
    struct offers *offers = NULL;
    struct loop *loop = NULL;
    rc = open_offers(config, leave_fd, &offers, err);
    if (rc == ERR_CANCELLED) {
        return 0;
    }
    rc = rc ? rc : loop_open(config, identity, &probe, offers, &loop, err);
    if (rc != 0) {
        offers_free(&offers);
        return rc;
    }
    rc = loop_run(loop, leave_fd, err);
    if (!loop_close(&loop)) {
        /* An arithmetic operation is still in progress, or a file system does not answer. The files
         * on disk do not depend on its end. */
        if (rc != 0) {
            log_error("exit", "error=%s", log_quote(err->text).text);
        }
        _exit(rc == 0 ? 0 : 1);
    }
    offers_free(&offers);
    return rc;
}

static int probe_command(int argc, char **argv, bool *misused, struct err *err)
{
    (void)misused;
    return probe_child(argc - 1, argv + 1, err);
}

static int agent_command(int argc, char **argv, bool *misused, struct err *err)
{
    /* Few arenas and an early return of large blocks keep an idle agent small. */
    (void)mallopt(M_ARENA_MAX, 2);
    (void)mallopt(M_MMAP_THRESHOLD, 128 << 10);
    struct config config;
    struct identity identity = {.lock = -1};
    FD_AUTO int leave_fd = -1;
    bool done = false;
    int rc = config_read(argc, argv, &config, &done, err);
    *misused = rc != 0;
    if (rc == 0 && !done) {
        log_set_level(config.log_level);
        log_set_format(config.log_format);
        rc = user_become_owner(config.state_directory, err);
        secret_hide_memory();
        rc = rc ? rc : stop_signals_open(&leave_fd, err);
        rc = rc ? rc : identity_open(config.state_directory, &identity, err);
        rc = rc ? rc : run(&config, &identity, leave_fd, err);
        identity_done(&identity);
    }
    config_done(&config);
    return rc;
}

/* Commands: alternatives to the agent's own options as the first word. */
static const struct {
    const char *word, *name;
    int (*run)(int argc, char **argv, bool *misused, struct err *err);
} commands[] = {
    {"join", "paceline-agent join", join_command},
    {"train", "paceline-agent train", train_command},
    {"batches", "paceline-agent batches", batches_command},
    {"predict", "paceline-agent predict", predict_command},
    {"replay", "paceline-agent replay", replay_command},
    {PROBE_WORD, "paceline-agent probe",
     probe_command}, /* the agent's own: last, and never suggested */
};

/* A first word that is not a command. */
static int refuse_word(const char *word, struct err *err)
{
    const char *names[sizeof(commands) / sizeof(commands[0])];
    size_t count = 0;
    for (; strcmp(commands[count].word, PROBE_WORD) != 0; count++) {
        names[count] = commands[count].word;
    }
    const char *nearest = parse_nearest(word, names, count);
    return nearest ? err_set(err, ERR_INVALID, "unknown word '%.40s'; did you mean '%s'?", word,
                             nearest)
                   : err_set(err, ERR_INVALID, "unknown word '%.40s' (see --help)", word);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    const char *name = "paceline-agent";
    bool misused = false;
    int rc = 0;
    size_t i = 0;
    while (argc > 1 && i < sizeof(commands) / sizeof(commands[0]) &&
           strcmp(argv[1], commands[i].word) != 0) {
        i++;
    }
    if (argc > 1 && i < sizeof(commands) / sizeof(commands[0])) {
        name = commands[i].name;
        rc = commands[i].run(argc - 1, argv + 1, &misused, &err);
    } else if (argc > 1 && argv[1][0] != '-') {
        misused = true;
        rc = refuse_word(argv[1], &err);
    } else {
        rc = agent_command(argc, argv, &misused, &err);
    }
    if (rc != 0) {
        (void)fprintf(stderr, "%s: %s\n", name, err.text);
        return misused ? 2 : 1;
    }
    return 0;
}
