"""Jobs of strategy gossip: faults at their fields, groups, and the upload of an average."""

import hashlib
import struct
import urllib.parse

from api import BINARY, JOB, Api, record
from connections import wait_for
from fake_agent import FakeAgent, drive, trained_model
from paceline import must

GOSSIP = {**JOB, "strategy": "gossip", "devices": {"min": 2, "max": 2}, "micro_batches": 1}


def test_a_job_of_gossip_reports_faults_at_its_fields():
    with Api() as api:

        def expect(pointer, words, **fields):
            answer = api.problem("POST", "/v1/jobs", {**GOSSIP, **fields}, code="invalid_fields")
            seen = {fault["pointer"]: fault["message"] for fault in answer.json["errors"]}
            must(pointer in seen and words in seen[pointer], f"{fields}: {seen}")

        expect("/gossip", "for strategy 'gossip' only", strategy="pipeline", gossip={})
        expect("/gossip/split", "expected one of even, speed", gossip={"split": "odd"})
        expect("/gossip/alpha", "not for the split 'even'", gossip={"alpha": 1})
        for split in ({}, {"split": "even"}, {"split": "speed"}, {"split": "dirichlet"}):
            ignored = {**split, "classes_per_shard": 3}
            words = f"not for the split '{split.get('split', 'even')}'"
            expect("/gossip/classes_per_shard", words, gossip=ignored)
        expect("/gossip/average_every", "at least 1", gossip={"average_every": 0})
        expect("/gossip/level", "must be true: without rounds", gossip={"level": False})
        by_samples = {"weights": "accuracy", "average_by": "samples"}
        expect("/gossip/weights", "must be 'equal' with average_by", gossip=by_samples)
        expect("/devices/min", "at least 2", devices={"min": 1, "max": 2})
        expect("/devices/max", "at most 32", devices={"min": 2, "max": 33})
        few = {**GOSSIP, "gossip": {"split": "by_class", "classes_per_shard": 1}}
        api.problem("POST", "/v1/jobs", few, code="bad_split", words=("classes",))
        seen = api.request("POST", "/v1/jobs?dry_run=true", GOSSIP, expect=200).json
        must(seen["gossip"]["groups"] == [], f"{seen['gossip']}")
        must(api.get("/v1/jobs")["items"] == [], "a dry run has made a job")


def offer(**fields):
    """Data as the digits of JOB, of a device."""
    least = record("offer", name="xrays", sha256="ab" * 32, samples=900, classes=10, dtype="U8")
    return {**least, "height": 8, "width": 8, "channels": 1, **fields}


def check_holdout(api, job, expect):
    """Devices offer 900 samples each, without numbers of each class."""
    local = job["dataset"]

    def holding(share, **test):
        return {**local, "test": {"holdout": share, **test}}

    for share in (0, 0.009, 0.51, -1):
        expect("/dataset/test/holdout", "at ", dataset=holding(share))
    expect("/dataset/test/holdout", "expected a number", dataset=holding("many"))
    expect("/dataset/test", "not both", dataset=holding(0.1, name="digits-test"))
    expect("/dataset/test/share", "unknown field", dataset={**local, "test": {"share": 0.1}})
    expect("/dataset/test", "expected an object", dataset={**local, "test": 0.1})
    alone = {**local, "test": {"name": "digits-test", "classes": 3}}
    expect("/dataset/test/classes", "for 'holdout' only", dataset=alone)
    uploaded = {"train": "digits-train", "test": {"holdout": 0.1}}
    expect("/dataset/test/holdout", "for data that stay on devices", dataset=uploaded)
    expect("/gossip/target_accuracy", "needs dataset.test", dataset={"train": local["train"]},
           gossip={"target_accuracy": 0.5})
    expect("/batch", "without those held out", dataset=holding(0.5), batch=1000)
    for share, held in ((0.1, 90), (0.5, 450)):
        asked = {**job, "dataset": holding(share), "gossip": {"target_accuracy": 0.5}}
        seen = api.request("POST", "/v1/jobs?dry_run=true", asked, expect=200).json
        groups = [group["samples"] for group in seen["gossip"]["groups"]]
        near = all(899 - held <= samples <= 901 - held for samples in groups)
        must(len(groups) == 2 and near, f"{share}: {groups}")
    made = api.submit({**job, "dataset": holding(0.1, classes=7)})
    must(made["spec"]["dataset"]["test"] == {"holdout": 0.1}, f"{made['spec']['dataset']}")
    data = made["data"]
    must(data["test_sha256"] is None and 178 <= data["test_samples"] <= 182, f"{data}")
    must(data["epoch_samples"] + data["test_samples"] == data["train_samples"] == 1800, f"{data}")
    api.verb(made, "cancel")
    named = api.submit({**job, "dataset": {**local, "test": {"name": "digits-test"}}})
    must(named["spec"]["dataset"]["test"] == "digits-test", f"{named['spec']['dataset']}")
    api.verb(named, "cancel")


