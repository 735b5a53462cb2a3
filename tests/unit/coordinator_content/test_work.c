#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "coordinator/content/work.h"
#include "tests/support/test.h"

#define JOBS 200

/* One job and its result. */
struct task {
    struct work_job job; /* first */
    struct work *work;
    pthread_t runner;
    _Atomic bool started;
    bool ran, was_cancelled;
    int done;
    struct task *follow; /* submitted by done() */
};

static void task_run(struct work_job *job)
{
    struct task *task = (struct task *)job;
    task->runner = pthread_self();
    task->ran = true;
}

static void task_done(struct work_job *job)
{
    struct task *task = (struct task *)job;
    task->done++;
    task->was_cancelled = job->cancelled;
    if (task->follow) {
        work_submit(task->work, &task->follow->job);
    }
}

static struct task make_task(struct work *work)
{
    return (struct task){.work = work, .job = {.run = task_run, .done = task_done}};
}

/* Collect until `task` is done; fails the test after 20 s. */
static void await(struct work *work, const struct task *task)
{
    struct pollfd polled = {.fd = work_fd(work), .events = POLLIN};
    while (!task->done) {
        assert_int_equal(poll(&polled, 1, 20000), 1);
        work_collect(work);
    }
}

static void jobs_run_on_a_worker_and_are_done_on_the_callers_thread(void **state)
{
    (void)state;
    struct err err = {0};
    struct work *work = NULL;
    static struct task task[JOBS];
    assert_ok(work_new(4, &work, &err), &err);
    for (size_t i = 0; i < JOBS; i++) {
        task[i] = make_task(work);
        work_submit(work, &task[i].job);
    }
    for (size_t i = 0; i < JOBS; i++) {
        await(work, &task[i]);
        assert_true(task[i].ran && !task[i].was_cancelled && task[i].done == 1);
        assert_false(pthread_equal(task[i].runner, pthread_self()));
    }
    work_free(&work);
}

static void a_job_may_submit_another_when_it_is_done(void **state)
{
    (void)state;
    struct err err = {0};
    struct work *work = NULL;
    assert_ok(work_new(1, &work, &err), &err);
    struct task first = make_task(work), second = make_task(work);
    first.follow = &second;
    work_submit(work, &first.job);
    await(work, &second);
    assert_true(second.ran);
    work_free(&work);
}

static void *post(void *arg)
{
    struct task *task = arg;
    work_post(task->work, &task->job);
    return NULL;
}

static void a_posted_job_is_done_without_running(void **state)
{
    (void)state;
    struct err err = {0};
    struct work *work = NULL;
    pthread_t thread;
    assert_ok(work_new(1, &work, &err), &err);
    struct task task = make_task(work);
    assert_int_equal(pthread_create(&thread, NULL, post, &task), 0);
    await(work, &task);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(task.ran);
    assert_false(task.was_cancelled);
    work_free(&work);
}

/* Runs until the work is stopped. */
static void long_run(struct work_job *job)
{
    struct task *task = (struct task *)job;
    task->ran = true;
    atomic_store(&task->started, true);
    while (!work_stopping(task->work)) {
        sched_yield();
    }
}

static void stopping_waits_for_running_jobs_and_cancels_queued_ones(void **state)
{
    (void)state;
    struct err err = {0};
    struct work *work = NULL;
    assert_ok(work_new(1, &work, &err), &err);
    struct task running = make_task(work), queued = make_task(work), late = make_task(work),
                posted = make_task(work);
    running.job.run = long_run;
    work_submit(work, &running.job);
    work_submit(work, &queued.job);
    while (!atomic_load(&running.started)) {
        sched_yield();
    }
    work_stop(work);
    assert_true(running.ran && running.done == 1 && !running.was_cancelled);
    assert_true(!queued.ran && queued.done == 1 && queued.was_cancelled);
    work_submit(work, &late.job);
    work_post(work, &posted.job);
    assert_int_equal(late.done, 0);
    work_collect(work);
    assert_true(!late.ran && late.done == 1 && late.was_cancelled);
    assert_true(posted.done == 1 && !posted.was_cancelled);
    work_free(&work);
    assert_null(work);
    work_free(&work);
}

static void freeing_the_work_ends_every_task(void **state)
{
    (void)state;
    struct err err = {0};
    struct work *work = NULL;
    assert_ok(work_new(2, &work, &err), &err);
    struct task posted = make_task(work), follower = make_task(work);
    posted.follow = &follower;
    work_post(work, &posted.job);
    work_free(&work);
    assert_int_equal(posted.done, 1);
    assert_true(follower.done == 1 && follower.was_cancelled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_run_on_a_worker_and_are_done_on_the_callers_thread),
        cmocka_unit_test(a_job_may_submit_another_when_it_is_done),
        cmocka_unit_test(a_posted_job_is_done_without_running),
        cmocka_unit_test(stopping_waits_for_running_jobs_and_cancels_queued_ones),
        cmocka_unit_test(freeing_the_work_ends_every_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
