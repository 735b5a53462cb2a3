"""DELETE of what is stored: refused while a job uses it, and what goes with it."""

import contextlib
import sqlite3
import threading
import time

from api import BINARY, JOB, Api
from fake_agent import FakeAgent, drive, finish
from objects import TINY, blobs, safetensors
from paceline import data_files, must, tar_of
from submodels import HALVES, PARTED, train_groups
from survive import replicate, running, stages


def deleted(api, path, **headers):
    api.request("DELETE", path, headers=headers, expect=204)


def gone(api, path, code):
    api.problem("GET", path, code=code)
    api.problem("DELETE", path, code=code)


def test_a_data_set_is_deleted_when_no_live_job_uses_it():
    with Api() as api:
        path = "/v1/datasets/digits-train"
        must(blobs(api, 2) == 2, "two contents")
        job = api.submit_named("waits")
        for name in ("digits-train", "digits-test"):
            api.problem("DELETE", f"/v1/datasets/{name}", code="in_use", words=(job["id"],))
        more = [api.submit_named(f"more-{number}") for number in range(4)]
        api.problem("DELETE", path, code="in_use", words=("and 2 more", "jobs"))
        for ended in (job, *more):
            api.verb(ended, "cancel")
        revision = api.get(path)["revision"]
        api.problem(
            "DELETE", path, headers={"If-Match": f'"{revision + 1}"'}, code="revision_mismatch"
        )
        deleted(api, path, **{"If-Match": f'"{revision}"'})
        gone(api, path, "unknown_dataset")
        must([item["name"] for item in api.get("/v1/datasets")["items"]] == ["digits-test"], "list")
        must(blobs(api, 1) == 1, "the content stays")
        api.problem("POST", "/v1/jobs", JOB, code="invalid_fields", words=("digits-train",))
        api.upload("digits-train", "digits", "train")
        must(blobs(api, 2) == 2, "the content is stored again")
        api.submit_named("again")


def test_a_content_with_two_names_stays_until_both_are_deleted():
    with Api() as api:
        api.upload("twin", "digits", "train")
        job = api.submit_named("waits")
        deleted(api, "/v1/datasets/digits-train")
        must(blobs(api, 2) == 2, "the content of a live job is deleted")
        api.request("GET", "/v1/datasets/twin/content", expect=200)
        api.problem("DELETE", "/v1/datasets/twin", code="in_use", words=(job["id"],))
        must(api.coordinator.stop() == 0, "exit status")
        api.restart_coordinator()
        must(blobs(api, 2) == 2, "the sweep of the start took the content")
        api.problem("DELETE", "/v1/datasets/twin", code="in_use", words=(job["id"],))


def test_a_posted_model_is_deleted_when_no_live_job_has_it():
    with Api() as api:
        path = "/v1/models/tiny"
        api.request("POST", "/v1/models", TINY, expect=201)
        job = api.submit_named("waits", model={"name": "tiny"})
        api.problem("DELETE", path, code="in_use", words=(job["id"],))
        api.verb(job, "cancel")
        api.problem("DELETE", path, headers={"If-Match": '"77"'}, code="revision_mismatch")
        deleted(api, path)
        gone(api, path, "unknown_model")
        must(api.job(job)["spec"]["model"]["name"] == "tiny", "an ended job keeps its model")
        other = {**TINY, "units": TINY["units"][1:]}
        other["units"][0]["ops"].insert(0, {"type": "flatten"})
        api.request("POST", "/v1/models", other, expect=201)
        api.problem("DELETE", "/v1/models/lenet5", code="unknown_model", words=("zoo",))


def test_a_checkpoint_is_deleted_when_no_live_job_starts_from_it():
    with Api() as api:
        content = safetensors({"layer0.0.weight": [1]})
        stored = api.request("POST", "/v1/checkpoints", content, BINARY, expect=201).json
        path = f"/v1/checkpoints/{stored['id']}"
        agent = FakeAgent(api, "one")
        first = api.submit_named("first")
        done = finish(api, first, [agent])
        trained = f"/v1/checkpoints/{done['checkpoint']}"
        agent.step = 0
        job = api.submit_named(
            "next", init={"checkpoint": done["checkpoint"]}, devices={"labels": {"room": "none"}}
        )
        api.problem("DELETE", trained, code="in_use", words=(job["id"],))
        api.problem(
            "DELETE", f"/v1/jobs/{first['id']}", code="in_use", words=(job["id"], "checkpoint")
        )
        must(blobs(api, 4) == 4, "a refused deletion takes nothing")
        api.verb(job, "cancel")
        api.problem("DELETE", trained, headers={"If-Match": '"9"'}, code="revision_mismatch")
        deleted(api, trained)
        gone(api, trained, "unknown_checkpoint")
        api.problem("GET", f"{trained}/content", code="unknown_checkpoint")
        must(api.job(first)["checkpoint"] == done["checkpoint"], "the job names what is gone")
        must(blobs(api, 3) == 3, "the content stays")
        deleted(api, path)
        must(blobs(api, 2) == 2, "the content of the upload stays")
        again = api.request("POST", "/v1/checkpoints", content, BINARY, expect=201).json
        must(again["id"] != stored["id"], "a deleted checkpoint has returned")


