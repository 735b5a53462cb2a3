"""Jobs of sub-models: faults at their fields, parts, and verbs on them."""

from api import BINARY, JOB, Api, record
from datasets import npy, tar_of_bytes
from events import Stream
from fake_agent import FakeAgent, finish
from paceline import must

PARTED = {**JOB, "steps": None, "epochs": 1, "strategy": "submodel"}
HALVES = [{"classes": [0, 1, 2, 3, 4]}, {"classes": [5, 6, 7, 8, 9]}]


def model_of(units, op="relu"):
    """A model whose second unit is this wide."""

    def unit(name, units, last):
        return {"name": name, "ops": [{"type": "linear", "units": units}, *last]}

    first = unit("wide", 64, [{"type": "relu"}])
    first["ops"].insert(0, {"type": "flatten"})
    parts = [first, unit("narrow", units, [{"type": op}]), unit("head", "classes", [])]
    return {"description": {"name": "m", "units": parts, "loss": {"type": "softmax_cross_entropy"}}}


def counted(api, name, counts):
    """A device with so many samples of each class of the digits."""
    shape = api.get("/v1/datasets/digits-test")
    like = {key: shape[key] for key in ("height", "width", "channels", "dtype")}
    data = record("offer", name="xrays", sha256="ab" * 32, classes=10, **like)
    data |= {"samples": sum(counts), "class_counts": counts}
    return FakeAgent(api, name=name, protocol=6, data=[data])


def test_sub_models_of_local_data_report_faults_and_are_previewed():
    with Api() as api:
        stem = finish(api, api.submit(JOB), [FakeAgent(api, name="trainer")])["checkpoint"]
        local = {"train": {"local": "xrays"}, "test": "digits-test"}
        right = {"stem_epochs": 0, "joint": {"epochs": 1, "dataset": "digits-test"}}
        job = {**PARTED, "dataset": local, "init": {"checkpoint": stem}, "submodel": right}

        def expect(pointer, words, submodel=None, **fields):
            body = {**job, "submodel": {**right, **(submodel or {})}, **fields}
            answer = api.problem("POST", "/v1/jobs", body, code="invalid_fields")
            seen = {fault["pointer"]: fault["message"] for fault in answer.json["errors"]}
            must(pointer in seen and words in seen[pointer], f"{submodel} {fields}: {seen}")

        place = "/dataset/train/local"
        expect(place, "no device offers a data set 'xrays'")
        counted(api, "none-of-9", [120] * 9 + [0])
        expect("/dataset/train", "class 9 of 'xrays' has no samples on any device")
        counted(api, "two-classes", [0] * 8 + [120] * 2)
        words = (place, "class 9 is on 0 devices")
        api.problem("POST", "/v1/jobs", job, code="invalid_fields", words=words)
        counted(api, "all", [20] * 5 + [120] * 5)
        expect("/init/checkpoint", "is needed with data that stay on devices", init={})
        expect("/submodel/stem_epochs", "must be 0 with data that stay", {"stem_epochs": 1})
        expect("/submodel/groups", "must be null with data that stay", {"groups": HALVES})
        none = {"negatives": 0, "allow_no_negatives": True}
        expect("/submodel/negatives", "must be at least 0.01 with data that stay", none)
        expect("/submodel/joint/dataset", "is needed with data", {"joint": {"epochs": 1}})
        idle = {"joint": {"epochs": 0, "dataset": "digits-test"}}
        expect("/submodel/joint/dataset", "of no use", idle)
        expect("/submodel/joint/dataset", "no data set 'no'", {"joint": {"dataset": "no"}})
        uploaded = {"train": "digits-train"}
        expect("/submodel/joint/dataset", "for data that stay on devices", dataset=uploaded)
        held = {**local, "test": {"holdout": 0.1}}
        expect("/dataset/test/holdout", "is not for jobs of sub-models", dataset=held)
        expect("/submodel/group_count", "half of the 10 classes", {"group_count": 6})
        three = {**job, "submodel": {**right, "group_count": 3}}
        api.problem("POST", "/v1/jobs", three, code="invalid_fields", words=(place, "3 groups"))

        seen = api.request("POST", "/v1/jobs?dry_run=true", job, expect=200).json
        planned = {group["name"]: group["classes"] for group in seen["submodel"]["groups"]}
        must(planned == {"none-of-9": [0, 1, 2, 3, 4], "all": [5, 6, 7, 8, 9]}, f"{planned}")
        must(seen["stages"] == [] and seen["submodel"]["pipeline_seconds"] is None, f"{seen}")
        must(seen["submodel"]["single_seconds"] is None, f"{seen['submodel']}")
        must(seen["submodel"]["fastest"] == "submodel", f"{seen['submodel']}")
        made = api.submit(job)
        must(made["data"]["train_sha256"] is None, f"{made['data']}")
        must(made["data"]["joint_samples"] > 0, f"{made['data']}")
        group = api.get(f"/v1/jobs/{made['id']}/groups/0/spec")
        must(group["dataset"]["train"]["sha256"] == "ab" * 32, f"{group['dataset']}")
        must(group["view"]["classes"] in planned.values(), f"{group['view']}")
        new = {"name": "new", "gflops": 9, "memory_bytes_per_second": 1e9, "memory_bytes": 1 << 30}
        question = {"job": made["id"], "devices": [new]}
        api.problem("POST", "/v1/plans", question, code="invalid_fields", words=("offers no data",))
        api.verb(made, "cancel")
        untested = api.submit({**job, "dataset": {"train": local["train"]}})
        api.problem("DELETE", "/v1/datasets/digits-test", code="in_use")
        api.verb(untested, "cancel")


