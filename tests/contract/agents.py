"""The calls of agents: enrolment, heartbeats, assignments, blobs, data sets."""

import hashlib
import sqlite3
import threading
import time

from api import BINARY, CONTRACT, HEARTBEAT_MS, JOB, JSON, Api, example
from connections import wait_for
from fake_agent import FakeAgent, drive, finish, pause, unit_state
from paceline import ROOT, must


def test_an_agent_enrols_and_enrols_again():
    with Api(data=False) as api:
        agent = FakeAgent(api, "one")
        same = agent.enrol()
        must(
            same.status == 200
            and same.json["device"] == agent.id
            and same.json["interval_ms"] == HEARTBEAT_MS,
            f"{same.json}",
        )
        old = agent.query()
        agent.enrol(boot="boot2")
        api.problem("GET", f"/v1/agent/assignment?{old}", code="stale_boot")
        body = agent.request_body()
        api.problem(
            "POST",
            "/v1/agent/enroll",
            {**body, "public_key": "x"},
            code="invalid_fields",
            words=("/public_key",),
        )
        api.problem(
            "POST",
            "/v1/agent/enroll",
            {**body, "colour": "red"},
            code="invalid_fields",
            words=("/colour",),
        )
        api.problem("POST", "/v1/agent/enroll", b"{", JSON, code="invalid_json")
        api.problem("POST", "/v1/agent/enroll", b"{}", {}, code="unsupported_media_type")
        api.problem("POST", "/v1/agent/enroll", b" " * (3 << 20), JSON, code="body_too_large")


def test_an_address_is_scheme_host_and_port_only():
    with Api(data=False) as api:
        body = FakeAgent(api, "one").request_body()
        for address in (
            "http://127.0.0.1:80/admin?x=",
            "http://127.0.0.1:80/",
            "http://127.0.0.1:80?x=",
            "http://127.0.0.1",
        ):
            api.problem(
                "POST",
                "/v1/agent/enroll",
                {**body, "address": address},
                code="invalid_fields",
                words=("/address",),
            )
            heartbeat = {"device": "dev_1", "boot": "b", "phase": "idle", "address": address}
            api.problem(
                "POST", "/v1/agent/heartbeat", heartbeat, code="invalid_fields", words=("/address",)
            )


def test_no_answer_contains_the_boot_of_a_device():
    with Api(data=False) as api:
        agent = FakeAgent(api, "one", boot="secret-boot")
        answers = [
            api.request("GET", path, expect=200)
            for path in ("/v1/devices", f"/v1/devices/{agent.id}")
        ]
        answers.append(api.request("POST", f"/v1/devices/{agent.id}/cordon", expect=202))
        must(
            not any("secret-boot" in str(answer.json) for answer in answers),
            "the answer contains the boot",
        )
        api.coordinator.stop()
        api.restart_coordinator()
        must(
            agent.heartbeat()["reenroll"],
            "the row keeps the boot: no enrolment is required",
        )


def test_an_agent_of_another_protocol_gets_both_versions_despite_other_errors():
    with Api(data=False) as api:
        version = api.get("/version")["protocol"]
        body = FakeAgent(api, "future", enrol=False).request_body(protocol=version + 7)
        api.problem(
            "POST", "/v1/agent/enroll", body, code="protocol_version", words=(version, version + 7)
        )
        api.problem(
            "POST",
            "/v1/agent/enroll",
            {"protocol": version + 7, "shape": "unknown"},
            code="protocol_version",
        )
        api.problem(
            "POST",
            "/v1/agent/enroll",
            {**body, "protocol": 0},
            code="protocol_version",
            words=(version,),
        )
        must(api.get("/v1/devices")["items"] == [], "it was enrolled")


