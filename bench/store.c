/* Blobs in checkpoints.db against plain files with fsync: MB/s written and read, bytes written per
 * byte
 *
 *   store [--rounds N] [DIRECTORY]     DIRECTORY: on the disk to measure; a directory inside is
 * made and removed
 *
 * A round writes 20 blobs of 5 MiB and reads them again, by each way in turn; both ways hash their
 * input. Medians over the rounds; the spread is half of the distance between the quartiles, as a
 * share of the median. Reads come from the page cache of the system on both sides. */
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "coordinator/store/blobs.h"
#include "net/hash.h"

#define BLOBS 20
#define BLOB_BYTES (5u << 20)
#define PIECE_BYTES (1u << 20)
#define ROUNDS_DEFAULT 9
#define ROUNDS_MAX 99

enum way { STORE_EACH, STORE_TOGETHER, FILES, WAYS };
static const char *const way_names[WAYS] = {"store, one by one", "store, all at once",
                                            "files, one by one"};

/* Of one way in one round. */
struct sample {
    double write_seconds, read_seconds;
    double bytes_per_byte;
};

struct bench {
    char directory[PATH_MAX];
    unsigned char *content; /* [BLOB_BYTES] */
    unsigned char *piece;   /* [PIECE_BYTES] */
    struct blob_store *store;
    char sha256[BLOBS][BLOB_SHA256_SIZE];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int done, failed;
    double file_bytes_per_byte; /* size of checkpoints.db when only the first blobs are in it */
};

static _Noreturn void die(const char *what, const struct err *err)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, err->text);
    exit(1);
}

/* Every blob of every round is another one. */
static void stamp(struct bench *bench, int round, enum way way, int number)
{
    int mark[3] = {round, (int)way, number};
    memcpy(bench->content, mark, sizeof(mark));
}

/* Bytes that this process has handed to write calls. */
static uint64_t bytes_written(void)
{
    struct err err = {0};
    struct buf text;
    buf_init(&text, 4096);
    if (file_read("/proc/self/io", &text, &err)) {
        die("count written bytes", &err);
    }
    const char *line = text.data ? strstr(text.data, "wchar: ") : NULL;
    uint64_t count = line ? strtoull(line + strlen("wchar: "), NULL, 10) : 0;
    buf_done(&text);
    return count;
}

/* ---- the store ---- */

struct ticket {
    struct bench *bench;
    int number;
};

static void stored(void *arg, int code, const char *sha256, uint64_t size, const struct err *err)
{
    const struct ticket *ticket = arg;
    struct bench *bench = ticket->bench;
    (void)pthread_mutex_lock(&bench->lock);
    bench->done++;
    if (code || size != BLOB_BYTES) {
        bench->failed++;
        (void)fprintf(stderr, "bench: blob: %s\n", err->text);
    }
    memcpy(bench->sha256[ticket->number], sha256, BLOB_SHA256_SIZE);
    (void)pthread_cond_signal(&bench->changed);
    (void)pthread_mutex_unlock(&bench->lock);
}

static void wait_for(struct bench *bench, int count)
{
    (void)pthread_mutex_lock(&bench->lock);
    while (bench->done < count) {
        (void)pthread_cond_wait(&bench->changed, &bench->lock);
    }
    (void)pthread_mutex_unlock(&bench->lock);
}

static void write_store(struct bench *bench, int round, enum way way)
{
    struct ticket ticket[BLOBS];
    struct err err = {0};
    bench->done = 0;
    for (int i = 0; i < BLOBS; i++) {
        struct blob_upload *upload = NULL;
        stamp(bench, round, way, i);
        ticket[i] = (struct ticket){bench, i};
        if (blob_upload_open(bench->store, NULL, BLOB_BYTES, &upload, &err)) {
            die("begin an upload", &err);
        }
        for (size_t at = 0; at < BLOB_BYTES; at += PIECE_BYTES) {
            if (blob_upload_write_all(upload, bench->content + at, PIECE_BYTES, &err)) {
                die("upload", &err);
            }
        }
        blob_upload_finish(upload, stored, &ticket[i]);
        if (way == STORE_EACH) {
            wait_for(bench, i + 1);
        }
    }
    wait_for(bench, BLOBS);
    if (bench->failed) {
        exit(1);
    }
}

