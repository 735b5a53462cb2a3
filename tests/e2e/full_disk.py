"""Fill a small disk of the coordinator during a job: by every route that stores rows, and by
another program.
"""

import itertools
import json
import os

from paceline import FASHION, ROOT, Fleet, fashion_job, fill, must, small_disk, train
from runner import run

MIN_FREE = 4 << 20
OPTIONS = ("--heartbeat-ms", 100, "--lease-ms", 2000, "--min-free", MIN_FREE)
STEPS = 450
DEVICE = json.loads(
    (ROOT / "schema/examples/valid/enroll_request.full.json").read_text(encoding="utf-8")
)
LINEAR = {"type": "linear", "units": "classes"}
SERIAL = itertools.count(1)


def large_model():
    """Some 20 KB of description."""
    units = [{"name": f"u{unit:03}-{'x' * 58}", "ops": [{"type": "relu"}]} for unit in range(200)]
    units.append({"name": "head", "ops": [{"type": "flatten"}, LINEAR]})
    return {"name": f"model-{next(SERIAL)}", "units": units}


def post(fleet, path, body=None, keyed=False):
    headers = {"Idempotency-Key": f"key-{next(SERIAL)}"} if keyed else {}
    return fleet.request("POST", path, body, {"Content-Type": "application/json", **headers})


def enrol(fleet):
    serial = next(SERIAL)
    return post(
        fleet,
        "/v1/agent/enroll",
        {**DEVICE, "name": f"device-{serial}", "public_key": f"{serial:064x}", "labels": {}},
    )


def put(fleet):
    return fleet.request(
        "PUT",
        f"/v1/datasets/data-{next(SERIAL)}",
        b"0123",
        {"Content-Type": "application/octet-stream"},
    )


def queued_job():
    """A job that waits for devices that do not exist."""
    return fashion_job(steps=STEPS, name="waits", devices={"labels": {"room": "nowhere"}})


def routes(fleet, job, waiting):
    """Every request that stores rows."""
    return {
        "models": lambda: post(fleet, "/v1/models", large_model()),
        "jobs": lambda: post(fleet, "/v1/jobs", queued_job()),
        "devices": lambda: enrol(fleet),
        "data sets": lambda: put(fleet),
        "checkpoints": lambda: fleet.request(
            "POST", "/v1/checkpoints", b"01", {"Content-Type": "application/octet-stream"}
        ),
        "plans": lambda: post(fleet, f"/v1/jobs/{job['id']}/replan"),
        "resumed jobs": lambda: post(fleet, f"/v1/jobs/{waiting['id']}/resume"),
        "answers to questions": lambda: post(fleet, "/v1/plans", {"job": job["id"]}, keyed=True),
        "answers to verbs": lambda: post(fleet, f"/v1/jobs/{waiting['id']}/pause", keyed=True),
    }


def fill_by_rows(fleet, place, job, waiting):
    """Starts 3 MiB above --min-free: the job stores its copies meanwhile."""
    made = routes(fleet, job, waiting)
    file_system = os.statvfs(place)
    with open(place / "before", "wb") as file:
        file.write(bytes(file_system.f_bavail * file_system.f_frsize - MIN_FREE - (3 << 20)))
    for what in ("jobs", "devices", "answers to questions"):
        for _ in range(5):
            answer = made[what]()
            must(answer.status < 300, f"{what}: {answer.status} {answer.body!r}")
    for _ in range(400):
        answer = made["models"]()
        if answer.status != 201:
            break
    must(answer.status == 507 and answer.code == "disk_full", f"{answer.status} {answer.body!r}")
    return made


def every_route_says_507(made):
    for what, make in made.items():
        answer = make()
        must(
            answer.status == 507 and answer.code == "disk_full",
            f"{what}: {answer.status} {answer.body!r}",
        )