def test_an_agent_of_the_previous_protocol_trains_with_its_own_messages():
    with Api() as api:
        agent = FakeAgent(api, "old", protocol=1)
        must(api.get(f"/v1/devices/{agent.id}")["protocol"] == 1, "the device has its version")
        whole = {
            **example("heartbeat.running", "protocol_1"),
            "device": agent.id,
            "boot": agent.boot,
            "revision": 0,
        }
        api.request("POST", "/v1/agent/heartbeat", whole, expect=200)
        api.problem(
            "POST",
            "/v1/agent/heartbeat",
            {**whole, "free_memory_bytes": 1},
            code="invalid_fields",
            words=("/free_memory_bytes", "unknown field"),
        )
        job = api.submit(JOB)
        recorded = example("assignment.prepare", "protocol_1")["run"]
        run = agent.assignment()["run"]
        for part, known in ((run, recorded), (run["job_spec"], recorded["job_spec"])):
            strangers = part.keys() - known.keys()
            must(not strangers, f"version 1 has no {sorted(strangers)}")
        finish(api, job, [agent])
        api.problem(
            "POST",
            "/v1/agent/heartbeat",
            {**whole, "boot": "upgraded", "free_memory_bytes": 1},
            code="stale_boot",
        )
        agent.protocol = 2
        agent.enrol(boot="upgraded")
        must(api.get(f"/v1/devices/{agent.id}")["protocol"] == 2, "the upgrade is not seen")
        agent.heartbeat(free_memory_bytes=1 << 30, leaving=False)


def test_impossible_measurements_cost_no_lease():
    with Api() as api:
        agent = FakeAgent(api, "one")
        job = api.submit(JOB)
        drive(api, job, [agent], "running", train_to=1)
        run = agent.assignment()["run"]
        link = example("heartbeat.running")["links"][0]
        seconds = {"unit": 0, "forward_seconds": 0.001, "backward_seconds": 0.002}
        counter = "paceline_measurements_refused_total"
        before = api.number(counter)
        for name, value in (
            ("unit_seconds", [{**seconds, "forward_seconds": 1e300}]),
            ("unit_seconds", [{**seconds, "backward_seconds": -1}]),
            ("unit_seconds", [{**seconds, "forward_seconds": 0}]),
            ("unit_seconds", [{**seconds, "unit": 200}]),
            ("unit_seconds", [{**seconds, "unit": 100000}]),
            ("links", [{**link, "seconds_sum": -1}]),
            ("links", [{**link, "bytes_sum": -1}]),
            ("links", [{**link, "seconds_sum": 1.7e308}]),
            ("links", [{**link, "codec": "zip"}]),
            ("update_seconds", 1e300),
            ("stage_seconds", {"step": -1e300}),
            ("stage_seconds", {"step": 1, "wait_input": 2}),
            ("stage_seconds", {"step": 1, "compute": 2}),
            ("stage_seconds", {"step": 1, "compute": 1, "stopped": 1}),
            ("stage_seconds", {"step": 1, "compute": 1, "stopped": -1}),
        ):
            agent.heartbeat("run", run, **{name: value})
            must(api.number(counter) == before + 1, f"{name} {value} is not counted")
            before += 1
        idle = FakeAgent(api, "two")
        for probe in (
            {"gemm_gflops": 0, "memory_bytes_per_second": 1e9, "age_ms": 0},
            {"gemm_gflops": 1, "memory_bytes_per_second": 1e9, "age_ms": -5000},
        ):
            idle.heartbeat(probe=probe)
        must(api.number(counter) == before + 2, f"{api.number(counter)} after {before}")
        before += 2
        beat = {"device": agent.id, "boot": agent.boot, "phase": "idle"}
        rows = [{**seconds, "unit": unit % 256} for unit in range(10000)]
        path = "/v1/agent/heartbeat"
        api.problem("POST", path, {**beat, "unit_seconds": rows}, code="invalid_fields")
        body = b'{"device": "%s", "update_seconds": NaN}' % agent.id.encode()
        api.problem("POST", path, body, JSON, code="invalid_json")
        must(api.number(counter) == before + 2, f"{api.number(counter)} after {before}")
        finish(api, job, [agent])


def test_heartbeats_of_unknown_devices_and_old_boots_are_answered():
    with Api(data=False) as api:
        agent = FakeAgent(api, "one")
        reply = agent.heartbeat(all_holdings=True, holdings=[])
        must(
            reply["interval_ms"] == HEARTBEAT_MS
            and reply["revision"] > 0
            and not reply["reenroll"],
            f"{reply}",
        )
        whole = {
            **example("heartbeat.running"),
            "device": agent.id,
            "boot": agent.boot,
            "revision": 0,
        }
        api.request("POST", "/v1/agent/heartbeat", whole, expect=200)
        stranger = {"device": "dev_unknown", "boot": "b", "phase": "idle"}
        must(
            api.request("POST", "/v1/agent/heartbeat", stranger, expect=200).json["reenroll"],
            "an unknown device must enrol",
        )
        api.problem(
            "POST", "/v1/agent/heartbeat", {**stranger, "device": agent.id}, code="stale_boot"
        )
        api.problem(
            "POST",
            "/v1/agent/heartbeat",
            {**stranger, "phase": "dancing"},
            code="invalid_fields",
            words=("/phase",),
        )
        api.problem("POST", "/v1/agent/heartbeat", b"", JSON, code="invalid_json")
        api.problem("POST", "/v1/agent/heartbeat", b"{}", {}, code="unsupported_media_type")
        api.problem("POST", "/v1/agent/heartbeat", b" " * (3 << 20), JSON, code="body_too_large")


