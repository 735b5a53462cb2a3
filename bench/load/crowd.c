/* The clients of bench/load.py: many connections to one coordinator, from one thread that waits in
 * epoll
 *
 *   crowd HOST:PORT     reads commands, one a line, and answers each with one line
 *
 *   devices N PERIOD_MS            enrol N devices; each sends heartbeats and keeps a long poll of
 *                                  its assignment open
 *   clients N METHOD TARGET BODY   add a request to the rota of the API clients, and N clients that
 *                                  go through the rota without a pause
 *   polls N TARGET                 N requests that stay open: long polls and event streams
 *   act METHOD TARGET BODY         one request; the answers of the open ones are timed from here
 *   report                         JSON: the answers since the last report
 *
 * BODY is "-" or JSON without a space. A request is one write. An answer is read to its end; of an
 * event stream every piece counts as an answer. Failures are counted. Only the long polls of
 * devices are sent again. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "bench/load/line.h"
#include "bench/load/tally.h"
#include "net/address.h"
#include "schema/heartbeat.h"
#include "schema/wire.h"

#define EVENTS_MAX 256
#define READ_BYTES 65536
#define LINE_BYTES 4096
#define ROTA_MAX 32
#define ENROLLING_MAX 64 /* open requests while devices enrol */
#define WAIT_SECONDS 30  /* of an agent's long poll */
#define PORTS 65000
#define ADDRESS_FORMAT "http://127.0.0.1:%zu"
#define BOOT_FORMAT "%016zx"
#define POLL_PAUSE_SECONDS 1 /* after one that failed */

enum kind { ENROLL, HEARTBEAT, ASSIGNMENT, CLIENT, POLL, ACT, KINDS };
static const char *const kind_names[KINDS] = {"enroll", "heartbeat", "assignment",
                                              "client", "poll",      "act"};

struct agent {
    struct device_id id;
    char revision[24]; /* of the assignment it has */
    struct buf beat;   /* its heartbeat's body, once it has reported its holdings */
};

struct lines {
    struct line *line;
    size_t count;
};

struct crowd {
    struct sockaddr_in address;
    int epoll_fd;
    struct tally tally[KINDS];
    struct agent *agent;
    struct lines beats, assignments, clients, polls; /* beats also enrol */
    struct line actor;
    size_t device_count, enrolled, enrolling, next_beat, late;
    double beat_began, beat_seconds; /* of the present round; between two devices */
    double acted;
    struct heartbeat *heartbeat; /* too large for a stack */
    char *rota[ROTA_MAX];
    size_t rota_count;
    char *piece; /* [READ_BYTES] */
    bool ended;
};

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "crowd: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *take_memory(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory) {
        die("memory");
    }
    return memory;
}

/* ---- requests ---- */

static void fail(struct crowd *crowd, struct line *line)
{
    crowd->tally[line->kind].failed++;
    line_close(line);
}

static void send_request(struct crowd *crowd, struct line *line, const char *method,
                         const char *target, const char *body)
{
    if (!line_send(line, crowd->epoll_fd, &crowd->address, method, target, body)) {
        fail(crowd, line);
    }
}

static void enroll(struct crowd *crowd, size_t number)
{
    char body[1024];
    (void)snprintf(
        body, sizeof(body),
        "{\"name\":\"load-%zu\",\"public_key\":\"%064zx\",\"protocol\":1,\"boot\":\"" BOOT_FORMAT
        "\","
        "\"address\":\"" ADDRESS_FORMAT
        "\",\"numeric_class\":\"load\",\"inventory\":{\"hostname\":\"load\","
        "\"os\":\"none\",\"architecture\":\"none\",\"cpu\":\"none\",\"agent_version\":\"0\","
        "\"cores\":4,"
        "\"memory_bytes\":8000000000},\"probe\":{\"gemm_gflops\":10,\"memory_bytes_per_second\":"
        "1e10,"
        "\"free_memory_bytes\":6000000000,\"threads\":1}}",
        number, number + 1, number + 1, 1 + number % PORTS);
    struct line *line = &crowd->beats.line[number];
    line->kind = ENROLL;
    line->device = number;
    crowd->enrolling++;
    send_request(crowd, line, "POST", "/v1/agent/enroll", body);
}

/* The heartbeat of an agent without a job. */
static void write_heartbeat(struct crowd *crowd, const struct agent *agent, size_t number,
                            bool first, struct buf *out)
{
    struct err err = {0};
    struct heartbeat *heartbeat = crowd->heartbeat;
    heartbeat->device = agent->id;
    (void)snprintf(heartbeat->boot, sizeof(heartbeat->boot), BOOT_FORMAT, number + 1);
    (void)snprintf(heartbeat->address, sizeof(heartbeat->address), ADDRESS_FORMAT,
                   1 + number % PORTS);
    heartbeat->revision = (int64_t)strtoll(agent->revision, NULL, 10);
    heartbeat->resident_bytes = 5000000;
    heartbeat->all_holdings = first;
    buf_clear(out);
    if (wire_write(&heartbeat_record, heartbeat, out, &err)) {
        die(err.text);
    }
}

