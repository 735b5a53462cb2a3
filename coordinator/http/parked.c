#include "coordinator/http/parked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define PARKED_NONE SIZE_MAX
#define LOOKS_A_RUN                                                                                \
    32 /* each check writes an answer: thousands at once would delay all other requests */

struct entry {
    struct http_exchange *exchange; /* NULL: free */
    enum object_kind kind;
    char id[ID_SIZE];
    int64_t after, deadline_ms;
    parked_look_fn look;
    struct parked *owner;
    size_t next;   /* of the free list or of the bucket */
    size_t due_at; /* its place in `due` */
    bool woken;
};

struct parked {
    void *context;
    parked_hangup_fn hangup; /* NULL: not reported */
    struct entry *entry;
    size_t capacity, count;
    size_t fresh; /* entries from here on were never used: their memory is not touched */
    size_t first_free;
    size_t *bucket; /* [bucket_count]: heads of chains of entries by (kind, id) */
    size_t bucket_count;
    size_t *ready; /* [capacity], a ring: entries that were woken, in order */
    size_t ready_first, ready_count;
    size_t *due; /* [count], a heap: entries by their deadlines, the earliest first */
};

static size_t bucket_of(const struct parked *parked, enum object_kind kind, const char *id)
{
    uint64_t hash = 14695981039346656037u ^ (uint64_t)kind; /* FNV-1a */
    for (const char *byte = id; *byte; byte++) {
        hash = (hash ^ (uint8_t)*byte) * 1099511628211u;
    }
    return (size_t)(hash % parked->bucket_count);
}

int parked_new(size_t capacity, void *context, struct parked **out, struct err *err)
{
    struct parked *parked = calloc(1, sizeof(*parked));
    if (parked) {
        parked->entry = calloc(capacity, sizeof(*parked->entry));
        parked->bucket = calloc(capacity, sizeof(*parked->bucket));
        parked->ready = calloc(capacity, sizeof(*parked->ready));
        parked->due = calloc(capacity, sizeof(*parked->due));
    }
    if (!parked || !parked->entry || !parked->bucket || !parked->ready || !parked->due) {
        parked_free(&parked);
        return err_set(err, ERR_MEMORY, "long polls: out of memory");
    }
    parked->context = context;
    parked->capacity = capacity;
    parked->bucket_count = capacity;
    parked->first_free = PARKED_NONE;
    for (size_t i = 0; i < capacity; i++) {
        parked->bucket[i] = PARKED_NONE;
    }
    *out = parked;
    return 0;
}

void parked_free(struct parked **pointer)
{
    struct parked *parked = *pointer;
    if (parked) {
        free(parked->entry);
        free(parked->bucket);
        free(parked->ready);
        free(parked->due);
        free(parked);
    }
    *pointer = NULL;
}

/* ---- the heap of deadlines ---- */

static void due_put(struct parked *parked, size_t place, size_t index)
{
    parked->due[place] = index;
    parked->entry[index].due_at = place;
}

static int64_t due_ms(const struct parked *parked, size_t place)
{
    return parked->entry[parked->due[place]].deadline_ms;
}

static void due_up(struct parked *parked, size_t place)
{
    size_t index = parked->due[place];
    int64_t deadline_ms = parked->entry[index].deadline_ms;
    for (; place > 0 && due_ms(parked, (place - 1) / 2) > deadline_ms; place = (place - 1) / 2) {
        due_put(parked, place, parked->due[(place - 1) / 2]);
    }
    due_put(parked, place, index);
}

static void due_down(struct parked *parked, size_t place)
{
    size_t index = parked->due[place];
    int64_t deadline_ms = parked->entry[index].deadline_ms;
    for (size_t below = 2 * place + 1; below < parked->count; below = 2 * place + 1) {
        below += below + 1 < parked->count && due_ms(parked, below + 1) < due_ms(parked, below);
        if (due_ms(parked, below) >= deadline_ms) {
            break;
        }
        due_put(parked, place, parked->due[below]);
        place = below;
    }
    due_put(parked, place, index);
}

static void due_add(struct parked *parked, size_t index)
{
    parked->due[parked->count++] = index;
    due_up(parked, parked->count - 1);
}

static void due_remove(struct parked *parked, size_t index)
{
    size_t place = parked->entry[index].due_at;
    size_t last = parked->due[--parked->count];
    if (last != index) {
        due_put(parked, place, last);
        due_up(parked, place);
        due_down(parked, parked->entry[last].due_at);
    }
}

/* ---- places ---- */

static void reuse(struct parked *parked, size_t index)
{
    parked->entry[index].next = parked->first_free;
    parked->first_free = index;
}