def test_a_request_waits_for_an_assignment():
    with Api() as api:
        agent = FakeAgent(api, "one")
        idle = agent.assignment()
        must(idle["run"] is None and idle["interval_ms"] == HEARTBEAT_MS, f"{idle}")
        must(
            agent.assignment(after=idle["revision"], wait=1) == idle,
            "the wait returned something else",
        )
        seen = {}
        poll = threading.Thread(
            target=lambda: seen.update(agent.assignment(after=idle["revision"], wait=60))
        )
        poll.start()
        job = api.submit(JOB)
        poll.join(30)
        run = seen["run"]
        must(
            seen["revision"] > idle["revision"]
            and run["job"] == job["id"]
            and run["phase"] == "prepare",
            f"{seen}",
        )
        must(
            [source["from"] for source in run["sources"]] == ["seed"] * 3
            and run["total_steps"] == 4,
            f"{run}",
        )
        must(
            run["job_spec"]["model"]["description"]["units"][0]["name"] == "hidden1",
            "the model's description",
        )
        poll = threading.Thread(
            target=lambda: seen.update(
                answer=api.request(
                    "GET", f"/v1/agent/assignment?{agent.query(after=seen['revision'], wait=60)}"
                )
            )
        )
        poll.start()
        FakeAgent(api, "one", boot="boot2")
        poll.join(30)
        must(seen["answer"].code == "stale_boot", "a wait with an old boot ends with stale_boot")
        for query, code in (
            ("device=dev_01&boot=x", "unknown_device"),
            (f"device={agent.id}&boot=old", "stale_boot"),
            (f"device={agent.id}", "invalid_parameter"),
            ("boot=x", "invalid_parameter"),
        ):
            api.problem("GET", f"/v1/agent/assignment?{query}", code=code)


def test_neighbours_get_matching_tickets():
    with Api() as api:
        agents = [FakeAgent(api, f"agent{index}") for index in range(3)]
        api.submit({**JOB, "cuts": [1, 2]})
        assignments = {agent.id: agent.assignment() for agent in agents}
        tickets = set()
        for device, assignment in assignments.items():
            run = assignment["run"]
            for side in ("previous", "next"):
                peer = run[side]
                if peer is None:
                    continue
                callers = {
                    caller["device"]: caller for caller in assignments[peer["device"]]["callers"]
                }
                must(
                    callers[device]["ticket"] == peer["ticket"]
                    and callers[device]["generation"] == run["generation"],
                    f"{side} of {device}: {peer} {callers}",
                )
                tickets.add(peer["ticket"])
        must(len(tickets) == 4, f"every direction has a ticket of its own: {tickets}")


def test_an_agent_fetches_the_data_of_its_job_only():
    with Api() as api:
        agent, idle = FakeAgent(api, "one"), FakeAgent(api, "two")
        api.upload("fashion", "fashion-mini", "test")
        job = api.submit({**JOB, "devices": {"min": 1, "max": 1}})
        if agent.assignment()["run"] is None:
            agent, idle = idle, agent
        sha256 = job["data"]["train_sha256"]
        whole = api.request(
            "GET", f"/v1/agent/datasets/{sha256}/content?{agent.query()}", expect=200
        ).body
        must(hashlib.sha256(whole).hexdigest() == sha256, "the data set")
        part = api.request(
            "GET",
            f"/v1/agent/datasets/{sha256}/content?{agent.query()}",
            headers={"Range": "bytes=8-107"},
            expect=206,
        )
        must(part.body == whole[8:108], "a range of the data set")
        api.problem(
            "GET",
            f"/v1/agent/datasets/{sha256}/content?{agent.query()}",
            headers={"Range": "bytes=99999999-"},
            code="range_not_satisfiable",
        )
        other = api.get("/v1/datasets/fashion")["sha256"]
        api.problem(
            "GET", f"/v1/agent/datasets/{other}/content?{agent.query()}", code="unknown_blob"
        )
        api.problem(
            "GET", f"/v1/agent/datasets/{sha256}/content?{idle.query()}", code="unknown_blob"
        )
        api.problem(
            "GET",
            f"/v1/agent/datasets/{sha256}/content?{agent.query(boot='old')}",
            code="stale_boot",
        )
        api.problem(
            "GET",
            f"/v1/agent/datasets/{sha256}/content?device=dev_01&boot=x",
            code="unknown_device",
        )