static void beat(struct crowd *crowd, struct line *line)
{
    struct agent *agent = &crowd->agent[line->device];
    bool first = line->kind == ENROLL;
    if (first || agent->beat.size == 0) {
        write_heartbeat(crowd, agent, line->device, first, &agent->beat);
    }
    line->kind = HEARTBEAT;
    send_request(crowd, line, "POST", "/v1/agent/heartbeat", agent->beat.data);
    if (first) {
        buf_clear(&agent->beat);
    }
}

static void poll_assignment(struct crowd *crowd, struct line *line)
{
    const struct agent *agent = &crowd->agent[line->device];
    char target[256];
    (void)snprintf(target, sizeof(target),
                   "/v1/agent/assignment?device=%s&boot=" BOOT_FORMAT "&after=%s&wait=%d",
                   agent->id.text, line->device + 1, agent->revision, WAIT_SECONDS);
    line->kind = ASSIGNMENT;
    send_request(crowd, line, "GET", target, "");
}

static void ask(struct crowd *crowd, struct line *line)
{
    char *method = crowd->rota[line->turn++ % crowd->rota_count];
    char *target = method + strlen(method) + 1;
    char *body = target + strlen(target) + 1;
    send_request(crowd, line, method, target, body);
}

/* ---- answers ---- */

static void take_answer(struct crowd *crowd, struct line *line)
{
    double now = clock_now_seconds();
    bool good = line->status >= 200 && line->status < 300;
    line->busy = false;
    crowd->tally[line->kind].failed += !good;
    if (good) {
        tally_add(
            &crowd->tally[line->kind],
            now - (line->kind == POLL && crowd->acted > line->began ? crowd->acted : line->began));
    }
    switch ((enum kind)line->kind) {
    case ENROLL:
        line_copy_between(line->head, "\"device\":\"", '"', crowd->agent[line->device].id.text,
                          sizeof(crowd->agent->id.text));
        crowd->enrolling--;
        crowd->enrolled += good;
        break;
    case ASSIGNMENT:
        line_copy_between(line->head, "ETag: \"", '"', crowd->agent[line->device].revision,
                          sizeof(crowd->agent->revision));
        buf_clear(&crowd->agent[line->device].beat);
        poll_assignment(crowd, line);
        break;
    case CLIENT: ask(crowd, line); break;
    case HEARTBEAT:
    case POLL:
    case ACT:
    case KINDS: break;
    }
}

static void take_bytes(struct crowd *crowd, struct line *line, const char *data, size_t size)
{
    switch (line_take(line, data, size)) {
    case LINE_PART: break;
    case LINE_PIECE:
        tally_add(&crowd->tally[line->kind], clock_now_seconds() - crowd->acted);
        break;
    case LINE_ANSWER: take_answer(crowd, line); break;
    }
}

static void read_line(struct crowd *crowd, struct line *line)
{
    ssize_t size;
    while (line->fd >= 0 && (size = recv(line->fd, crowd->piece, READ_BYTES, 0)) > 0) {
        take_bytes(crowd, line, crowd->piece, (size_t)size);
        if (size < READ_BYTES) {
            return;
        }
    }
    if (line->fd >= 0 && (size == 0 || errno != EAGAIN)) {
        fail(crowd, line);
    }
}

/* ---- by the clock ---- */

/* The devices beat one after the other, all of them within a period. A device that still waits for
 * its last answer is left out. */
static void run_beats(struct crowd *crowd)
{
    double now = clock_now_seconds();
    while (crowd->enrolled == crowd->device_count && crowd->device_count > 0 &&
           now >= crowd->beat_began + (double)crowd->next_beat * crowd->beat_seconds) {
        struct line *line = &crowd->beats.line[crowd->next_beat % crowd->device_count];
        if (line->busy) {
            crowd->late++;
        } else {
            beat(crowd, line);
        }
        struct line *assignment = &crowd->assignments.line[line->device];
        if (!assignment->busy && now > assignment->began + POLL_PAUSE_SECONDS) {
            poll_assignment(crowd, assignment);
        }
        crowd->next_beat++;
    }
}

static int timeout_ms(const struct crowd *crowd)
{
    if (crowd->device_count == 0) {
        return -1;
    }
    double due =
        crowd->beat_began + (double)crowd->next_beat * crowd->beat_seconds - clock_now_seconds();
    return due > 0 ? (int)(due * 1000) + 1 : 0;
}

static void turn(struct crowd *crowd, int wait_ms);

/* ---- commands ---- */

static struct line *open_lines(struct lines *lines, size_t count, enum kind kind)
{
    lines->line = take_memory(count, sizeof(*lines->line));
    lines->count = count;
    for (size_t i = 0; i < count; i++) {
        lines->line[i] = (struct line){.fd = -1, .kind = kind, .device = i, .turn = i};
    }
    return lines->line;
}

