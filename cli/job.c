#include "cli/job.h"

#include "base/file.h"
#include "base/stop_signals.h"
#include "cli/answer.h"
#include "cli/content.h"
#include "cli/watch.h"
#include "schema/id.h"

/* Watch a job until it ends or the user ends the program. In the second case the job continues. */
static int watch(struct session *session, const char *id, struct checkpoint_id *checkpoint,
                 struct err *err)
{
    bool succeeded = false;
    FD_AUTO int stop = -1;
    int rc = stop_signals_open(&stop, err);
    if (rc) {
        return rc;
    }
    session->api.stop_fd = stop;
    rc = watch_job(&session->api, id, session->out, session->complaints, &succeeded, checkpoint,
                   err);
    session->api.stop_fd = -1;
    if (rc == ERR_CANCELLED) {
        session->status = COMMAND_INTERRUPTED;
        return err_set(err, rc, "interrupted; the job continues: paceline job watch %s", id);
    }
    if (!rc && !succeeded) {
        session->status = COMMAND_NOT_SUCCEEDED;
    }
    return rc;
}

int job_watch(struct session *session, struct err *err)
{
    struct checkpoint_id checkpoint;
    return watch(session, session->call.argument[0], &checkpoint, err);
}

/* Watch a submitted job, and download its model if there is one. */
static int wait_and_get(struct session *session, const char *id, struct err *err)
{
    const char *path = session->call.options.text[OPTION_GET];
    struct checkpoint_id checkpoint = {""};
    char target[API_PATH_SIZE];
    int rc = watch(session, id, &checkpoint, err);
    if (rc || session->status != COMMAND_OK || path[0] == '\0') {
        return rc;
    }
    (void)snprintf(target, sizeof(target), "/v1/checkpoints/%s/content", checkpoint.text);
    return content_fetch(session, target, path, err);
}

/* Write the id of a submitted job, or the whole job. */
static int say(struct session *session, const json_t *job, const char *id, struct err *err)
{
    if (session->format == FORMAT_JSON) {
        return answer_show(session, job, err);
    }
    if (fprintf(session->out, "%s\n", id) < 0 || fflush(session->out)) {
        return err_set(err, ERR_IO, "write the answer: failed");
    }
    return 0;
}

/* Send the request of a new job, and watch the job if requested. */
static int send_job(struct session *session, struct err *err)
{
    const struct options *options = &session->call.options;
    if (options->flag[OPTION_DRY_RUN]) {
        return answer_request(session, err);
    }
    json_auto_t *job = NULL;
    int rc = session_request(session, err);
    rc = rc ? rc : api_json(&session->api, &job, err);
    const char *id = json_string_value(json_object_get(job, "id"));
    if (!rc && (!id || !id_valid(id, "job_"))) {
        rc = err_set(err, ERR_PROTOCOL, "%s answered without the id of a job", session->api.server);
    }
    rc = rc ? rc : say(session, job, id, err);
    bool waits = options->flag[OPTION_WAIT] || options->text[OPTION_GET][0] != '\0';
    return rc || !waits ? rc : wait_and_get(session, id, err);
}

int job_submit(struct session *session, struct err *err)
{
    if (session->request.fields.size == 0) {
        session->status = COMMAND_USAGE;
        return err_set(err, ERR_INVALID, "job submit needs FILE.json, or --model and --train");
    }
    return send_job(session, err);
}

int job_clone(struct session *session, struct err *err)
{
    if (session->call.options.text[OPTION_FROM][0] == '\0') {
        session->status = COMMAND_USAGE;
        return err_set(err, ERR_INVALID, "job clone needs --from best or --from last");
    }
    return send_job(session, err);
}