def finished_run(api, agent, job):
    """Train to the end; returns the run in which the coordinator requests the units."""
    for _ in range(20):
        run = agent.assignment()["run"]
        if run["phase"] == "finished":
            return run
        agent.act()
    raise AssertionError(f"never finished: {api.job(job)}")


def test_units_are_stored_by_the_device_that_runs_them_only():
    with Api() as api:
        agent, other = FakeAgent(api, "one"), FakeAgent(api, "two")
        job = api.submit({**JOB, "devices": {"min": 1, "max": 1}})
        if agent.assignment()["run"] is None:
            agent, other = other, agent
        early = agent.assignment()["run"]
        state = unit_state(early, 0, 4)
        api.problem("PUT", agent.unit_path(early, 0, state), state, BINARY, code="stale_generation")
        run = finished_run(api, agent, job)
        path = agent.unit_path(run, 0, state)
        api.problem("PUT", path, state[:-1], BINARY, code="invalid_blob", words=("sha256",))
        api.problem("PUT", path, bytes(len(state)), BINARY, code="invalid_blob")
        api.problem(
            "PUT", path, state, {"Content-Type": "text/plain"}, code="unsupported_media_type"
        )
        for change, code in (
            ({"generation": 9}, "stale_generation"),
            ({"version": 3}, "stale_generation"),
            ({"unit": 7}, "stale_generation"),
            ({"unit": 256}, "invalid_parameter"),
            ({"job": "job_" + "0" * 26}, "stale_generation"),
            ({"job": "nonsense"}, "invalid_parameter"),
            ({"boot": "old"}, "stale_boot"),
            ({"device": other.id}, "stale_generation"),
            ({"device": "dev_01"}, "unknown_device"),
            ({"extra": 1}, "invalid_parameter"),
        ):
            api.problem("PUT", agent.unit_path(run, 0, state, **change), state, BINARY, code=code)
        api.problem(
            "PUT",
            path.replace("&generation=1", ""),
            state,
            BINARY,
            code="invalid_parameter",
            words=("generation",),
        )
        api.problem(
            "PUT",
            path.replace(hashlib.sha256(state).hexdigest(), "ABC"),
            state,
            BINARY,
            code="invalid_parameter",
        )
        huge = {**BINARY, "Content-Length": str(5 << 30)}
        api.problem("PUT", path, b"", huge, code="body_too_large")
        agent.put_unit(run, 0, state)
        agent.put_unit(run, 0, state)
        blobs = api.number("paceline_blobs")
        other_state = unit_state(run, 0, 5)
        api.problem(
            "PUT",
            agent.unit_path(run, 0, other_state),
            other_state,
            BINARY,
            code="invalid_blob",
            words=("hash",),
        )
        must(api.job(job)["state"] == "running", "one of three units is there")
        wait_for(lambda: api.number("paceline_blobs") == blobs, "the rejected unit is stored")


def test_a_unit_is_postponed_while_the_disk_is_full_and_stored_later():
    with Api() as api:
        agent = FakeAgent(api, "one")
        job = api.submit(JOB)
        run = finished_run(api, agent, job)
        state = agent.held[4, 0]
        api.coordinator.stop()
        api.restart_coordinator("--lease-ms", "20000", "--min-free", "1000T")
        agent.heartbeat(
            "stopped", run, stopped_version=4, all_holdings=True, holdings=agent.holdings(run)
        )
        api.problem("PUT", agent.unit_path(run, 0, state), state, BINARY, code="disk_full")
        api.coordinator.stop()
        api.restart_coordinator("--lease-ms", "20000")
        agent.heartbeat(
            "stopped", run, stopped_version=4, all_holdings=True, holdings=agent.holdings(run)
        )
        finish(api, job, [agent])


