#include "coordinator/backup.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "base/conf.h"
#include "base/file.h"
#include "coordinator/store/backup.h"

struct options {
    char state_dir[512];
    uint64_t min_free_bytes;
};

static const struct conf_option option_table[] = {
    {.name = "state-dir",
     .type = CONF_TEXT,
     .offset = offsetof(struct options, state_dir),
     .size = sizeof(((struct options *)0)->state_dir),
     .value_name = "DIR",
     .help = "As the coordinator's. Default: $XDG_STATE_HOME/paceline/coordinator."},
    {.name = "min-free",
     .type = CONF_SIZE,
     .offset = offsetof(struct options, min_free_bytes),
     .value_name = "SIZE",
     .help = "Write nothing that leaves less free disk. Default: 256M."},
};
#define OPTIONS (sizeof(option_table) / sizeof(option_table[0]))

enum command { BACKUP, RESTORE, CHECK };
static const struct conf_program programs[] = {
    [BACKUP] = {.name = "paceline-coordinator backup",
                .summary = "Write jobs, data sets, checkpoints, certificates and keys into one "
                           "file, also while the coordinator runs.",
                .usage = "FILE",
                .options = option_table,
                .option_count = OPTIONS,
                .positional_min = 1,
                .positional_max = 1},
    [RESTORE] = {.name = "paceline-coordinator restore",
                 .summary = "Make the state directory of a backup; jobs go on from it at the next "
                            "start.",
                 .usage = "FILE",
                 .options = option_table,
                 .option_count = OPTIONS,
                 .positional_min = 1,
                 .positional_max = 1},
    [CHECK] = {.name = "paceline-coordinator check",
               .summary = "Read all of a backup, or without FILE of the state directory, and look "
                          "for damage.",
               .usage = "[FILE]",
               .options = option_table,
               .option_count = OPTIONS,
               .positional_max = 1},
};

static void print_report(const char *what, const char *path, const struct backup_report *report)
{
    printf("%s '%s': %" PRIu64 " bytes, %" PRIu64 " blobs, schema %" PRId64, what, path,
           report->bytes, report->blobs, report->schema);
    if (report->made_ms > 0) {
        const time_t seconds = (time_t)(report->made_ms / 1000);
        struct tm parts;
        char made[32] = "";
        if (gmtime_r(&seconds, &parts)) {
            (void)strftime(made, sizeof(made), "%Y-%m-%dT%H:%M:%SZ", &parts);
        }
        printf(", made %s by version %s", made, report->version);
    }
    printf("\n");
}

/* Whoever depends on the copy must notice that the original was damaged. */
static int damage(const struct backup_report *report, const char *where, struct err *err)
{
    return report->damaged == 0
               ? 0
               : err_set(err, ERR_FORMAT,
                         "%" PRIu64 " blobs are missing or damaged %s; all others are whole",
                         report->damaged, where);
}

static int carry_out(enum command command, const struct options *options, const char *path,
                     struct err *err)
{
    struct backup_report report;
    int rc;
    switch (command) {
    case BACKUP:
        rc = backup_make(options->state_dir, path, options->min_free_bytes, &report, err);
        if (rc == 0) {
            print_report("backed up to", path, &report);
        }
        return rc ? rc : damage(&report, "in the state directory and left out", err);
    case RESTORE:
        rc = backup_restore(path, options->state_dir, options->min_free_bytes, &report, err);
        if (rc == 0) {
            print_report("restored from", path, &report);
        }
        return rc ? rc : damage(&report, "since before this backup", err);
    case CHECK:
        rc = path ? backup_check_file(path, &report, err)
                  : backup_check_directory(options->state_dir, &report, err);
        if (rc == 0) {
            print_report("checked", path ? path : options->state_dir, &report);
        }
        return rc ? rc : damage(&report, path ? "since before this backup" : "there", err);
    }
    return 0;
}

static int run(enum command command, int argc, char **argv, bool *misused, struct err *err)
{
    struct options options = {.min_free_bytes = 256u << 20};
    struct conf_list positional = {0};
    bool done = false;
    int rc = conf_parse(&programs[command], argc, argv, &options, &positional, &done, err);
    *misused = rc != 0;
    if (!rc && !done && !options.state_dir[0]) {
        rc = file_default_state_directory("coordinator", options.state_dir,
                                          sizeof(options.state_dir), err);
    }
    if (!rc && !done) {
        rc = carry_out(command, &options, positional.count > 0 ? positional.item[0] : NULL, err);
    }
    conf_list_done(&positional);
    return rc;
}

int backup_run(int argc, char **argv, bool *misused, struct err *err)
{
    return run(BACKUP, argc, argv, misused, err);
}

int backup_run_restore(int argc, char **argv, bool *misused, struct err *err)
{
    return run(RESTORE, argc, argv, misused, err);
}

int backup_run_check(int argc, char **argv, bool *misused, struct err *err)
{
    return run(CHECK, argc, argv, misused, err);
}
