"""Survival and its cost: rounds, incidents, coverage, what-if plans, and the state of the previous
version.
"""

import json
import shutil
import sqlite3
import threading
import time

from api import BINARY, JOB, JSON, Api
from fake_agent import FakeAgent, drive, finish, pause, replicate
from paceline import ROOT, data_files, must, tar_of

PIPELINE = {
    **JOB,
    "steps": 80,
    "cuts": [1, 2],
    "devices": {"min": 1, "max": 3},
    "replication": {"neighbor_every": 2, "center_every": 4},
}


def job_number(api, job, name):
    """A metric of the job."""
    labels = f'{{job_id="{job["id"]}",job_name="{job["spec"]["name"]}"}}'
    return api.number(f"paceline_job_{name}{labels}")


def running(api, count=3, train_to=2, **fields):
    """A job that runs on fake agents, at step `train_to`."""
    agents = [FakeAgent(api, f"agent{index}") for index in range(count)]
    job = api.submit({**PIPELINE, **fields})
    drive(api, job, agents, "running", train_to=train_to)
    for agent in agents:
        agent.act(train_to)
    return job, agents


def stages(agents):
    """The agents in the order of their stages."""
    return sorted(agents, key=lambda agent: agent.assignment()["run"]["stage"]["index"])


# ---- rounds ----


def test_a_ring_of_neighbours_is_assigned_with_tickets():
    with Api() as api:
        _, agents = running(api)
        ring = stages(agents)
        assignments = {agent.id: agent.assignment() for agent in ring}
        for index, agent in enumerate(ring):
            run = assignments[agent.id]["run"]
            target = ring[(index + 1) % 3]
            must(
                run["neighbor"]["device"] == target.id and run["neighbor"]["url"],
                f"{run['neighbor']}",
            )
            callers = {caller["device"]: caller for caller in assignments[target.id]["callers"]}
            must(
                callers[agent.id]["ticket"] == run["neighbor"]["ticket"],
                f"{run['neighbor']} {callers}",
            )
            must(run["replica_bytes"] > 0, "room for the predecessor's snapshots")
    with Api() as api:
        _, agents = running(api, count=1, cuts=[])
        must(agents[0].assignment()["run"]["neighbor"] is None, "a single device has a neighbour")


def edges(agents):
    """(generation, plan, {(caller, called): ticket}) of the job of all agents."""
    tickets, seen = {}, set()
    for agent in agents:
        run = agent.assignment()["run"]
        seen.add((run["generation"], run["plan"]))
        tickets.update(
            {
                (agent.id, run[side]["device"]): run[side]["ticket"]
                for side in ("previous", "next", "neighbor")
                if run[side]
            }
        )
    must(len(seen) == 1, f"{seen}")
    return *seen.pop(), tickets


def test_tickets_of_another_plan_are_void_even_when_a_restored_backup_repeats_its_number():
    with Api() as api:
        agents = [FakeAgent(api, f"agent{index}") for index in range(3)]
        api.verb_of_device(agents[0], "cordon")
        job = api.submit({**PIPELINE, "devices": {"min": 3, "max": 3}})
        state = api.path / "coordinator"
        seen = []
        must(api.coordinator.stop() == 0, "exit status")
        shutil.copytree(state, api.path / "backup")
        for _ in range(2):
            api.restart_coordinator("--lease-ms", "20000")
            for agent in agents:
                agent.heartbeat(all_holdings=True, holdings=[])
            api.verb_of_device(agents[0], "uncordon")
            api.wait(job, "preparing")
            seen.append(edges(agents))
            api.coordinator.kill()
            shutil.rmtree(state)
            shutil.copytree(api.path / "backup", state)
        (first, first_plan, before), (second, second_plan, after) = seen
        must(
            first == second and first_plan != second_plan,
            f"{first_plan} and {second_plan} made generation {first}",
        )
        must(
            before.keys() & after.keys() and not set(before.values()) & set(after.values()),
            f"{before} {after}",
        )