def test_a_paused_job_resumes_from_blobs_that_the_assignment_names():
    with Api() as api:
        agent = FakeAgent(api, "one")
        job = api.submit({**JOB, "steps": 100})
        paused = pause(api, job, [agent], 3)
        must(paused["version"] == 3, f"{paused}")
        agent.heartbeat(all_holdings=True, holdings=[])
        api.verb(job, "resume")
        run = agent.assignment()["run"]
        must(
            [source["from"] for source in run["sources"]] == ["center"] * 3
            and run["resume_version"] == 3,
            f"{run}",
        )
        for source in run["sources"]:
            held = agent.held[3, source["unit"]]
            path = f"/v1/agent/blobs/{source['sha256']}?{agent.query()}"
            must(api.request("GET", path, expect=200).body == held, f"unit {source['unit']}")
            must(
                api.request("GET", path, headers={"Range": "bytes=-5"}, expect=206).body
                == held[-5:],
                "a range",
            )
            api.problem(
                "GET", path, headers={"Range": f"bytes={len(held)}-"}, code="range_not_satisfiable"
            )
            api.problem(
                "GET",
                f"/v1/agent/blobs/{source['sha256']}?{agent.query(boot='old')}",
                code="stale_boot",
            )
        api.problem("GET", f"/v1/agent/blobs/{'0' * 64}?{agent.query()}", code="unknown_blob")
        api.problem(
            "GET",
            f"/v1/agent/blobs/{job['data']['train_sha256']}?{agent.query()}",
            code="unknown_blob",
        )
        api.problem(
            "GET", f"/v1/agent/blobs/{'0' * 64}?device=dev_01&boot=x", code="unknown_device"
        )
        must(drive(api, job, [agent], "running")["generation"] == 2, "the run does not continue")


def test_two_equal_jobs_share_equal_blobs():
    with Api() as api:
        agents = [FakeAgent(api, f"agent{index}") for index in range(2)]
        jobs = [api.submit({**JOB, "devices": {"min": 1, "max": 1}}) for _ in agents]
        for _ in range(20):
            for agent in agents:
                agent.act()
        sums = {finish(api, job, agents) and api.checkpoint_sha256(job) for job in jobs}
        must(len(sums) == 1, f"{sums}")


def test_deadlines_of_a_silent_device_are_kept():
    with Api("--heartbeat-ms", "200", "--lease-ms", "600", data=False) as api:
        agent = FakeAgent(api, "one")
        lost = api.get(f"/v1/devices/{agent.id}")
        deadline = time.monotonic() + 30
        while lost["state"] != "lost" and time.monotonic() < deadline:
            lost = api.get(f"/v1/devices/{agent.id}?after={lost['revision']}&wait=5")
        must(lost["state"] == "lost", f"{lost}")
        agent.heartbeat()
        must(
            api.get(f"/v1/devices/{agent.id}")["state"] == "online",
            "a heartbeat does not bring it online",
        )


def test_the_second_agent_with_one_identity_is_rejected():
    with Api("--heartbeat-ms", "100", data=False) as api:
        first = FakeAgent(api, "one")
        second = first.request_body(boot="second")
        api.request("POST", "/v1/agent/enroll", second, expect=200)
        api.problem(
            "POST",
            "/v1/agent/heartbeat",
            {"device": first.id, "boot": first.boot, "phase": "idle"},
            code="stale_boot",
        )
        must(first.enrol().status == 200, "the first agent cannot enrol again")
        api.problem("POST", "/v1/agent/enroll", second, code="too_many")
        deadline = time.monotonic() + 30
        while (
            code := api.request("POST", "/v1/agent/enroll", second).code
        ) == "too_many" and time.monotonic() < deadline:
            first.assignment()  # a poll renews the lease
        must(code == "identity_in_use", f"{code}")
        api.problem(
            "POST", "/v1/agent/enroll", second, code="identity_in_use", words=("one", "--state-dir")
        )
        first.heartbeat()


def test_every_code_of_the_contract_has_a_line_in_the_documentation():
    text = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    for code in CONTRACT["components"]["schemas"]["problem_code"]["enum"]:
        must(f"`{code}`" in text, f"docs/troubleshooting.md does not explain {code}")