def test_a_job_of_sub_models_reports_faults_at_its_fields():
    text = bytes(range(256)) * 20
    with Api() as api:
        api.request("PUT", "/v1/datasets/text?text=64", text, BINARY, expect=201)
        many = npy("<f4", "(1025, 4)", bytes(4 * 4 * 1025))
        labels = npy("<u2", "(1025,)", b"".join(n.to_bytes(2, "little") for n in range(1025)))
        gaps = npy(
            "<u2", "(1025,)", b"".join((n % 5 * 2).to_bytes(2, "little") for n in range(1025))
        )
        few = npy("<u2", "(1025,)", b"".join((n % 3).to_bytes(2, "little") for n in range(1025)))
        most = npy(
            "<u2", "(1025,)", b"".join((n % 1024).to_bytes(2, "little") for n in range(1025))
        )
        for name, part in (("many", labels), ("most", most), ("gaps", gaps), ("few", few)):
            content = tar_of_bytes({"x.npy": many, "y.npy": part})
            api.request("PUT", f"/v1/datasets/{name}", content, BINARY, expect=201)

        def expect(pointer, words, submodel=None, **fields):
            answer = api.problem(
                "POST",
                "/v1/jobs",
                {**PARTED, "submodel": submodel, **fields},
                code="invalid_fields",
            )
            seen = {fault["pointer"]: fault["message"] for fault in answer.json["errors"]}
            must(pointer in seen and words in seen[pointer], f"{submodel} {fields}: {seen}")

        expect("/submodel", "for strategy 'submodel' only", {"stem": 1}, strategy="pipeline")
        expect("/steps", "use epochs", steps=4)
        expect("/cuts", "plan of its own", cuts=[1])
        expect("/freeze", "freeze the stem", freeze=["hidden1"])
        expect("/view", "each group has its own", view={"classes": [1, 2]})
        expect("/init/except", "is not for jobs of sub-models", init={"except": ["hidden1"]})
        table = {"stem.0": {"forward": "gemm"}}
        expect("/kernels", "have other shapes", model={"name": "resnet8"}, kernels=table)
        expect("/stop", "evaluations of its own", stop={"metric": "test_accuracy", "patience": 1})
        kept = {"every_epochs": 1, "keep": "last", "count": 1}
        expect("/checkpoint", "leave a checkpoint already", checkpoint=kept)
        expect("/submodel/stem", "at least 1", {"stem": 0})
        expect("/submodel/stem", "", {"stem": 2})
        expect("/submodel/stem_epochs", "init.checkpoint", {"stem_epochs": 0})
        for negatives in (0, 1e-9):
            expect("/submodel/negatives", "allow_no_negatives", {"negatives": negatives})
        for units, place, words in (
            ("tail", "", "head, all, or an array"),
            ([], "", "at least 1"),
            (["head", "tail"], "/1", "no unit 'tail'"),
            (["hidden1", "hidden1"], "/1", "the same unit"),
        ):
            expect(f"/submodel/joint/units{place}", words, {"joint": {"units": units}})
        expect("/submodel/group_count", "at least 2", {"group_count": 1})
        expect("/submodel/group_count", "half of the 10 classes", {"group_count": 6})
        expect("/submodel/group_count", "not both", {"group_count": 2, "groups": HALVES})
        expect("/submodel/groups", "2 to 16 groups", {"groups": HALVES[:1]})
        expect(
            "/submodel/groups",
            "as many groups as replicas says (1), but class 4 is in 0",
            {"groups": [{"classes": [0, 1, 2, 3]}, HALVES[1]]},
        )
        expect(
            "/submodel/groups",
            "as many groups as replicas says (1), but class 5 is in 2",
            {"groups": [{"classes": [0, 1, 2, 3, 4, 5]}, HALVES[1]]},
        )
        expect(
            "/submodel/groups/1/classes/1",
            "unknown class 10",
            {"groups": [HALVES[0], {"classes": [5, 10]}]},
        )
        expect(
            "/submodel/groups/0/classes/1", "twice", {"groups": [{"classes": [0, 0, 1]}, HALVES[1]]}
        )
        expect(
            "/submodel/groups/0/classes",
            "at least 2 classes",
            {"groups": [{"classes": [0]}, {"classes": list(range(1, 10))}]},
        )
        expect(
            "/submodel/groups",
            "every group, or of none",
            {"groups": [{**HALVES[0], "width": 0.5}, HALVES[1]]},
        )
        expect(
            "/submodel/groups",
            "add up to 0.9",
            {"groups": [{**HALVES[0], "width": 0.5}, {**HALVES[1], "width": 0.4}]},
        )
        expect(
            "/submodel/groups",
            "channels",
            {"groups": [{"classes": [2 * g, 2 * g + 1]} for g in range(5)]},
            model={"name": "resnet8"},
        )
        room = {"labels": {"room": "kitchen"}}
        expect(
            "/submodel/groups/1/labels",
            "'room' is in devices.labels too",
            {"groups": [HALVES[0], {**HALVES[1], **room}]},
            devices={"labels": {"room": "cellar"}},
        )
        expect(
            "/submodel/groups/1/labels",
            "more than 16 labels",
            {"groups": [HALVES[0], {**HALVES[1], **room}]},
            devices={"labels": {f"key{n}": "value" for n in range(16)}},
        )
        expect(
            "/submodel/groups/1/width",
            "unit 'block1'",
            {"groups": [{**HALVES[0], "width": 0.9}, {**HALVES[1], "width": 0.1}]},
            model={"name": "resnet8"},
        )
        expect(
            "/submodel/group_count", "unit 'block1'", {"group_count": 5}, model={"name": "resnet8"}
        )
        expect(
            "/submodel/group_count",
            "unit 'block1'",
            {"group_count": 3, "replicas": 2},
            model={"name": "resnet8"},
        )
        small = "fewer than a batch of 512"
        expect("/submodel/group_count", small, {"group_count": 5, "negatives": 0.1}, batch=512)
        expect("/batch", "one of 2 groups", {"negatives": 0.01}, batch=1024)
        expect("/submodel/stem", "unit 'narrow'", model=model_of(6))
        expect("/submodel/stem", "unit 'narrow': layer_norm", model=model_of(64, "layer_norm"))
        expect(
            "/submodel/groups/1/width", "0.001", {"groups": [HALVES[0], {**HALVES[1], "width": 0}]}
        )
        expect("/submodel/groups/1/classes", "", {"groups": [HALVES[0], {}]})
        expect("/submodel/groups/1/classes", "at least 2", {"groups": [HALVES[0], {"classes": []}]})
        expect("/submodel/groups/1/labels", "", {"groups": [HALVES[0], {**HALVES[1], "labels": 1}]})
        expect(
            "/submodel/groups/1/size", "unknown", {"groups": [HALVES[0], {**HALVES[1], "size": 1}]}
        )
        expect("/submodel/groups", "list", {"groups": {"classes": [1, 2]}})
        expect("/submodel/groups", "2 to 16 groups", {"groups": [HALVES[0]] * 33})
        expect(
            "/submodel/groups/0/classes",
            "fewer than a batch",
            {"groups": [{"classes": [0, 1]}, {"classes": list(range(2, 10))}], "negatives": 0.1},
            batch=512,
            micro_batches=None,
        )
        expect("/strategy", "at most 1024 classes", dataset={"train": "many"})
        conv = {"type": "conv2d", "filters": 16, "kernel": 3, "padding": 1}
        units = [
            {"name": "stem", "ops": [conv]},
            {"name": "deep", "ops": [{**conv, "groups": 16}, *[{"type": "relu"}] * 63]},
            {"name": "head", "ops": [{"type": "flatten"}, {"type": "linear", "units": "classes"}]},
        ]
        deep = {"name": "d", "units": units, "loss": {"type": "softmax_cross_entropy"}}
        for groups in (None, HALVES, [{**half, "width": 0.5} for half in HALVES]):
            added = {"groups": groups}
            expect("/submodel/stem", "64 ops with its selects", added, model={"description": deep})
        full = [{"classes": list(range(count))} for count in (1024, 1023)]
        expect(
            "/submodel/groups/2/classes/1",
            "together may have at most 2048 classes",
            {"replicas": 2, "groups": [*full, {"classes": [1023, 5]}]},
            dataset={"train": "most"},
        )
        expect("/strategy", "4 classes or more", dataset={"train": "few"})
        expect(
            "/strategy", "one label a sample", model={"name": "gpt-mini"}, dataset={"train": "text"}
        )
        expect("/dataset/train", "of 'gaps' has no samples", dataset={"train": "gaps"})