def test_a_version_is_committed_when_two_devices_hold_every_unit():
    with Api() as api:
        job, agents = running(api)
        reply = replicate(agents, 2)
        must(reply["rounds"]["neighbor"] == {"version": 2, "state": "committed"}, f"{reply}")
        seen = api.job(job)
        must(
            seen["neighbor_version"] == 2 and seen["version"] == 0 and not seen["stalled"],
            f"{seen}",
        )
        must(
            seen["deadlines"]["lease_ms"] == 20000 and all(seen["deadlines"].values()),
            f"{seen['deadlines']}",
        )
        must(
            seen["line"] == [{"generation": 1, "first": 0}]
            and job_number(api, job, "neighbor_version") == 2,
            f"{seen['line']}",
        )
        plan = api.get(f"/v1/jobs/{job['id']}/plans/1")
        must(
            all(stage["memory_bytes"] > stage["replica_bytes"] > 0 for stage in plan["stages"]),
            f"{plan['stages']}",
        )


def test_the_center_stores_a_version_during_training_and_unchanged_units_without_a_body():
    with Api() as api:
        job, agents = running(api)
        first = stages(agents)[0]
        for version, bodies in ((4, True), (8, False)):
            runs = {agent.id: agent.assignment()["run"] for agent in agents}
            for agent in agents:
                agent.step = version
                agent.hold(runs[agent.id], version)
                if not bodies:
                    agent.held.update(
                        {(8, unit): data for (held, unit), data in agent.held.items() if held == 4}
                    )
                agent.heartbeat(
                    "run",
                    runs[agent.id],
                    all_holdings=True,
                    holdings=agent.holdings(runs[agent.id]),
                    **({"rounds": {"center": version}} if agent is first else {}),
                )
            for agent in agents:
                run = {**runs[agent.id], "resume_version": version}
                for unit in range(run["stage"]["first"], run["stage"]["end"]):
                    data = agent.held[version, unit]
                    path = agent.unit_path(run, unit, data)
                    if bodies:
                        api.problem(
                            "PUT", path, b"", BINARY, code="unknown_blob", words=("send it",)
                        )
                        api.request("PUT", path, data, BINARY, expect=204)
                    else:
                        api.request("PUT", path, b"", BINARY, expect=204)
            reply = first.heartbeat("run", runs[first.id], rounds={"center": version})
            must(
                reply["rounds"]["center"] == {"version": version, "state": "committed"},
                f"{version}: {reply}",
            )
            must(
                api.job(job)["version"] == version and api.job(job)["state"] == "running",
                f"{api.job(job)}",
            )
        blobs = api.number("paceline_blobs")
        must(blobs == 2 + 3, f"two data sets and three units, not {blobs} blobs")
        must(job_number(api, job, "center_version") == 8, "the metric")
        api.coordinator.kill()
        api.restart_coordinator("--lease-ms", "20000")
        must(api.job(job)["version"] == 8, "the version outlives a crash")


def test_rounds_to_the_center_pause_while_the_disk_is_nearly_full():
    with Api() as api:
        job, agents = running(api)
        first = stages(agents)[0]
        run = first.assignment()["run"]
        must("rounds" not in first.heartbeat("run", run), "no round is open")
        api.coordinator.stop()
        api.restart_coordinator("--lease-ms", "20000", "--min-free", "1000T")
        for agent in agents:
            reply = agent.heartbeat(
                "run", agent.assignment()["run"], all_holdings=True, holdings=[]
            )
            if agent is first:
                must(reply["rounds"]["center"]["state"] == "paused", f"{reply}")
                must(reply["rounds"]["neighbor"]["state"] == "none", f"{reply}")
        must("disk_nearly_full" in api.coordinator.log_text(), "the log says so")
        must(api.job(job)["state"] == "running", "the job stopped")


def test_bytes_of_replicas_are_counted_by_device():
    with Api(data=False) as api:
        agent = FakeAgent(api, "one")
        agent.heartbeat(replica_bytes_sent=12345, replica_bytes_written=678)
        device = api.get(f"/v1/devices/{agent.id}")
        must(
            device["replica_bytes_sent"] == 12345 and device["replica_bytes_written"] == 678,
            f"{device}",
        )
        labels = f'{{device_id="{agent.id}",device_name="one"}}'
        must(api.number(f"paceline_replica_bytes_sent_total{labels}") == 12345, "sent")
        must(api.number(f"paceline_replica_bytes_written_total{labels}") == 678, "written")


# ---- incidents ----


