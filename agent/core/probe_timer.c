#include "agent/core/probe_timer.h"

enum probe_order probe_timer_step(struct probe_timer *timer, bool idle, int64_t now_ms)
{
    const bool under_way = timer->under_way;
    if (!idle) {
        *timer = (struct probe_timer){0};
        return under_way ? PROBE_CANCEL : PROBE_LEAVE;
    }
    if (!timer->idle) {
        timer->idle = true;
        timer->due_ms = now_ms + PROBE_EVERY_MS;
    }
    if (now_ms < timer->due_ms) {
        return PROBE_LEAVE;
    }
    timer->under_way = !under_way;
    timer->due_ms = now_ms + (under_way ? PROBE_EVERY_MS : PROBE_ANSWER_MS);
    return under_way ? PROBE_CANCEL : PROBE_START;
}

void probe_timer_failed(struct probe_timer *timer, int64_t now_ms)
{
    timer->under_way = false;
    timer->due_ms = now_ms + PROBE_EVERY_MS;
}

void probe_timer_took(struct probe_timer *timer, int64_t now_ms, const struct device_probe *result)
{
    probe_timer_failed(timer, now_ms);
    timer->known = true;
    timer->taken_ms = now_ms;
    timer->result = (struct idle_probe){.gemm_gflops = result->gemm_gflops,
                                        .memory_bytes_per_second = result->memory_bytes_per_second,
                                        .processor_share = result->processor_share};
}

int64_t probe_timer_deadline_ms(const struct probe_timer *timer)
{
    return timer->idle ? timer->due_ms : INT64_MAX;
}

void probe_timer_report(const struct probe_timer *timer, int64_t now_ms, struct heartbeat *out)
{
    out->has_probe = timer->known;
    out->probe = timer->result;
    if (timer->known) {
        out->probe.age_ms = now_ms - timer->taken_ms;
    }
}
