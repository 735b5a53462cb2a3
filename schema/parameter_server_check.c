/* The rules of a job with a parameter server: between its fields, and for its servers and
 * shares. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "libtrain/model/reduce.h"
#include "schema/assignment.h"
#include "schema/check.h"
#include "schema/job.h"
#include "schema/parameter_server.h"

_Static_assert(MICRO_BATCHES_MAX <= REDUCE_COUNT_MAX, "the tree adds as many as a step may have");

static const char servers_pointer[] = "/parameter_server/servers";

static void check_others(struct check *check, const struct job_spec *spec)
{
    static const char other[] = "is for strategy 'pipeline' only";
    if (spec->pipeline != JOB_SYNC) {
        check_fault(check, "/pipeline", "'%s' %s: all workers compute a step with the same weights",
                    job_pipeline_names[spec->pipeline], other);
    }
    if (spec->aggregate_every > 0) {
        check_fault(check, "/aggregate_every", "%s", other);
    }
    if (spec->vertical_sync) {
        check_fault(check, "/vertical_sync", "%s", other);
    }
    if (spec->compression != CODEC_NONE) {
        check_fault(check, "/compression",
                    "'%s' %s: workers and servers exchange float32, which keeps the job exact",
                    compression_names[spec->compression], other);
    }
    if (spec->cut_count > 0) {
        check_fault(check, "/cuts", "%s; parameter_server.servers takes the units of each server",
                    other);
    }
}

static void PRINTF_LIKE(4, 5)
    place_fault(struct check *check, size_t index, const char *member, const char *format, ...)
{
    char pointer[64], message[RECORD_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    (void)snprintf(pointer, sizeof(pointer), "%s/%zu/%s", servers_pointer, index, member);
    check_fault(check, pointer, "%s", message);
}

static void check_place(struct check *check, const struct server_options *options, size_t index)
{
    const struct server_place *place = &options->place[index];
    size_t same = 0;
    while (!id_equal(options->place[same].device.text, place->device.text)) {
        same++;
    }
    if (same < index) {
        place_fault(check, index, "device", "is the same device as %s/%zu", servers_pointer, same);
    }
    if (index > 0 && place->end <= place[-1].end) {
        place_fault(check, index, "end", "must be above the end before it (%" PRId64 ")",
                    place[-1].end);
    }
}

/* A device has one value per label. So no device matches if the job requires another value of the
 * same label for all devices. */
static void check_labels(struct check *check, const struct job_spec *spec, const char *pointer,
                         const struct label *label, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < spec->device_label_count; k++) {
            const struct label *all = &spec->device_label[k];
            if (strcmp(all->key, label[i].key) == 0 && strcmp(all->value, label[i].value) != 0) {
                check_fault(check, pointer,
                            "'%s' is '%s' here and '%s' in devices.labels: no "
                            "device has both",
                            all->key, label[i].value, all->value);
            }
        }
    }
}

static void check_servers(struct check *check, const struct job_spec *spec)
{
    const struct server_options *options = &spec->parameter_server;
    if (options->servers > spec->devices_max) {
        check_fault(check, servers_pointer, "%" PRId64 " servers; devices.max is %" PRId64,
                    options->servers, spec->devices_max);
    }
    for (size_t i = 0; i < options->place_count; i++) {
        check_place(check, options, i);
    }
    if (options->place_count > 0 && options->server_label_count > 0) {
        check_fault(check, "/parameter_server/server_labels",
                    "the list of servers names the devices; leave one of the two out");
    }
}

/* Each device of a plan is a server, a worker or both. So a plan has at most servers + workers
 * devices. */
static void check_devices(struct check *check, const struct job_spec *spec)
{
    const struct server_options *options = &spec->parameter_server;
    const int64_t servers = options->servers > 0 ? options->servers : SERVERS_OF_JOB_MAX;
    const int64_t workers =
        options->share_count > 0 ? (int64_t)options->share_count : spec->micro_batches;
    if (spec->micro_batches > 0 && spec->devices_min > servers + workers) {
        check_fault(check, "/devices/min",
                    "%" PRId64 " is more than %" PRId64 " servers and %" PRId64
                    " workers: a worker has one of the micro_batches at least",
                    spec->devices_min, servers, workers);
    }
}

static void check_shares(struct check *check, const struct job_spec *spec)
{
    static const char pointer[] = "/parameter_server/shares";
    const struct server_options *options = &spec->parameter_server;
    int64_t sum = 0;
    for (size_t i = 0; i < options->share_count; i++) {
        sum += options->share[i];
    }
    if (options->share_count == 0) {
        return;
    }
    if (spec->micro_batches > 0 && sum != spec->micro_batches) {
        check_fault(check, pointer, "add up to %" PRId64 "; micro_batches is %" PRId64, sum,
                    spec->micro_batches);
    }
    if ((int64_t)options->share_count > spec->devices_max) {
        check_fault(check, pointer, "%zu workers; devices.max is %" PRId64, options->share_count,
                    spec->devices_max);
    }
}