def test_a_failure_is_an_incident_from_its_first_sign_to_the_next_step():
    with Api() as api:
        must(api.get("/v1/incidents")["items"] == [], "no incident yet")
        job, agents = running(api)
        path = f"/v1/jobs/{job['id']}/incidents"
        replicate(agents, 2)
        for agent in agents:
            agent.act(train_to=3)
        victim = stages(agents)[1]
        victim.held, victim.made = {}, {}
        victim.enrol(boot="boot2")
        opened = api.get(path)["items"]
        must(
            len(opened) == 1
            and opened[0]["state"] == "open"
            and opened[0]["cause"] == "device_restarted",
            f"{opened}",
        )
        incident = opened[0]
        must(
            incident["devices"] == [{"id": victim.id, "name": victim.name}]
            and incident["generation_before"] == 1,
            f"{incident}",
        )
        must(
            incident["resume_version"] == 2
            and incident["step_reached"] == 3
            and incident["steps_redone"] == 1,
            f"{incident}",
        )
        must(api.number('paceline_incidents_total{cause="device_restarted"}') == 1, "the counter")
        one = f"/v1/incidents/{incident['id']}"
        must(
            api.get(one) == incident and api.get("/v1/incidents")["items"] == opened,
            "the same everywhere",
        )
        must(
            api.get(f"{one}?after={incident['revision']}&wait=1") == incident,
            "the wait returned something else",
        )
        seen = {}
        poll = threading.Thread(
            target=lambda: seen.update(api.get(f"{one}?after={incident['revision']}&wait=60"))
        )
        poll.start()
        for agent in agents:
            agent.step = 2
        drive(api, job, agents, "running", train_to=2)
        poll.join(30)
        must(seen["revision"] > incident["revision"], f"{seen}")
        for agent in agents:
            agent.act(train_to=4)
        done = api.get(one)
        must(
            done["state"] == "resolved" and done["generation_after"] == 2 and done["failures"] == 1,
            f"{done}",
        )
        must(
            all(
                done["timeline"][name]
                for name in ("suspected_at", "detected_at", "decided_at", "ready_at", "resumed_at")
            ),
            f"{done}",
        )
        must(
            api.get(f"{one}?after={done['revision']}&wait=60") == done,
            "a resolved incident must be answered at once",
        )
        check_reports(api, done)
        for wrong in ("inc_nothing", "nonsense"):
            api.problem("GET", f"/v1/incidents/{wrong}", code="unknown_incident")
        api.problem("GET", "/v1/jobs/job_nothing/incidents", code="unknown_job")


def check_reports(api, incident):
    """The log and the metrics report a resolved incident."""
    log = api.coordinator.log_text()
    line = next((line for line in log.splitlines() if "event=incident_resolved" in line), "")
    for word in (
        f"id={incident['id']}",
        "cause=device_restarted",
        "steps_redone=1",
        "detect_seconds=",
        "decide_seconds=",
        "fetch_seconds=",
        "rebuild_seconds=",
        "resume_seconds=",
        "message=",
    ):
        must(word in line, f"'{word}' is missing in: {line}")
    must(
        log.count("event=incident_opened") == 1 and log.count("event=incident_resolved") == 1,
        "one line each",
    )
    for phase, seconds in incident["seconds"].items():
        must(api.number(f'paceline_recovery_seconds_count{{phase="{phase}"}}') == 1, phase)
        told = api.number(f'paceline_recovery_seconds_sum{{phase="{phase}"}}')
        must(abs(told - seconds) < 1e-6, f"{phase}: {told} {seconds}")


def test_an_open_incident_outlives_the_coordinator():
    with Api() as api:
        job, agents = running(api)
        replicate(agents, 2)
        stages(agents)[0].enrol(boot="boot2")
        incident = api.get("/v1/incidents")["items"][0]
        must(incident["state"] == "open", f"{incident}")
        api.coordinator.kill()
        api.restart_coordinator("--lease-ms", "20000")
        again = api.get(f"/v1/incidents/{incident['id']}")
        must(
            again["state"] == "open"
            and again["job"] == job["id"]
            and again["revision"] >= incident["revision"],
            f"{again}",
        )
        api.verb(job, "cancel")
        over = api.get(f"/v1/incidents/{incident['id']}")
        must(over["state"] == "abandoned" and over["revision"] > again["revision"], f"{over}")
        api.coordinator.kill()
        api.restart_coordinator()
        must(
            api.get("/v1/incidents")["items"]
            == [over]
            == api.get(f"/v1/jobs/{job['id']}/incidents")["items"],
            "of a job that ended",
        )