def close(a, b):
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


def check_forecast(seen, names):
    """What must hold of every forecast of ten classes with a plan."""
    groups, compute = seen["groups"], seen["compute"]
    must(sorted(sum((g["classes"] for g in groups), [])) == list(range(10)), f"{groups}")
    must(close(sum(g["width"] for g in groups), 1), f"{groups}")
    must(all(g["name"] in names and g["seconds"] > 0 for g in groups), f"{groups}")
    must(all(g["memory_bytes"] > 0 and g["failure"] is None for g in groups), f"{groups}")
    ends = [g["begins_seconds"] + g["seconds"] for g in groups]
    must(close(max(ends), seen["groups_seconds"]), f"{seen}")
    phases = [seen[f"{phase}_seconds"] for phase in ("stem", "groups", "joint")]
    must(min(phases) > 0 and close(sum(phases), seen["total_seconds"]), f"{seen}")
    must(1 < compute["per_sample_least"] <= compute["per_sample_most"], f"{compute}")
    must(0 < compute["total"] <= compute["busiest"] and compute["flops"] > 0, f"{compute}")
    seconds = {
        "submodel": seen["total_seconds"],
        "pipeline": seen["pipeline_seconds"],
        "single": seen["single_seconds"],
    }
    must(seconds[seen["fastest"]] == min(seconds.values()), f"{seen}")