def what_frees_or_reads_works(fleet, jobs, devices):
    for path in (
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/jobs",
        "/v1/devices",
        "/v1/models",
        f"/v1/jobs/{jobs[0]['id']}",
    ):
        fleet.request("GET", path, expect=200)
    must(
        post(fleet, "/v1/jobs?dry_run=true", queued_job()).status == 200, "a dry run stores nothing"
    )
    fleet.verb(jobs.pop(), "pause")
    fleet.verb(jobs.pop(), "cancel")
    device = devices.pop()["id"]
    fleet.request("POST", f"/v1/devices/{device}/cordon", expect=202)
    fleet.request("DELETE", f"/v1/devices/{device}", expect=204)


def test_rows_never_fill_the_disk_and_a_full_one_ends_neither_the_coordinator_nor_the_job():
    with Fleet() as fleet, small_disk(fleet.path / "coordinator", "24m") as place:
        coordinator = fleet.start_coordinator(*OPTIONS)
        fleet.upload("fashion-train", "fashion-mini", "train")
        fleet.start_agents(1, "--slowdown", 2)
        job = fleet.submit(fashion_job(steps=STEPS, replication={"center_every": 20}))
        waiting = fleet.submit(queued_job())
        fleet.wait_for_step(job, 5)
        made = fill_by_rows(fleet, place, job, waiting)
        every_route_says_507(made)
        jobs = [
            item
            for item in fleet.get("/v1/jobs?limit=500")["items"]
            if item["id"] not in (job["id"], waiting["id"])
        ]
        devices = [
            item for item in fleet.get("/v1/devices?limit=500")["items"] if item["job"] is None
        ]
        foreign = fill(place)
        what_frees_or_reads_works(fleet, jobs, devices)
        must(coordinator.running(), "the coordinator has ended")

        coordinator.kill()
        coordinator = fleet.restart_coordinator(*OPTIONS)
        what_frees_or_reads_works(fleet, jobs, devices)
        every_route_says_507(made)

        # Without its reserve the coordinator can store nothing and waits for room.
        coordinator.kill()
        (place / "state.reserve").unlink(missing_ok=True)
        foreign.rename(place / "foreign-too")
        foreign = fill(place)
        coordinator = fleet.restart_coordinator(*OPTIONS)
        for path in (
            "/healthz",
            "/v1/jobs",
            f"/v1/jobs/{job['id']}",
            f"/v1/jobs/{job['id']}/metrics",
        ):
            fleet.request("GET", path, expect=200)
        every_route_says_507(made)
        must(coordinator.running(), "the coordinator has ended")
        foreign.unlink()
        (place / "foreign-too").unlink()
        (place / "before").unlink()
        fleet.wait(job, "succeeded")
        must(
            fleet.checkpoint_sha256(job) == train(fashion_job(steps=STEPS), FASHION)[0],
            "other weights",
        )
        must(made["models"]().status == 201, "there is room again")
        coordinator.stop()


def test_a_deletion_by_age_that_finds_the_disk_full_waits_for_room():
    with Fleet() as fleet, small_disk(fleet.path / "coordinator", "24m") as place:
        options = ("--keep-jobs", 1)
        coordinator = fleet.start_coordinator(*OPTIONS, *options)
        fleet.upload("fashion-train", "fashion-mini", "train")
        jobs = [fleet.submit(queued_job()) for _ in range(2)]
        for job in jobs:
            fleet.verb(job, "cancel")
        must(coordinator.stop() == 0, "exit status")
        (place / "state.reserve").unlink()
        foreign = fill(place)
        coordinator = fleet.restart_coordinator(*OPTIONS, *options)
        coordinator.wait_for_log("event=commit_held")
        for job in jobs:
            fleet.request("GET", f"/v1/jobs/{job['id']}", expect=200)
        must(coordinator.running(), "the coordinator has ended")
        foreign.unlink()
        coordinator.wait_for_log("event=commit_made_up")
        coordinator.wait_for_log("event=job_deleted")
        fleet.request("GET", f"/v1/jobs/{jobs[0]['id']}", expect=404)
        fleet.request("GET", f"/v1/jobs/{jobs[1]['id']}", expect=200)


if __name__ == "__main__":
    run(globals())
