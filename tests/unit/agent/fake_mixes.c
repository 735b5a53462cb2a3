/* The only group of a gossip job: it stores averages of itself, which change nothing. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/agent/fake_parts.h"

#define LIFE 3
#define COUNTER 9

void fake_fill_mix(const struct fake_coordinator *fake, struct assignment_run *run)
{
    struct mix_duty *duty = &run->mix;
    if (!fake->script.mixes) {
        return;
    }
    run->has_mix = true;
    *duty =
        (struct mix_duty){.generation = 1, .groups = 1, .every = 1, .rate_step = 1, .steps = 1000};
    if (fake->state != FAKE_RUNNING && fake->state != FAKE_STOPPING) {
        return; /* it hears of it while it runs */
    }
    duty->order_count = 1;
    struct mix_order *order = &duty->order[0];
    *order = (struct mix_order){.xid = {LIFE, COUNTER},
                                .kind = MIX_AVERAGE,
                                .averages = true,
                                .rate_step = 1,
                                .left_ms = 60000,
                                .source_count = 1};
    order->source[0] = (struct mix_source){
        .generation = 1, .job = run->job, .job_generation = 1, .plan = run->plan};
    (void)snprintf(order->source[0].peer.device.text, ID_SIZE, "dev_00000000000000000000000000");
}

void fake_take_mix(struct fake_coordinator *fake, const struct heartbeat *beat)
{
    struct fake_mixes *mixes = &fake->mixes;
    const struct mix_report *report = &beat->mix;
    if (!beat->has_mix) {
        return;
    }
    mixes->wanted = mixes->wanted || report->wants;
    mixes->applied = report->average.state == MIX_APPLIED &&
                     mix_xid_is(report->average.xid, (struct mix_xid){LIFE, COUNTER});
    if (report->record_count > 0) {
        mixes->reported += mixes->stored;
        if (report->record[0].kind != MIX_AVERAGE || mixes->reported > 0) {
            fake_over(fake, "a record that is not that of the average, or was acknowledged");
        }
        mixes->stored = 1; /* the reply says so */
    }
}

bool fake_has_mixed(const struct fake_coordinator *fake)
{
    const struct fake_mixes *mixes = &fake->mixes;
    return !fake->script.mixes ||
           (mixes->wanted && mixes->applied && mixes->stored > 0 && mixes->averages > 0);
}

void fake_answer_average(void *context, struct http_exchange *exchange)
{
    struct fake_coordinator *fake = context;
    char hash[HASH_TEXT_SIZE];
    size_t size = 0;
    const char *body = http_body(exchange, &size);
    const char *counter = http_query(exchange, "counter");
    sha256_text(body, size, hash);
    if (strcmp(hash, http_param(exchange, "sha256")) != 0 || !counter ||
        strcmp(counter, "9") != 0 || !http_query(exchange, "test_accuracy")) {
        fake_over(fake, "an average that is not what it says");
    }
    fake->mixes.averages++;
    http_reply(exchange, 204, NULL, NULL, 0);
}