def test_a_dry_run_predicts_groups_phases_and_savings():
    with Api() as api:
        agents = [FakeAgent(api, f"agent{i}") for i in range(2)]
        names = {agent.name for agent in agents}

        def dry(**submodel):
            job = {**PARTED, "submodel": submodel}
            preview = api.request("POST", "/v1/jobs?dry_run=true", job, expect=200).json
            must(preview["starts"] == "now" and preview["stages"], f"{preview}")
            return preview["submodel"]

        two = dry()
        check_forecast(two, names)
        must(len({g["device"] for g in two["groups"]}) == 2, "a device trains two groups at once")
        five = dry(group_count=5, negatives=2)
        check_forecast(five, names)
        first, last = five["groups"][0], five["groups"][-1]
        must(first["begins_seconds"] == 0 < last["begins_seconds"], f"{five['groups']}")
        must(two["compute"]["per_sample_least"] < five["compute"]["per_sample_least"], "")
        given = dry(groups=[{**HALVES[0], "width": 0.25}, {**HALVES[1], "width": 0.75}])
        check_forecast(given, names)
        must([g["width"] for g in given["groups"]] == [0.25, 0.75], f"{given}")
        bound = [{**HALVES[0], "labels": {"site": "north"}}, HALVES[1]]
        none = dry(groups=bound)
        must(none["total_seconds"] is None and "label" in none["groups"][0]["failure"], f"{none}")
        must(none["groups"][1]["failure"] is None, f"{none}")
        must(none["compute"]["total"] is None and none["fastest"] != "submodel", f"{none}")
        for agent in agents:
            api.request("POST", f"/v1/devices/{agent.id}/cordon", expect=202)
        preview = api.request("POST", "/v1/jobs?dry_run=true", PARTED, expect=200).json
        must(preview["starts"] == "when_more_devices", f"{preview}")
        must(preview["submodel"]["fastest"] == "none", f"{preview}")
        must("cordoned" in preview["submodel"]["groups"][0]["failure"], f"{preview}")
        must(api.get("/v1/jobs")["items"] == [], "a job was stored")
        preview = api.request("POST", "/v1/jobs?dry_run=true", JOB, expect=200).json
        must(preview["submodel"] is None, f"{preview}")