def test_a_job_on_local_data_reports_faults_at_its_fields():
    with Api() as api:
        local = {"train": {"local": "xrays"}, "test": "digits-test"}
        job = {**GOSSIP, "dataset": local}

        def expect(pointer, words, **fields):
            answer = api.problem("POST", "/v1/jobs", {**job, **fields}, code="invalid_fields")
            seen = {fault["pointer"]: fault["message"] for fault in answer.json["errors"]}
            must(pointer in seen and words in seen[pointer], f"{fields}: {seen}")

        place = "/dataset/train/local"
        expect(place, "no device offers a data set 'xrays'; start agents with --data")
        shape = {**api.get("/v1/datasets/digits-train")}
        like = {key: shape[key] for key in ("height", "width", "channels", "dtype")}
        agents = [FakeAgent(api, name=f"ward{i}", data=[offer(**like)]) for i in range(2)]
        expect("/gossip/split", "not for data that stay on devices", gossip={"split": "even"})
        expect("/gossip/critical", "must be 0", gossip={"critical": 0.5})
        weighed = {**job, "gossip": {"weights": "accuracy"}}
        api.problem("POST", "/v1/jobs", weighed, code="bad_split", words=("no samples",))
        expect(place, "'gossip' and 'submodel': with", strategy="pipeline", devices={"min": 1})
        both = {"train": {"local": "xrays", "name": "digits-train"}}
        expect("/dataset/train", "needs the name of a data set, or 'local'", dataset=both)
        expect("/dataset/train", "needs the name of a data set, or 'local'", dataset={"train": {}})
        expect("/dataset/train/place", "unknown field", dataset={"train": {"place": "here"}})
        expect("/dataset/test", "no data set 'none'", dataset={**local, "test": "none"})
        expect("/dataset/test", "needs 'name' or 'holdout', or null", dataset={**local, "test": {}})
        check_holdout(api, job, expect)
        forged = {"local": "xrays", "device": agents[0].id, "sha256": "cd" * 32}
        one = {"min": 1, "max": 1}
        expect(
            place,
            "for strategies 'gossip' and 'submodel' only",
            dataset={"train": forged},
            strategy="pipeline",
            devices=one,
        )
        seen = api.request("POST", "/v1/jobs?dry_run=true", job, expect=200).json
        groups = seen["gossip"]["groups"]
        must([group["samples"] for group in groups] == [900, 900], f"{groups}")
        made = api.submit({**job, "dataset": {**local, "train": forged}})
        train = made["spec"]["dataset"]["train"]
        must(train == {"local": "xrays", "form": train["form"], "classes": 10}, f"{train}")
        must(made["data"]["train_sha256"] is None, f"{made['data']}")
        api.verb(made, "cancel")
        named = FakeAgent(api, name="ward3", data=[offer(**like, class_names_sha256="ee" * 32)])
        for agent in agents:
            api.request("DELETE", f"/v1/devices/{agent.id}")
        must(named.id, "not enrolled")


