/* powercut: does the store keep its promises through a power cut? A child process writes blobs or
 * rows and reports to its parent the promises of the store: a blob whose done callback had code 0,
 * a turn whose commit returned 0. At some moment the parent cuts the power of the disk, kills the
 * child, mounts the disk again and checks every promise.
 *
 *   powercut           the modes the store uses, on every file system this machine can make; 77
 * where none can be powercut --table   other modes beside them: the table of docs/adr/0017
 *
 * Every second round the child stops after its last promise, so that no later write makes an
 * earlier one durable by chance. In the others the cut hits the middle of its work. DELETE + FULL
 * serves as the control: SQLite does not synchronise the directory after removing the journal, so a
 * real cut must lose the last commit. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/log.h"
#include "coordinator/store/blob_store.h"
#include "coordinator/store/blobs.h"
#include "coordinator/store/state.h"
#include "coordinator/store/state_store.h"
#include "tests/e2e/powercut/disk.h"
#include "tests/unit/coordinator_store/blob_support.h"

#define ROUNDS 12
#define PROMISES_MAX 9 /* before the cut: 1 to this many */
#define WORK_MAX 100

enum store_kind { STORE_STATE, STORE_BLOBS };

struct mode {
    enum store_kind store;
    const char *name;
    const char *durability;
    bool is_ours;    /* used by the store: must lose nothing */
    bool is_control; /* must lose something */
};

#define JOURNAL(mode, level) "PRAGMA journal_mode = " mode "; PRAGMA synchronous = " level
static const struct mode modes[] = {
    {STORE_STATE, "WAL + FULL", STATE_DURABILITY, true, false},
    {STORE_BLOBS, "PERSIST + FULL", BLOB_DURABILITY, true, false},
    {STORE_BLOBS, "DELETE + FULL", JOURNAL("DELETE", "FULL"), false, true},
    {STORE_STATE, "WAL + NORMAL", JOURNAL("WAL", "NORMAL"), false, false},
    {STORE_BLOBS, "PERSIST + OFF", JOURNAL("PERSIST", "OFF"), false, false},
    {STORE_BLOBS, "PERSIST + NORMAL", JOURNAL("PERSIST", "NORMAL"), false, false},
    {STORE_BLOBS, "PERSIST + EXTRA", JOURNAL("PERSIST", "EXTRA"), false, false},
    {STORE_BLOBS, "TRUNCATE + FULL", JOURNAL("TRUNCATE", "FULL"), false, false},
    {STORE_BLOBS, "DELETE + EXTRA", JOURNAL("DELETE", "EXTRA"), false, false},
};
#define MODES (sizeof(modes) / sizeof(modes[0]))

struct tally {
    int rounds, promised, lost, lost_rounds, damaged;
};

static _Noreturn void die(const char *what, const struct err *err)
{
    (void)fprintf(stderr, "powercut: %s: %s\n", what, err->text);
    exit(1);
}

/* ---- the child ---- */

static uint64_t blob_size(int number)
{
    return number % 3 == 0 ? (2u << 20) + (unsigned)number : 30000 + 1000 * (unsigned)number;
}

static int put_row(struct state_store *store, int number, struct err *err)
{
    char id[32];
    char document[2000];
    (void)snprintf(id, sizeof(id), "job_%05d", number);
    memset(document, 'a' + number % 26, sizeof(document));
    struct state_row row = {id, "", number, 1, document, sizeof(document)};
    int rc = state_begin(store, err);
    rc = rc ? rc : state_put(store, STATE_JOBS, &row, err);
    return rc ? rc : state_commit(store, err);
}

static void promise(int pipe_end, int number)
{
    if (write(pipe_end, &number, sizeof(number)) != (ssize_t)sizeof(number)) {
        _exit(1);
    }
}