def test_a_question_predicts_sub_models_on_other_devices():
    with Api() as api:
        agent = FakeAgent(api, "agent0")
        twin = {"name": "twin", "like": agent.id}

        def ask(question):
            return api.request("POST", "/v1/plans", question, expect=200).json["plan"]["submodel"]

        alone = ask({"spec": PARTED})
        check_forecast(alone, {"agent0"})
        both = ask({"spec": PARTED, "devices": [agent.id, twin]})
        check_forecast(both, {"agent0", "twin"})
        must({g["name"] for g in both["groups"]} == {"agent0", "twin"}, f"{both['groups']}")
        must(both["groups_seconds"] < 0.6 * alone["groups_seconds"], f"{alone} {both}")
        fast = ask({"spec": PARTED, "devices": [agent.id, {**twin, "speed": 4}]})
        check_forecast(fast, {"agent0", "twin"})
        must(fast["groups"][0]["name"] == "twin", f"{fast['groups']}")
        must(fast["groups"][0]["width"] > fast["groups"][1]["width"], f"{fast['groups']}")
        job = api.submit(PARTED)
        check_forecast(ask({"job": job["id"], "devices": [agent.id, twin]}), {"agent0", "twin"})
        for question, pointer in (
            ({"spec": PARTED, "vary": {"devices": [1, 2]}}, "/vary"),
            ({"job": job["id"], "vary": {"devices": [1, 2]}}, "/vary"),
        ):
            api.problem("POST", "/v1/plans", question, code="invalid_fields", words=(pointer,))
        question = {"spec": PARTED, "without": [agent.id]}
        api.problem("POST", "/v1/plans", question, code="not_enough_devices")


def test_predictions_give_devices_the_classes_that_they_prefer():
    with Api() as api:
        agent = FakeAgent(api, "agent0")
        picky = FakeAgent(api, "agent1", labels={"classes": "7-9"})
        both = [agent.id, picky.id]
        twins = [agent.id, {"name": "twin", "like": picky.id}]
        for path, body, name in (
            ("/v1/jobs?dry_run=true", PARTED, "agent1"),
            ("/v1/plans", {"spec": PARTED, "devices": both}, "agent1"),
            ("/v1/plans", {"spec": PARTED, "devices": twins}, "twin"),
        ):
            seen = api.request("POST", path, body, expect=200).json
            groups = seen.get("plan", seen)["submodel"]["groups"]
            (preferred,) = [group for group in groups if group["name"] == name]
            must({7, 8, 9} <= set(preferred["classes"]), f"{path} {body}: {groups}")


def test_a_group_shows_what_it_trains():
    with Api() as api:
        agent = FakeAgent(api, "agent0")
        job = api.submit({**PARTED, "batch": 64, "submodel": {"groups": HALVES}})
        finish(api, {"id": api.get(f"/v1/jobs/{job['id']}/groups")["stem"]["job"]}, [agent])
        while not api.get(f"/v1/jobs/{job['id']}/groups")["groups"][1]["part"]["job"]:
            agent.act()
        spec = api.get(f"/v1/jobs/{job['id']}/groups/1/spec")
        must(spec["view"]["classes"] == HALVES[1]["classes"], f"{spec}")
        head = spec["model"]["description"]["units"][-1]["ops"][-1]
        must(head["units"] == 6, f"{spec['model']}")
        must(spec["init"]["except"] == ["hidden2", "head"], f"{spec['init']}")
        must(spec["strategy"] == "pipeline", f"{spec}")
        api.request("POST", "/v1/jobs", spec, expect=201)
        api.verb(job, "cancel")


