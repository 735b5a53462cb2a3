"""The life of a job with real agents: waiting, running, ends, restarts and killed processes.
A job that succeeds always has the weights of one process.
"""

import functools
import signal
import subprocess
import threading

from paceline import (
    FASHION,
    Failure,
    Fleet,
    by_build,
    fashion_fleet,
    fashion_job,
    fill,
    must,
    on_devices,
    small_disk,
    train,
)
from runner import run

LEASE_MS = 2000
OPTIONS = ("--heartbeat-ms", 100, "--lease-ms", LEASE_MS)
SHORT, LONG = 20, by_build(400, 120)


@functools.cache
def reference(steps):
    return train(fashion_job(steps=steps), FASHION)[0]


def short_lease_fleet(agents=0, *arguments):
    return fashion_fleet(agents, *arguments, lease_ms=LEASE_MS)


def check_weights(fleet, job, steps):
    sha256 = fleet.checkpoint_sha256(job)
    must(sha256 == reference(steps), f"{sha256}, not {reference(steps)}")


def plans(fleet, job):
    return fleet.get(f"/v1/jobs/{job['id']}/plans")["items"]


def devices_are_free(fleet):
    must(
        all(device["job"] is None for device in fleet.get("/v1/devices")["items"]),
        "a device still works for a job that has ended",
    )


def test_a_job_waits_for_devices_and_runs_when_they_enrol():
    with short_lease_fleet() as fleet:
        job = fleet.submit(fashion_job(steps=SHORT, **on_devices(2, 2)))
        must(job["state"] == "queued" and job["state_reason"] == "waiting_for_devices", f"{job}")
        must("2 more devices" in job["message"], f"{job['message']}")
        fleet.start_agent("first")
        fleet.wait_until(job, lambda seen: "1 more device" in seen["message"], "waits for one")
        fleet.start_agent("second")
        fleet.wait_until(
            job, lambda seen: seen["state"] in ("preparing", "running", "succeeded"), "it begins"
        )
        done = fleet.wait(job, "succeeded")
        must(
            done["progress"]["step"] == SHORT
            and done["progress"]["fraction"] == 1
            and done["exact"],
            f"{done}",
        )
        must(done["started_at"] and done["ended_at"] >= done["started_at"], f"{done}")
        check_weights(fleet, job, SHORT)
        losses = fleet.get(f"/v1/jobs/{job['id']}/metrics?name=loss")["items"]
        must(
            [item["step"] for item in losses] == list(range(1, SHORT + 1)),
            f"losses of steps {[item['step'] for item in losses]}",
        )
        devices_are_free(fleet)


def test_the_end_of_a_terminal_stops_the_programs_in_order_unless_nohup_started_them():
    with short_lease_fleet() as fleet:
        kept = fleet.start_agent("kept", prefix=("nohup",), wait=False)
        ends = fleet.start_agent("ends", wait=False)
        fleet.wait_for_agents()
        for process in (kept, ends, fleet.coordinator):
            process.signal(signal.SIGHUP)
        for process in (ends, fleet.coordinator):
            must(
                process.process.wait(20) == 0,
                f"{process.name} ended with {process.process.returncode}: {process.log_text()}",
            )
            must(
                "signal" in process.log_text() or "stopping" in process.log_text(),
                f"{process.log_text()}",
            )
        must(kept.running(), "nohup did not keep the agent")


def test_a_cancelled_job_frees_its_devices_for_the_next():
    with short_lease_fleet(2) as fleet:
        first = fleet.submit(fashion_job(steps=100000, **on_devices(2, 2)))
        second = fleet.submit(fashion_job(steps=SHORT, **on_devices(2, 2)))
        fleet.wait_for_step(first, 5)
        must(fleet.job(second)["state"] == "queued", "two jobs use the same devices")
        must(fleet.verb(first, "cancel")["state"] == "cancelled", "cancel")
        fleet.wait(second, "succeeded")
        check_weights(fleet, second, SHORT)
        devices_are_free(fleet)


def test_jobs_run_by_priority_then_by_age():
    with short_lease_fleet(1) as fleet:
        first = fleet.submit(fashion_job(steps=100000))
        fleet.wait_for_step(first, 1)
        jobs = [
            fleet.submit(fashion_job(steps=2, name=name, priority=priority))
            for name, priority in (("old", 0), ("young", 0), ("urgent", 5), ("idle", -5))
        ]
        fleet.verb(first, "cancel")
        done = [fleet.wait(job, "succeeded") for job in jobs]
        order = [job["spec"]["name"] for job in sorted(done, key=lambda job: job["started_at"])]
        must(order == ["urgent", "old", "young", "idle"], f"{order}")