def test_incidents_are_listed_in_pages():
    with Api() as api:
        agents = [FakeAgent(api, f"agent{index}") for index in range(5)]
        jobs = [
            api.submit({**JOB, "name": f"job{index}", "devices": {"min": 1, "max": 1}})
            for index in range(5)
        ]
        for job in jobs:
            drive(api, job, agents, "running", train_to=1)
        for agent in agents:
            agent.enrol(boot="boot2")
        items, pages = api.pages("/v1/incidents", 2)
        must(
            pages == 3 and [item["id"] for item in items] == sorted(item["id"] for item in items),
            f"{pages} pages",
        )
        must(sorted(item["job"] for item in items) == sorted(job["id"] for job in jobs), f"{items}")
        must(
            api.pages(f"/v1/jobs/{jobs[0]['id']}/incidents", 2)[0]
            == [item for item in items if item["job"] == jobs[0]["id"]],
            "of one",
        )


def test_a_broken_poll_is_a_hint_that_a_live_device_refutes():
    with Api() as api:
        agent, silent = FakeAgent(api, "one"), FakeAgent(api, "two")
        idle = agent.assignment()
        for each in (agent, silent):
            connection = api.connect()
            query = each.query(after=each.assignment()["revision"], wait=60)
            connection.sendall(
                f"GET /v1/agent/assignment?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            )
            while api.number("paceline_long_polls") == 0:
                pass
            connection.close()
            if each is agent:
                told = agent.assignment(after=idle["revision"], wait=30)
                must(told["challenge"], f"{told}")
                agent.heartbeat(challenge=told["challenge"])
        began = time.monotonic()
        seen = api.get(f"/v1/devices/{silent.id}")
        while seen["state"] == "online" and time.monotonic() < began + 10:
            seen = api.get(f"/v1/devices/{silent.id}?after={seen['revision']}&wait=5")
        must(seen["state"] == "disconnected", f"long before its lease of 20 s is over: {seen}")
        must(api.get(f"/v1/devices/{agent.id}")["state"] == "online", "the one that answered")
        silent.heartbeat()
        must(
            api.get(f"/v1/devices/{silent.id}")["state"] == "online",
            "and the other when it speaks again",
        )


# ---- coverage ----


def test_replicas_list_holders_and_the_cost_of_failures():
    with Api() as api:
        job, agents = running(api)
        path = f"/v1/jobs/{job['id']}/replicas"
        replicate(agents, 2)
        for agent in agents:
            agent.act(train_to=3)
        ring = stages(agents)
        seen = api.get(path)
        must(
            seen["step"] == 3 and seen["neighbor_version"] == 2 and seen["center_version"] == 0,
            f"{seen}",
        )
        must([unit["unit"] for unit in seen["units"]] == [0, 1, 2], f"{seen['units']}")
        for unit in seen["units"]:
            holders = {copy["device"] for copy in unit["copies"] if copy["version"] == 2}
            must(holders == {ring[unit["unit"]].id, ring[(unit["unit"] + 1) % 3].id}, f"{unit}")
        must(
            {loss["devices"][0] for loss in seen["single"]} == {agent.id for agent in agents},
            f"{seen['single']}",
        )
        must(
            all(
                loss["resume_version"] == 2 and loss["steps_lost"] == 1 and loss["can_continue"]
                for loss in seen["single"]
            ),
            f"{seen['single']}",
        )
        must(
            len(seen["double"]) == 3
            and all(
                loss["resume_version"] == 0 and loss["steps_lost"] == 3 for loss in seen["double"]
            ),
            f"two neighbours hold all copies of a unit: {seen['double']}",
        )
        api.verb(job, "cancel")
        api.problem("GET", path, code="wrong_state", words=("was cancelled",))
        api.problem("GET", "/v1/jobs/job_nothing/replicas", code="unknown_job")
        api.problem("GET", f"{path}?wait=1", code="invalid_parameter", words=("wait",))


def test_a_request_predicts_a_plan_without_some_devices():
    with Api() as api:
        job, agents = running(api)
        replicate(agents, 2)
        for agent in agents:
            agent.act(train_to=3)
        ring = stages(agents)
        ask = {"job": job["id"], "without": [ring[1].id]}
        before = api.job(job)
        answer = api.request("POST", "/v1/plans", ask, expect=200).json
        used = {stage["device"] for stage in answer["plan"]["stages"]}
        must(used and ring[1].id not in used, f"{answer}")
        must(answer["resume_version"] == 2 and answer["steps_lost"] == 1, f"{answer}")
        whole = api.request("POST", "/v1/plans", {"job": job["id"]}, expect=200).json
        must(whole["plan"]["stages"], f"{whole}")
        must(api.job(job) == before, "a what-if plan changed the job")
        api.problem(
            "POST",
            "/v1/plans",
            {"job": job["id"], "without": [agent.id for agent in agents]},
            code="not_enough_devices",
            words=(f"without these {len(agents)} devices the job would wait",),
        )
        check_bad_questions(api, ask)
        api.verb(job, "cancel")
        api.problem("POST", "/v1/plans", ask, code="wrong_state", words=("was cancelled",))


def check_bad_questions(api, ask):
    key = {"Idempotency-Key": "question"}
    first = api.request("POST", "/v1/plans", ask, key, expect=200)
    again = api.request("POST", "/v1/plans", ask, key, expect=200)
    must(
        first.body == again.body and again.headers["Idempotent-Replay"] == "true",
        "the same answer again",
    )
    api.problem("POST", "/v1/plans", {"job": ask["job"]}, key, code="idempotency_mismatch")
    api.problem("POST", "/v1/plans", {**ask, "job": "job_" + "0" * 26}, code="unknown_job")
    api.problem(
        "POST",
        "/v1/plans",
        {**ask, "withoot": []},
        code="invalid_fields",
        words=("/withoot", "without"),
    )
    api.problem(
        "POST",
        "/v1/plans",
        {**ask, "without": ["dev_" + "0" * 26]},
        code="invalid_fields",
        words=("/without/0", "no device"),
    )
    api.problem(
        "POST",
        "/v1/plans",
        {**ask, "without": 2 * ask["without"]},
        code="invalid_fields",
        words=("/without/1", "is the same device as /without/0"),
    )
    api.problem("POST", "/v1/plans", b"{", JSON, code="invalid_json")
    api.problem("POST", "/v1/plans", json.dumps(ask).encode(), {}, code="unsupported_media_type")
    api.problem("POST", "/v1/plans", b" " * (3 << 20), JSON, code="body_too_large")
    api.problem("POST", "/v1/plans?dry_run=true", ask, code="invalid_parameter", words=("dry_run",))


def test_a_plan_that_does_not_fit_is_rejected():
    with Api() as api:
        large = FakeAgent(api, "large")
        FakeAgent(api, "small", memory=100_000)
        job = api.submit({**JOB, "steps": 80, "devices": {"min": 1, "max": 1}})
        drive(api, job, [large], "running", train_to=1)
        api.problem(
            "POST",
            "/v1/plans",
            {"job": job["id"], "without": [large.id]},
            code="model_too_large",
            words=("small",),
        )


# ---- the previous version ----

NEW_IN_JOBS = ("neighbor_version", "stalled", "deadlines", "line", "replan_request")
NEW_IN_PLANS = ("failure",)
NEW_IN_DATASETS = ("class_counts",)
NEW_IN_DEVICES = (
    "replica_bytes_sent",
    "replica_bytes_written",
    "free_memory_bytes",
    "busy_share",
)
MIGRATIONS = sorted((ROOT / "coordinator/store/sql").glob("0*.sql"))


def tables_of(database, name):
    rows = database.execute(f"SELECT name FROM {name}.sqlite_schema WHERE type = 'table'")
    return {row[0] for row in rows}


def strip(database):
    """Take the fields away that the first version did not know."""
    for table, fields in (
        ("jobs", NEW_IN_JOBS),
        ("devices", NEW_IN_DEVICES),
        ("plans", NEW_IN_PLANS),
        ("datasets", NEW_IN_DATASETS),
    ):
        for row, text in database.execute(f"SELECT id, document FROM {table}").fetchall():
            document = {
                name: value for name, value in json.loads(text).items() if name not in fields
            }
            for stage in document.get("stages", ()):
                stage.pop("replica_bytes")
            for name in ("view", "stop", "checkpoint", "vertical_sync"):
                document.get("spec", {}).pop(name, None)
            for name in ("recall", "least_recall"):
                document.get("progress", {}).pop(name, None)
            database.execute(
                f"UPDATE {table} SET document = ? WHERE id = ?", (json.dumps(document), row)
            )


def downgrade(path, version=1):
    """Convert state.db into the schema of a version, as its migrations make it, with the documents
    of the first one.
    """
    old = path.with_name("old.db")
    database = sqlite3.connect(old)
    for migration in MIGRATIONS[:version]:
        database.executescript(migration.read_text(encoding="utf-8"))
    database.execute("ATTACH ? AS newer", (str(path),))
    application = database.execute("PRAGMA newer.application_id").fetchone()[0]
    database.execute(f"PRAGMA application_id = {application}")
    database.execute(f"PRAGMA user_version = {version}")
    for table in tables_of(database, "main") & tables_of(database, "newer"):
        database.execute(f"INSERT INTO main.{table} SELECT * FROM newer.{table}")
    strip(database)
    database.commit()
    database.close()
    for name in ("state.db-wal", "state.db-shm"):
        path.with_name(name).unlink(missing_ok=True)
    old.replace(path)


def check_upgraded(api, agent, job, ended):
    """The paused job of an upgraded state directory goes on from the center and ends."""
    must(
        api.get("/v1/incidents")["items"] == [] and api.job(ended)["state"] == "cancelled",
        "a new field is not empty",
    )
    seen = api.job(job)
    must(
        seen["state"] == "paused" and seen["version"] == 3 and seen["neighbor_version"] == 0,
        f"{seen}",
    )
    agent.heartbeat(all_holdings=True, holdings=[])
    api.verb(job, "resume")
    run = agent.assignment()["run"]
    must(
        run["resume_version"] == 3
        and [source["from"] for source in run["sources"]] == ["center"] * 3,
        f"{run}",
    )
    agent.step = 3
    finish(api, job, [agent])


def test_a_state_directory_of_each_earlier_version_is_upgraded_and_its_jobs_continue():
    with Api() as api:
        agent = FakeAgent(api, "one")
        job = api.submit({**JOB, "steps": 100})
        pause(api, job, [agent], 3)
        ended = api.submit_named("ended")
        api.verb(ended, "cancel")
        must(api.coordinator.stop() == 0, "exit status")
        state, kept = api.path / "coordinator", api.path / "kept"
        shutil.copytree(state, kept)
        must(len(MIGRATIONS) >= 5, f"{MIGRATIONS}")
        for version in range(1, len(MIGRATIONS)):
            shutil.rmtree(state)
            shutil.copytree(kept, state)
            downgrade(state / "state.db", version)
            api.restart_coordinator("--lease-ms", "20000")
            copy = sqlite3.connect(state / "state.db.before-upgrade")
            must(copy.execute("PRAGMA user_version").fetchone()[0] == version, "another copy")
            copy.close()
            agent.enrol(boot=f"boot-{version}")
            check_upgraded(api, agent, job, ended)
            must(api.coordinator.stop() == 0, "exit status")


def test_a_data_set_of_the_previous_version_is_counted_when_it_is_uploaded_again():
    with Api() as api:
        counts = api.get("/v1/datasets/digits-train")["class_counts"]
        must(len(counts) == 10 and sum(counts) == 1437, f"{counts}")
        api.coordinator.stop()
        downgrade(api.path / "coordinator/state.db")
        api.restart_coordinator()
        must("class_counts" not in api.get("/v1/datasets/digits-train"), "an old row has counts")
        view = {**JOB, "view": {"classes": [3, 7]}}
        ranges = [{"class": 3, "first": 0, "count": counts[3]}]
        part = {"index": 0, "count": 1, "seed": 0, "class_ranges": ranges}
        shard = {**JOB, "view": {"shard": part}}
        for entry in (view, shard):
            api.problem(
                "POST",
                "/v1/jobs",
                entry,
                code="invalid_fields",
                words=("/view: the classes of 'digits-train' were not counted", "upload it again"),
            )
        mixed = {**JOB, "micro_batches": 1, "strategy": "gossip", "devices": {"min": 2, "max": 2}}
        parts = {**JOB, "steps": None, "epochs": 1, "strategy": "submodel"}
        for entry in (mixed, parts):
            api.problem(
                "POST",
                "/v1/jobs",
                entry,
                code="invalid_fields",
                words=("the classes of 'digits-train' were not counted", "upload it again"),
            )
        content = tar_of(*data_files("digits", "train"))
        for _ in range(2):
            again = api.request("PUT", "/v1/datasets/digits-train", content, BINARY, expect=200)
            must(
                again.json["class_counts"] == counts and again.json["revision"] == 2,
                f"{again.json}",
            )
        for entry in (view, shard, mixed, parts):
            api.submit(entry)
        api.coordinator.kill()
        api.restart_coordinator()
        must(api.get("/v1/datasets/digits-train")["class_counts"] == counts, "lost by a restart")