def test_a_waiting_job_names_the_devices_with_less_than_a_batch():
    with Api() as api:
        shape = api.get("/v1/datasets/digits-train")
        like = {key: shape[key] for key in ("height", "width", "channels", "dtype")}
        small = "b" * 40
        for name, own in ((small, {"samples": 10}), ("large", {}), ("odd", {"height": 9})):
            FakeAgent(api, name, data=[{**offer(**like), **own}])
        job = {**GOSSIP, "dataset": {"train": {"local": "xrays"}, "test": "digits-test"}}
        held = {**job, "dataset": {**job["dataset"], "test": {"holdout": 0.5}}}
        few = f"; '{small}' is left out: too few samples for a batch, "
        for asked, left_out, missing in (
            (job, f"{few}10 of 16; 'odd' is left out: data of another form", "1 with less than"),
            (held, f"{few}5 of 16; ", "1 with less than a batch of samples"),
            ({**job, "batch": 901}, f"{few}10 of 901; 'large' is", "offers a batch of the data"),
        ):
            made = api.submit(asked)
            must(left_out in made["message"], made["message"])
            api.verb(made, "cancel")
            seen = api.request("POST", "/v1/jobs?dry_run=true", asked, expect=200).json
            must(missing in seen["waiting_for"], seen["waiting_for"])


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
        mean_of_steps = len(gossip["groups"]) * gossip["total_seconds"]
        must(gossip["single_seconds"] < mean_of_steps, f"one is faster alone: {gossip}")
        must(gossip["fastest"] in ("single", "pipeline"), f"{gossip}")
        rounds = ask(schedule="rounds", level=False)
        must(rounds["total_seconds"] == gossip["rounds_seconds"], f"{rounds} and {gossip}")
        must(rounds["period_seconds"] == rounds["epoch_seconds"], f"{rounds}")
        steps = [round(group["samples"] / GOSSIP["batch"]) for group in rounds["groups"]]
        must([group["every"] for group in rounds["groups"]] == steps, f"{rounds}")


def check_traffic(ask, far, usual):
    """Of two groups: the fields of each dry run, and the copies that each link carries in a period
    both ways, for one average with each mix.
    """
    copies = usual["copy_bytes"] / usual["period_seconds"]
    for options, averager, other in (
        ({}, (3, 2), (2, 2)),  # the averager also sends it to the coordinator
        ({"adopt": False}, (2, 2), (2, 1)),
        ({"schedule": "rounds", "average_every": 1}, (2, 1), (1, 1)),
    ):
        groups = ask({**GOSSIP, "gossip": options}, links=[far])["groups"]
        for group, (given, taken) in zip(groups, (averager, other)):
            seen = (group["given_bytes_per_second"], group["taken_bytes_per_second"])
            for value, expected in zip(seen, (given * copies, taken * copies)):
                must(abs(value / expected - 1) < 1e-9, f"{options}: {group}, not {expected}")
            share = max(seen) / far["bytes_per_second"]
            must(abs(group["link_share"] / share - 1) < 1e-9, f"{group}: not {share}")
    unknown = [group["link_share"] for group in ask()["groups"]]
    must(unknown == [None, None], f"nothing was measured: {unknown}")


def test_a_question_about_gossip_assumes_devices_and_links():
    with Api() as api:
        left, right = (FakeAgent(api, name, protocol=6).id for name in ("left", "right"))

        def ask(spec=GOSSIP, **fields):
            question = {"spec": spec, **fields}
            return api.request("POST", "/v1/plans", question, expect=200).json["plan"]["gossip"]

        dry = api.request("POST", "/v1/jobs?dry_run=true", GOSSIP, expect=200).json["gossip"]
        must(ask() == dry, f"{ask()}, not {dry}")
        third = {"name": "third", "like": left, "speed": 3}
        three = {**GOSSIP, "devices": {"min": 2, "max": 3}}
        more = ask(three, devices=[left, right, third])
        must([group["name"] for group in more["groups"]][0] == "third", f"{more}")
        must(more["groups"][0]["device"] is None, f"{more}")
        must(len(more["groups"]) == 3, f"{more}")
        speed = more["groups"][0]["samples_per_second"] / more["groups"][1]["samples_per_second"]
        must(2.9 < speed < 3.1, f"{speed} times as fast: {more}")
        for seen in (dry, more):  # so fast that they pass their samples four times in a period
            must(all(group["slows"] for group in seen["groups"]), f"{seen}")
            epochs = seen["period_seconds"] / seen["epoch_seconds"]
            must(abs(epochs / 4 - 1) < 0.02, f"{epochs} epochs in a period: {seen}")
        far = {"between": [left, right], "latency_seconds": 0.5, "bytes_per_second": 1e5}
        slow = ask(links=[far])
        expected = 2 * (0.5 + slow["copy_bytes"] / 1e5)
        must(abs(slow["period_seconds"] - expected) < 1e-6, f"{slow}: not {expected} s")
        check_traffic(ask, far, slow)
        question = {"spec": GOSSIP, "without": [left]}
        api.problem("POST", "/v1/plans", question, code="not_enough_devices")
        varied = {"spec": GOSSIP, "vary": {"micro_batches": [1]}}
        api.problem("POST", "/v1/plans", varied, code="invalid_fields", words=("/vary",))