def test_a_job_is_deleted_after_its_end_with_all_that_belongs_to_it():
    with Api() as api:
        agent = FakeAgent(api, "one")
        job = api.submit_named("first")
        path = f"/v1/jobs/{job['id']}"
        drive(api, job, [agent], "running", train_to=1)
        api.problem("DELETE", path, code="wrong_state", words=("cancel",))
        done = finish(api, job, [agent])
        kept = api.submit_named("kept")
        api.verb(kept, "cancel")
        must(api.get(f"{path}/metrics")["items"] and api.get(f"{path}/plans")["items"], "rows")
        api.problem("DELETE", path, headers={"If-Match": '"1"'}, code="revision_mismatch")
        deleted(api, path)
        gone(api, path, "unknown_job")
        for things in ("plans", "metrics", "checkpoints", "incidents"):
            api.problem("GET", f"{path}/{things}", code="unknown_job")
        api.problem("GET", f"/v1/checkpoints/{done['checkpoint']}", code="unknown_checkpoint")
        must([item["id"] for item in api.get("/v1/jobs")["items"]] == [kept["id"]], "the list")
        must(blobs(api, 2) == 2, "the trained model stays on the disk")
        must(api.coordinator.stop() == 0, "exit status")
        api.restart_coordinator()
        gone(api, path, "unknown_job")
        must("orphan_blob_removed" not in api.coordinator.log_text(), "a blob was left")


def test_the_kept_version_of_a_failed_job_is_deleted_with_it():
    with Api() as api:
        job, agents = running(api)
        first = stages(agents)[0]
        runs = {agent.id: agent.assignment()["run"] for agent in agents}
        for agent in agents:
            agent.step = 4
            run = {**runs[agent.id], "resume_version": 4}
            agent.hold(run, 4)
            rounds = {"rounds": {"center": 4}} if agent is first else {}
            agent.heartbeat(
                "run", run, all_holdings=True, holdings=agent.holdings(run), **rounds
            )
        for agent in agents:
            run = {**runs[agent.id], "resume_version": 4}
            for unit in range(run["stage"]["first"], run["stage"]["end"]):
                agent.put_unit(run, unit, agent.held[4, unit])
        first.heartbeat("run", runs[first.id], rounds={"center": 4})
        must(api.job(job)["version"] == 4, f"{api.job(job)}")
        error = {"code": "diverged", "message": "the loss is not finite"}
        first.heartbeat("run", runs[first.id], error=error)
        must(api.job(job)["state"] == "failed", f"{api.job(job)}")
        before = api.number("paceline_blobs")
        must(before > 2, f"{before} blobs")
        deleted(api, f"/v1/jobs/{job['id']}")
        must(blobs(api, 2) == 2, "units of the failed job stay on the disk")


def test_a_long_poll_on_a_job_ends_with_its_deletion():
    with Api() as api:
        job = api.submit_named("ended")
        job = api.verb(job, "cancel")
        path = f"/v1/jobs/{job['id']}"
        seen = []
        poll = threading.Thread(
            target=lambda: seen.append(api.request("GET", f"{path}?after=999999&wait=20"))
        )
        poll.start()
        deleted(api, path)
        poll.join(15)
        must(seen and seen[0].status in (200, 404), f"{seen}")


def test_a_part_is_deleted_with_its_job():
    with Api() as api:
        agents = [FakeAgent(api, f"agent{i}") for i in range(2)]
        job = api.submit({**PARTED, "submodel": {"groups": HALVES}})
        path = f"/v1/jobs/{job['id']}"
        train_groups(api, job, agents)
        groups = api.get(f"{path}/groups")
        stem = f"/v1/jobs/{groups['stem']['job']}"
        api.problem("DELETE", stem, code="group_of_job", words=(job["id"],))
        api.problem("DELETE", path, code="wrong_state")
        must(api.get(f"{path}/checkpoints")["items"], "the stem has no checkpoint")
        api.verb(job, "cancel")
        deleted(api, path)
        gone(api, path, "unknown_job")
        gone(api, stem, "unknown_job")
        must(api.get("/v1/checkpoints")["items"] == [], "checkpoints of the parts stay")
        must(blobs(api, 2) == 2, "blobs of the parts stay")


