"""Jobs: submission, waiting, verbs, preconditions, and their remains."""

import json
import threading

from api import BINARY, JOB, JSON, Api
from datasets import npy, tar_of_bytes
from fake_agent import FakeAgent, drive, finish, pause, read_note, read_safetensors, unit_state
from paceline import must


def test_a_dry_run_with_busy_devices_predicts_the_plan_after_they_are_free():
    with Api() as api:

        def ask(**fields):
            return api.request("POST", "/v1/jobs?dry_run=true", {**JOB, **fields}, expect=200).json

        none = ask()
        must(
            none["starts"] == "when_more_devices" and none["stages"] == [] and none["waiting_for"],
            f"{none}",
        )
        agents = [FakeAgent(api, f"agent{index}") for index in range(2)]
        free = ask(cuts=[1])
        must(
            free["starts"] == "now" and len(free["stages"]) == 2 and free["waiting_for"] is None,
            f"{free}",
        )
        job = api.submit({**JOB, "cuts": [1], "devices": {"min": 2, "max": 2}})
        busy = ask(cuts=[1])
        must(busy["starts"] == "when_free" and busy["waiting_for"], f"{busy}")
        must({**busy, "starts": "now", "waiting_for": None} == free, f"{busy}, when free {free}")
        more = ask(devices={"min": 3, "max": 3})
        must(
            more["starts"] == "when_more_devices" and more["stages"] == [] and more["waiting_for"],
            f"{more}",
        )
        api.verb(job, "cancel")
        for agent in agents:
            agent.act()
        must(ask(cuts=[1]) == free, "free again")


def test_a_dry_run_predicts_the_plan_and_stores_nothing():
    with Api() as api:
        preview = api.request("POST", "/v1/jobs?dry_run=true", JOB, expect=200).json
        must(preview["stages"] == [] and "1 more device" in preview["waiting_for"], f"{preview}")
        agents = [FakeAgent(api, f"agent{index}") for index in range(2)]
        preview = api.request(
            "POST", "/v1/jobs?dry_run=true", {**JOB, "cuts": [1]}, expect=200
        ).json
        must(
            [stage["units"] for stage in preview["stages"]] == [["hidden1"], ["hidden2", "head"]],
            f"{preview}",
        )
        must(
            {stage["device"] for stage in preview["stages"]} == {agent.id for agent in agents},
            f"{preview}",
        )
        must(
            preview["steps"] == 4
            and preview["predicted_step_seconds"] > 0
            and preview["waiting_for"] is None,
            f"{preview}",
        )
        must(
            all(
                stage["memory_bytes"] == sum(stage["memory"].values()) > 0
                for stage in preview["stages"]
            ),
            f"{preview}",
        )
        must(api.get("/v1/jobs")["items"] == [], "a dry run left a job behind")
        api.problem(
            "POST", "/v1/jobs?dry_run=maybe", JOB, code="invalid_parameter", words=("dry_run",)
        )
        api.request("POST", "/v1/jobs?dry_run=false", JOB, expect=201)


