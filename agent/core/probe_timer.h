/* probe_timer.h: decides when an idle device measures its speed again, and reports the result in
 * heartbeats. A device with a stage is measured by its work. Without these probes, an idle device
 * would keep the speed measured at its enrolment. Pure. */
#ifndef AGENT_CORE_PROBE_TIMER_H
#define AGENT_CORE_PROBE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/device.h"
#include "schema/heartbeat.h"

#define PROBE_EVERY_MS 30000
#define PROBE_ANSWER_MS 10000 /* a probe that takes longer is abandoned */

/* All zero before the first call. */
struct probe_timer {
    bool idle, under_way, known;
    int64_t due_ms; /* of the next probe; while one is under way, its latest end */
    int64_t taken_ms;
    struct idle_probe result;
};

enum probe_order { PROBE_LEAVE, PROBE_START, PROBE_CANCEL };

/* idle: the device holds no stage and prepares none. START: probe_timer_took or _failed follows. */
enum probe_order probe_timer_step(struct probe_timer *timer, bool idle, int64_t now_ms);
void probe_timer_took(struct probe_timer *timer, int64_t now_ms, const struct device_probe *result);
void probe_timer_failed(struct probe_timer *timer, int64_t now_ms);
/* Return when to call probe_timer_step; INT64_MAX for never. */
int64_t probe_timer_deadline_ms(const struct probe_timer *timer);
/* Report the newest probe since the device became idle. */
void probe_timer_report(const struct probe_timer *timer, int64_t now_ms, struct heartbeat *out);

#endif
