"""Views: the law for jobs that train on some classes of a data set, what their evaluations report,
and what their files state.
"""

import gzip
import json
import pathlib
import tempfile

from asynchronous import SPEC, plans_of
from data_forms import png_digits
from paceline import FASHION, Fleet, batches_of, fashion_job, must, on_devices, train
from paceline import fashion_fleet as plain_fleet
from predict import last_metric, predict_json
from runner import run

LEASE_MS = 2000
SLOWDOWN = 3
VIEW = {"classes": [7, 2, 5], "negatives": 1.5, "holdout": 0.1}
BOTH = {"train": "fashion-train", "test": "fashion-test"}


def view_job(**fields):
    return fashion_job(
        "lenet5", **{"view": VIEW, "dataset": BOTH, "batch": 32, "epochs": 2, **fields}
    )


def fashion_fleet(agents=0, *arguments, **options):
    """With the test set, too."""
    fleet = plain_fleet(0, **options)
    fleet.upload("fashion-test", "fashion-mini", "test")
    fleet.start_agents(agents, *arguments)
    return fleet


def labels_of(path):
    """The labels of a packed IDX file."""
    return gzip.decompress(pathlib.Path(path).read_bytes())[8:]


def recall_of(output):
    return [line for line in output.splitlines() if line.startswith("recall ")]


def test_one_and_three_agents_give_the_weights_and_the_recall_of_one_process():
    job = view_job()
    expected, output = train(job, FASHION)
    with fashion_fleet(3) as fleet:
        for cuts in ([], [1, 3]):
            count = len(cuts) + 1
            submitted = fleet.submit({**job, "cuts": cuts or None, **on_devices(count, count)})
            seen = fleet.wait(submitted, "succeeded")
            sha256 = fleet.checkpoint_sha256(submitted)
            must(sha256 == expected, f"{count} agents: {sha256}, not {expected}")
            recall = last_metric(fleet, submitted, "recall")
            must(recall_of(output) == [f"recall {recall:.4f}"], f"{recall}: {output}")
            must(fleet.job(seen)["progress"]["recall"] == recall, f"{seen['progress']}")
            reported = fleet.get(f"/v1/jobs/{submitted['id']}/metrics?name=recall")["items"]
            must(
                [item["step"] for item in reported] == [epoch_steps(seen) * k for k in (1, 2)],
                f"{reported}",
            )


def epoch_steps(seen):
    return seen["data"]["epoch_samples"] // seen["spec"]["batch"]


def test_an_agent_that_dies_changes_no_bit():
    """It has the labels of the view."""
    job = view_job(
        replication={"neighbor_every": 5, "center_every": 20}, cuts=[2], **on_devices(1, 2)
    )
    expected = train(job, FASHION)[0]
    with fashion_fleet(2, "--slowdown", SLOWDOWN, lease_ms=LEASE_MS) as fleet:
        submitted = fleet.submit(job)
        fleet.wait_for_step(submitted, 30)
        fleet.agent_of(submitted, -1).kill()
        fleet.wait(submitted, "succeeded")
        sha256 = fleet.checkpoint_sha256(submitted)
        must(sha256 == expected, f"{sha256}, not {expected}")
        incidents = fleet.get(f"/v1/jobs/{submitted['id']}/incidents")["items"]
        must(len(incidents) == 1, f"{incidents}")


def test_an_asynchronous_job_gives_the_weights_of_its_plans():
    job = view_job(pipeline="async", micro_batches=1, epochs=1, cuts=[2], **on_devices(2, 2))
    with fashion_fleet(2) as fleet, tempfile.TemporaryDirectory(prefix="paceline-views-") as place:
        submitted = fleet.submit(job)
        fleet.wait(submitted, "succeeded")
        seen = fleet.job(submitted)
        plans = pathlib.Path(place) / "plans.json"
        plans.write_text(json.dumps(plans_of(fleet, submitted)))
        spec = {name: seen["spec"][name] for name in (*SPEC, "view")}
        spec["model"] = {"name": "lenet5"}
        sha256, output = train({**spec, "kernels": {}}, FASHION, 1, ("--plans", str(plans)))
        must(sha256 == fleet.checkpoint_sha256(submitted), f"{sha256}: {output}")
        recall = last_metric(fleet, submitted, "recall")
        must(recall_of(output) == [f"recall {recall:.4f}"], f"{recall}: {output}")


def test_without_a_test_set_evaluations_consist_of_the_hold_out():
    job = view_job(dataset={"train": "fashion-train"}, epochs=1, cuts=[2], **on_devices(2, 2))
    expected, output = train(job, FASHION)
    must(recall_of(output) and "accuracy" not in output, output)
    with fashion_fleet(2) as fleet:
        submitted = fleet.submit(job)
        seen = fleet.wait(submitted, "succeeded")
        must(fleet.checkpoint_sha256(submitted) == expected, "other weights")
        names = {
            item["name"]
            for item in fleet.get(f"/v1/jobs/{submitted['id']}/metrics?limit=10000")["items"]
        }
        must(names == {"loss", "step_seconds", "recall", "least_recall"}, f"{names}")
        must(seen["deadlines"]["evaluation_ms"] > 0, f"{seen['deadlines']}")