def test_a_view_states_its_samples_and_reports_faults_at_its_fields():
    text = bytes(range(256)) * 20
    with Api() as api:
        api.request("PUT", "/v1/datasets/text?text=64", text, BINARY, expect=201)
        many = npy("<f4", "(1025, 4)", bytes(4 * 4 * 1025))
        labels = npy("<u2", "(1025,)", b"".join(n.to_bytes(2, "little") for n in range(1025)))
        gaps = npy(
            "<u2", "(1025,)", b"".join((n % 5 * 2).to_bytes(2, "little") for n in range(1025))
        )
        for name, part in (("many", labels), ("gaps", gaps)):
            content = tar_of_bytes({"x.npy": many, "y.npy": part})
            api.request("PUT", f"/v1/datasets/{name}", content, BINARY, expect=201)
        must("class_counts" not in api.get("/v1/datasets/many"), "1,025 classes are counted")
        must(
            api.get("/v1/datasets/gaps")["class_counts"] == [205, 0] * 4 + [205],
            f"{api.get('/v1/datasets/gaps')}",
        )

        def faults(view, **fields):
            answer = api.problem(
                "POST", "/v1/jobs", {**JOB, "view": view, **fields}, code="invalid_fields"
            )
            return {fault["pointer"]: fault["message"] for fault in answer.json["errors"]}

        def expect(pointer, words, view, **fields):
            seen = faults(view, **fields)
            must(pointer in seen and words in seen[pointer], f"{view} {fields}: {seen}")

        alone = {"dataset": {"train": "gaps"}}
        expect("/view/classes", "1025", {"classes": list(range(1025))})
        expect("/view/classes", "required", {"negatives": 1})
        expect("/view/classes/1", "no class 10; its classes are 0 to 9", {"classes": [3, 10]})
        expect("/view/classes/2", "same class as /view/classes/0", {"classes": [3, 7, 3]})
        expect("/view/classes/0", "class 1 of 'gaps' has no samples", {"classes": [1]}, **alone)
        expect("/view/negatives", "no other class of 'digits-train'", {"classes": list(range(10))})
        expect("/view/negatives", "with one class", {"classes": [3], "negatives": 0})
        expect("/view/negatives", "at most 100", {"classes": [3], "negatives": 101})
        expect("/view/holdout", "at most 0.5", {"classes": [3], "holdout": 0.6})
        expect("/view/shards", "did you mean 'shard'", {"classes": [3], "shards": {}})
        expect("/view", "at most 1024 classes", {"classes": [3]}, dataset={"train": "many"})
        expect(
            "/view",
            "the samples of 'text' have 64",
            {"classes": [3]},
            model={"name": "gpt-mini"},
            dataset={"train": "text"},
        )
        expect("/batch", "samples of an epoch of the view", {"classes": [3]}, batch=400)

        counts = api.get("/v1/datasets/digits-train")["class_counts"]
        view = {"classes": [3, 7], "negatives": 2.0, "holdout": 0.1, "numbers": "view"}
        job = api.submit({**JOB, "view": view, "steps": None, "epochs": 3})
        held = sum(counts[label] // 10 for label in (3, 7))
        own = counts[3] + counts[7] - held
        must(
            (job["data"]["epoch_samples"], job["data"]["holdout_samples"]) == (3 * own, held),
            f"{job['data']}",
        )
        must(job["data"]["train_samples"] == 1437, f"{job['data']}")
        must(job["progress"]["steps"] == 3 * (3 * own // 16), f"{job['progress']}")
        must(job["spec"]["view"] == view, f"{job['spec']}")
        dry = api.request("POST", "/v1/jobs?dry_run=true", {**JOB, "view": view}, expect=200)
        must(dry.json["steps"] == 4, f"{dry.json}")
        agent = FakeAgent(api, "one")
        plan = api.request("POST", "/v1/plans", {"spec": {**JOB, "view": view}}, expect=200).json
        must(plan["plan"]["predicted_step_seconds"] > 0, f"{plan}")
        drive(api, job, [agent], "running")
        run = agent.assignment()["run"]
        must(run["job_spec"]["view"] == view and run["data"] == job["data"], f"{run}")
        outputs = run["job_spec"]["model"]["description"]["units"][-1]["ops"][-1]
        must(outputs["units"] == 3, f"{outputs}")
        api.coordinator.kill()
        api.restart_coordinator()
        must(api.job(job)["spec"]["view"] == view, "lost by a restart")
        kept = {"classes": [3, 7], "negatives": 0, "numbers": "data"}
        whole = api.submit({**JOB, "view": kept})
        must(whole["data"]["epoch_samples"] == counts[3] + counts[7], f"{whole['data']}")
        must(whole["spec"]["model"]["sha256"] != job["spec"]["model"]["sha256"], "ten outputs")


def shard_of(*ranges, index=0, count=2):
    names = ("class", "first", "count")
    ranges = [dict(zip(names, part, strict=True)) for part in ranges]
    return {"shard": {"index": index, "count": count, "seed": 4, "class_ranges": ranges}}


def test_a_shard_states_its_samples_and_reports_faults_at_its_fields():
    with Api() as api:
        counts = api.get("/v1/datasets/digits-train")["class_counts"]

        def expect(pointer, words, view, **fields):
            answer = api.problem(
                "POST", "/v1/jobs", {**JOB, "view": view, **fields}, code="invalid_fields"
            )
            seen = {fault["pointer"]: fault["message"] for fault in answer.json["errors"]}
            must(pointer in seen and words in seen[pointer], f"{view}: {seen}")

        ranges = "/view/shard/class_ranges"
        full = (3, 0, counts[3])
        expect(ranges, "at least 1", shard_of())
        expect(f"{ranges}/0/count", "at least 1", shard_of((3, 0, 0)))
        expect(f"{ranges}/0/first", "at least 0", shard_of((3, -1, 5)))
        expect(f"{ranges}/0/first", "at most 4294967295", shard_of((3, 1 << 32, 5)))
        expect(f"{ranges}/0", f"is {counts[3] + 1}, but class 3", shard_of((3, 1, counts[3])))
        expect(f"{ranges}/0", "8589934590", shard_of((3, (1 << 32) - 1, (1 << 32) - 1)))
        expect(f"{ranges}/1", f"same class as {ranges}/0", shard_of(full, full))
        expect(f"{ranges}/1", "no class 10; its classes are 0 to 9", shard_of(full, (10, 0, 1)))
        expect("/view/shard/index", "below /view/shard/count", shard_of(full, index=2))
        expect("/view/shard/count", "at most 32", shard_of(full, count=33))
        expect("/view/classes", "not allowed with 'shard'", {**shard_of(full), "classes": [3]})
        expect("/view/holdout", "not allowed with 'shard'", {**shard_of(full), "holdout": 0.1})
        expect("/view/shard/seed", "required", {"shard": {"index": 0, "count": 1}})
        expect("/batch", "15 samples of an epoch of the view", shard_of((3, 0, 15)))

        view = shard_of((3, 5, 30), (0, 0, 40), index=1)
        job = api.submit({**JOB, "view": view, "steps": None, "epochs": 3})
        must(job["spec"]["view"] == view, f"{job['spec']}")
        must(job["data"]["epoch_samples"] == 70, f"{job['data']}")
        must("holdout_samples" not in job["data"], f"{job['data']}")
        must(job["progress"]["steps"] == 3 * (70 // 16), f"{job['progress']}")
        agent = FakeAgent(api, "one", protocol=6)
        drive(api, job, [agent], "running")
        run = agent.assignment()["run"]
        must(run["job_spec"]["view"] == view and run["data"] == job["data"], f"{run}")
        outputs = run["job_spec"]["model"]["description"]["units"][-1]["ops"][-1]
        must(outputs["units"] == 10, f"{outputs}")
        api.coordinator.kill()
        api.restart_coordinator()
        must(api.job(job)["spec"]["view"] == view, "lost by a restart")


def test_a_clone_may_replace_a_shard_by_classes_and_classes_by_a_shard():
    shard, other = shard_of((3, 0, 40)), shard_of((3, 40, 40), index=1)
    classes = {"classes": [3, 7], "negatives": 1.0, "holdout": 0.0, "numbers": "data"}
    with Api() as api:
        agent = FakeAgent(api, "one", protocol=6)
        for view, changes in ((shard, other), (shard, classes), (classes, shard)):
            job = api.submit({**JOB, "view": view, "steps": 2})
            finish(api, job, [agent])
            body = {"from": "last", "view": changes}
            clone = api.request("POST", f"/v1/jobs/{job['id']}/clone", body, expect=201).json
            must(clone["spec"]["view"] == changes, f"{clone['spec']['view']}")
            api.verb(clone, "cancel")
            agent.act()


def test_bad_jobs_are_rejected_field_by_field():
    with Api() as api:
        both = api.problem(
            "POST",
            "/v1/jobs",
            {**JOB, "batch": 0, "epoch": 3, "dataset": {}},
            code="invalid_fields",
        )
        must(
            {fault["pointer"] for fault in both.json["errors"]}
            == {"/batch", "/epoch", "/dataset/train"},
            f"{both.json}",
        )
        adam = {"type": "adam", "nesterov": True, "clip_norm": 1, "clip_value": 1}
        both = api.problem("POST", "/v1/jobs", {**JOB, "optimizer": adam}, code="invalid_fields")
        must(
            {fault["pointer"] for fault in both.json["errors"]}
            == {"/optimizer/nesterov", "/optimizer/clip_norm"},
            f"{both.json}",
        )
        api.problem(
            "POST",
            "/v1/jobs",
            {**JOB, "optimizer": {"type": "lamb"}},
            code="invalid_fields",
            words=("/optimizer/type", "adamw"),
        )
        normalise = {"type": "normalise", "mean": [0.5], "std": [0.5]}
        both = api.problem(
            "POST",
            "/v1/jobs",
            {**JOB, "augment": [{"type": "crop", "padding": 8}, {**normalise, "mean": [1, 2]}]},
            code="invalid_fields",
        )
        must(
            {fault["pointer"] for fault in both.json["errors"]}
            == {"/augment/0/padding", "/augment/1/mean"},
            f"{both.json}",
        )
        api.problem(
            "POST",
            "/v1/jobs",
            {**JOB, "augment": [{"type": "normalise", "mean": [0.5]}]},
            code="invalid_fields",
            words=("/augment/0/std", "required"),
        )
        own = {
            "name": "own",
            "input": {"mean": [0.25], "std": [0.5]},
            "units": [
                {
                    "name": "head",
                    "ops": [{"type": "flatten"}, {"type": "linear", "units": "classes"}],
                }
            ],
        }
        api.problem(
            "POST",
            "/v1/jobs",
            {**JOB, "model": {"description": own}, "augment": [normalise]},
            code="invalid_fields",
            words=("/model/description/input/mean", "the job's mean and std differ"),
        )
        api.problem(
            "POST",
            "/v1/jobs",
            {**JOB, "model": {"name": "lenet6"}},
            code="invalid_fields",
            words=("/model/name", "lenet5"),
        )
        api.problem(
            "POST",
            "/v1/jobs",
            {**JOB, "dataset": {"train": "no"}},
            code="invalid_fields",
            words=("/dataset/train", "PUT"),
        )
        both = api.problem(
            "POST",
            "/v1/jobs",
            {**JOB, "model": {"name": "lenet6"}, "dataset": {"train": "no"}},
            code="invalid_fields",
        )
        must(
            {fault["pointer"] for fault in both.json["errors"]}
            == {"/model/name", "/dataset/train"},
            f"{both.json}",
        )
        api.problem(
            "POST",
            "/v1/jobs",
            {**JOB, "dataset": {**JOB["dataset"], "test": "no"}},
            code="invalid_fields",
            words=("/test",),
        )
        api.problem(
            "POST", "/v1/jobs", {**JOB, "cuts": [7]}, code="invalid_fields", words=("/cuts",)
        )
        server = {"device": "dev_01JD6Y3K9T2V4W8X0Z1B5C7D9E", "end": 7}
        servers = {"strategy": "parameter_server", "parameter_server": {"servers": [server]}}
        api.problem(
            "POST",
            "/v1/jobs",
            {**JOB, **servers},
            code="invalid_fields",
            words=("/parameter_server/servers/0/end", "number of units"),
        )
        api.problem(
            "POST",
            "/v1/jobs",
            {**JOB, "compression": "q5"},
            code="invalid_fields",
            words=("/compression", "q6", "auto"),
        )
        api.problem(
            "POST",
            "/v1/jobs",
            {**JOB, "devices": {"min": 9, "max": 9}},
            code="invalid_fields",
            words=("/devices/min", "units"),
        )
        api.problem(
            "POST",
            "/v1/jobs",
            {**JOB, "batch": 2000, "micro_batches": 2},
            code="invalid_fields",
            words=("/batch", 1437),
        )
        long_warmup = {
            **JOB,
            "epochs": 1,
            "batch": 64,
            "steps": None,
            "learning_rate": {"warmup_steps": 22},
        }
        api.problem(
            "POST",
            "/v1/jobs",
            long_warmup,
            code="invalid_fields",
            words=("/learning_rate/warmup_steps", "below the 22 steps"),
        )
        api.problem("POST", "/v1/jobs", b"{}x", JSON, code="invalid_json")
        api.problem("POST", "/v1/jobs", json.dumps(JOB).encode(), {}, code="unsupported_media_type")
        api.problem("POST", "/v1/jobs", b" " * (3 << 20), JSON, code="body_too_large")
        must(api.get("/v1/jobs")["items"] == [], "a rejected job was stored")


def test_an_augment_is_kept_and_its_normalisation_becomes_part_of_the_model():
    augment = [
        {"type": "crop", "padding": 1},
        {"type": "flip"},
        {"type": "normalise", "mean": [0.5], "std": [0.25]},
    ]
    with Api() as api:
        agent = FakeAgent(api, "one")
        plain = api.submit(JOB)
        job = api.submit({**JOB, "augment": augment})
        must(job["spec"]["augment"] == augment, f"{job['spec']['augment']}")
        must(
            job["spec"]["model"]["sha256"] != plain["spec"]["model"]["sha256"],
            "the job uses another model",
        )
        api.request("POST", f"/v1/jobs/{plain['id']}/cancel", expect=202)
        agent.heartbeat()
        api.wait(job, "preparing")
        run = agent.assignment()["run"]
        must(run["job_spec"]["augment"] == augment, f"{run['job_spec']}")
        given = run["job_spec"]["model"]["description"]["input"]
        must(given["mean"] == [0.5] and given["std"] == [0.25], f"{given}")


def test_a_job_larger_than_the_devices_memory_is_rejected():
    with Api() as api:
        FakeAgent(api, "small", memory=100_000)
        api.problem("POST", "/v1/jobs", JOB, code="model_too_large", words=("small",))
        api.problem("POST", "/v1/jobs?dry_run=true", JOB, code="model_too_large")


def test_a_model_larger_than_a_checkpoint_may_be_is_rejected():
    def wide(count, tail, momentum):
        linears = [{"type": "linear", "units": 8192}] * (1 + count)  # 256 MiB, except for the first
        units = [
            {"name": "wide", "ops": [{"type": "flatten"}, *linears]},
            {
                "name": "head",
                "ops": [{"type": "linear", "units": tail}, {"type": "linear", "units": "classes"}],
            },
        ]
        return {
            **JOB,
            "model": {"description": {"name": "wide", "units": units}},
            "optimizer": {"type": "sgd", "momentum": momentum},
        }

    with Api() as api:
        for path in ("/v1/jobs", "/v1/jobs?dry_run=true"):
            answer = api.problem(
                "POST",
                path,
                wide(8, 10, 0.9),
                code="invalid_fields",
                words=("unit 'wide'", "4294967296"),
            )
            must(
                [error["pointer"] for error in answer.json["errors"]]
                == ["/model/description/units/0"],
                f"{answer.json}",
            )
            # 991 parameters below the limit of a description: with its header the file is too
            # large.
            answer = api.problem(
                "POST",
                path,
                wide(15, 8101, 0),
                code="invalid_fields",
                words=("the trained model has", "4294967296"),
            )
            must(
                [error["pointer"] for error in answer.json["errors"]] == ["/model/description"],
                f"{answer.json}",
            )
        answer = api.request("POST", "/v1/jobs?dry_run=true", wide(8, 10, 0))
        must("4294967296" not in answer.body.decode(), f"{answer.body}")


def test_a_job_is_submitted_once_under_an_idempotency_key_even_over_a_restart():
    with Api() as api:
        key = {"Idempotency-Key": "once"}
        first = api.request("POST", "/v1/jobs", JOB, key, expect=201)
        again = api.request("POST", "/v1/jobs", JOB, key, expect=201)
        must(
            first.body == again.body and first.headers["ETag"] == again.headers["ETag"],
            "the same answer again",
        )
        must(
            again.headers["Idempotent-Replay"] == "true"
            and "Idempotent-Replay" not in first.headers,
            "no mark of a replay",
        )
        api.problem(
            "POST",
            "/v1/jobs",
            {**JOB, "steps": 5},
            key,
            code="idempotency_mismatch",
            words=("once",),
        )
        api.coordinator.kill()
        api.restart_coordinator()
        must(
            api.request("POST", "/v1/jobs", JOB, key, expect=201).body == first.body,
            "the same answer after a crash",
        )
        must(len(api.get("/v1/jobs")["items"]) == 1, "the job was submitted twice")
        refused = {"Idempotency-Key": "refused"}
        api.problem("POST", "/v1/jobs", {**JOB, "batch": 0}, refused, code="invalid_fields")
        api.request("POST", "/v1/jobs", JOB, refused, expect=201)


def test_jobs_are_listed_in_pages():
    with Api() as api:
        names = [f"job{index}" for index in range(11)]
        ids = [api.submit_named(name)["id"] for name in names]
        api.request("POST", f"/v1/jobs/{ids[2]}/cancel", expect=202)
        items, pages = api.pages("/v1/jobs", 4)
        must(
            [item["id"] for item in items] == ids and pages == 3,
            f"{pages} pages, {len(items)} items",
        )
        must(
            items[2]["state"] == "cancelled" and items[3]["state"] == "queued", "states in the list"
        )
        must(len(api.get("/v1/jobs")["items"]) == 11, "the default limit")


def test_a_request_waits_for_a_job():
    with Api() as api:
        job = api.submit_named("waited")
        path = f"/v1/jobs/{job['id']}"
        must(
            api.get(f"{path}?after=0&wait=60")["id"] == job["id"],
            "a newer revision must be answered at once",
        )
        must(
            api.get(f"{path}?after={job['revision']}")["revision"] == job["revision"],
            "without `wait` the answer must be immediate",
        )
        must(
            api.get(f"{path}?after={job['revision']}&wait=1")["revision"] == job["revision"],
            "the wait returned something else",
        )
        seen = []
        polls = [
            threading.Thread(
                target=lambda: seen.append(api.get(f"{path}?after={job['revision']}&wait=60"))
            )
            for _ in range(5)
        ]
        for poll in polls:
            poll.start()
        api.request("POST", f"{path}/pause", expect=202)
        for poll in polls:
            poll.join(30)
        must([job["state"] for job in seen] == ["paused"] * 5, f"{seen}")
        api.problem(
            "GET",
            "/v1/jobs/job_nothing",
            code="unknown_job",
            words=("no job 'job_nothing'; ids are in GET /v1/jobs",),
        )
        api.problem("GET", "/v1/jobs/job_nothing?after=3&wait=60", code="unknown_job")


def test_verbs_are_rejected_in_states_without_them():
    with Api() as api:
        job = api.submit_named("verbs")
        path = f"/v1/jobs/{job['id']}"
        api.problem("POST", f"{path}/resume", code="wrong_state", words=("queued",))
        api.problem("POST", f"{path}/replan", {}, code="wrong_state", words=("queued",))
        must(api.request("POST", f"{path}/pause", expect=202).json["state"] == "paused", "pause")
        must(
            api.request("POST", f"{path}/resume", {}, expect=202).json["state"] == "queued",
            "resume",
        )
        must(
            api.request("POST", f"{path}/cancel", expect=202).json["state"] == "cancelled", "cancel"
        )
        for verb in ("pause", "resume", "cancel", "replan"):
            api.problem("POST", f"{path}/{verb}", code="wrong_state", words=("was cancelled",))
            api.problem("POST", f"/v1/jobs/job_{'0' * 26}/{verb}", code="unknown_job")
            api.problem("POST", f"/v1/jobs/nonsense/{verb}", code="unknown_job")
            if verb != "replan":
                api.takes_no_body(f"{path}/{verb}")


def test_verbs_obey_if_match_and_idempotency_keys():
    with Api() as api:
        agent = FakeAgent(api, "one")
        jobs = [api.submit({**JOB, "name": name, "steps": 100}) for name in ("first", "second")]
        drive(api, jobs[0], [agent], "running", train_to=3)
        path, other = (f"/v1/jobs/{job['id']}" for job in jobs)
        for verb in ("pause", "resume", "cancel", "replan"):
            api.problem(
                "POST", f"{path}/{verb}", headers={"If-Match": '"1"'}, code="revision_mismatch"
            )
        api.problem(
            "POST",
            f"{path}/pause",
            headers={"If-Match": "W/1"},
            code="invalid_parameter",
            words=("If-Match",),
        )
        for verb, state in (
            ("replan", "replanning"),
            ("pause", "pausing"),
            ("resume", "queued"),
            ("cancel", "cancelled"),
        ):
            if verb == "pause":
                drive(api, jobs[0], [agent], "running", train_to=5)
            if verb == "resume":
                drive(api, jobs[0], [agent], "paused")
            key = {"Idempotency-Key": verb}
            etag = api.request("GET", path).headers["ETag"]
            first = api.request(
                "POST", f"{path}/{verb}", headers={**key, "If-Match": etag}, expect=202
            )
            must(first.json["state"] in (state, "preparing"), f"{verb}: {first.json['state']}")
            again = api.request(
                "POST", f"{path}/{verb}", headers={**key, "If-Match": etag}, expect=202
            )
            must(again.body == first.body, f"{verb} again")
            api.problem("POST", f"{other}/{verb}", headers=key, code="idempotency_mismatch")


def bring(api, agents, state):
    """A job in this state. Idle agents keep it there."""
    job = api.submit({**JOB, "steps": 80, "devices": {"min": 2, "max": 2}})
    if state in ("queued", "preparing"):
        return job
    if state == "paused":
        return pause(api, job, agents, 3)
    drive(api, job, agents, "running", train_to=3)
    if state in ("pausing", "replanning"):
        api.verb(job, {"pausing": "pause", "replanning": "replan"}[state])
    elif state == "recovering":
        agents[0].enrol(boot=f"{agents[0].boot}x")
    elif state == "waiting_for_devices":
        api.verb_of_device(agents[1], "cordon")
        agents[0].enrol(boot=f"{agents[0].boot}x")
    return api.job(job)


def test_a_job_is_cancelled_and_paused_in_every_state_it_can_be_in():
    expected = {
        "queued": "paused",
        "preparing": "pausing",
        "running": "pausing",
        "replanning": "pausing",
        "recovering": "pausing",
        "pausing": "pausing",
        "paused": "paused",
        "waiting_for_devices": "paused",
    }
    with Api() as api:
        for state, after_pause in expected.items():
            agents = (
                []
                if state == "queued"
                else [
                    FakeAgent(api, f"{state}{index}"[:30].replace("_", "-")) for index in range(2)
                ]
            )
            job = bring(api, agents, state)
            must(api.job(job)["state"] == state, f"{state}: {api.job(job)}")
            paused = api.verb(job, "pause")
            must(
                paused["state"] == after_pause,
                f"pause in {state}: {paused['state']} {paused['message']}",
            )
            must(api.verb(job, "cancel")["state"] == "cancelled", f"cancel in {state}")
            for agent in agents:
                must(agent.assignment()["run"] is None, f"{state}: a device keeps running")
                api.request("DELETE", f"/v1/devices/{agent.id}", expect=204)
        for job in api.get("/v1/jobs")["items"]:
            must(job["state"] == "cancelled" and job["ended_at"], f"{job}")


def wait_for_export(api, job, version):
    seen = api.job(job)
    while seen["exported_version"] != version:
        seen = api.get(f"/v1/jobs/{job['id']}?after={seen['revision']}&wait=30")
    must(seen["export_version"] is None, f"{seen}")
    return api.get(f"/v1/jobs/{job['id']}/checkpoints")["items"]


def test_a_running_job_is_exported():
    with Api() as api:
        agent = FakeAgent(api, "one")
        job = api.submit({**JOB, "steps": 100})
        path = f"/v1/jobs/{job['id']}"
        drive(api, job, [agent], "running", train_to=2)
        api.problem("POST", f"{path}/export", code="wrong_state", words=("whole version", "pause"))
        api.problem(
            "POST", f"{path}/cancel?keep=true", code="wrong_state", words=("whole version", "pause")
        )
        pause(api, job, [agent], 3)
        must(api.verb(job, "export")["export_version"] in (3, None), "the version")
        stored = wait_for_export(api, job, 3)
        must([item["version"] for item in stored] == [3], f"{stored}")
        must(
            len(api.request("GET", f"/v1/checkpoints/{stored[0]['id']}/content", expect=200).body)
            == stored[0]["size_bytes"],
            "bytes",
        )
        must(api.verb(job, "export")["export_version"] is None, "it is stored already")
        must(
            api.verb(job, "resume")["checkpoint"] is None,
            "the job's own checkpoint is that of its end",
        )
        pause(api, job, [agent], 7)
        api.verb(job, "export")
        must([item["version"] for item in wait_for_export(api, job, 7)] == [3, 7], "both")
        api.takes_no_body(f"{path}/export")
        api.problem("POST", f"{path}/export?keep=true", code="invalid_parameter", words=("keep",))
        api.problem("POST", f"{path}/export", headers={"If-Match": '"1"'}, code="revision_mismatch")
        api.problem("POST", "/v1/jobs/job_nothing/export", code="unknown_job")
        key = {"Idempotency-Key": "once"}
        api.request("POST", f"{path}/export", headers=key, expect=202)
        api.problem("POST", f"{path}/export", {}, key, code="idempotency_mismatch")


def test_the_spec_of_a_job_is_a_job_again():
    with Api() as api:
        FakeAgent(api, "one")
        for job in (JOB, {**JOB, "strategy": "parameter_server"}):
            spec = api.submit(job)["spec"]
            again = api.submit(spec)["spec"]
            must(again == spec, f"{again}, not {spec}")
            spec["model"]["sha256"] = "0" * 64
            api.problem(
                "POST", "/v1/jobs", spec, code="invalid_fields", words=("/model/sha256", "hash")
            )


def test_a_job_is_cloned_from_its_checkpoint():
    with Api() as api:
        agent = FakeAgent(api, "one")
        job = api.submit({**JOB, "steps": 3, "priority": 7, "optimizer": {"momentum": 0.5}})
        path = f"/v1/jobs/{job['id']}/clone"
        last = {"from": "last"}
        api.problem("POST", path, last, code="wrong_state", words=("no checkpoint", "export"))
        done = finish(api, job, [agent])
        preview = api.request("POST", f"{path}?dry_run=true", last, expect=200).json
        must(preview["steps"] == 3, f"{preview}")
        key = {"Idempotency-Key": "clone"}
        changes = {**last, "epochs": 2, "optimizer": {"type": "adam"}, "devices": {"max": 1}}
        clone = api.request("POST", path, changes, key, expect=201).json
        must(api.request("POST", path, changes, key, expect=201).json == clone, "twice")
        spec = clone["spec"]
        must(spec["init"]["checkpoint"] == done["checkpoint"], f"{spec['init']}")
        must(spec["priority"] == 7 and spec["steps"] is None and spec["epochs"] == 2, f"{spec}")
        must(spec["optimizer"]["type"] == "adam", f"{spec['optimizer']}")
        must(spec["devices"]["max"] == 1 and spec["devices"]["min"] == 1, f"{spec['devices']}")
        must(spec["model"]["sha256"] == job["spec"]["model"]["sha256"], "another model")
        api.verb(clone, "cancel")
        api.problem("POST", path, last, key, code="idempotency_mismatch")
        best = api.request("POST", path, {"from": "best"}, expect=201).json
        must(best["spec"]["init"]["checkpoint"] == done["checkpoint"], "the only checkpoint")
        api.verb(best, "cancel")
        api.problem("POST", path, {}, code="invalid_fields", words=("/from",))
        api.problem("POST", path, [], code="invalid_fields")
        api.problem("POST", path, {**last, "epoch": 2}, code="invalid_fields", words=("epochs",))
        api.problem("POST", path, b"{", JSON, code="invalid_json")
        api.problem("POST", path, b"{}", {}, code="unsupported_media_type")
        api.problem("POST", path, b" " * (3 << 20), JSON, code="body_too_large")
        api.problem("POST", "/v1/jobs/job_nothing/clone", last, code="unknown_job")
        api.request("DELETE", f"/v1/devices/{agent.id}", expect=204)
        FakeAgent(api, "small", memory=100_000)
        api.problem("POST", path, last, code="model_too_large", words=("small",))


def test_a_cancelled_job_keeps_its_weights_on_request():
    with Api() as api:
        agent = FakeAgent(api, "one")
        job = api.submit({**JOB, "steps": 100})
        path = f"/v1/jobs/{job['id']}"
        pause(api, job, [agent], 5)
        api.problem(
            "POST", f"{path}/cancel?keep=perhaps", code="invalid_parameter", words=("keep", "true")
        )
        key = {"Idempotency-Key": "end"}
        first = api.request("POST", f"{path}/cancel?keep=true", headers=key, expect=202).json
        must(first["state"] in ("cancelling", "cancelled"), f"{first}")
        api.problem("POST", f"{path}/cancel", headers=key, code="idempotency_mismatch")
        done = api.wait(job, "cancelled")
        stored = api.get(f"{path}/checkpoints")["items"]
        must(
            [item["id"] for item in stored] == [done["checkpoint"]] and stored[0]["version"] == 5,
            f"{done} {stored}",
        )
        must(
            done["progress"]["step"] == 5 and done["progress"]["samples_per_second"] > 0,
            f"{done['progress']}",
        )
        must(done["progress"]["eta_seconds"] is None, f"{done['progress']}")
        api.submit({**JOB, "name": "next", "init": {"checkpoint": done["checkpoint"]}})
        api.problem(
            "POST", f"{path}/cancel?keep=true", code="wrong_state", words=("was cancelled",)
        )


def test_a_pause_during_preparation_takes_effect():
    with Api() as api:
        agent = FakeAgent(api, "one")
        job = api.submit({**JOB, "steps": 80})
        must(api.verb(job, "pause")["state"] == "pausing", "pause while preparing")
        paused = drive(api, job, [agent], "paused")
        must(paused["version"] == 0, f"{paused}")
        api.verb(job, "resume")
        drive(api, job, [agent], "running", train_to=2)


def test_an_ended_job_leaves_plans_metrics_and_a_model():
    with Api() as api:
        agents = [FakeAgent(api, f"agent{index}") for index in range(2)]
        job = api.submit({**JOB, "cuts": [2], "devices": {"min": 2, "max": 2}})
        path = f"/v1/jobs/{job['id']}"
        must(api.get(f"{path}/checkpoints")["items"] == [], "checkpoints before the end")
        done = finish(api, job, agents)
        must(
            done["progress"]["step"] == 4
            and done["progress"]["accuracy"] == 0.5
            and done["version"] == 4,
            f"{done}",
        )
        plans = api.get(f"{path}/plans")["items"]
        must(
            len(plans) == 1 and plans[0]["state"] == "done" and plans[0]["last_version"] == 4,
            f"{plans}",
        )
        must(api.get(f"{path}/plans/1") == plans[0], "the plan by its generation")
        api.problem("GET", f"{path}/plans/2", code="unknown_plan")
        for generation in ("0", "-1", "x", "99999999999999999999"):
            api.problem(
                "GET",
                f"{path}/plans/{generation}",
                code="invalid_parameter",
                words=("generation", generation),
            )
        checkpoints = api.get(f"{path}/checkpoints")["items"]
        must(
            [item["id"] for item in checkpoints] == [done["checkpoint"]]
            and checkpoints[0]["version"] == 4,
            f"{checkpoints}",
        )
        must(
            api.get(f"/v1/checkpoints/{done['checkpoint']}") == checkpoints[0],
            "the checkpoint by its id",
        )
        check_model(api, done, checkpoints[0])
        check_metrics(api, path)
        for things in ("plans", "checkpoints", "metrics"):
            api.problem("GET", f"/v1/jobs/job_nothing/{things}", code="unknown_job")
        api.problem("GET", "/v1/jobs/job_nothing/plans/1", code="unknown_job")
        api.problem(
            "GET",
            "/v1/checkpoints/ckpt_nothing",
            code="unknown_checkpoint",
            words=("or GET /v1/checkpoints",),
        )
        api.problem("GET", "/v1/checkpoints/ckpt_nothing/content", code="unknown_checkpoint")


def check_model(api, job, checkpoint):
    body = api.checkpoint(job)
    must(len(body) == checkpoint["size_bytes"], f"{len(body)} bytes")
    content = f"/v1/checkpoints/{checkpoint['id']}/content"
    must(
        api.request("GET", content, headers={"Range": "bytes=8-15"}, expect=206).body == body[8:16],
        "a range of the model",
    )
    api.problem(
        "GET", content, headers={"Range": f"bytes={len(body)}-"}, code="range_not_satisfiable"
    )
    found, note = read_safetensors(body), read_note(body)
    spec = api.job(job)["spec"]
    must(
        note["model"]["name"] == spec["model"]["name"]
        and note["model"]["input"]["shape"] == [8, 8, 1]
        and note["evaluation"] == {"micro_batch": spec["batch"] // spec["micro_batches"]},
        f"the file says it is {note}",
    )
    description = {
        "input": {"shape": [8, 8, 1]},
        "units": [
            {
                "name": "hidden1",
                "ops": [{"type": "flatten"}, {"type": "linear", "units": 256}, {"type": "relu"}],
            },
            {"name": "hidden2", "ops": [{"type": "linear", "units": 128}, {"type": "relu"}]},
            {"name": "head", "ops": [{"type": "linear", "units": 10}]},
        ],
    }
    run = {"job_spec": {**spec, "model": {"description": description}}}
    expected = {}
    for unit in range(3):
        expected.update(
            {
                name: tensor
                for name, tensor in read_safetensors(unit_state(run, unit, 4)).items()
                if not name.endswith((".momentum", ".exp_avg", ".exp_avg_sq"))
            }
        )
    must(list(found) == list(expected) and found == expected, f"the model holds {list(found)}")


def test_the_optimizer_decides_memory_and_snapshot_sizes():
    with Api() as api:
        agent = FakeAgent(api, "agent")
        memory = []
        for optimizer in (
            {"momentum": 0},
            {},
            {"type": "adam"},
            {"type": "adamw", "clip_norm": 1.0},
        ):
            preview = api.request(
                "POST", "/v1/jobs?dry_run=true", {**JOB, "optimizer": optimizer}, expect=200
            ).json
            memory.append(preview["stages"][0]["memory_bytes"])
        plain, heavy, adam, adamw = memory
        must(
            plain < heavy < adam == adamw and adam - heavy == heavy - plain,
            f"bytes of a stage: {memory}",
        )
        job = api.submit(
            {**JOB, "optimizer": {"type": "adamw", "weight_decay": 0.01, "clip_norm": 1.0}}
        )
        stated = api.job(job)["spec"]["optimizer"]
        must(
            stated
            == {
                "type": "adamw",
                "momentum": 0.9,
                "nesterov": False,
                "beta1": 0.9,
                "beta2": 0.999,
                "epsilon": 1e-8,
                "weight_decay": 0.01,
                "clip_value": None,
                "clip_norm": 1.0,
            },
            f"{stated}",
        )
        done = finish(api, job, [agent])
        check_model(api, done, api.get(f"/v1/checkpoints/{done['checkpoint']}"))


def test_recompute_needs_less_memory_and_problems_suggest_it():
    units = [
        {
            "name": f"unit{index}",
            "ops": [
                {"type": "linear", "units": 64},
                {"type": "gelu"},
                {"type": "linear", "units": 64},
            ],
        }
        for index in range(4)
    ]
    description = {
        "name": "deep",
        "units": [
            {"name": "flat", "ops": [{"type": "flatten"}]},
            *units,
            {"name": "head", "ops": [{"type": "linear", "units": 10}]},
        ],
        "loss": {"type": "softmax_cross_entropy"},
    }
    job = {
        **JOB,
        "model": {"description": description},
        "batch": 16,
        "micro_batches": 1,
        "replication": {"neighbor_every": 0, "center_every": 0},
    }
    with Api() as api:
        large = FakeAgent(api, "agent")
        stage = {}
        for recompute in ("none", "unit"):
            preview = api.request(
                "POST", "/v1/jobs?dry_run=true", {**job, "recompute": recompute}, expect=200
            ).json
            (stage[recompute],) = preview["stages"]
        kept = {recompute: stage[recompute]["memory"] for recompute in stage}
        must(kept["unit"]["activations_bytes"] < kept["none"]["activations_bytes"] / 2, f"{kept}")
        must(
            {**kept["unit"], "activations_bytes": 0, "workspace_bytes": 0}
            == {**kept["none"], "activations_bytes": 0, "workspace_bytes": 0},
            f"{kept}",
        )
        must(
            stage["unit"]["predicted_backward_seconds"]
            > stage["none"]["predicted_backward_seconds"],
            f"{stage}",
        )
        must(
            stage["unit"]["predicted_forward_seconds"]
            == stage["none"]["predicted_forward_seconds"],
            f"{stage}",
        )
        large.memory = stage["none"]["memory_bytes"] - 1
        large.enrol(boot="boot2")
        for query in ("", "?dry_run=true"):
            api.problem(
                "POST",
                f"/v1/jobs{query}",
                job,
                code="model_too_large",
                words=("agent", "it fits", "recompute"),
            )
        taken = api.submit({**job, "recompute": "unit"})
        must(api.job(taken)["spec"]["recompute"] == "unit", f"{api.job(taken)['spec']}")
        plan = api.get(f"/v1/jobs/{taken['id']}/plans/1")
        must(plan["stages"][0]["memory"] == kept["unit"], f"{plan['stages']}")
        what_if = api.request("POST", "/v1/plans", {"job": taken["id"]}, expect=200).json["plan"]
        must(what_if["stages"][0]["memory"] == kept["unit"], f"{what_if['stages']}")


def check_metrics(api, path):
    items = api.get(f"{path}/metrics")["items"]
    must(
        [(item["step"], item["value"]) for item in items if item["name"] == "loss"]
        == [(step, 1 / step) for step in (1, 2, 3, 4)],
        f"{items}",
    )
    must(
        [item["step"] for item in items] == sorted(item["step"] for item in items),
        "the order of steps",
    )
    must(
        api.get(f"{path}/metrics?name=test_accuracy")["items"]
        == [{"step": 4, "name": "test_accuracy", "value": 0.5}],
        "by name",
    )
    must(
        api.get(f"{path}/metrics?name=loss&since=2")["items"]
        == [
            {"step": 3, "name": "loss", "value": 1 / 3},
            {"step": 4, "name": "loss", "value": 0.25},
        ],
        "since",
    )
    for limit, query in ((1, ""), (2, ""), (3, ""), (3, "&name=loss"), (len(items), "")):
        gathered, cursor = [], ""
        while cursor is not None:
            page = api.get(f"{path}/metrics?limit={limit}{query}{cursor and '&cursor=' + cursor}")
            must(
                len(page["items"]) <= limit or len({item["step"] for item in page["items"]}) == 1,
                f"{page}",
            )
            must(page["items"], f"an empty page after cursor '{cursor}'")
            gathered, cursor = gathered + page["items"], page["next_cursor"]
        expected = [item for item in items if not query or item["name"] == "loss"]
        must(gathered == expected, f"pages of {limit} lose or repeat numbers: {gathered}")
    must(
        api.get(f"{path}/metrics?since=4") == {"items": [], "next_cursor": None},
        "after the last step",
    )
    for cursor in ("x", "-1", "1.5", "1e3", "", "99999999999999999999"):
        api.problem(
            "GET", f"{path}/metrics?cursor={cursor}", code="invalid_parameter", words=("cursor",)
        )
    api.problem(
        "GET", f"{path}/metrics?name=accuracy", code="invalid_parameter", words=("test_accuracy",)
    )
    api.problem("GET", f"{path}/metrics?limit=10001", code="invalid_parameter", words=("limit",))


def test_a_long_page_of_metrics_is_whole_and_in_order():
    """The coordinator reads it in pages of 1,000."""
    with Api() as api:
        agent = FakeAgent(api, "agent")
        job = api.submit({**JOB, "devices": {"min": 1, "max": 1}, "steps": 2000, "epochs": 2000})
        drive(api, job, [agent], "running", train_to=1)
        run, path = agent.assignment()["run"], f"/v1/jobs/{job['id']}/metrics"
        points = [
            {"step": step, "name": name, "value": 1 / step}
            for step in range(1, 1251)
            for name in ("loss", "step_seconds")
        ]
        for first in range(0, len(points), 250):
            agent.heartbeat("run", run, metrics=points[first : first + 250])
        must(
            api.get(f"{path}?limit=10000") == {"items": points, "next_cursor": None}, "all at once"
        )
        for limit, whole in ((1000, 1000), (1001, 1000), (1999, 1998), (2499, 2498)):
            page = api.get(f"{path}?limit={limit}")
            must(
                page == {"items": points[:whole], "next_cursor": str(whole // 2)},
                f"limit {limit}: {len(page['items'])} {page['next_cursor']}",
            )
            rest = api.get(f"{path}?limit=10000&cursor={page['next_cursor']}")
            must(rest == {"items": points[whole:], "next_cursor": None}, f"after {whole}")
        must(len(api.get(f"{path}?name=loss&limit=1250")["items"]) == 1250, "as many as there are")


def test_the_kernels_of_a_job_are_checked_kept_and_shown():
    chosen = {"block1.body.3": {"forward": "columns", "backward_weights": "columns"}}
    job = {**JOB, "model": {"name": "resnet8"}}
    with Api() as api:
        for table, pointer, word in (
            ({"block1.bdy.3": {}}, "/kernels", "block1.body.3"),
            (
                {"block1.body.3": {"forward": "winograd"}},
                "/kernels/block1.body.3/forward",
                "winograd4",
            ),
            (
                {"block2.body.0": {"forward": "winograd4"}},
                "/kernels/block2.body.0/forward",
                "does not support",
            ),
            ([], "/kernels", "object"),
        ):
            refused = api.problem(
                "POST", "/v1/jobs", {**job, "kernels": table}, code="invalid_fields"
            )
            must(
                [error["pointer"] for error in refused.json["errors"]] == [pointer]
                and word in str(refused.json["errors"]),
                f"{refused.body}",
            )
        plain, other = api.submit(job), api.submit({**job, "kernels": chosen})
        must(
            plain["spec"]["kernels"] is None and other["spec"]["kernels"] is None,
            "kernels in an answer",
        )
        must(
            plain["spec"]["model"]["sha256"] != other["spec"]["model"]["sha256"],
            "the kernels are not in the description",
        )
        before, after = (
            api.get(f"/v1/jobs/{submitted['id']}/kernels") for submitted in (plain, other)
        )
        must(before["block1.body.3"]["forward"] == "winograd4" and "stem.0" in before, f"{before}")
        must(
            after
            == {**before, "block1.body.3": {**before["block1.body.3"], **chosen["block1.body.3"]}},
            f"{after}",
        )
        whole = api.submit({**job, "kernels": after})
        must(api.get(f"/v1/jobs/{whole['id']}/kernels") == after, "the shown kernels are rejected")
        api.coordinator.kill()
        api.restart_coordinator()
        api.verb(other, "cancel")
        must(
            api.get(f"/v1/jobs/{other['id']}/kernels") == after,
            "after a restart and the end of the job",
        )
        elsewhere = api.submit({**job, "kernels": {"stem.0": {"forward": "onednn_nhwc"}}})
        FakeAgent(api, "one")
        api.wait_until(elsewhere, lambda seen: "oneDNN" in seen["message"], "waits for oneDNN")
        api.problem("GET", "/v1/jobs/job_nothing/kernels", code="unknown_job")
        api.problem("GET", f"/v1/jobs/{other['id']}/kernels?all=1", code="invalid_parameter")


def test_a_replan_is_checked_before_the_devices_stop():
    with Api() as api:
        agents = [FakeAgent(api, f"agent{index}") for index in range(2)]
        job = api.submit({**JOB, "steps": 100, "devices": {"min": 1, "max": 3}, "cuts": [1]})
        running = drive(api, job, agents, "running", train_to=3)
        path = f"/v1/jobs/{job['id']}/replan"
        api.problem("POST", path, {"cuts": [1, 2]}, code="not_enough_devices")
        api.problem("POST", path, {"cuts": [9]}, code="invalid_fields", words=("/cuts",))
        api.problem("POST", path, {"cuts": [2, 1]}, code="invalid_fields", words=("/cuts",))
        api.problem("POST", path, {"cut": [1]}, code="invalid_fields", words=("cut", "cuts"))
        api.problem(
            "POST",
            path,
            {"devices": [f"dev_{'0' * 26}"]},
            code="invalid_fields",
            words=("/devices/0",),
        )
        api.problem("POST", path, b"{", JSON, code="invalid_json")
        api.problem(
            "POST", path, b"{}", {"Content-Type": "text/plain"}, code="unsupported_media_type"
        )
        api.problem("POST", path, b" " * (3 << 20), JSON, code="body_too_large")
        must(
            api.job(job)["generation"] == running["generation"]
            and api.job(job)["state"] == "running",
            "the devices stopped",
        )
        agents[1].memory = 10_000
        agents[1].enrol()
        api.problem("POST", path, {"cuts": [1]}, code="model_too_large", words=("agent1",))
        api.request("POST", path, {"cuts": []}, expect=202)
        moved = drive(api, job, agents, "running", train_to=5)
        must(
            moved["generation"] == 2
            and len(api.get(f"/v1/jobs/{job['id']}/plans/2")["stages"]) == 1,
            f"{moved}",
        )


def test_a_replan_takes_an_earlier_plan():
    with Api() as api:
        agents = [FakeAgent(api, f"agent{index}") for index in range(2)]
        job = api.submit({**JOB, "steps": 100, "devices": {"min": 1, "max": 3}, "cuts": [1]})
        drive(api, job, agents, "running", train_to=3)
        path = f"/v1/jobs/{job['id']}/replan"
        for wrong in ({"generation": 1, "cuts": [1]}, {"generation": 0}, {"generation": "1"}):
            api.problem("POST", path, wrong, code="invalid_fields", words=("/generation",))
        api.problem("POST", path, {"generation": 2}, code="unknown_plan")
        api.problem("POST", path, {"generation": 1}, code="wrong_state", words=("already",))
        api.request("POST", path, {"cuts": []}, expect=202)
        drive(api, job, agents, "running", train_to=5)
        api.verb_of_device(agents[1], "cordon")
        problem = api.problem("POST", path, {"generation": 1}, code="not_enough_devices")
        must("agent" in problem.json["detail"], f"{problem.json}")
        must(api.job(job)["state"] == "running", "the devices stopped")
        api.verb_of_device(agents[1], "uncordon")
        answer = api.request("POST", path, {"generation": 1}, expect=202).json
        must(answer["replan_request"]["generation"] == 1, f"{answer}")
        drive(api, job, agents, "running", train_to=7)
        plans = api.get(f"/v1/jobs/{job['id']}/plans")["items"]
        stages = [[(s["device"], s["first"], s["end"]) for s in p["stages"]] for p in plans]
        must(len(stages) == 3 and stages[2] == stages[0] != stages[1], f"{stages}")


def test_a_patch_changes_replan_and_replication_only():
    with Api() as api:
        agents = [FakeAgent(api, f"agent{index}") for index in range(2)]
        job = api.submit({**JOB, "steps": 100, "devices": {"min": 1, "max": 3}, "cuts": [1]})
        path = f"/v1/jobs/{job['id']}"
        before = api.request("GET", path)
        tag = before.headers["ETag"]
        every = {"replan": {"every": 7}, "replication": {"center_every": 30}}
        changed = api.request("PATCH", path, every, {"If-Match": tag}, expect=200).json
        spec, old = changed["spec"], before.json["spec"]
        must(spec["replan"] == {**old["replan"], "every": 7}, f"{spec['replan']}")
        must(changed["revision"] > before.json["revision"], "the revision stays")
        api.problem("PATCH", path, every, {"If-Match": tag}, code="revision_mismatch")
        running = drive(api, job, agents, "running", train_to=3)
        now = running["spec"]["replication"]
        api.request("PATCH", path, {"replication": {"neighbor_every": 4}}, expect=200)
        waits = api.job(job)
        must(waits["spec"]["replication"] == now, f"{waits['spec']['replication']}")
        soon = {"neighbor_every": 4, "center_every": 30}
        must(waits["next_replication"] == soon, f"{waits}")
        api.request("POST", f"{path}/replan", {}, expect=202)
        moved = drive(api, job, agents, "running", train_to=5)
        must(
            moved["spec"]["replication"] == soon and moved["next_replication"] is None,
            f"{moved}",
        )
        for field, value in (("batch", 16), ("init", {"seed": 2}), ("cuts", [1])):
            api.problem("PATCH", path, {field: value}, code="invalid_fields", words=(f"/{field}",))
        api.problem("PATCH", path, {"replan": {"eve": 1}}, code="invalid_fields", words=("every",))
        api.problem("PATCH", path, {"replan": {"every": -1}}, code="invalid_fields")
        api.problem("PATCH", path, {"replan": None}, code="invalid_fields", words=("/replan",))
        api.problem("PATCH", path, [], code="invalid_fields")
        api.problem("PATCH", path, b"{", JSON, code="invalid_json")
        api.problem(
            "PATCH", path, b"{}", {"Content-Type": "text/plain"}, code="unsupported_media_type"
        )
        api.problem("PATCH", path, b" " * (3 << 20), JSON, code="body_too_large")
        api.problem("PATCH", "/v1/jobs/job_nothing", {}, code="unknown_job")
        key = {"Idempotency-Key": "p1"}
        first = api.request("PATCH", path, {"replan": {"first": 3}}, key, expect=200)
        again = api.request("PATCH", path, {"replan": {"first": 3}}, key, expect=200)
        must(first.body == again.body, "the repeat differs")
        api.problem("PATCH", path, {"replan": {"first": 4}}, key, code="idempotency_mismatch")
        api.request("POST", f"{path}/cancel", expect=202)
        api.problem("PATCH", path, {"replan": {"every": 9}}, code="wrong_state")


def test_a_device_of_a_plan_cannot_be_deleted():
    with Api() as api:
        agent = FakeAgent(api, "one")
        job = api.submit({**JOB, "steps": 100})
        drive(api, job, [agent], "running", train_to=3)
        api.problem("DELETE", f"/v1/devices/{agent.id}", code="wrong_state", words=(job["id"],))
        must(api.get(f"/v1/devices/{agent.id}")["job"] == job["id"], "the device's job")
        api.request("POST", f"/v1/jobs/{job['id']}/cancel", expect=202)
        api.request("DELETE", f"/v1/devices/{agent.id}", expect=204)