def repeated(api, part, count):
    """Rows as after `count` further trainings of a part: one that ended, with a metric each."""
    with contextlib.closing(sqlite3.connect(api.path / "coordinator/state.db")) as database:
        for row in range(count):
            job = f"job_{row:026}"
            database.execute(
                "INSERT INTO jobs SELECT ?, parent, revision, created_ms,"
                " json_set(document, '$.id', ?) FROM jobs WHERE id = ?",
                (job, job, part),
            )
            database.execute(
                "INSERT INTO metrics (job, step, name, value) VALUES (?, 1, 'loss', 1.0)", (job,)
            )
        database.commit()


def rows(api, query):
    with contextlib.closing(sqlite3.connect(api.path / "coordinator/state.db")) as database:
        return database.execute(query).fetchone()[0]


def test_a_job_with_any_number_of_parts_is_listed_and_deleted():
    with Api() as api:
        job = api.submit({**PARTED, "submodel": {"groups": HALVES}})
        path = f"/v1/jobs/{job['id']}"
        stem = api.get(f"{path}/groups")["stem"]["job"]
        api.verb(job, "cancel")
        api.coordinator.stop()
        repeated(api, stem, 1100)
        api.restart_coordinator()
        metrics = api.get(f"{path}/metrics?limit=10000")
        must(len({item["job"] for item in metrics["items"]}) == 1100, "parts without metrics")
        api.problem("DELETE", path, headers={"If-Match": '"1"'}, code="revision_mismatch")
        must(rows(api, "SELECT count(*) FROM jobs") == 1102, "a refused deletion deletes parts")
        deleted(api, path)
        (audited,) = api.get("/v1/audit?limit=1")["items"]
        must(audited["subject"] == job["id"], f"{audited}")
        gone(api, path, "unknown_job")
        gone(api, f"/v1/jobs/{stem}", "unknown_job")
        for table in ("jobs", "metrics"):
            must(rows(api, f"SELECT count(*) FROM {table}") == 0, f"rows of {table} stay")


def test_an_incident_is_deleted_when_it_is_over():
    with Api() as api:
        job, agents = running(api)
        replicate(agents, 2)
        victim = stages(agents)[1]
        victim.held, victim.made = {}, {}
        victim.enrol(boot="boot2")
        incident = api.get(f"/v1/jobs/{job['id']}/incidents")["items"][0]
        path = f"/v1/incidents/{incident['id']}"
        api.problem("DELETE", path, code="wrong_state", words=("open",))
        api.verb(job, "cancel")
        api.problem("DELETE", path, headers={"If-Match": '"99"'}, code="revision_mismatch")
        deleted(api, path)
        gone(api, path, "unknown_incident")
        must(api.get("/v1/incidents")["items"] == [], "the list")


def test_a_deletion_takes_no_query_and_its_name_is_free():
    with Api() as api:
        api.problem("DELETE", "/v1/datasets/digits-train?now=1", code="invalid_parameter")
        deleted(api, "/v1/datasets/digits-train")
        body = tar_of(*data_files("digits", "train"))
        api.request("PUT", "/v1/datasets/digits-train", body, BINARY, expect=201)


# ---- retention ----


def jobs_until(api, count):
    """The ids of the jobs once there are so many."""
    deadline = time.monotonic() + 30
    while True:
        found = [item["id"] for item in api.get("/v1/jobs")["items"]]
        if len(found) == count:
            return found
        must(time.monotonic() < deadline, f"{len(found)} jobs, not {count}")
        time.sleep(0.1)


def test_old_jobs_are_deleted_and_their_curves_thinned_when_the_options_say_so():
    with Api() as api:
        agent = FakeAgent(api, "one")
        first = api.submit_named("trained", steps=6)
        finish(api, first, [agent])
        cancelled = [api.submit_named(f"old-{number}") for number in range(3)]
        for job in cancelled:
            api.verb(job, "cancel")
        live = api.submit_named("live", devices={"labels": {"room": "none"}})
        must(api.coordinator.stop() == 0, "exit status")
        api.restart_coordinator("--keep-points", "2", "--keep-days", "1")
        path = f"/v1/jobs/{first['id']}/metrics?name=loss"
        deadline = time.monotonic() + 30
        while len(api.get(path)["items"]) > 2:
            must(time.monotonic() < deadline, f"{api.get(path)}")
            time.sleep(0.1)
        must([item["step"] for item in api.get(path)["items"]] == [1, 6], f"{api.get(path)}")
        must(len(jobs_until(api, 5)) == 5, "a job of today was deleted")
        must(api.coordinator.stop() == 0, "exit status")
        api.restart_coordinator("--keep-jobs", "2")
        kept = jobs_until(api, 3)
        must(kept == [cancelled[1]["id"], cancelled[2]["id"], live["id"]], f"{kept}")
        must(blobs(api, 2) == 2, "the model of a deleted job stays")
