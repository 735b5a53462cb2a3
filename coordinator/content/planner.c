#include "coordinator/content/planner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/content/catalog.h"
#include "coordinator/content/work.h"
#include "coordinator/coordinator.h"
#include "coordinator/core/placement/placement.h"
#include "coordinator/core/placement/question.h"

/* One search at a time. While it runs, the worker owns `planning` and the members after it. */
struct search {
    struct work_job job; /* first */
    struct planner *planner;
    bool runs;
    struct planning *planning;
    struct planned answer;
    int code;
    struct err err;
};

struct planner {
    struct coordinator *coordinator;
    struct search users;                   /* for users */
    struct planner_question *asked;        /* of that search */
    struct planner_question *first, *last; /* after it */
    size_t waiting;
    struct search core; /* for the core */
    uint64_t question;  /* of that search */
    uint64_t next;      /* the question after it; 0: none */
};

static void search_run(struct work_job *job)
{
    struct search *search = (struct search *)job;
    search->err = (struct err){0};
    search->code = placement_solve(search->planning, &search->answer, &search->err);
}

/* Solve search->planning; its model is kept until search_end. */
static void search_begin(struct search *search)
{
    struct coordinator *coordinator = search->planner->coordinator;
    search->runs = true;
    catalog_pin(coordinator->catalog, search->planning->spec.model.sha256);
    work_submit(coordinator->work, &search->job);
}

static void search_end(struct search *search)
{
    search->runs = false;
    catalog_unpin(search->planner->coordinator->catalog, search->planning->spec.model.sha256);
}

static int search_new(struct planner *planner, struct search *search,
                      void (*done)(struct work_job *job), struct err *err)
{
    search->job = (struct work_job){.run = search_run, .done = done};
    search->planner = planner;
    int rc = question_new(&search->planning, err);
    if (rc == 0) {
        search->planning->cancelled = work_stop_flag(planner->coordinator->work);
    }
    return rc;
}

/* ---- questions of the core ---- */

void planner_ask(struct planner *planner, uint64_t question)
{
    struct search *search = &planner->core;
    if (search->runs) {
        planner->next = question;
        return;
    }
    if (core_planning(planner->coordinator->core, question, search->planning)) {
        planner->question = question;
        search_begin(search);
    }
}

static struct event_planned answer_of(const struct search *search, uint64_t question)
{
    struct event_planned answer = {
        .question = question, .planned = &search->answer, .code = search->code};
    snprintf(answer.message, sizeof(answer.message), "%.*s", MESSAGE_SIZE - 1, search->err.text);
    return answer;
}

static void core_done(struct work_job *job)
{
    struct search *search = (struct search *)job;
    struct planner *planner = search->planner;
    const uint64_t next = planner->next;
    search_end(search);
    if (planner->coordinator->stopping) {
        return;
    }
    struct event event = {.type = EVENT_PLANNED, .planned = answer_of(search, planner->question)};
    turn_event(planner->coordinator->turn, &event, NULL, NULL);
    planner->next = 0;
    if (next != 0) {
        planner_ask(planner, next);
    }
}

/* ---- questions of users ---- */

static struct planner_question *pop(struct planner *planner)
{
    struct planner_question *question = planner->first;
    if (question) {
        planner->first = question->next;
        planner->last = planner->first ? planner->last : NULL;
        planner->waiting--;
    }
    return question;
}

static void next_user(struct planner *planner)
{
    while (!planner->users.runs && planner->first) {
        struct planner_question *question = pop(planner);
        if (question->fill(question, planner->users.planning)) {
            planner->asked = question;
            search_begin(&planner->users);
        }
    }
}

bool planner_full(const struct planner *planner)
{
    return planner->waiting >= PLANNER_QUESTIONS_MAX;
}

void planner_again(struct planner *planner, struct planner_question *question)
{
    question->next = NULL;
    if (planner->last) {
        planner->last->next = question;
    } else {
        planner->first = question;
    }
    planner->last = question;
    planner->waiting++;
}

void planner_take(struct planner *planner, struct planner_question *question)
{
    ASSERT(!planner_full(planner));
    planner_again(planner, question);
    next_user(planner);
}

static void user_done(struct work_job *job)
{
    struct search *search = (struct search *)job;
    struct planner *planner = search->planner;
    const struct event_planned answer = answer_of(search, 0);
    search_end(search);
    const bool ended = job->cancelled || answer.code == ERR_CANCELLED;
    planner->asked->done(planner->asked, ended ? NULL : &answer);
    if (!planner->coordinator->stopping) {
        next_user(planner);
    }
}

/* ---- lives ---- */

int planner_new(struct coordinator *coordinator, struct planner **out, struct err *err)
{
    AUTO(planner_free) struct planner *planner = calloc(1, sizeof(*planner));
    if (!planner) {
        return err_set(err, ERR_MEMORY, "planner: out of memory");
    }
    planner->coordinator = coordinator;
    int rc = search_new(planner, &planner->core, core_done, err);
    rc = rc ? rc : search_new(planner, &planner->users, user_done, err);
    if (rc) {
        return rc;
    }
    *out = planner;
    planner = NULL;
    return 0;
}

void planner_free(struct planner **pointer)
{
    struct planner *planner = *pointer;
    if (planner) {
        for (struct planner_question *question; (question = pop(planner));) {
            question->done(question, NULL);
        }
        question_free(&planner->core.planning);
        question_free(&planner->users.planning);
        free(planner);
        *pointer = NULL;
    }
}