static void check_transfers(struct check *check, const struct server_options *options)
{
    if (options->transfers != SEGMENTS_FIXED &&
        options->segment_bytes != job_spec_default.parameter_server.segment_bytes) {
        check_fault(check, "/parameter_server/segment_bytes", "is for transfers 'fixed' only");
    }
}

int parameter_server_check(const struct job_spec *spec, struct record_faults *faults,
                           struct err *err)
{
    const struct server_options *options = &spec->parameter_server;
    struct check check = {.faults = faults, .err = err};
    if (spec->strategy == STRATEGY_PARAMETER_SERVER) {
        check_others(&check, spec);
        check_servers(&check, spec);
        check_devices(&check, spec);
        check_labels(&check, spec, "/parameter_server/server_labels", options->server_label,
                     options->server_label_count);
        check_labels(&check, spec, "/parameter_server/worker_labels", options->worker_label,
                     options->worker_label_count);
        check_shares(&check, spec);
        check_transfers(&check, options);
    } else if (spec->has_parameter_server) {
        check_fault(&check, "/parameter_server", "is for strategy 'parameter_server' only");
    }
    return check.rc;
}

int parameter_server_units_check(const struct server_options *options, size_t unit_count,
                                 struct record_faults *faults, struct err *err)
{
    struct check check = {.faults = faults, .err = err};
    for (size_t i = 0; i < options->place_count; i++) {
        const bool last = i + 1 == options->place_count;
        const int64_t end = options->place[i].end;
        if (last && end != (int64_t)unit_count) {
            place_fault(&check, i, "end", "must be %zu, the model's number of units", unit_count);
        } else if (end > (int64_t)unit_count) {
            place_fault(&check, i, "end", "must be at most %zu, the model's number of units",
                        unit_count);
        }
    }
    return check.rc;
}

/* ---- assignments ---- */

/* The shares must be contiguous, in any order of the stages. */
static int check_assigned_shares(const struct assignment_run *run, struct err *err)
{
    int64_t end = 0;
    size_t workers = 0, found = 0;
    for (size_t s = 0; s < run->stages_listed; s++) {
        workers += run->stage[s].share_first < run->stage[s].share_end;
    }
    for (bool more = true; more;) {
        more = false;
        for (size_t s = 0; s < run->stages_listed && !more; s++) {
            const struct assigned_stage *stage = &run->stage[s];
            more = stage->share_first == end && stage->share_first < stage->share_end;
            end = more ? stage->share_end : end;
            found += more;
        }
    }
    if (found < workers || end != run->job_spec.micro_batches) {
        return err_set(err, ERR_INVALID,
                       "/run/stages: the shares that follow each other have %" PRId64 " of %" PRId64
                       " micro-batches",
                       end, run->job_spec.micro_batches);
    }
    return 0;
}

int parameter_server_stages_check(const struct assignment_run *run, struct err *err)
{
    if (run->has_previous || run->has_next || (int64_t)run->stages_listed != run->stage_count) {
        return err_set(err, ERR_INVALID,
                       "/run/stages: lists all stages, in place of previous and next");
    }
    const struct stage_role role = assignment_role(run, (size_t)run->stage_index);
    const bool clips_norm = run->job_spec.optimizer.clip_norm > 0;
    const struct assigned_stage *own = &run->stage[run->stage_index];
    if (own->first != run->first || own->end != run->end) {
        return err_set(err, ERR_INVALID, "/run/stages/%" PRId64 ": differs from /run/stage",
                       run->stage_index);
    }
    int64_t units = 0;
    for (size_t s = 0; s < run->stages_listed; s++) {
        const struct assigned_stage *stage = &run->stage[s];
        const struct stage_role other = assignment_role(run, s);
        if ((other.serves && stage->first != units) || (s == 0 && !other.serves) ||
            (!other.serves && !other.works) ||
            (other.serves && s > 0 && run->stage[s - 1].first == run->stage[s - 1].end)) {
            return err_set(err, ERR_INVALID, "/run/stages/%zu: its units or its place do not fit",
                           s);
        }
        units = other.serves ? stage->end : units;
        if (stage_role_calls(role, other, clips_norm) && stage->peer.url[0] == '\0') {
            return err_set(err, ERR_INVALID, "/run/stages/%zu/peer: has no url", s);
        }
    }
    return check_assigned_shares(run, err);
}