/* A woken entry is in the ready list; parked_run frees its place. */
static void release(struct parked *parked, struct entry *entry)
{
    size_t index = (size_t)(entry - parked->entry);
    size_t *link = &parked->bucket[bucket_of(parked, entry->kind, entry->id)];
    while (*link != index) {
        ASSERT(*link != PARKED_NONE);
        link = &parked->entry[*link].next;
    }
    *link = entry->next;
    entry->exchange = NULL;
    due_remove(parked, index);
    if (!entry->woken) {
        reuse(parked, index);
    }
}

/* ---- waiting ---- */

/* The client has disconnected. */
static void on_end(void *arg)
{
    struct entry *entry = arg;
    if (entry->exchange) {
        release(entry->owner, entry);
    }
}

static void on_hangup(void *arg)
{
    struct entry *entry = arg;
    if (entry->exchange && entry->owner->hangup) {
        entry->owner->hangup(entry->owner->context, entry->exchange, entry->kind, entry->id);
    }
}

void parked_on_hangup(struct parked *parked, parked_hangup_fn fn)
{
    parked->hangup = fn;
}

void parked_wait(struct parked *parked, struct http_exchange *exchange, enum object_kind kind,
                 const char *id, int64_t after, int64_t deadline_ms, parked_look_fn look)
{
    bool full = parked->first_free == PARKED_NONE && parked->fresh == parked->capacity;
    if (look(parked->context, exchange, id, after, full)) {
        return;
    }
    ASSERT(!full && strlen(id) < ID_SIZE);
    size_t index = parked->first_free;
    if (index == PARKED_NONE) {
        index = parked->fresh++;
    } else {
        parked->first_free = parked->entry[index].next;
    }
    struct entry *entry = &parked->entry[index];
    *entry = (struct entry){.exchange = exchange,
                            .kind = kind,
                            .after = after,
                            .deadline_ms = deadline_ms,
                            .look = look,
                            .owner = parked};
    snprintf(entry->id, sizeof(entry->id), "%s", id);
    size_t bucket = bucket_of(parked, kind, entry->id);
    entry->next = parked->bucket[bucket];
    parked->bucket[bucket] = index;
    due_add(parked, index);
    http_on_end(exchange, on_end, entry);
    http_on_hangup(exchange, on_hangup, entry);
}

void parked_wake(struct parked *parked, enum object_kind kind, const char *id)
{
    for (size_t index = parked->bucket[bucket_of(parked, kind, id)]; index != PARKED_NONE;
         index = parked->entry[index].next) {
        struct entry *entry = &parked->entry[index];
        if (entry->kind == kind && id_equal(entry->id, id) && !entry->woken) {
            entry->woken = true;
            parked->ready[(parked->ready_first + parked->ready_count++) % parked->capacity] = index;
        }
    }
}

static void look(struct parked *parked, struct entry *entry, bool last)
{
    struct http_exchange *exchange = entry->exchange;
    http_on_end(exchange, NULL, NULL);
    if (entry->look(parked->context, exchange, entry->id, entry->after, last)) {
        release(parked, entry);
    } else {
        http_on_end(exchange, on_end, entry);
    }
}

/* Handle the next woken request; if it has ended meanwhile, only free its place. */
static void look_at_woken(struct parked *parked)
{
    size_t index = parked->ready[parked->ready_first];
    struct entry *entry = &parked->entry[index];
    parked->ready_first = (parked->ready_first + 1) % parked->capacity;
    parked->ready_count--;
    entry->woken = false;
    if (entry->exchange) {
        look(parked, entry, false);
    } else {
        reuse(parked, index);
    }
}

static void run(struct parked *parked, int64_t now_ms, size_t looks_max)
{
    size_t looks = 0;
    for (; looks < looks_max && parked->ready_count > 0; looks++) {
        look_at_woken(parked);
    }
    for (; looks < looks_max && parked->count > 0 && due_ms(parked, 0) <= now_ms; looks++) {
        look(parked, &parked->entry[parked->due[0]], true);
    }
}

void parked_run(struct parked *parked, int64_t now_ms)
{
    run(parked, now_ms, LOOKS_A_RUN);
}

void parked_end(struct parked *parked)
{
    run(parked, INT64_MAX, SIZE_MAX);
}

int64_t parked_deadline_ms(const struct parked *parked)
{
    if (parked->ready_count > 0) {
        return 0;
    }
    return parked->count > 0 ? due_ms(parked, 0) : INT64_MAX;
}

size_t parked_count(const struct parked *parked)
{
    return parked->count;
}