def test_a_question_about_a_live_job_of_gossip_has_its_groups():
    with Api() as api:
        for name in ("left", "right"):
            FakeAgent(api, name, protocol=6)
        dry = api.request("POST", "/v1/jobs?dry_run=true", GOSSIP, expect=200).json["gossip"]
        job = api.submit(GOSSIP)
        question = {"job": job["id"]}
        found = api.request("POST", "/v1/plans", question, expect=200).json["plan"]["gossip"]
        must(found == dry, f"{found}, not {dry}")


PAIR = {"xid": {"life": 0, "counter": 0}, "state": "none"}


def report(agent, run, pair=None, fields=None, **average):
    """A heartbeat of a group that trains; average: its match of that kind; fields: what differs."""
    mix = {
        "group": run["mix"]["group"],
        "generation": run["mix"]["generation"],
        "pair": pair or PAIR,
        "average": {**PAIR, **average},
        **(fields or {}),
    }
    agent.heartbeat("run", run, mix=record("mix_report", **mix))


def order_of(agent):
    orders = agent.assignment()["run"]["mix"]["orders"]
    return next((order for order in orders if order["kind"] == "average"), None)


def averaging(api, agents, spec=None):
    """Let a job make its steps at once, and its groups give a copy. (the job, the run of the group
    that is to average, its agent, the other agent, the order)
    """
    job = api.submit(spec or GOSSIP)
    for agent in agents * 3:
        agent.act(train_to=1)
    for step in (1, 4):
        for agent in agents:
            agent.step = step
            report(agent, agent.assignment()["run"])
    for agent in agents:
        run, order = agent.assignment()["run"], order_of(agent)
        must(order, f"no copy is asked for: {run['mix']}")
        report(agent, run, xid=order["xid"], state="applied", copied=True)
    author = next(agent for agent in agents if order_of(agent).get("averages"))
    other = next(agent for agent in agents if agent is not author)
    run, order = author.assignment()["run"], order_of(author)
    must(len(order["sources"]) == 2, f"{order}")
    return job, run, author, other, order


def average_path(agent, run, order, data, **fields):
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


def refused_report(agent, run, fields, pointer):
    body = record(
        "heartbeat",
        device=agent.id,
        boot=agent.boot,
        phase="run",
        step=agent.step,
        highest_generation=0,
        mix=record("mix_report", **{"group": run["mix"]["group"], **fields}),
        **{name: run[name] for name in ("job", "generation", "plan")},
    )
    answer = agent.api.problem("POST", "/v1/agent/heartbeat", body, code="invalid_fields")
    must(pointer in [fault["pointer"] for fault in answer.json["errors"]], f"{answer.json}")


def test_a_report_with_impossible_values_is_refused_and_a_forged_one_has_no_effect():
    with Api() as api:
        agents = [FakeAgent(api, name, protocol=6) for name in ("one", "two")]
        _, run, author, other, order = averaging(api, agents)
        for fields, pointer in (
            ({"distance": -1}, "/mix/distance"),
            ({"distance": 1e300}, "/mix/distance"),
            ({"mixes": -1}, "/mix/mixes"),
            ({"group": 99}, "/mix/group"),
            ({"pair": {**PAIR, "xid": {"life": 0, "counter": -1}}}, "/mix/pair/xid/counter"),
            ({"pair": {**PAIR, "state": "won"}}, "/mix/pair/state"),
        ):
            refused_report(author, run, fields, pointer)
        theirs = other.assignment()["run"]
        done = {"xid": order["xid"], "state": "applied", "copied": True}
        for fields in (  # the other one claims to have the average, as the author, or in its place
            {"group": run["mix"]["group"], "generation": run["mix"]["generation"]},
            {"generation": theirs["mix"]["generation"] + 1},
            {},
        ):
            report(other, theirs, fields=fields, **done)
            must(order_of(author)["averages"], f"{fields}: the average counts as computed")
        model = trained_model(run)
        path = average_path(other, theirs, order, model)
        api.problem("PUT", path, model, BINARY, code="stale_generation")