def measure(api, job, agent):
    """Let the agent report times of its units and transfers to the other."""
    run = agent.assignment()["run"]
    peer = next(
        device["id"] for device in api.get("/v1/devices")["items"] if device["id"] != agent.id
    )
    rows = [
        {"unit": unit, "forward_seconds": 0.25, "backward_seconds": 0.5}
        for unit in range(run["stage"]["first"], run["stage"]["end"])
    ]
    link = {**example("heartbeat.running")["links"][0], "device": peer}
    links = [{**link, "codec": codec} for codec in ("none", "q8", "bfloat16")]
    agent.heartbeat("run", run, unit_seconds=rows, links=links)
    return run, peer


def fill_minute(api, device):
    """Write the history of a minute in which the device worked for three jobs of 256 units."""
    minute_ms = (int(time.time()) - 3600) // 60 * 60000
    rows = [
        (device, f"job_{number:026}", minute_ms, unit, 0.25, 0.5)
        for number in range(3)
        for unit in range(256)
    ]
    database = sqlite3.connect(api.path / "coordinator/state.db")
    database.executemany(
        "INSERT INTO measurements_by_minute "
        "(device, job, wall_ms, unit, forward_seconds, backward_seconds) VALUES (?, ?, ?, ?, ?, ?)",
        rows,
    )
    database.commit()
    database.close()
    return [(row[1], row[3]) for row in rows]


def check_pages(api, path, expected):
    """The rows of one minute fill more than a page, and none is lost."""
    first = api.get(path)
    must(len(first["items"]) == 500 and first["next_cursor"], f"{len(first['items'])} items")
    second = api.get(f"{path}?cursor={first['next_cursor']}")
    must(second["next_cursor"] is None, "two pages")
    rows = [(item["job"], item["unit"]) for item in first["items"] + second["items"]]
    must(rows[: len(expected)] == expected, f"{len(rows)} rows")
    for cursor in ("x", "1.2", f"1.job_{0:026}.256", f"1.job_{0:026}.1.1", 70 * "1"):
        api.problem("GET", f"{path}?cursor={cursor}", code="invalid_parameter", words=("cursor",))


def test_measured_times_and_links_are_listed():
    with Api() as api:
        agents = [FakeAgent(api, name) for name in ("one", "two")]
        job = api.submit({**JOB, "steps": 80, "devices": {"min": 2, "max": 2}})
        drive(api, job, agents, "running", train_to=3)
        run, peer = measure(api, job, agents[0])
        path = f"/v1/devices/{agents[0].id}"
        deadline = time.monotonic() + 30
        while not api.get(f"{path}/measurements")["items"]:
            must(time.monotonic() < deadline, "no history after 30 s")
            time.sleep(0.1)
        first = api.get(f"{path}/measurements?job={job['id']}&unit={run['stage']['first']}")
        must(
            len(first["items"]) == 1
            and first["items"][0]["forward_seconds"] == 0.25
            and first["next_cursor"] is None,
            f"{first}",
        )
        must(api.get(f"{path}/measurements?since=9000000000000")["items"] == [], "none later")
        links = api.get(f"{path}/links")["items"]
        must(links and links[0]["from"] == agents[0].id and links[0]["to"] == peer, f"{links}")
        must(len(links) == 3, f"{links}")
        for every in ("/v1/links", f"{path}/links", f"/v1/devices/{agents[1].id}/links"):
            must(api.pages(every, 1) == (links, 3) and api.pages(every, 2) == (links, 2), every)
            must(api.get(every) == {"items": links, "next_cursor": None}, every)
            for query in ("cursor=x", "cursor=-1", "limit=0", "limit=501", "after=1"):
                api.problem("GET", f"{every}?{query}", code="invalid_parameter")
        must(api.get("/v1/links?cursor=2147483647")["items"] == [], "a cursor beyond the end")
        rows = api.get(f"{path}/measurements")["items"]
        must(rows and api.pages(f"{path}/measurements", 1) == (rows, len(rows)), "pages of one")
        history = api.get(f"{path}/measurements")
        api.coordinator.kill()
        minute = fill_minute(api, agents[1].id)
        api.restart_coordinator("--lease-ms", "20000")
        found = sorted(api.get(f"{path}/links")["items"], key=lambda link: link["codec"])
        must(
            found == sorted(links, key=lambda link: link["codec"]),
            f"the links after a restart: {found}",
        )
        must(api.get(f"{path}/measurements") == history, "the history after a restart")
        check_pages(api, f"/v1/devices/{agents[1].id}/measurements", minute)
        for unknown in ("measurements", "links"):
            api.problem("GET", f"/v1/devices/dev_{'0' * 26}/{unknown}", code="unknown_device")


