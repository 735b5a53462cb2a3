"""Questions about plans: hypothetical devices and links, and combinations of fields."""

import threading

from api import JOB, Api
from fake_agent import FakeAgent, drive
from paceline import must

QUESTION = {"spec": {**JOB, "steps": 80}}
NEW = {"name": "new", "gflops": 100, "memory_bytes_per_second": 1e10, "memory_bytes": 1 << 30}


def ask(api, **fields):
    return api.request("POST", "/v1/plans", {**QUESTION, **fields}, expect=200).json


def names(answer):
    return [stage["name"] for stage in answer["plan"]["stages"]]


def test_a_question_assumes_devices_links_and_fields():
    with Api() as api:
        first, second = FakeAgent(api, "first"), FakeAgent(api, "second")
        before = api.request("GET", "/v1/jobs", expect=200).body
        alone = ask(api, devices=[first.id])
        must(names(alone) == ["first"] and alone["combinations"] == [], f"{alone}")
        half = {"name": "half", "like": first.id, "speed": 0.5}
        slow = ask(api, devices=[half])
        stage = slow["plan"]["stages"][0]
        must(stage["name"] == "half" and stage["device"] is None, f"{stage}")
        ratio = slow["plan"]["predicted_step_seconds"] / alone["plan"]["predicted_step_seconds"]
        must(abs(ratio - 2) < 1e-6, f"half the speed takes {ratio} times as long")
        fast = ask(api, devices=[{"id": second.id}, NEW])
        must("new" in names(fast), f"{fast}")
        link = {"between": [first.id, "half"], "bytes_per_second": 1000, "latency_seconds": 1}
        apart = ask(api, devices=[first.id, half], links=[link])
        must(names(apart) == ["first"], f"the link is too slow to be used: {apart}")
        left = apart["plan"]["left_out"]
        must([(row["name"], row["device"]) for row in left] == [("half", None)], f"{left}")
        small = {**NEW, "name": "small", "memory_bytes": 1000}
        left = ask(api, devices=[first.id, small])["plan"]["left_out"]
        must([(row["name"], row["reason"]) for row in left] == [("small", "no_memory")], f"{left}")
        api.problem(
            "POST",
            "/v1/plans",
            {**QUESTION, "devices": [small]},
            code="model_too_large",
            words=("'small'",),
        )
        must(api.request("GET", "/v1/jobs", expect=200).body == before, "a job was stored")


def test_a_question_about_a_job_takes_other_fields():
    with Api() as api:
        agent = FakeAgent(api, "agent")
        job = api.submit({**JOB, "steps": 80, "devices": {"min": 1, "max": 2}})
        drive(api, job, [agent], "running", train_to=1)
        state = api.job(job)
        question = {
            "job": job["id"],
            "devices": [agent.id, {"name": "twin", "like": agent.id}],
            "vary": {
                "micro_batches": [2, 3, 4],
                "devices": [1, 2, 3],
                "pipeline": ["sync", "async"],
            },
        }
        answer = api.request("POST", "/v1/plans", question, expect=200).json
        rows = answer["combinations"]
        must(len(rows) == 18, f"{len(rows)} combinations")
        found = [row for row in rows if row["failure"] is None]
        seconds = [row["predicted_step_seconds"] for row in found]
        must(seconds and seconds == sorted(seconds), f"the fastest is not the first: {seconds}")
        must(rows[: len(found)] == found, "rows without a plan are not last")
        must(all(row["stages"] for row in found), f"{found}")
        must(seconds[0] == answer["plan"]["predicted_step_seconds"], f"{answer['plan']}")
        for row in rows[len(found) :]:
            must(not row["stages"] and row["predicted_step_seconds"] is None, f"{row}")
        text = str([row["failure"] for row in rows])
        for word in ("not divisible by 3", "whole batches", "more device"):
            must(word in text, f"'{word}' is missing in {text}")
        must(answer["resume_version"] == 0, f"{answer}")
        must(api.job(job) == state, "a question changed the job")
        none = {**question, "vary": {"devices": [7]}}
        answer = api.request("POST", "/v1/plans", none, expect=200).json
        must(answer["plan"]["starts"] == "when_more_devices", f"{answer['plan']}")
        must(not answer["plan"]["stages"] and answer["plan"]["waiting_for"], f"{answer['plan']}")


