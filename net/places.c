#include "net/places.h"

#include <stdlib.h>

#include "base/assert.h"

/* A header usually arrives in one packet. A connection whose header takes longer than this loses
 * its place before others. */
#define HEAD_LATE_MS 1000

/* Connections in the order in which they entered the stage. */
struct queue {
    size_t first, last;
};

struct place {
    size_t previous, next; /* in its queue */
    size_t origin;         /* index of its address; PLACE_NONE: the place is free */
    int64_t since_ms;
    enum place_stage stage;
    bool known;
    bool served; /* counts as a stranger's request */
    bool broken; /* broken off: in no queue, not counted */
};

/* An address with at least one connection. */
struct origin {
    uint64_t address;
    size_t places;    /* all connections, also those broken off */
    size_t strangers; /* of them */
    size_t served;    /* requests of strangers */
    size_t next;      /* in its bucket or in the free list */
};

struct places {
    struct places_limits limits;
    struct place *place;
    struct origin *origin; /* [capacity] */
    size_t *bucket;        /* [capacity]: chains of origins */
    size_t capacity;
    size_t first_free_origin;
    size_t fresh_origin;                /* origins from here on were never used */
    size_t count;                       /* connections that are not broken off */
    size_t served;                      /* strangers' requests */
    struct queue queue[STAGE_COUNT][2]; /* [stage][known] */
};

int places_new(const struct places_limits *limits, size_t capacity, struct places **out,
               struct err *err)
{
    ASSERT(limits->total > 0 && capacity > limits->total);
    struct places *places = calloc(1, sizeof(*places));
    if (places) {
        places->place = calloc(capacity, sizeof(*places->place));
        places->origin = calloc(capacity, sizeof(*places->origin));
        places->bucket = calloc(capacity, sizeof(*places->bucket));
    }
    if (!places || !places->place || !places->origin || !places->bucket) {
        places_free(&places);
        return err_set(err, ERR_MEMORY, "no memory for %zu connections", capacity);
    }
    places->limits = *limits;
    places->capacity = capacity;
    places->first_free_origin = PLACE_NONE;
    for (size_t i = 0; i < capacity; i++) {
        places->bucket[i] = PLACE_NONE;
        places->place[i].origin = PLACE_NONE;
    }
    for (int stage = 0; stage < STAGE_COUNT; stage++) {
        places->queue[stage][false] = places->queue[stage][true] =
            (struct queue){PLACE_NONE, PLACE_NONE};
    }
    *out = places;
    return 0;
}

void places_free(struct places **places)
{
    if (*places) {
        free((*places)->place);
        free((*places)->origin);
        free((*places)->bucket);
        free(*places);
        *places = NULL;
    }
}

/* ---- addresses ---- */

