/* GET /v1/jobs/{id}/replicas: the copies of a job's units, and the cost of each failure. */
#include <stdlib.h>

#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/jobs.h"
#include "coordinator/http/routes.h"
#include "schema/replicas.h"
#include "schema/wire.h"

#define PARTS_BYTES ((size_t)32 << 20)

/* Write the copies of the live parts of a job: {"parts": [...]}. */
static int write_parts(const struct core *core, const char *parent, struct part_replicas *part,
                       struct buf *out, struct err *err)
{
    int rc = buf_printf(out, err, "{\"parts\":[");
    const char *comma = "";
    for (size_t i = 0; !rc && i < core_job_count(core); i++) {
        const struct job *job = core_job_at(core, i);
        if (!id_equal(job->parent.text, parent) ||
            !core_replicas(core, job->id.text, &part->copies)) {
            continue;
        }
        part->job = job->id;
        part->of = job_part_of(job);
        rc = buf_printf(out, err, "%s", comma);
        rc = rc ? rc : wire_write(&part_replicas_record, part, out, err);
        comma = ",";
    }
    return rc ? rc : buf_printf(out, err, "]}");
}

static void answer_parts(struct coordinator *coordinator, struct http_exchange *exchange,
                         const char *id, struct part_replicas *part)
{
    BUF_AUTO struct buf body;
    struct err err = {0};
    buf_init(&body, PARTS_BYTES);
    if (write_parts(coordinator->core, id, part, &body, &err)) {
        answer_err(exchange, &err);
    } else {
        answer_object(exchange, 200, 0, &body);
    }
}

void serve_replicas(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    struct coordinator *coordinator = context;
    const char *id = http_param(exchange, "id");
    if (!answer_check_query(exchange, allowed) || job_answer_ended(coordinator, exchange, id)) {
        return;
    }
    struct part_replicas *part = calloc(1, sizeof(*part)); /* too large for a stack */
    if (!part) {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
    } else if (core_parent(coordinator->core, id)) {
        answer_parts(coordinator, exchange, id, part);
    } else if (core_replicas(coordinator->core, id, &part->copies)) {
        answer_record(exchange, 200, &replicas_record, &part->copies);
    }
    free(part);
}