def test_bad_questions_are_answered_at_the_field():
    with Api() as api:
        agent = FakeAgent(api, "agent")
        twin = {"name": "twin", "like": agent.id}
        unknown = "dev_" + "0" * 26
        link = {"between": [agent.id, "twin"], "bytes_per_second": 1e6}
        for fields, pointer in [
            ({"devices": []}, "/devices"),
            ({"devices": [agent.id, agent.id]}, "/devices/1"),
            ({"devices": [twin, twin]}, "/devices/1"),
            ({"devices": [7]}, "/devices/0"),
            ({"devices": ["kitchen"]}, "/devices/0"),
            ({"devices": [unknown]}, "/devices/0"),
            ({"devices": [{"name": "a", "like": unknown}]}, "/devices/0/like"),
            ({"devices": [{**twin, "speed": -1}]}, "/devices/0/speed"),
            ({"devices": [{**twin, "speed": 0}]}, "/devices/0/speed"),
            ({"devices": [{**twin, "speed": 1e300}]}, "/devices/0/speed"),
            ({"devices": [{**NEW, "gflops": 0}]}, "/devices/0/gflops"),
            ({"devices": [{**NEW, "like": agent.id}]}, "/devices/0"),
            ({"devices": [{"id": agent.id, "speed": 2}]}, "/devices/0"),
            ({"devices": [{**twin, "name": "dev_twin"}]}, "/devices/0"),
            ({"links": [{**link, "between": [agent.id, agent.id]}]}, "/links/0/between"),
            ({"links": [link]}, "/links/0/between/1"),
            ({"devices": [agent.id, twin], "links": [link, link]}, "/links/1/between"),
            ({"links": [{**link, "bytes_per_second": 0}]}, "/links/0/bytes_per_second"),
            ({"links": [{**link, "latency_seconds": -1}]}, "/links/0/latency_seconds"),
            ({"vary": {"micro_batches": [*range(1, 14)], "devices": [1, 2, 3, 4, 5]}}, "/vary"),
            ({"vary": {"devices": [2, 2]}}, "/vary/devices/1"),
            ({"vary": {"compression": ["zip"]}}, "/vary/compression/0"),
            ({"spec": {**JOB, "batch": 0}}, "/spec/batch"),
            ({"spec": {**JOB, "dataset": {"train": "nothing"}}}, "/spec/dataset/train"),
            ({"job": "job_" + "0" * 26}, "/spec"),
        ]:
            problem = api.problem(
                "POST", "/v1/plans", {**QUESTION, **fields}, code="invalid_fields"
            ).json
            seen = [fault["pointer"] for fault in problem["errors"]]
            must(pointer in seen, f"{fields}: {pointer} expected, got {seen}")
        api.problem("POST", "/v1/plans", {}, code="invalid_fields", words=("/job",))


SERVERS = {**JOB, "strategy": "parameter_server", "micro_batches": 4, "steps": 80}
SERVERS["devices"] = {"min": 1, "max": 3}


def check_ways(plan, names):
    """What must hold of a plan of servers and workers beside other ways."""
    seen = plan["parameter_server"]
    must(seen["step_seconds"] == plan["predicted_step_seconds"] > 0, f"{seen}")
    must(seen["step_seconds"] <= seen["optimal_step_seconds"] * (1 + 1e-9), f"{seen}")
    must(seen["transfers"] in ("optimal", "stream"), f"{seen}")
    for transfers in ("whole", "layer"):
        must(seen["optimal_step_seconds"] <= seen[f"{transfers}_step_seconds"] * 1.001, f"{seen}")
    must(seen["layer_window_step_seconds"] > 0 and seen["single_name"] in names, f"{seen}")
    seconds = {
        "parameter_server": seen["step_seconds"],
        "pipeline": seen["pipeline_step_seconds"],
        "single": seen["single_step_seconds"],
    }
    must(seconds[seen["fastest"]] <= min(seconds.values()) * (1 + 1e-9), f"{seen}")
    return seen


