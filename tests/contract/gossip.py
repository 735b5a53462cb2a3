"""Jobs of strategy gossip: faults at their fields, groups, and the upload of an average."""

import hashlib
import urllib.parse

from api import BINARY, JOB, Api, record
from connections import wait_for
from fake_agent import FakeAgent
from paceline import must

GOSSIP = {**JOB, "strategy": "gossip", "devices": {"min": 2, "max": 2}, "micro_batches": 1}
MODEL = b"the file of a model"


def test_a_job_of_gossip_reports_faults_at_its_fields():
    with Api() as api:

        def expect(pointer, words, **fields):
            answer = api.problem("POST", "/v1/jobs", {**GOSSIP, **fields}, code="invalid_fields")
            seen = {fault["pointer"]: fault["message"] for fault in answer.json["errors"]}
            must(pointer in seen and words in seen[pointer], f"{fields}: {seen}")

        expect("/gossip", "for strategy 'gossip' only", strategy="pipeline", gossip={})
        expect("/gossip/split", "expected one of even, speed", gossip={"split": "odd"})
        expect("/gossip/alpha", "not for the split 'even'", gossip={"alpha": 1})
        expect("/gossip/average_every", "at least 1", gossip={"average_every": 0})
        expect("/devices/min", "at least 2", devices={"min": 1, "max": 2})
        expect("/devices/max", "at most 32", devices={"min": 2, "max": 33})
        few = {**GOSSIP, "gossip": {"split": "by_class", "classes_per_shard": 1}}
        api.problem("POST", "/v1/jobs", few, code="bad_split", words=("classes",))
        seen = api.request("POST", "/v1/jobs?dry_run=true", GOSSIP, expect=200).json
        must(seen["gossip"]["groups"] == [], f"{seen['gossip']}")
        must(api.get("/v1/jobs")["items"] == [], "a dry run has made a job")


def test_a_dry_run_compares_gossip_with_rounds_a_pipeline_and_one_device():
    with Api() as api:
        for name, times in (("slow", 4), ("fast", 1)):
            FakeAgent(api, name, protocol=6, slower=times)

        def ask(**options):
            job = {**GOSSIP, "gossip": options}
            return api.request("POST", "/v1/jobs?dry_run=true", job, expect=200).json["gossip"]

        gossip = ask()
        fast, slow = gossip["groups"]
        must(fast["samples"] - slow["samples"] in (0, 1), f"split even: {gossip}")
        must(fast["samples_per_second"] > 3 * slow["samples_per_second"], f"speeds: {gossip}")
        must(gossip["total_seconds"] < gossip["rounds_seconds"], f"nobody waits: {gossip}")
        must(gossip["sized_rounds_seconds"] < gossip["rounds_seconds"], f"{gossip}")
        must(gossip["fastest"] in ("gossip", "pipeline"), f"{gossip}")
        rounds = ask(schedule="rounds", level=False)
        must(rounds["total_seconds"] == gossip["rounds_seconds"], f"{rounds} and {gossip}")
        must(rounds["period_seconds"] == rounds["epoch_seconds"], f"{rounds}")
        steps = [round(group["samples"] / GOSSIP["batch"]) for group in rounds["groups"]]
        must([group["every"] for group in rounds["groups"]] == steps, f"{rounds}")


def report(agent, run, pair=None, **average):
    """A heartbeat of a group that trains; average: its match of that kind."""
    none = {"xid": {"life": 0, "counter": 0}, "state": "none"}
    mix = record(
        "mix_report",
        group=run["mix"]["group"],
        generation=run["mix"]["generation"],
        pair=pair or none,
        average={**none, **average},
    )
    agent.heartbeat("run", run, mix=mix)


def order_of(agent):
    orders = agent.assignment()["run"]["mix"]["orders"]
    return next((order for order in orders if order["kind"] == "average"), None)


def averaging(api, agents):
    """Let a job make its steps at once, and its groups give a copy. (the job, the run of the group
    that is to average, its agent, the other agent, the order)
    """
    job = api.submit(GOSSIP)
    for agent in agents * 3:
        agent.act(train_to=1)
    for step in (1, 4):
        for agent in agents:
            agent.step = step
            report(agent, agent.assignment()["run"])
    for agent in agents:
        run, order = agent.assignment()["run"], order_of(agent)
        must(order and not order.get("averages"), f"no copy is asked for: {run['mix']}")
        report(agent, run, xid=order["xid"], state="applied", copied=True)
    author = next(agent for agent in agents if order_of(agent).get("averages"))
    other = next(agent for agent in agents if agent is not author)
    run, order = author.assignment()["run"], order_of(author)
    must(len(order["sources"]) == 2, f"{order}")
    return job, run, author, other, order


def average_path(agent, run, order, data=MODEL, **fields):
    query = {
        "device": agent.id,
        "boot": agent.boot,
        "job": run["job"],
        "generation": run["generation"],
        **order["xid"],
        **fields,
    }
    sha256 = hashlib.sha256(data).hexdigest()
    return f"/v1/agent/averages/{sha256}?{urllib.parse.urlencode(query)}"


def test_an_average_is_stored_by_the_group_that_computes_it_only():
    with Api() as api:
        agents = [FakeAgent(api, name, protocol=6) for name in ("one", "two")]
        job, run, author, other, order = averaging(api, agents)
        path = average_path(author, run, order)
        for change, code in (
            ({"generation": 9}, "stale_generation"),
            ({"counter": 99}, "stale_generation"),
            ({"job": "job_" + "0" * 26}, "stale_generation"),
            ({"job": "nonsense"}, "invalid_parameter"),
            ({"device": other.id}, "stale_generation"),
            ({"device": "dev_01"}, "unknown_device"),
            ({"boot": "old"}, "stale_boot"),
            ({"test_accuracy": 2}, "invalid_parameter"),
            ({"extra": 1}, "invalid_parameter"),
        ):
            wrong = average_path(author, run, order, **change)
            api.problem("PUT", wrong, MODEL, BINARY, code=code)
        for name in ("generation", "life", "counter"):
            wrong = path.replace(f"&{name}=", f"&not_{name}=")
            api.problem("PUT", wrong, MODEL, BINARY, code="invalid_parameter")
        api.problem("PUT", path, b"", BINARY, code="unknown_blob")
        api.problem("PUT", path, MODEL[:-1], BINARY, code="invalid_blob")
        api.problem(
            "PUT", path, MODEL, {"Content-Type": "text/plain"}, code="unsupported_media_type"
        )
        huge = {**BINARY, "Content-Length": str(5 << 30)}
        api.problem("PUT", path, b"", huge, code="body_too_large")
        report(author, run, xid=order["xid"], state="fetched", copied=True)
        tested = average_path(author, run, order, test_accuracy=0.75, test_loss=1.5)
        api.request("PUT", tested, MODEL, BINARY, expect=204)
        seen = api.job(job)
        must(seen["state"] == "succeeded", f"{seen}")
        must(seen["progress"]["accuracy"] == 0.75, f"{seen['progress']}")
        api.problem("PUT", tested, MODEL, BINARY, code="stale_generation")
        rows = api.get(f"/v1/jobs/{job['id']}/mixes")["items"]
        must([row["record"]["kind"] for row in rows] == ["start", "start"], f"{rows}")
        path = f"/v1/jobs/{job['id']}/metrics?name=test_accuracy"
        wait_for(
            lambda: [metric["value"] for metric in api.get(path)["items"]] == [0.75],
            "the accuracy of the average is no metric",
        )