def test_forged_records_of_mixes_are_not_stored_and_none_is_replaced():
    with Api() as api:
        agents = [FakeAgent(api, name, protocol=6) for name in ("one", "two")]
        job, run, author, other, order = averaging(api, agents)
        own, peer = (
            {"group": mix["group"], "generation": mix["generation"], "version": 4}
            for mix in (run["mix"], other.assignment()["run"]["mix"])
        )
        good = {"xid": order["xid"], "kind": "average", "own": own, "peers": [own, peer]}
        life, counter = order["xid"]["life"], order["xid"]["counter"]

        def stored(*records):
            report(author, run, fields={"records": list(records)})
            rows = api.get(f"/v1/jobs/{job['id']}/mixes")["items"]
            return [row["record"] for row in rows if row["record"]["kind"] != "start"]

        for change in (
            {"xid": {"life": life, "counter": counter + 1}},
            {"xid": {"life": life + 1, "counter": 1}},
            {"xid": {"life": life, "counter": 0}},
            {"kind": "start"},
            {"kind": "stored", "peers": []},
            {"own": {**own, "generation": own["generation"] + 1}},
            {"own": {**own, "generation": 0}},
            {"own": {**own, "group": 2}},
            {"peers": []},
            {"peers": [own, {**peer, "generation": peer["generation"] + 1}]},
            {"kind": "pair"},
        ):
            must(stored({**good, **change}) == [], f"{change} is stored")
        first = stored(good)
        must(len(first) == 1 and first[0]["peers"] == [own, peer], f"{first}")
        must(stored({**good, "peers": [own]}, good) == first, "a record was replaced")


def test_steps_that_a_group_cannot_have_made_do_not_count():
    with Api() as api:
        agents = [FakeAgent(api, name, protocol=6) for name in ("one", "two")]
        job = api.submit({**GOSSIP, "steps": 50000000, "epochs": 1000000})
        for agent in agents * 3:
            agent.act(train_to=1)
        for step in (1000000, 49999999, 999999999):
            agents[0].step = step
            report(agents[0], agents[0].assignment()["run"])
            must(api.job(job)["progress"]["step"] < 20000000, f"{api.job(job)['progress']}")
            must(order_of(agents[0]) is None, "the last average has begun")


def test_a_device_without_memory_for_the_model_gets_no_share():
    with Api() as api:
        small = FakeAgent(api, "small", protocol=6, memory=4 << 20)
        large = FakeAgent(api, "large", protocol=6)
        wanted = {**GOSSIP, "devices": {"min": 2, "max": 3}}
        seen = api.request("POST", "/v1/jobs?dry_run=true", wanted, expect=200).json
        must(seen["gossip"]["groups"] == [], f"{seen['gossip']}")
        other = FakeAgent(api, "other", protocol=6)
        job = api.submit(wanted)
        for agent in (small, large, other) * 3:
            agent.act(train_to=1)
        groups = api.get(f"/v1/jobs/{job['id']}/groups")["groups"]
        devices = {group["mixes"]["device"] for group in groups}
        must(devices == {large.id, other.id}, f"{groups}")


def test_groups_of_other_numeric_classes_make_no_exact_model():
    for classes, shown in ((("one", "one"), "one"), (("one", "other"), "mixed")):
        with Api() as api:
            agents = [
                FakeAgent(api, f"agent{index}", protocol=6, numeric_class=name)
                for index, name in enumerate(classes)
            ]
            job = api.submit(GOSSIP)
            for agent in agents * 3:
                agent.act(train_to=1)
            seen = api.job(job)
            must(seen["numeric_class"] == shown, f"{seen['numeric_class']}, not {shown}")
            must(seen["exact"] == (shown != "mixed"), f"exact: {seen['exact']} with {classes}")


