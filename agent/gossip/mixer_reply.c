#include <string.h>

#include "agent/gossip/mixer_parts.h"
#include "base/clock.h"

/* Fill in the note of the requested copy or average, with all records. Under the lock. */
static void take_note(struct mixer *mixer, enum mixing_place place, double parked_seconds)
{
    const struct mixing *mixing = &mixer->mixing;
    struct mix_note *note = mixer->served;
    note->copy = mixing->slot[place].copy;
    note->parked_seconds = parked_seconds;
    note->record_count = mixing->record_count;
    memcpy(note->record, mixing->record, mixing->record_count * sizeof(note->record[0]));
}

static struct buf *take_header(struct mixer *mixer)
{
    struct mixer_header *header = mixer->header;
    while (header->taken) {
        header++; /* there is one per connection of the receiver */
    }
    header->taken = true;
    return &header->text;
}

static void give_back_header(struct mixer *mixer, struct buf *text)
{
    for (size_t i = 0; i < RECEIVES_MAX; i++) {
        struct mixer_header *header = &mixer->header[i];
        header->taken = header->taken && &header->text != text;
    }
    mix_body_forget(text);
}

enum mixing_verdict mixer_serve(struct mixer *mixer, struct mix_xid xid, bool average,
                                double parked_seconds, struct mixer_reply *out)
{
    enum mixing_place place;
    (void)pthread_mutex_lock(&mixer->lock);
    enum mixing_verdict verdict = mixing_serve(&mixer->mixing, xid, average, &place);
    if (verdict == MIXING_SERVE && average && !mix_xid_is(xid, mixer->averaged)) {
        verdict = MIXING_PARK; /* the last copy is being added */
    }
    if (verdict == MIXING_SERVE) {
        out->slab = average ? &mixer->slab[MIXER_AVERAGE] : mixer_copy(mixer, place);
        out->slab->readers++;
        take_note(mixer, place, parked_seconds);
    }
    (void)pthread_mutex_unlock(&mixer->lock);
    if (verdict != MIXING_SERVE) {
        return verdict;
    }
    struct err err = {0};
    out->bytes = mix_body_bytes(&mixer->body);
    out->header = take_header(mixer);
    if (mix_body_write_header(&mixer->body, mixer->served, &mixer->served_text, out->header,
                              &err) != 0) {
        mixer_end_reply(mixer, out);
        return MIXING_LATER; /* out of memory */
    }
    return MIXING_SERVE;
}

bool mixer_read(struct mixer *mixer, const struct mixer_reply *reply, size_t at, void *out,
                size_t size)
{
    const struct mixer_slab *slab = reply->slab;
    (void)pthread_mutex_lock(&mixer->lock);
    const bool over = slab->wanted && clock_now_ms() >= slab->deadline_ms;
    (void)pthread_mutex_unlock(&mixer->lock);
    if (over || mixer_is_cancelled(mixer)) {
        return false;
    }
    memcpy(out, (const unsigned char *)slab->data + at, size);
    return true;
}

void mixer_end_reply(struct mixer *mixer, struct mixer_reply *reply)
{
    struct mixer_signals signals = {0};
    give_back_header(mixer, reply->header);
    (void)pthread_mutex_lock(&mixer->lock);
    reply->slab->readers--;
    if (reply->slab->readers == 0) {
        signals = mixer_refresh(mixer);
    }
    (void)pthread_mutex_unlock(&mixer->lock);
    reply->slab = NULL;
    mixer_tell(mixer, signals);
}