static void read_store(struct bench *bench)
{
    struct err err = {0};
    for (int i = 0; i < BLOBS; i++) {
        struct blob_reader *reader = NULL;
        uint64_t size = 0;
        size_t count = 1;
        if (blob_reader_open(bench->store, bench->sha256[i], &reader, &size, &err)) {
            die("open a blob", &err);
        }
        for (uint64_t at = 0; count > 0; at += count) {
            if (blob_read(reader, at, bench->piece, PIECE_BYTES, &count, &err)) {
                die("read a blob", &err);
            }
        }
        blob_reader_close(&reader);
    }
}

/* Once, while the store holds nothing else. */
static void weigh_file(struct bench *bench)
{
    char path[PATH_MAX];
    struct stat status;
    (void)snprintf(path, sizeof(path), "%.4000s/checkpoints.db", bench->directory);
    if (bench->file_bytes_per_byte == 0 && stat(path, &status) == 0) {
        bench->file_bytes_per_byte = (double)status.st_size / ((double)BLOBS * BLOB_BYTES);
    }
}

static void delete_store(struct bench *bench)
{
    weigh_file(bench);
    for (int i = 0; i < BLOBS; i++) {
        blob_delete(bench->store, bench->sha256[i]);
    }
    blob_drain(bench->store);
}

/* ---- plain files ---- */

static void file_name(const struct bench *bench, int number, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%.4000s/blob-%d", bench->directory, number);
}

static void sync_directory(const struct bench *bench)
{
    FD_AUTO int fd = open(bench->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd)) {
        perror("bench: sync the directory");
        exit(1);
    }
}

static void write_files(struct bench *bench, int round)
{
    struct err err = {0};
    struct sha256 *hash = NULL;
    if (sha256_new(&hash, &err)) {
        die("hash", &err);
    }
    for (int i = 0; i < BLOBS; i++) {
        char path[PATH_MAX];
        file_name(bench, i, path);
        stamp(bench, round, FILES, i);
        FD_AUTO int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        for (size_t at = 0; fd >= 0 && at < BLOB_BYTES; at += PIECE_BYTES) {
            sha256_update(hash, bench->content + at, PIECE_BYTES);
            if (file_write_at(fd, bench->content + at, PIECE_BYTES, at, &err)) {
                die("write a file", &err);
            }
        }
        if (fd < 0 || fsync(fd)) {
            perror("bench: write a file");
            exit(1);
        }
        sync_directory(bench);
        sha256_finish_text(hash, bench->sha256[i]);
    }
    sha256_free(&hash);
}

static void read_files(struct bench *bench)
{
    struct err err = {0};
    for (int i = 0; i < BLOBS; i++) {
        char path[PATH_MAX];
        file_name(bench, i, path);
        FD_AUTO int fd = open(path, O_RDONLY | O_CLOEXEC);
        for (size_t at = 0; at < BLOB_BYTES; at += PIECE_BYTES) {
            if (file_read_at(fd, bench->piece, PIECE_BYTES, at, &err)) {
                die("read a file", &err);
            }
        }
    }
}

static void delete_files(struct bench *bench)
{
    for (int i = 0; i < BLOBS; i++) {
        char path[PATH_MAX];
        file_name(bench, i, path);
        (void)unlink(path);
    }
    sync_directory(bench);
}

/* ---- measuring ---- */

static struct sample measure(struct bench *bench, int round, enum way way)
{
    uint64_t before = bytes_written();
    double start = clock_now_seconds();
    if (way == FILES) {
        write_files(bench, round);
    } else {
        write_store(bench, round, way);
    }
    double written = clock_now_seconds();
    uint64_t bytes = bytes_written() - before;
    if (way == FILES) {
        read_files(bench);
    } else {
        read_store(bench);
    }
    double read = clock_now_seconds();
    if (way == FILES) {
        delete_files(bench);
    } else {
        delete_store(bench);
    }
    return (struct sample){written - start, read - written,
                           (double)bytes / ((double)BLOBS * BLOB_BYTES)};
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct summary {
    double median, spread;
};

static struct summary summarize(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare_doubles);
    double median = (values[(count - 1) / 2] + values[count / 2]) / 2;
    return (struct summary){median, (values[count * 3 / 4] - values[count / 4]) / 2 / median};
}