def gossip_numbers(api):
    names = ("groups", "matches_total", "mixes_applied_total", "mixes_expired_total")
    names += ("mixes_rejected_total", "averages_total", "records_refused_total")
    return {name: api.number(f"paceline_gossip_{name}") for name in names}


def test_what_groups_report_is_in_metrics_and_in_the_view():
    with Api() as api:
        agents = [FakeAgent(api, name, protocol=6) for name in ("one", "two")]
        job = api.submit({**GOSSIP, "steps": 40, "gossip": {"average_every": 100}})
        for agent in agents * 3:
            agent.act(train_to=1)
        for agent in agents:
            report(agent, agent.assignment()["run"], fields={"wants": True})
        runs = [agent.assignment()["run"] for agent in agents]
        xid = runs[0]["mix"]["orders"][0]["xid"]
        numbers = {"mixes": 1, "distance": 0.125, "gap_seconds": 0.5}
        for agent, run, state in zip(agents, runs, ("applied", "expired")):
            pair = {"xid": xid, "state": state, "seconds": 0.25, "copied": True}
            agent.step = 2
            report(agent, run, pair, fields=numbers)
            report(agent, run, pair, fields=numbers)
        seen = gossip_numbers(api)
        must(seen["groups"] == 2 and seen["matches_total"] == 1, f"{seen}")
        must(seen["mixes_applied_total"] == seen["mixes_expired_total"] == 1, f"{seen}")
        must(api.number("paceline_gossip_mix_seconds_total") == 0.25, "no seconds")
        view = api.get(f"/v1/jobs/{job['id']}/groups")["groups"]
        mixed = view[runs[0]["mix"]["group"]]
        shown = mixed["mixes"]
        must(shown["mix_seconds"] == 0.25 and shown["distance"] == 0.125, f"{mixed}")
        must(shown["steps"] == 2 and shown["mixes"] == 1, f"{mixed}")
        must(shown["gap_seconds"] == 0.5, f"{mixed}")
        must(api.number("paceline_gossip_gap_seconds_max") == 0.5, "no gap")
        must(shown["device"] in {agent.id for agent in agents}, f"{mixed}")
        must(shown["samples_per_second"] > 0 and not shown.get("missed_periods"), f"{mixed}")
        path = f"/v1/jobs/{mixed['part']['job']}/metrics?name=mix_seconds"
        wait_for(
            lambda: [metric["value"] for metric in api.get(path)["items"]] == [0.25],
            "the mix is no metric of its group",
        )


def test_groups_that_gave_no_copy_to_the_last_average_are_named():
    with Api() as api:
        agents = [FakeAgent(api, name, protocol=6) for name in ("one", "two", "three")]
        job = api.submit({**GOSSIP, "devices": {"min": 3, "max": 3}})
        for agent in agents * 3:
            agent.act(train_to=1)
        for step in (1, 4):
            for agent in agents:
                agent.step = step
                report(agent, agent.assignment()["run"])
        runs = [agent.assignment()["run"] for agent in agents]
        late = next(run for run in runs if run["mix"]["group"] == 1)
        xid = order_of(agents[0])["xid"]
        for agent, run in zip(agents, runs):
            if run is not late:
                report(agent, run, xid=xid, state="applied", copied=True)

        def author():
            others = (pair for pair in zip(agents, runs) if pair[1] is not late)
            for agent, run in others:
                agent.step += 1  # the one that is late stalls
                report(agent, run, xid=xid, state="applied", copied=True)
                order = order_of(agent) or {}
                if order.get("averages") and len(order["sources"]) == 2:
                    return agent, run
            return None

        wait_for(author, "nobody averages without the group that is late")
        agent, run = author()
        report(agent, run, xid=xid, state="fetched", copied=True)
        model = trained_model(run)
        path = average_path(agent, run, order_of(agent), model)
        api.request("PUT", path, model, BINARY, expect=204)
        seen = api.job(job)
        must(seen["state_reason"] == "degraded", f"{seen}")
        must(seen["message"] == "trained; not in the last average: group 1", f"{seen}")