/* Work until killed. */
static _Noreturn void work(const struct mode *mode, const char *directory, int stop_after,
                           int pipe_end)
{
    struct err err = {0};
    struct state_store *state = NULL;
    struct blob_store *blobs = NULL;
    struct blob_config config = {.directory = directory, .queue_bytes = QUEUE_BYTES};
    char sha256[BLOB_SHA256_SIZE];
    int rc = mode->store == STORE_STATE ? state_open_with(directory, mode->durability, &state, &err)
                                        : blob_open_with(&config, mode->durability, &blobs, &err);
    if (rc) {
        die("open", &err);
    }
    for (int i = 0; i < stop_after; i++) {
        rc = state ? put_row(state, i, &err)
                   : store_put(blobs, (uint64_t)i, blob_size(i), sha256, &err);
        if (rc) {
            die("write", &err);
        }
        promise(pipe_end, i);
    }
    for (;;) {
        (void)pause();
    }
}

/* ---- the parent ---- */

struct expected_row {
    int number;
    bool is_right;
};

static bool compare_row(void *arg, const struct state_row *row)
{
    struct expected_row *expected = arg;
    expected->is_right = row->document_size == 2000 && row->revision == expected->number &&
                         row->document[0] == 'a' + expected->number % 26 &&
                         row->document[1999] == row->document[0];
    return true;
}

static bool has_row(struct state_store *store, int number)
{
    char id[32];
    struct err err = {0};
    struct expected_row expected = {number, false};
    (void)snprintf(id, sizeof(id), "job_%05d", number);
    return state_get(store, STATE_JOBS, id, compare_row, &expected, &err) == 0 && expected.is_right;
}

static bool has_blob(struct blob_store *store, int number)
{
    char sha256[BLOB_SHA256_SIZE];
    struct err err = {0};
    uint64_t size = blob_size(number);
    content_sha256((uint64_t)number, size, sha256);
    return store_holds(store, sha256, (uint64_t)number, size, &err);
}

static bool is_sound(const char *directory, const char *name)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof(path), "%s/%s", directory, name);
    ASSERT(length > 0 && (size_t)length < sizeof(path));
    return database_is_sound(path);
}

/* Look for the promises 0 .. promised - 1. */
static void check(const struct mode *mode, const char *directory, int promised, struct tally *tally)
{
    struct err err = {0};
    struct state_store *state = NULL;
    struct blob_store *blobs = NULL;
    struct blob_config config = {.directory = directory, .queue_bytes = QUEUE_BYTES};
    int rc = mode->store == STORE_STATE ? state_open_with(directory, mode->durability, &state, &err)
                                        : blob_open_with(&config, mode->durability, &blobs, &err);
    int kept = 0;
    for (int i = 0; rc == 0 && i < promised; i++) {
        kept += state ? has_row(state, i) : has_blob(blobs, i);
    }
    state_close(&state);
    blob_close(&blobs);
    bool sound =
        rc == 0 && is_sound(directory, mode->store == STORE_STATE ? "state.db" : "checkpoints.db");
    tally->rounds++;
    tally->promised += promised;
    tally->lost += promised - kept;
    tally->lost_rounds += kept < promised;
    tally->damaged += !sound;
}

/* Read promises, after `count` earlier ones, until there are `enough` or the child has ended. */
static int listen(int pipe_end, int count, int enough)
{
    int number = 0;
    while (count < enough && read(pipe_end, &number, sizeof(number)) == (ssize_t)sizeof(number)) {
        ASSERT(number == count);
        count++;
    }
    return count;
}

static void run_round(struct disk *disk, const struct mode *mode, int round, struct tally *tally)
{
    struct err err = {0};
    char directory[PATH_MAX];
    int length = snprintf(directory, sizeof(directory), "%.200s/round-%d-%d", disk->mount_point,
                          (int)(mode - modes), round);
    ASSERT(length > 0 && (size_t)length < sizeof(directory));
    bool stops = round % 2 == 0;
    int enough = 1 + (round * 5) % PROMISES_MAX;
    int ends[2];
    ASSERT(pipe(ends) == 0);
    pid_t child = fork();
    ASSERT(child >= 0);
    if (child == 0) {
        (void)close(ends[0]);
        work(mode, directory, stops ? enough : WORK_MAX, ends[1]);
    }
    (void)close(ends[1]);
    int promised = listen(ends[0], 0, enough);
    /* A cut stops the processor in the same moment. Stopped first, the child cannot report a call
     * that returns during the shutdown of the file system: a synchronisation in a race with the
     * shutdown may claim success. */
    int rc = kill(child, SIGSTOP) ? err_set(&err, ERR_IO, "stop the child") : disk_cut(disk, &err);
    if (kill(child, SIGKILL) || waitpid(child, NULL, 0) != child) {
        rc = err_set(&err, ERR_IO, "child");
    }
    /* Promises just before the cut count too. */
    promised = listen(ends[0], promised, WORK_MAX);
    (void)close(ends[0]);
    rc = rc ? rc : disk_restart(disk, &err);
    if (rc) {
        die("round", &err);
    }
    if (promised < enough) {
        (void)fprintf(stderr, "powercut: %s: the child ended after %d promises\n", mode->name,
                      promised);
        exit(1);
    }
    check(mode, directory, promised, tally);
}