def test_unit_times_of_a_device_are_predicted():
    with Api() as api:
        agents = [FakeAgent(api, name) for name in ("one", "two")]
        job = api.submit({**JOB, "steps": 80, "devices": {"min": 2, "max": 2}})
        drive(api, job, agents, "running", train_to=3)

        def ask(**question):
            body = {"device": agents[0].id, **question}
            return api.request("POST", "/v1/predictions", body, expect=200).json

        before = ask(job=job["id"])
        must(not any(unit["measured"] for unit in before["units"]), f"{before}")
        run, _ = measure(api, job, agents[0])
        answer = ask(job=job["id"])
        must(answer["model"] == "mlp" and answer["batch"] == 16, f"{answer}")
        must(answer["micro_batches"] == 2 and answer["device"] == agents[0].id, f"{answer}")
        must([unit["name"] for unit in answer["units"]] == ["hidden1", "hidden2", "head"], "names")
        for index, unit in enumerate(answer["units"]):
            runs = run["stage"]["first"] <= index < run["stage"]["end"]
            must(unit["measured"] == runs, f"unit {index} of {answer}")
            must(0 < unit["forward_sd_seconds"] and unit["update_seconds"] > 0, f"{unit}")
            if runs:
                must(abs(unit["forward_seconds"] - 0.25) < 1e-6, f"{unit}")
                must(abs(unit["backward_seconds"] - 0.5) < 1e-6, f"{unit}")
        must(answer["overhead_seconds"] >= 0 <= answer["overhead_seconds_per_byte"], f"{answer}")

        other = ask(job=job["id"], batch=32, micro_batches=8)
        must(other["batch"] == 32 and other["micro_batches"] == 8, f"{other}")
        must(not any(unit["measured"] for unit in other["units"]), f"{other}")
        must(ask(model="mlp")["batch"] == 32, "the default batch")
        same = ask(model="mlp", dataset="digits-train", batch=16, micro_batches=2)
        must(
            [unit["measured"] for unit in same["units"]]
            == [unit["measured"] for unit in answer["units"]],
            f"{same}",
        )


def test_a_question_about_unit_times_is_checked():
    with Api() as api:
        agents = [FakeAgent(api, "one")]
        job = api.submit({**JOB, "devices": {"min": 1, "max": 1}})
        both = {"device": agents[0].id, "model": "mlp", "job": job["id"]}
        model = {"device": agents[0].id, "model": "mlp"}
        of_job = {"device": agents[0].id, "job": job["id"]}
        for body, pointer in (
            (both, "/model"),
            ({"device": agents[0].id}, "/model"),
            ({**of_job, "dataset": "digits-train"}, "/dataset"),
            ({**of_job, "batch": 15}, "/micro_batches"),
            ({**model, "batch": 15}, "/micro_batches"),
            ({**model, "batch": 0}, "/batch"),
            ({**model, "batch": 65537}, "/batch"),
            ({**model, "micro_batches": 0}, "/micro_batches"),
            ({**model, "micro_batches": 1025}, "/micro_batches"),
            ({**model, "micro_batches": 64}, "/micro_batches"),
            ({**model, "model": "lenet5", "dataset": "digits-train"}, "/model"),
            ({"model": "mlp"}, "/device"),
        ):
            api.problem("POST", "/v1/predictions", body, code="invalid_fields", words=(pointer,))
        for body, code in (
            ({**model, "device": f"dev_{'0' * 26}"}, "unknown_device"),
            ({**of_job, "job": f"job_{'0' * 26}"}, "unknown_job"),
            ({**model, "model": "mpl"}, "unknown_model"),
            ({**model, "dataset": "digits"}, "unknown_dataset"),
        ):
            api.problem("POST", "/v1/predictions", body, code=code)
        path = "/v1/predictions"
        api.problem("POST", path, b"{", JSON, code="invalid_json")
        api.problem("POST", path, b"{}", {}, code="unsupported_media_type")
        api.problem("POST", path, b" " * (3 << 20), JSON, code="body_too_large")
        finish(api, job, agents)
        api.problem("POST", path, of_job, code="wrong_state")