static void do_devices(struct crowd *crowd, size_t count, double period_ms)
{
    crowd->agent = take_memory(count, sizeof(*crowd->agent));
    open_lines(&crowd->beats, count, ENROLL);
    open_lines(&crowd->assignments, count, ASSIGNMENT);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(crowd->agent[i].revision, sizeof(crowd->agent[i].revision), "0");
        buf_init(&crowd->agent[i].beat, LINE_REQUEST_BYTES);
        enroll(crowd, i);
        while (crowd->enrolling >= ENROLLING_MAX) {
            turn(crowd, -1);
        }
    }
    while (crowd->enrolling > 0) {
        turn(crowd, -1);
    }
    if (crowd->enrolled < count) {
        (void)fprintf(stderr, "crowd: %zu of %zu devices enrolled\n", crowd->enrolled, count);
        exit(1);
    }
    crowd->device_count = count;
    crowd->beat_seconds = period_ms / 1000 / (double)count;
    crowd->beat_began = clock_now_seconds();
}

/* Three words in a row, each with its NUL. "-" is the empty text. */
static char *pack(const char *method, const char *target, const char *body)
{
    body = strcmp(body, "-") == 0 ? "" : body;
    size_t size = strlen(method) + strlen(target) + strlen(body) + 3;
    char *out = take_memory(size, 1);
    int used = snprintf(out, size, "%s%c%s%c%s", method, '\0', target, '\0', body);
    ASSERT(used > 0 && (size_t)used < size);
    return out;
}

static void do_clients(struct crowd *crowd, size_t count, char *request)
{
    ASSERT(crowd->rota_count < ROTA_MAX);
    crowd->rota[crowd->rota_count++] = request;
    if (count > 0) {
        open_lines(&crowd->clients, count, CLIENT);
    }
    for (size_t i = 0; i < count; i++) {
        ask(crowd, &crowd->clients.line[i]);
    }
}

static void do_polls(struct crowd *crowd, size_t count, const char *target)
{
    open_lines(&crowd->polls, count, POLL);
    for (size_t i = 0; i < count; i++) {
        send_request(crowd, &crowd->polls.line[i], "GET", target, "");
    }
}

static void do_report(struct crowd *crowd)
{
    (void)printf("{\"late\": %zu", crowd->late);
    crowd->late = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        (void)printf(", \"%s\": ", kind_names[kind]);
        tally_print(&crowd->tally[kind], stdout);
    }
    (void)printf("}\n");
}

static void do_command(struct crowd *crowd, const char *text)
{
    char name[16] = "";
    char method[16] = "";
    char target[512] = "";
    char body[2048] = "";
    size_t count = 0;
    double period_ms = 0;
    if (sscanf(text, "devices %zu %lf", &count, &period_ms) == 2) {
        do_devices(crowd, count, period_ms);
    } else if (sscanf(text, "clients %zu %15s %511s %2047s", &count, method, target, body) == 4) {
        do_clients(crowd, count, pack(method, target, body));
    } else if (sscanf(text, "polls %zu %511s", &count, target) == 2) {
        do_polls(crowd, count, target);
    } else if (sscanf(text, "act %15s %511s %2047s", method, target, body) == 3) {
        crowd->acted = clock_now_seconds();
        send_request(crowd, &crowd->actor, method, target, strcmp(body, "-") == 0 ? "" : body);
    } else if (sscanf(text, "%15s", name) == 1 && strcmp(name, "report") == 0) {
        do_report(crowd);
        (void)fflush(stdout);
        return;
    } else {
        (void)fprintf(stderr, "crowd: cannot read '%s'\n", text);
        exit(2);
    }
    (void)printf("{}\n");
    (void)fflush(stdout);
}

static void read_commands(struct crowd *crowd)
{
    char text[LINE_BYTES];
    if (!fgets(text, sizeof(text), stdin)) {
        crowd->ended = true;
        return;
    }
    do_command(crowd, text);
}

/* data.ptr NULL: the commands. They are not read within a command: one waits for its answers. */
static void turn(struct crowd *crowd, int wait_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(crowd->epoll_fd, events, EVENTS_MAX, wait_ms);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr) {
            read_line(crowd, events[i].data.ptr);
        } else {
            read_commands(crowd);
        }
    }
    run_beats(crowd);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct address address;
    if (argc != 2 || address_parse(argv[1], &address, &err) ||
        address.storage.ss_family != AF_INET) {
        (void)fprintf(stderr, "usage: crowd HOST:PORT (IPv4) %s\n", err.text);
        return 2;
    }
    struct crowd crowd = {.actor = {.fd = -1, .kind = ACT}};
    memcpy(&crowd.address, &address.storage, sizeof(crowd.address));
    crowd.piece = take_memory(READ_BYTES, 1);
    crowd.heartbeat = take_memory(1, sizeof(*crowd.heartbeat));
    crowd.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (crowd.epoll_fd < 0 || epoll_ctl(crowd.epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &event)) {
        die("epoll");
    }
    setvbuf(stdin, NULL, _IONBF, 0);
    while (!crowd.ended) {
        turn(&crowd, timeout_ms(&crowd));
    }
    return 0;
}