static void print_row(const struct mode *mode, const char *file_system, const struct tally *tally)
{
    (void)printf("| %-5s | %-14s | %-16s | %6d | %8d | %4d | %11d | %7d |\n", file_system,
                 mode->store == STORE_STATE ? "state.db" : "checkpoints.db", mode->name,
                 tally->rounds, tally->promised, tally->lost, tally->lost_rounds, tally->damaged);
    (void)fflush(stdout);
}

/* All rounds of a mode on a fresh disk. 0: fine; 1: our mode lost something; 77: the control lost
 * nothing; ERR_ codes of disk_open. */
static int run_mode(const char *directory, const char *file_system, const struct mode *mode,
                    struct err *err)
{
    struct disk disk;
    int rc = disk_open(directory, file_system, &disk, err);
    if (rc) {
        return rc;
    }
    struct tally tally = {0};
    for (int round = 0; round < ROUNDS; round++) {
        run_round(&disk, mode, round, &tally);
    }
    disk_close(&disk);
    print_row(mode, file_system, &tally);
    bool failed = mode->is_ours && (tally.lost || tally.damaged);
    return failed ? 1 : mode->is_control && !tally.lost ? 77 : 0;
}

/* 0: our modes lost nothing; 1: they did; 77: nothing can be shown on this file system. */
static int run_modes(const char *directory, const char *file_system, bool table)
{
    int result = 0;
    struct err err = {0};
    for (size_t i = 0; i < MODES && result != 1; i++) {
        if (!table && !modes[i].is_ours && !modes[i].is_control) {
            continue;
        }
        int rc = run_mode(directory, file_system, &modes[i], &err);
        if (rc < 0) {
            (void)printf("%s skipped: %s\n", file_system, err.text);
            return 77;
        }
        if (rc == 77) {
            (void)printf("%s: the control lost nothing, so nothing is shown here\n", file_system);
        }
        result = rc ? rc : result;
    }
    return result;
}

int main(int argc, char **argv)
{
    bool table = argc == 2 && strcmp(argv[1], "--table") == 0;
    if (argc > 1 && !table) {
        (void)fprintf(stderr, "usage: powercut [--table]\n");
        return 2;
    }
    struct err err = {0};
    if (disk_prepare_process(&err)) {
        (void)printf("skipped: %s\n", err.text);
        return 77;
    }
    log_set_level(LOG_LEVEL_ERROR);
    const char *parent = getenv("TMPDIR");
    char directory[128];
    (void)snprintf(directory, sizeof(directory), "%.90s/paceline-powercut-XXXXXX",
                   parent ? parent : "/tmp");
    ASSERT(mkdtemp(directory));
    static const char *const file_systems[] = {"ext4", "xfs", "btrfs"};
    int result = 77;
    (void)printf("| file  | database       | mode             | rounds | promised | lost | lost "
                 "rounds | damaged |\n"
                 "|-------|----------------|------------------|-------:|---------:|-----:|---------"
                 "---:|--------:|\n");
    for (size_t i = 0; i < sizeof(file_systems) / sizeof(file_systems[0]) && result != 1; i++) {
        int one = run_modes(directory, file_systems[i], table);
        result = one == 77 ? result : one;
    }
    (void)rmdir(directory);
    return result;
}