def test_jobs_that_fit_run_at_once_on_disjoint_devices():
    with short_lease_fleet(3) as fleet:
        two = fleet.submit(fashion_job(steps=100000, **on_devices(2, 2)))
        one = fleet.submit(fashion_job(steps=100000, **on_devices(1, 1)))
        three = fleet.submit(fashion_job(steps=SHORT, **on_devices(3, 3)))
        running = [fleet.wait(job, "running") for job in (two, one)]
        used = [stage["device"] for job in running for stage in plans(fleet, job)[0]["stages"]]
        must(len(used) == len(set(used)) == 3, f"{used}")
        must(fleet.job(three)["state"] == "queued", "the job runs on busy devices")
        for job in (two, one):
            fleet.verb(job, "cancel")
        fleet.wait(three, "succeeded")
        check_weights(fleet, three, SHORT)


def test_a_paused_job_frees_its_devices_and_resumes_later():
    with short_lease_fleet(2, "--slowdown", 2) as fleet:
        job = fleet.submit(fashion_job(steps=LONG, **on_devices(2, 2)))
        fleet.wait_for_step(job, 10)
        fleet.verb(job, "pause")
        paused = fleet.wait(job, "paused")
        must(
            10 <= paused["version"] < LONG and paused["progress"]["step"] == paused["version"],
            f"{paused}",
        )
        other = fleet.submit(fashion_job(steps=SHORT, **on_devices(1, 1)))
        fleet.wait(other, "succeeded")
        fleet.verb(job, "resume")
        fleet.wait(job, "succeeded")
        check_weights(fleet, job, LONG)
        check_weights(fleet, other, SHORT)


def restart(way):
    with short_lease_fleet(2, "--slowdown", 4) as fleet:
        job = fleet.submit(fashion_job(steps=LONG, **on_devices(2, 2)))
        before = fleet.wait_for_step(job, 20)
        getattr(fleet.coordinator, way)()
        fleet.restart_coordinator(*OPTIONS)
        after = fleet.wait_until(
            job,
            lambda seen: seen["progress"]["step"] > before["progress"]["step"],
            "the run does not continue",
        )
        must(
            after["state"] == "running" and after["generation"] == 1,
            f"the agents were stopped for it: {after}",
        )
        fleet.wait(job, "succeeded")
        must([plan["state"] for plan in plans(fleet, job)] == ["done"], f"{plans(fleet, job)}")
        check_weights(fleet, job, LONG)


def test_agents_train_on_while_the_coordinator_is_restarted():
    restart("stop")


def test_agents_train_on_while_the_coordinator_is_killed_and_restarted():
    restart("kill")


def test_a_job_ends_although_the_coordinator_is_down_at_its_last_step():
    with short_lease_fleet(2) as fleet:
        job = fleet.submit(fashion_job(steps=LONG, **on_devices(2, 2)))
        fleet.wait_for_step(job, 20)
        fleet.coordinator.kill()
        wait_for_log(
            fleet.agents[0], "phase=stop"
        )  # stopped, or stopping while metrics are left to report
        fleet.restart_coordinator(*OPTIONS)
        fleet.wait(job, "succeeded")
        check_weights(fleet, job, LONG)