def test_batches_prints_the_samples_and_labels_of_a_view():
    job = view_job()
    classes = labels_of(FASHION["fashion-train"][1])
    own = [index for index, label in enumerate(classes) if label in VIEW["classes"]]
    lines = [json.loads(line) for line in batches_of(job, FASHION).splitlines()]
    per_epoch = len(lines) // 2
    epochs = []
    for first in (0, per_epoch):
        part = lines[first : first + per_epoch]
        samples = [sample for line in part for sample in line["samples"]]
        labels = [label for line in part for label in line["labels"]]
        must(len(set(samples)) == len(samples), "a sample twice in one epoch")
        for sample, label in zip(samples, labels, strict=True):
            mine = classes[sample] in VIEW["classes"]
            must(label == (VIEW["classes"].index(classes[sample]) if mine else 3), f"{sample}")
        epochs.append(set(samples))
    with fashion_fleet() as fleet:
        seen = fleet.submit(job)
        counts = fleet.get("/v1/datasets/fashion-train")["class_counts"]
    must(counts == [classes.count(label) for label in range(10)], f"{counts}")
    held = sum(int(counts[label] * VIEW["holdout"]) for label in VIEW["classes"])
    drawn = int((len(own) - held) * VIEW["negatives"] + 0.5)
    must(
        (seen["data"]["holdout_samples"], seen["data"]["epoch_samples"])
        == (held, len(own) - held + drawn),
        f"{seen['data']}",
    )
    must(per_epoch == seen["data"]["epoch_samples"] // 32, f"{per_epoch} steps")
    seen_own = (epochs[0] | epochs[1]) & set(own)
    must(len(seen_own) == len(own) - held, f"{len(seen_own)} of {len(own)} own samples")
    must(epochs[0] - set(own) != epochs[1] - set(own), "both epochs drew the same others")


def test_predict_knows_the_classes_of_a_view():
    job = view_job(epochs=1, **on_devices(1, 1))
    images, labels = FASHION["fashion-test"]
    with fashion_fleet(1) as fleet, tempfile.TemporaryDirectory(prefix="paceline-views-") as place:
        path = pathlib.Path(place) / "model.safetensors"
        submitted = fleet.submit(job)
        fleet.wait(submitted, "succeeded")
        path.write_bytes(fleet.checkpoint(submitted))
        samples, total, confusion = predict_json(path, f"{images},{labels}", "--top", 4)
        must(
            (total["accuracy"], total["loss"])
            == (
                last_metric(fleet, submitted, "test_accuracy"),
                last_metric(fleet, submitted, "test_loss"),
            ),
            f"{total}",
        )
    names = {0: "class 7", 1: "class 2", 2: "class 5", 3: "other"}
    classes = labels_of(labels)
    for index, sample in enumerate(samples):
        must(
            {entry["class"]: entry["name"] for entry in sample["top"]} == names, f"{sample['top']}"
        )
        mine = classes[index] in VIEW["classes"]
        must(sample["label"] == (VIEW["classes"].index(classes[index]) if mine else 3), f"{sample}")
    must(set(confusion) == set(names), f"{confusion}")


def test_outputs_have_the_names_of_their_classes():
    job = {
        "name": "named",
        "model": {"name": "lenet5"},
        "dataset": {"train": "digits", "test": "digits"},
        "view": {"classes": [3, 7], "negatives": 2},
        "epochs": 2,
        **on_devices(1, 1),
    }
    with Fleet() as fleet, tempfile.TemporaryDirectory(prefix="paceline-views-") as place:
        content, path = (
            pathlib.Path(place) / "digits.tar",
            pathlib.Path(place) / "model.safetensors",
        )
        content.write_bytes(png_digits("train"))
        fleet.start_coordinator("--heartbeat-ms", 100)
        fleet.request(
            "PUT",
            "/v1/datasets/digits?size=16x16&channels=1",
            content.read_bytes(),
            {"Content-Type": "application/octet-stream"},
            expect=201,
        )
        fleet.start_agents(1)
        submitted = fleet.submit(job)
        fleet.wait(submitted, "succeeded")
        path.write_bytes(fleet.checkpoint(submitted))
        samples, total, confusion = predict_json(path, content, "--top", 3)
        must(total["accuracy"] == last_metric(fleet, submitted, "test_accuracy"), f"{total}")
        sha256 = train(job, {"digits": [content]}, 1, ("--as", "size=16x16,channels=1"))[0]
        must(sha256 == fleet.checkpoint_sha256(submitted), "other weights")
    names = {0: "digit-3", 1: "digit-7", 2: "other"}
    for sample in samples[:50]:
        must(
            {entry["class"]: entry["name"] for entry in sample["top"]} == names, f"{sample['top']}"
        )
    must(set(confusion) == set(names), f"{confusion}")


if __name__ == "__main__":
    run(globals())