def test_an_average_is_a_complete_model_of_the_job_with_finite_numbers():
    with Api() as api:
        agents = [FakeAgent(api, name, protocol=6) for name in ("one", "two")]
        job, run, author, other, order = averaging(api, agents)
        report(author, run, xid=order["xid"], state="fetched", copied=True)
        path = average_path(author, run, order, b"")
        api.problem("PUT", path, b"", BINARY, code="invalid_checkpoint", words=("ends before",))
        api.problem("PUT", path, b"", BINARY, code="stale_generation")
        author, run, order = other, other.assignment()["run"], order_of(other)
        must(order["averages"], "nobody else computes it")
        report(author, run, xid=order["xid"], state="fetched", copied=True)
        good = trained_model(run)
        for data, words in (
            (b"", "ends before its header"),
            (b"the file of a model", "header"),
            (good[:100], "ends before its header"),
            (good[:-4], "its header describes"),
            (good + b"more", "longer than its header"),
            (trained_model(run, units=1), "is missing"),
            (trained_model(run, micro_batch=3), "another evaluation"),
            (trained_model(run, value=float("nan")), "number 0 of the file is not finite"),
            (good[:-4] + struct.pack("<f", float("inf")), "is not finite"),
        ):
            path = average_path(author, run, order, data)
            api.problem("PUT", path, data, BINARY, code="invalid_checkpoint", words=(words,))
        must(api.get("/v1/checkpoints")["items"] == [], "a wrong average is stored")
        path = average_path(author, run, order, good)
        api.request("PUT", path, good, BINARY, expect=204)
        must(api.job(job)["state"] == "succeeded", f"{api.job(job)}")


def test_an_average_is_stored_by_the_group_that_computes_it_only():
    with Api() as api:
        agents = [FakeAgent(api, name, protocol=6) for name in ("one", "two")]
        job, run, author, other, order = averaging(api, agents)
        model = trained_model(run)
        path = average_path(author, run, order, model)
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
            wrong = average_path(author, run, order, model, **change)
            api.problem("PUT", wrong, model, BINARY, code=code)
        for name in ("generation", "life", "counter"):
            wrong = path.replace(f"&{name}=", f"&not_{name}=")
            api.problem("PUT", wrong, model, BINARY, code="invalid_parameter")
        damaged = bytes([*model[:-1], model[-1] ^ 1])
        api.problem("PUT", path, damaged, BINARY, code="invalid_blob")
        api.problem(
            "PUT", path, model, {"Content-Type": "text/plain"}, code="unsupported_media_type"
        )
        huge = {**BINARY, "Content-Length": str(5 << 30)}
        api.problem("PUT", path, b"", huge, code="body_too_large")
        report(author, run, xid=order["xid"], state="fetched", copied=True)
        tested = average_path(author, run, order, model, test_accuracy=0.75, test_loss=1.5)
        api.request("PUT", tested, model, BINARY, expect=204)
        seen = api.job(job)
        must(seen["state"] == "succeeded", f"{seen}")
        must(seen["progress"]["accuracy"] == 0.75, f"{seen['progress']}")
        api.problem("PUT", tested, model, BINARY, code="stale_generation")
        rows = api.get(f"/v1/jobs/{job['id']}/mixes")["items"]
        must([row["record"]["kind"] for row in rows] == ["start", "start", "stored"], f"{rows}")
        mix, stored = run["mix"], rows[-1]["record"]
        must(stored["xid"] == order["xid"], f"{stored}")
        must(stored["own"] == {"group": mix["group"], "generation": mix["generation"]}, f"{stored}")
        path = f"/v1/jobs/{job['id']}/metrics?name=test_accuracy"
        wait_for(
            lambda: [metric["value"] for metric in api.get(path)["items"]] == [0.75],
            "the accuracy of the average is no metric",
        )