def test_every_route_of_a_job_answers_for_a_job_of_sub_models():
    with Api() as api:
        agent = FakeAgent(api, "agent0")
        job = api.submit(PARTED)
        path = f"/v1/jobs/{job['id']}"
        api.request("GET", f"{path}/kernels", expect=200)
        api.problem("GET", f"{path}/plans/1", code="unknown_plan", words=("parts",))
        question = {"job": job["id"], "device": agent.id}
        api.request("POST", "/v1/predictions", question, expect=200)


def place_of(row):
    return row["part"], row.get("group", 0)


def train_groups(api, job, agents):
    """Train the stem, and a step of each of the groups."""
    path = f"/v1/jobs/{job['id']}"
    finish(api, {"id": api.get(f"{path}/groups")["stem"]["job"]}, agents)
    for agent in agents:
        agent.step = 0
    for _ in range(50):
        for agent in agents:
            agent.act(train_to=1)
        if len(groups_with_metrics(api, path)) == len(HALVES):
            return
    raise AssertionError(f"the groups do not train: {api.get(path)}")


def groups_with_metrics(api, path):
    metrics = api.get(f"{path}/metrics")["items"]
    return {item.get("group", 0) for item in metrics if item["part"] == "group"}


def test_a_job_of_sub_models_answers_with_the_rows_of_its_parts():
    with Api() as api:
        agents = [FakeAgent(api, f"agent{i}") for i in range(2)]
        stream = Stream(api)
        job = api.submit({**PARTED, "batch": 64, "submodel": {"groups": HALVES}})
        path = f"/v1/jobs/{job['id']}"
        train_groups(api, job, agents)
        groups = api.get(f"{path}/groups")
        parts = {("stem", 0): groups["stem"]["job"]}
        begun = (1, 0)  # group 1 has more samples, so more operations
        parts.update({("group", g): groups["groups"][g]["part"]["job"] for g in begun})

        plans = api.get(f"{path}/plans")["items"]
        must([place_of(plan) for plan in plans] == list(parts), f"{plans}")
        must(all(plan["job"] == parts[place_of(plan)] for plan in plans), f"{plans}")
        must(all(plan["parent"] == job["id"] for plan in plans), f"{plans}")
        must(plans[2]["state"] == "running", f"{plans[2]}")
        must(api.pages(f"{path}/plans", 1) == (plans, 3), "plans in pages")
        own = api.get(f"/v1/jobs/{parts['group', 1]}/plans")["items"]
        must(own == plans[1:2], f"{own}")

        stored = api.get(f"{path}/checkpoints")["items"]
        must([place_of(row) for row in stored] == [("stem", 0)], f"{stored}")
        must(stored[0]["id"] == groups["stem"]["checkpoint"], f"{stored}")

        copies = api.get(f"{path}/replicas")["parts"]
        must([place_of(row) for row in copies] == list(parts)[1:], f"{copies}")
        must(len(copies[0]["copies"]["single"]) == 1, f"{copies}")

        check_metrics_of_parts(api, path, parts)
        agents[0].enrol(boot="boot2")
        incidents = api.get(f"{path}/incidents")["items"]
        must(len(incidents) == 1 and incidents[0]["part"] == "group", f"{incidents}")
        must(incidents[0]["parent"] == job["id"], f"{incidents}")
        check_events_of_parts(stream, job, parts)
        api.verb(job, "cancel")
        api.wait(job, "cancelled")
        ended = api.get(f"{path}/plans")["items"]
        must([plan["id"] for plan in ended[:3]] == [plan["id"] for plan in plans], f"{ended}")
        must(len(groups_with_metrics(api, path)) == 2, "metrics of an ended job")
        api.problem("GET", f"{path}/replicas", code="wrong_state")


