"""Jobs that end by their evaluations, the checkpoints that they store on the way, and clones."""

import hashlib
import json
import pathlib
import tempfile

from paceline import FASHION, fashion_fleet, fashion_job, must, on_devices, train
from runner import run

STEPS = 10  # of an epoch of 3000 samples


def stopping_job(**fields):
    return fashion_job(
        **{
            "dataset": {"train": "fashion-train", "test": "fashion-test"},
            "batch": 300,
            "epochs": 12,
            "learning_rate": {"type": "cosine", "value": 0.1},
            "replication": {"neighbor_every": 3, "center_every": 4},
            **fields,
        }
    )


def fleet_with_test(agents, *arguments):
    fleet = fashion_fleet(agents, *arguments)
    fleet.upload("fashion-test", "fashion-mini", "test")
    return fleet


def reference(job, *arguments):
    """The hash of `paceline-agent train`, and the accuracy of each evaluation."""
    with tempfile.TemporaryDirectory(prefix="paceline-metrics-") as directory:
        metrics = pathlib.Path(directory) / "metrics.json"
        sha256, _ = train(job, FASHION, 1, ("--metrics", str(metrics), *arguments))
        values = [json.loads(line) for line in metrics.read_text().splitlines()]
    return sha256, {
        value["step"]: value["value"] for value in values if value["name"] == "test_accuracy"
    }


def ends_at(accuracies, patience):
    """The rule, written once more."""
    best, since = -1, 0
    for step, accuracy in sorted(accuracies.items()):
        since = 0 if accuracy > best else since + 1
        best = max(best, accuracy)
        if since >= patience:
            return step
    return max(accuracies)