def test_an_accuracy_that_no_number_of_labels_gives_is_refused():
    with Api() as api:
        agents = [FakeAgent(api, name, protocol=6) for name in ("one", "two")]
        job, run, author, other, order = averaging(api, agents)
        report(author, run, xid=order["xid"], state="fetched", copied=True)
        model = trained_model(run)
        for claimed in ("nan", "inf", -0.5, 1.5):
            path = average_path(author, run, order, model, test_accuracy=claimed, test_loss=1)
            api.problem("PUT", path, model, BINARY, code="invalid_parameter")
        path = average_path(author, run, order, model, test_accuracy=0.12345, test_loss=1)
        words = ("test_accuracy", "labels")
        api.problem("PUT", path, model, BINARY, code="invalid_parameter", words=words)
        author, run, order = other, other.assignment()["run"], order_of(other)
        must(order["averages"], "nobody else computes it")
        report(author, run, xid=order["xid"], state="fetched", copied=True)
        path = average_path(author, run, order, model, test_accuracy=0.5, test_loss=1)
        api.request("PUT", path, model, BINARY, expect=204)
        must(api.job(job)["state"] == "succeeded", f"{api.job(job)}")


def mix_once(agents):
    for agent in agents:
        report(agent, agent.assignment()["run"], fields={"wants": True})
    orders = agents[0].assignment()["run"]["mix"]["orders"]
    xid = next(order["xid"] for order in orders if order["kind"] == "pair")
    for agent in agents:
        pair = {"xid": xid, "state": "applied", "copied": True}
        report(agent, agent.assignment()["run"], pair, fields={"mixes": 1})


def next_author(agents):
    """Let all groups give a copy for the next average. (the agent that computes it, its run)"""
    for agent in agents:
        agent.step += 1
        report(agent, agent.assignment()["run"])
    xid = order_of(agents[0])["xid"]
    for agent in agents:
        report(agent, agent.assignment()["run"], xid=xid, state="applied", copied=True)
    author = next(agent for agent in agents if order_of(agent).get("averages"))
    return author, author.assignment()["run"]


def test_two_groups_agree_before_an_accuracy_ends_a_job():
    with Api() as api:
        agents = [FakeAgent(api, name, protocol=6) for name in ("one", "two")]
        options = {"average_every": 1, "adopt": False, "target_accuracy": 0.5}
        job = api.submit({**GOSSIP, "steps": 100000, "epochs": 10000, "gossip": options})
        for agent in agents * 3:
            agent.act(train_to=1)
        authors = []
        for good in (True, False, True, True, True):
            mix_once(agents)
            author, run = next_author(agents)
            order = order_of(author)
            report(author, run, xid=order["xid"], state="fetched", copied=True)
            model = trained_model(run, value=len(authors))
            accuracy = 0.75 if good else 0.25
            path = average_path(author, run, order, model, test_accuracy=accuracy, test_loss=1)
            must(api.job(job)["state"] == "running", f"after {authors}: {api.job(job)}")
            api.request("PUT", path, model, BINARY, expect=204)
            authors.append(author.name)
        seen = api.job(job)
        must(seen["state_reason"] == "stopped_early", f"{seen}")
        first, other = authors[0], authors[1]
        must(first != other, f"{authors}: the second good average would be its own again")
        # After the bad one any group may compute the next.
        must(authors[2] != authors[3] != authors[4], f"{authors}")


def test_a_pause_in_the_last_evaluation_is_followed_by_another_average():
    with Api() as api:
        shape = api.get("/v1/datasets/digits-train")
        like = {key: shape[key] for key in ("height", "width", "channels", "dtype")}
        agents = [
            FakeAgent(api, name, protocol=6, data=[offer(**like)]) for name in ("one", "two")
        ]
        dataset = {"train": {"local": "xrays"}, "test": {"holdout": 0.1}}
        job, run, author, other, order = averaging(api, agents, {**GOSSIP, "dataset": dataset})
        report(author, run, xid=order["xid"], state="fetched", copied=True)
        model = trained_model(run)
        api.request("PUT", average_path(author, run, order, model), model, BINARY, expect=204)
        must(api.job(job)["state"] == "running", "it ends before the average is evaluated")
        api.verb(job, "pause")
        drive(api, job, agents, "paused")
        api.verb(job, "resume")
        for agent in agents * 3:
            agent.act(train_to=agents[0].step)
        seen = api.job(job)
        must(seen["state"] == "running", f"it ends without an evaluation: {seen}")