static size_t *bucket_of(struct places *places, uint64_t address)
{
    uint64_t mixed = (address ^ address >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return &places->bucket[(mixed >> 32) % places->capacity];
}

static size_t origin_take(struct places *places, uint64_t address)
{
    size_t *bucket = bucket_of(places, address);
    size_t index = *bucket;
    while (index != PLACE_NONE && places->origin[index].address != address) {
        index = places->origin[index].next;
    }
    if (index == PLACE_NONE) {
        index = places->first_free_origin;
        if (index == PLACE_NONE) {
            index = places->fresh_origin++;
        } else {
            places->first_free_origin = places->origin[index].next;
        }
        places->origin[index] = (struct origin){.address = address, .next = *bucket};
        *bucket = index;
    }
    places->origin[index].places++;
    return index;
}

static void origin_put_back(struct places *places, size_t index)
{
    struct origin *origin = &places->origin[index];
    if (--origin->places > 0) {
        return;
    }
    size_t *link = bucket_of(places, origin->address);
    while (*link != index) {
        link = &places->origin[*link].next;
    }
    *link = origin->next;
    origin->next = places->first_free_origin;
    places->first_free_origin = index;
}

/* ---- queues ---- */

static struct queue *queue_of(struct places *places, const struct place *place)
{
    return &places->queue[place->stage][place->known];
}

static void unlink_place(struct places *places, size_t index)
{
    struct place *place = &places->place[index];
    struct queue *queue = queue_of(places, place);
    size_t *from_previous =
        place->previous == PLACE_NONE ? &queue->first : &places->place[place->previous].next;
    size_t *from_next =
        place->next == PLACE_NONE ? &queue->last : &places->place[place->next].previous;
    *from_previous = place->next;
    *from_next = place->previous;
}

static void link_place(struct places *places, size_t index, int64_t now_ms)
{
    struct place *place = &places->place[index];
    struct queue *queue = queue_of(places, place);
    place->since_ms = now_ms;
    place->previous = queue->last;
    place->next = PLACE_NONE;
    *(queue->last == PLACE_NONE ? &queue->first : &places->place[queue->last].next) = index;
    queue->last = index;
}

/* ---- bounds ---- */

/* Return the stranger that loses its place: the first one in the stage without a request, of this
 * origin (PLACE_NONE: of any). PLACE_NONE: none, or it entered the stage after `since_ms`. */
static size_t first_stranger(const struct places *places, enum place_stage stage, size_t origin,
                             int64_t since_ms)
{
    size_t index = places->queue[stage][false].first;
    while (index != PLACE_NONE &&
           (places->place[index].served ||
            (origin != PLACE_NONE && places->place[index].origin != origin))) {
        index = places->place[index].next;
    }
    return index != PLACE_NONE && places->place[index].since_ms <= since_ms ? index : PLACE_NONE;
}

static size_t gives_way(const struct places *places, size_t origin, int64_t now_ms)
{
    const struct {
        enum place_stage stage;
        int64_t since_ms;
    } order[] = {
        {STAGE_HEAD, now_ms - HEAD_LATE_MS},
        {STAGE_QUIET, now_ms},
        {STAGE_HEAD, now_ms},
        {STAGE_GUEST, now_ms},
        {STAGE_REPLY,
         now_ms}, /* refused, or in the reserved share: the client does not read its reply */
    };
    size_t victim = PLACE_NONE;
    for (size_t i = 0; victim == PLACE_NONE && i < sizeof(order) / sizeof(order[0]); i++) {
        victim = first_stranger(places, order[i].stage, origin, order[i].since_ms);
    }
    return victim;
}

size_t places_enter(struct places *places, size_t index, uint64_t address, int64_t now_ms)
{
    ASSERT(index < places->capacity && places->place[index].origin == PLACE_NONE);
    const size_t origin = origin_take(places, address);
    size_t victim = PLACE_NONE;
    if (places->origin[origin].strangers >= places->limits.per_address) {
        victim = gives_way(places, origin, now_ms);
    }
    if (victim == PLACE_NONE && places->count >= places->limits.total) {
        victim = gives_way(places, PLACE_NONE, now_ms);
        victim = victim == PLACE_NONE ? index : victim;
    }
    places->place[index] = (struct place){.origin = origin, .stage = STAGE_HEAD};
    places->origin[origin].strangers++;
    places->count++;
    link_place(places, index, now_ms);
    if (victim != PLACE_NONE) {
        places_break_off(places, victim);
    }
    return victim;
}

static void end_request(struct places *places, struct place *place)
{
    if (place->served) {
        place->served = false;
        places->origin[place->origin].served--;
        places->served--;
    }
}

void places_break_off(struct places *places, size_t index)
{
    struct place *place = &places->place[index];
    ASSERT(place->origin != PLACE_NONE);
    if (place->broken) {
        return;
    }
    end_request(places, place);
    unlink_place(places, index);
    place->broken = true;
    places->origin[place->origin].strangers -= !place->known;
    places->count--;
}

void places_leave(struct places *places, size_t index)
{
    struct place *place = &places->place[index];
    places_break_off(places, index);
    origin_put_back(places, place->origin);
    place->origin = PLACE_NONE;
}

bool places_admit(struct places *places, size_t index, bool reserved)
{
    struct place *place = &places->place[index];
    struct origin *origin = &places->origin[place->origin];
    if (place->known || reserved) {
        return true;
    }
    if (place->broken || places->served >= places->limits.strangers ||
        origin->served >= places->limits.per_address) {
        return false;
    }
    place->served = true;
    origin->served++;
    places->served++;
    return true;
}

void places_enter_stage(struct places *places, size_t index, enum place_stage stage, int64_t now_ms)
{
    struct place *place = &places->place[index];
    ASSERT(place->origin != PLACE_NONE);
    if (place->broken) {
        return;
    }
    if (stage == STAGE_QUIET) {
        end_request(places, place);
    }
    unlink_place(places, index);
    place->stage = stage;
    link_place(places, index, now_ms);
}

enum place_stage places_stage(const struct places *places, size_t index)
{
    return places->place[index].stage;
}

void places_know(struct places *places, size_t index, int64_t now_ms)
{
    struct place *place = &places->place[index];
    ASSERT(place->origin != PLACE_NONE);
    if (place->known || place->broken) {
        return;
    }
    end_request(places, place);
    unlink_place(places, index);
    place->known = true;
    places->origin[place->origin].strangers--;
    link_place(places, index, now_ms);
}

bool places_knows(const struct places *places, size_t index)
{
    return places->place[index].known;
}

/* ---- deadlines ---- */

/* Return the time at which the first connection of a queue is overdue. */
static int64_t queue_deadline_ms(const struct places *places, int stage, bool known)
{
    const size_t first = places->queue[stage][known].first;
    const int64_t bound_ms = places->limits.stage_ms[stage];
    return first == PLACE_NONE || bound_ms == 0 ? INT64_MAX
                                                : places->place[first].since_ms + bound_ms;
}

size_t places_overdue(const struct places *places, int64_t now_ms)
{
    for (int stage = 0; stage < STAGE_COUNT; stage++) {
        for (int known = 0; known < 2; known++) {
            if (queue_deadline_ms(places, stage, known) <= now_ms) {
                return places->queue[stage][known].first;
            }
        }
    }
    return PLACE_NONE;
}

int64_t places_deadline_ms(const struct places *places)
{
    int64_t first_ms = INT64_MAX;
    for (int stage = 0; stage < STAGE_COUNT; stage++) {
        for (int known = 0; known < 2; known++) {
            const int64_t due_ms = queue_deadline_ms(places, stage, known);
            first_ms = due_ms < first_ms ? due_ms : first_ms;
        }
    }
    return first_ms;
}