def test_a_job_ends_at_the_step_of_one_process_after_any_failure():
    _, whole = reference(stopping_job())
    end = ends_at(whole, 1)
    must(STEPS < end < 12 * STEPS, f"patience 1 does not end the job early: {whole}")
    job = stopping_job(stop={"metric": "test_accuracy", "patience": 1})
    expected, seen = reference(job)
    must(max(seen) == end, f"one process ends at {max(seen)}, not at {end}")
    must(all(whole[step] == seen[step] for step in seen), "the schedule of the rate is another")
    with fleet_with_test(3) as fleet:
        submitted = fleet.submit({**job, "cuts": [1, 3], **on_devices(2, 3)})
        fleet.wait_for_step(submitted, end // 2)
        fleet.agent_of(submitted, -1).kill()
        fleet.wait(submitted, "succeeded")
        ended = fleet.job(submitted)
        must(ended["state_reason"] == "stopped_early", f"{ended}")
        must(ended["progress"]["step"] == ended["progress"]["steps"] == end, f"{ended['progress']}")
        must(ended["early_stop"]["met"] and ended["early_stop"]["version"] == end, f"{ended}")
        must("not better" in ended["message"], ended["message"])
        sha256 = fleet.checkpoint_sha256(ended)
        must(sha256 == expected, f"{sha256}, not {expected}")


def test_an_asynchronous_job_reaches_its_target():
    # A rate of 0.1 diverges with stale weights.
    job = stopping_job(
        pipeline="async",
        micro_batches=1,
        learning_rate={"type": "cosine", "value": 0.02},
        stop={"metric": "test_accuracy", "target": 0.3},
    )
    with fleet_with_test(2) as fleet:
        ended = fleet.wait(fleet.submit({**job, "cuts": [2], **on_devices(2, 2)}), "succeeded")
        must(ended["state_reason"] == "stopped_early", f"{ended}")
        must(ended["early_stop"]["best"] >= 0.3, f"{ended['early_stop']}")
        must("target" in ended["message"], ended["message"])
        plans = fleet.get(f"/v1/jobs/{ended['id']}/plans?limit=500")
        sha256 = fleet.checkpoint_sha256(ended)
    with tempfile.TemporaryDirectory(prefix="paceline-plans-") as directory:
        path = pathlib.Path(directory) / "plans.json"
        path.write_text(json.dumps(plans))
        expected, _ = reference(job, "--plans", str(path))
    must(sha256 == expected, f"{sha256}, not {expected}")


def kept_of(fleet, job):
    """The listed checkpoints by version, each with its file."""
    ended = fleet.job(job)
    rows = {
        row["id"]: row for row in fleet.get(f"/v1/jobs/{job['id']}/checkpoints")["items"]
    }
    kept = {item["version"]: item for item in ended["checkpoints"] if item["checkpoint"]}
    must(
        set(rows) == {item["checkpoint"] for item in kept.values()} | {ended["checkpoint"]},
        f"{ended['checkpoints']}, but the rows are {rows}",
    )
    for item in kept.values():
        path = f"/v1/checkpoints/{item['checkpoint']}/content"
        body = fleet.request("GET", path, expect=200).body
        must(hashlib.sha256(body).hexdigest() == item["sha256"], "the content of a checkpoint")
    return kept


def test_a_job_keeps_its_best_checkpoints_and_is_cloned_from_them():
    fields = {"epochs": 6, "replication": {"neighbor_every": 0, "center_every": 0}}
    _, accuracy = reference(stopping_job(**fields))
    policy = {"every_epochs": 1, "keep": "best", "count": 2}
    with fleet_with_test(1, "--slowdown", "2") as fleet:
        job = fleet.submit(stopping_job(checkpoint=policy, **fields))
        fleet.wait(job, "succeeded")
        kept = kept_of(fleet, job)
        must(1 <= len(kept) <= 2, f"{kept}")
        for step, item in kept.items():
            must(step % STEPS == 0 and item["value"] == accuracy[step], f"{item}, {accuracy}")
        candidates = {**{step: accuracy[step] for step in kept}, 6 * STEPS: accuracy[6 * STEPS]}
        best = max(candidates, key=lambda step: (candidates[step], -step))
        rows = fleet.get(f"/v1/jobs/{job['id']}/checkpoints")["items"]
        check_clone(fleet, job, "best", {row["version"]: row["id"] for row in rows}[best])
        check_clone(fleet, job, "last", fleet.job(job)["checkpoint"])
        check_refused(fleet, job)


def check_clone(fleet, job, which, checkpoint):
    body = {
        "from": which,
        "name": f"clone-{which}",
        "epochs": 1,
        "learning_rate": {"type": "constant", "value": 0.001},
        "checkpoint": None,
    }
    clone = fleet.request("POST", f"/v1/jobs/{job['id']}/clone", body, expect=201).json
    spec, old = clone["spec"], job["spec"]
    must(spec["init"]["checkpoint"] == checkpoint, f"{spec['init']}, not {checkpoint}")
    must(spec["learning_rate"]["type"] == "constant" and spec["epochs"] == 1, f"{spec}")
    must(spec["checkpoint"] is None and spec["name"] == f"clone-{which}", f"{spec}")
    for same in ("dataset", "batch", "optimizer", "evaluate", "replication"):
        must(spec[same] == old[same], f"{same}: {spec[same]}, not {old[same]}")
    must(clone["spec"]["model"]["sha256"] == old["model"]["sha256"], "another model")
    ended = fleet.wait(clone, "succeeded")
    must(ended["progress"]["steps"] == STEPS, f"{ended['progress']}")


def check_refused(fleet, job):
    path = f"/v1/jobs/{job['id']}/clone"

    def refused(body, status, pointer):
        answer = fleet.request("POST", path, body, expect=status).json
        pointers = [error["pointer"] for error in answer.get("errors", [])]
        must(pointer in pointers, f"{body}: {answer}")

    refused({}, 422, "/from")
    refused({"from": "first"}, 422, "/from")
    refused({"from": 3}, 422, "/from")
    refused({"from": "last", "epoch": 3}, 422, "/epoch")
    refused({"from": "last", "learning_rate": {"valu": 3}}, 422, "/learning_rate/valu")
    refused({"from": "last", "init": {"checkpoint": None}}, 422, "/init/checkpoint")
    refused({"from": "last", "stop": {"patience": 1, "metric": "recall"}}, 422, "/stop/metric")
    fleet.request("POST", path, [], expect=422)
    preview = fleet.request("POST", f"{path}?dry_run=true", {"from": "last"}, expect=200).json
    must(preview["steps"] == 6 * STEPS, f"{preview}")


def test_faults_of_stop_and_checkpoint_name_their_fields():
    with fleet_with_test(0) as fleet:
        for fields, pointer in (
            ({"stop": {}}, "/stop"),
            ({"stop": {"patience": 0}}, "/stop/patience"),
            ({"stop": {"target": 1.5}}, "/stop/target"),
            ({"stop": {"patience": 1, "metric": "loss"}}, "/stop/metric"),
            ({"stop": {"patience": 1}, "evaluate": {"every_epochs": 0}}, "/stop"),
            ({"checkpoint": {"count": 17}}, "/checkpoint/count"),
            ({"checkpoint": {"every_epochs": 0}}, "/checkpoint/every_epochs"),
            (
                {"checkpoint": {"keep": "best"}, "evaluate": {"every_epochs": 2}},
                "/checkpoint/every_epochs",
            ),
            (
                {"checkpoint": {"keep": "best"}, "dataset": {"train": "fashion-train"}},
                "/checkpoint/keep",
            ),
            ({"strategy": "submodel", "stop": {"patience": 1}}, "/stop"),
            ({"strategy": "submodel", "checkpoint": {}}, "/checkpoint"),
        ):
            answer = fleet.request("POST", "/v1/jobs", stopping_job(**fields), expect=422).json
            pointers = [error["pointer"] for error in answer["errors"]]
            must(pointer in pointers, f"{fields}: {pointers}")


if __name__ == "__main__":
    run(globals())