def check_metrics_of_parts(api, path, parts):
    """Part after part, each by step; pages go on where the one before ended."""
    metrics = api.get(f"{path}/metrics")["items"]
    must(list(dict.fromkeys(place_of(item) for item in metrics)) == list(parts), f"{metrics}")
    must(all(item["job"] == parts[place_of(item)] for item in metrics), f"{metrics}")
    for place in parts:
        steps = [item["step"] for item in metrics if place_of(item) == place]
        must(steps == sorted(steps) and steps[0] == 1, f"{place}: {steps}")
    one = api.get(f"{path}/metrics?name=loss")["items"]
    must(one == [item for item in metrics if item["name"] == "loss"], f"{one}")
    for limit in (4, 5, 8):
        read, _ = api.pages(f"{path}/metrics", limit)
        must(read == metrics, f"pages of {limit}")
    page = api.get(f"{path}/metrics?name=loss&since=1&limit=1")
    must(page["items"] == [item for item in one if item["step"] > 1][:1], f"{page}")
    cursor = page["next_cursor"]
    rest = api.get(f"{path}/metrics?name=loss&cursor={cursor}")["items"]
    must(page["items"] + rest == [item for item in one if item["step"] > 1], f"{rest}")
    for wrong in ("1", "1.x.job_0", "1.0.job_0", f"{cursor}.1", "x"):
        api.problem("GET", f"{path}/metrics?cursor={wrong}", code="invalid_parameter")
    api.problem(
        "GET", f"/v1/jobs/{parts['stem', 0]}/metrics?cursor={cursor}", code="invalid_parameter"
    )


def check_events_of_parts(stream, job, parts):
    """An event of a part names it and its parent, also when it is about a plan or a model."""
    seen = {}
    while ("incident_opened", "group") not in seen:
        event = stream.next()
        if "parent" in event:
            must(event["parent"] == job["id"], f"{event}")
            must(event["job"] == parts[place_of(event)], f"{event}")
            seen[event["type"], event["part"]] = event
        elif event["subject"] == job["id"]:
            must(event["job"] == job["id"], f"{event}")
    stream.close()
    for kind in ("plan_made", "checkpoint_stored", "job_succeeded"):
        must((kind, "stem") in seen, f"{kind}: {sorted(seen)}")


def test_parts_are_shown_by_their_job_and_take_no_verbs():
    with Api() as api:
        job = api.submit({**PARTED, "submodel": {"groups": HALVES}})
        must(job["spec"]["strategy"] == "submodel", f"{job}")
        parts = api.get(f"/v1/jobs/{job['id']}/groups")
        must(parts["phase"] == "stem" and parts["stem"]["state"] == "trains", f"{parts}")
        must([group["classes"] for group in parts["groups"]] == [g["classes"] for g in HALVES], "")
        stem = api.get(f"/v1/jobs/{parts['stem']['job']}")
        must((stem["parent"], stem["part"]) == (job["id"], "stem"), f"{stem}")
        must(stem["created_at"] == job["created_at"], f"{stem}")
        must(
            [item["id"] for item in api.get("/v1/jobs")["items"]] == [job["id"]], "a part is listed"
        )
        path = f"/v1/jobs/{stem['id']}"
        for verb in ("pause", "resume", "cancel", "export", "replan"):
            api.problem("POST", f"{path}/{verb}", code="group_of_job", words=(job["id"],))
        api.problem("PATCH", path, {"replan": {"every": 5}}, code="group_of_job")
        api.problem("POST", f"{path}/clone", {"from": "last"}, code="group_of_job")
        api.problem("PATCH", f"/v1/jobs/{job['id']}", {"replan": {"every": 5}}, code="wrong_state")
        for answer in ("groups", "groups/0/spec"):
            api.problem("GET", f"{path}/{answer}", code="wrong_state", words=("not consist of",))
            api.problem("GET", f"/v1/jobs/job_0/{answer}", code="unknown_job")
        must(api.get(f"{path}/mixes")["items"] == [], "mixes of a job without groups")
        api.problem("GET", f"/v1/jobs/{job['id']}/groups/0/spec", code="unknown_job")
        for group in ("7", "-1", "+1", "1.0", "1x", "%20", "99999999999999999999"):
            api.problem("GET", f"/v1/jobs/{job['id']}/groups/{group}/spec", code="unknown_job")
        for verb in ("export", "replan"):
            api.problem("POST", f"/v1/jobs/{job['id']}/{verb}", code="wrong_state")
        must(api.verb(job, "pause")["state"] in ("paused", "pausing", "queued"), "")
        must(api.wait(job, "paused")["message"] == "paused in the phase stem", "")
        api.verb(job, "resume")
        api.verb(job, "cancel")
        must(api.wait(job, "cancelled")["checkpoint"] is None, "")
        must(api.get(path)["state"] == "cancelled", "the part outlives its job")
        must(api.get(f"/v1/jobs/{job['id']}/groups")["phase"] == "ended", "")