def test_a_dry_run_compares_servers_with_other_ways():
    with Api() as api:
        agents = [FakeAgent(api, f"agent{i}", protocol=6) for i in range(2)]

        def dry(job):
            return api.request("POST", "/v1/jobs?dry_run=true", job, expect=200).json

        plan = dry(SERVERS)
        seen = check_ways(plan, {"agent0", "agent1"})
        pipeline = {**SERVERS, "strategy": "pipeline"}
        for name, job in (
            ("pipeline", pipeline),
            ("single", {**pipeline, "devices": {"min": 1, "max": 1}}),
        ):
            other = dry(job)
            must(other["parameter_server"] is None, f"{other}")
            must(seen[f"{name}_step_seconds"] == other["predicted_step_seconds"], f"{seen} {other}")
        whole = dry({**SERVERS, "parameter_server": {"transfers": "whole"}})["parameter_server"]
        must(whole["transfers"] == "whole", f"{whole}")
        must(whole["step_seconds"] == whole["whole_step_seconds"], f"{whole}")
        for agent in agents:
            api.request("POST", f"/v1/devices/{agent.id}/cordon", expect=202)
        none = dry(SERVERS)
        must(none["starts"] == "when_more_devices", f"{none}")
        seconds = [v for k, v in none["parameter_server"].items() if k.endswith("_seconds")]
        must(seconds == [None] * 7, f"{none['parameter_server']}")
        must(none["parameter_server"]["fastest"] == "none", f"{none['parameter_server']}")
        must(none["parameter_server"]["transfers"] == "auto", f"{none['parameter_server']}")


def test_a_question_compares_servers_with_other_ways():
    with Api() as api:
        agent = FakeAgent(api, "agent", protocol=6)
        both = [agent.id, {"name": "twin", "like": agent.id, "speed": 2}]

        def plan(**question):
            return api.request("POST", "/v1/plans", question, expect=200).json["plan"]

        alone = check_ways(plan(spec=SERVERS), {"agent"})
        must(alone["fastest"] == "single", f"one device has nothing to transfer: {alone}")
        seen = check_ways(plan(spec=SERVERS, devices=both), {"twin"})
        must(seen["single_device"] is None, f"{seen}")
        ratio = alone["single_step_seconds"] / seen["single_step_seconds"]
        must(abs(ratio - 2) < 1e-6, f"twice the speed takes 1/{ratio} of the time")
        # Of combinations the fastest is compared, also after one without a plan.
        varied = {"micro_batches": [4, 2, 1, 3], "devices": [1]}
        best = plan(spec=SERVERS, devices=both, vary=varied)
        check_ways(best, {"twin"})
        must(len(best["stages"]) == 1, f"{best}")
        job = api.submit(SERVERS)
        state = api.job(job)
        check_ways(plan(job=job["id"]), {"agent"})
        check_ways(plan(job=job["id"], devices=both), {"twin"})
        must(api.job(job) == state, "a question changed the job")
        question = {"job": job["id"], "without": [agent.id]}
        api.problem("POST", "/v1/plans", question, code="not_enough_devices")


def test_questions_wait_their_turn():
    with Api() as api:
        FakeAgent(api, "agent")
        body = {**QUESTION, "vary": {"micro_batches": [1, 2, 4, 8], "compression": ["none", "q8"]}}
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.append(api.request("POST", "/v1/plans", body)))
            for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        late = [answer for answer in answers if answer.status != 200]
        must(len(answers) == 12 and len(late) < 12, f"{[answer.status for answer in answers]}")
        for answer in late:
            must(answer.status == 429 and "Retry-After" in answer.headers, f"{answer.body!r}")