static void report(const struct bench *bench, struct sample (*samples)[WAYS], int rounds)
{
    struct summary write[WAYS], read[WAYS], bytes[WAYS];
    const double megabytes = (double)BLOBS * BLOB_BYTES / 1e6;
    for (int way = 0; way < WAYS; way++) {
        double values[3][ROUNDS_MAX];
        for (int round = 0; round < rounds; round++) {
            values[0][round] = megabytes / samples[round][way].write_seconds;
            values[1][round] = megabytes / samples[round][way].read_seconds;
            values[2][round] = samples[round][way].bytes_per_byte;
        }
        write[way] = summarize(values[0], (size_t)rounds);
        read[way] = summarize(values[1], (size_t)rounds);
        bytes[way] = summarize(values[2], (size_t)rounds);
    }
    (void)printf("%d rounds of %d x %u MiB; checkpoints.db takes %.4f bytes for a byte\n\n", rounds,
                 BLOBS, BLOB_BYTES >> 20, bench->file_bytes_per_byte);
    (void)printf("%-20s %10s %7s %9s %10s %7s %9s %14s\n", "way", "write MB/s", "spread",
                 "to files", "read MB/s", "spread", "to files", "bytes per byte");
    for (int way = 0; way < WAYS; way++) {
        (void)printf("%-20s %10.0f %6.0f%% %9.2f %10.0f %6.0f%% %9.2f %14.4f\n", way_names[way],
                     write[way].median, 100 * write[way].spread,
                     write[way].median / write[FILES].median, read[way].median,
                     100 * read[way].spread, read[way].median / read[FILES].median,
                     bytes[way].median);
    }
    (void)printf("\n{\"bench\": \"store\", \"rows\": [");
    for (int way = 0; way < WAYS; way++) {
        (void)printf(
            "%s{\"way\": \"%s\", \"rounds\": %d, \"write_mb_per_second\": %.1f, \"write_spread\": "
            "%.3f, "
            "\"write_ratio_to_files\": %.3f, \"read_mb_per_second\": %.1f, \"read_spread\": %.3f, "
            "\"read_ratio_to_files\": %.3f, \"bytes_per_byte\": %.4f, \"file_bytes_per_byte\": "
            "%.4f}",
            way ? ", " : "", way_names[way], rounds, write[way].median, write[way].spread,
            write[way].median / write[FILES].median, read[way].median, read[way].spread,
            read[way].median / read[FILES].median, bytes[way].median,
            way == FILES ? 1.0 : bench->file_bytes_per_byte);
    }
    (void)printf("]}\n");
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static void run(struct bench *bench, int rounds)
{
    static struct sample samples[ROUNDS_MAX][WAYS];
    for (int round = -1; round < rounds; round++) {
        for (int way = 0; way < WAYS; way++) {
            /* The first round only warms up. */
            samples[round < 0 ? 0 : round][way] = measure(bench, round, (enum way)way);
        }
    }
    report(bench, samples, rounds);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    int64_t rounds = ROUNDS_DEFAULT;
    const char *parent = getenv("TMPDIR");
    parent = parent ? parent : "/tmp";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
            if (parse_i64(argv[++i], 1, ROUNDS_MAX, &rounds, &err)) {
                die("--rounds", &err);
            }
        } else if (argv[i][0] != '-') {
            parent = argv[i];
        } else {
            (void)fprintf(stderr, "usage: store [--rounds N] [DIRECTORY]\n");
            return 2;
        }
    }
    struct bench bench = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    (void)snprintf(bench.directory, sizeof(bench.directory), "%.4000s/paceline-bench-XXXXXX",
                   parent);
    bench.content = malloc(BLOB_BYTES);
    bench.piece = malloc(PIECE_BYTES);
    if (!bench.content || !bench.piece || !mkdtemp(bench.directory)) {
        perror("bench: set up");
        return 1;
    }
    if (random_bytes(bench.content, BLOB_BYTES, &err)) {
        die("content", &err);
    }
    struct blob_config config = {.directory = bench.directory, .queue_bytes = 64u << 20};
    if (blob_open(&config, &bench.store, &err)) {
        die("open the store", &err);
    }
    run(&bench, (int)rounds);
    blob_close(&bench.store);
    (void)nftw(bench.directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(bench.content);
    free(bench.piece);
    return 0;
}