def wait_for_log(process, text):
    with subprocess.Popen(
        ["tail", "-n", "+1", "-F", str(process.log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as tail:
        timer = threading.Timer(60, tail.kill)
        timer.start()
        try:
            for line in tail.stdout:
                if text in line:
                    return
        finally:
            timer.cancel()
            tail.kill()
    raise Failure(f"'{text}' is not in the log of {process.program}: {process.log_text()[-2000:]}")


def test_the_others_replace_an_agent_that_stops_in_order():
    with short_lease_fleet(3, "--slowdown", 2) as fleet:
        job = fleet.submit(fashion_job(steps=LONG, **on_devices(2, 3), cuts=[2, 4]))
        fleet.wait_for_step(job, 20)
        must(fleet.agents[1].stop() == 0, "exit status")
        fleet.wait(job, "succeeded")
        stages = [len(plan["stages"]) for plan in plans(fleet, job)]
        must(stages[0] == 3 and stages[-1] == 2, f"{stages}")
        check_weights(fleet, job, LONG)


def test_the_others_replace_a_killed_agent():
    with short_lease_fleet(3, "--slowdown", 2) as fleet:
        job = fleet.submit(fashion_job(steps=LONG, **on_devices(2, 3), cuts=[2, 4]))
        fleet.wait_for_step(job, 20)
        fleet.agents[0].kill()
        fleet.wait(job, "succeeded")
        found = plans(fleet, job)
        must(
            len(found[-1]["stages"]) == 2
            and found[-1]["reason"] in ("device_lost", "prepare_failed", "restarted"),
            f"{found}",
        )
        check_weights(fleet, job, LONG)
        states = sorted(device["state"] for device in fleet.get("/v1/devices")["items"])
        must(
            states in (["disconnected", "online", "online"], ["lost", "online", "online"]),
            f"{states}",
        )


def test_a_job_with_too_few_devices_waits_and_resumes_with_a_new_one():
    with short_lease_fleet(2, "--slowdown", 2) as fleet:
        job = fleet.submit(fashion_job(steps=LONG, **on_devices(2, 2)))
        fleet.wait_for_step(job, 20)
        fleet.agents[1].kill()
        waiting = fleet.wait(job, "waiting_for_devices")
        must("1 more device" in waiting["message"], f"{waiting}")
        fleet.start_agent("late")
        fleet.wait(job, "succeeded")
        check_weights(fleet, job, LONG)


def test_a_killed_and_restarted_agent_takes_part_again():
    with short_lease_fleet(2, "--slowdown", 2) as fleet:
        job = fleet.submit(fashion_job(steps=LONG, **on_devices(2, 2)))
        fleet.wait_for_step(job, 20)
        fleet.agents[1].kill()
        fleet.start_agent("agent1", "--slowdown", 2)
        fleet.wait(job, "succeeded")
        check_weights(fleet, job, LONG)
        must(len(fleet.get("/v1/devices")["items"]) == 2, "the same device again")


def test_an_agent_that_freezes_and_thaws_does_no_harm():
    with short_lease_fleet(3, "--slowdown", 2) as fleet:
        job = fleet.submit(fashion_job(steps=LONG, **on_devices(1, 3), cuts=[2, 4]))
        fleet.wait_for_step(job, 20)
        frozen = fleet.agents[2]
        frozen.signal(signal.SIGSTOP)
        fleet.wait_until(
            job,
            lambda seen: seen["generation"] > 1 and seen["state"] == "running",
            "the job continues without it",
        )
        frozen.signal(signal.SIGCONT)
        fleet.wait(job, "succeeded")
        check_weights(fleet, job, LONG)
        fleet.wait_for_devices(3)


def test_a_full_disk_rejects_uploads_and_the_job_continues():
    with Fleet() as fleet, small_disk(fleet.path / "coordinator", "64m") as place:
        fleet.start_coordinator(
            *OPTIONS, "--min-free", "12M"
        )  # more than the reserve that state.db releases
        fleet.upload("fashion-train", "fashion-mini", "train")
        fleet.start_agents(1, "--slowdown", 2)
        job = fleet.submit(fashion_job(steps=LONG))
        fleet.wait_for_step(job, 5)
        stated = fleet.request(
            "PUT",
            "/v1/datasets/huge",
            bytes(80 << 20),
            {"Content-Type": "application/octet-stream"},
        )
        must(stated.code == "disk_full", f"{stated.status} {stated.body!r}")
        pieces = fleet.request(
            "PUT",
            "/v1/datasets/huge",
            (bytes(1 << 20) for _ in range(80)),
            {"Content-Type": "application/x-tar"},
        )
        must(pieces.code == "disk_full", f"{pieces.status} {pieces.body!r}")
        foreign = fill(place)
        small = fleet.request(
            "PUT", "/v1/datasets/small", b"0123", {"Content-Type": "application/octet-stream"}
        )
        must(small.code == "disk_full", f"{small.status} {small.body!r}")
        refused = fleet.request("POST", "/v1/jobs", fashion_job(steps=SHORT))
        must(refused.code == "disk_full", f"{refused.status} {refused.body!r}")
        must(fleet.get("/healthz") == {"status": "ok"}, "healthz")
        foreign.unlink()
        fleet.wait(job, "succeeded")
        check_weights(fleet, job, LONG)
        fleet.coordinator.stop()


if __name__ == "__main__":
    run(globals())
