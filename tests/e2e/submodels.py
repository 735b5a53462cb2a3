"""Sub-models: parts of a job train on real agents and one model comes out, the same whatever fails;
each group's weights are those of one process with its spec.
"""

import pathlib
import tempfile

from data_forms import png_digits
from paceline import FASHION, Fleet, fashion_fleet, fashion_job, must, train
from runner import run

LEASE_MS = 2000
SMALL, SLOWDOWN = "mlp", 20  # little to compute, also with sanitizers
GROUPS = [
    {"classes": [0, 1, 2], "width": 0.25},
    {"classes": [3, 4, 5], "width": 0.25},
    {"classes": [6, 7, 8, 9], "width": 0.5},
]


def submodel_job(model="resnet8", **submodel):
    options = {"stem": 1, "stem_epochs": 1, "groups": GROUPS, **submodel}
    return fashion_job(model, strategy="submodel", submodel=options, batch=32, epochs=1)


def groups_of(fleet, job):
    return fleet.get(f"/v1/jobs/{job['id']}/groups")


def model_of(fleet, checkpoint):
    return fleet.get(f"/v1/checkpoints/{checkpoint}")["sha256"]


def content_of(fleet, checkpoint):
    return fleet.request("GET", f"/v1/checkpoints/{checkpoint}/content", expect=200).body


def undisturbed(model):
    """The result of two devices, which do nothing else."""
    with fashion_fleet(2) as fleet:
        spec = submodel_job(model)
        dry = fleet.request("POST", "/v1/jobs?dry_run=true", spec, expect=200).json
        job = fleet.submit(spec)
        seen = fleet.wait(job, "succeeded")
        parts = groups_of(fleet, job)
        check_savings(dry["submodel"], seen, parts)
        must(parts["phase"] == "ended" and parts["missing_classes"] == [], f"{parts}")
        must([g["classes"] for g in parts["groups"]] == [g["classes"] for g in GROUPS], "")
        must(all(g["part"]["state"] == "trained" for g in parts["groups"]), f"{parts}")
        must(seen["checkpoint"] == parts["joint"]["checkpoint"], f"{seen}")
        listed = [item["id"] for item in fleet.get("/v1/jobs")["items"]]
        must(listed == [job["id"]], f"{listed}")
        check_group(fleet, job, parts)
        return model_of(fleet, seen["checkpoint"])


def check_savings(predicted, seen, parts):
    """What was trained is what the dry run predicts; which device trains it may differ."""
    compute = seen["compute"]
    must(compute == parts["compute"], f"{compute}, the groups have {parts['compute']}")
    expected = predicted["compute"]
    again = sum(
        (part["part"]["attempts"] - 1) * group["flops_per_sample"] * (group["samples"] // 32 * 32)
        for group, part in zip(predicted["groups"], parts["groups"])
    )
    share = expected["flops"] / (expected["flops"] + again)  # groups may fail the gate
    for name, factor in (
        ("per_sample_least", 1),
        ("per_sample_most", 1),
        ("total", share),
        ("flops", 1 / share),
    ):
        ratio = compute[name] / (expected[name] * factor)
        must(abs(ratio - 1) < 1e-9, f"{name}: {compute}, predicted {expected}, {again} again")
    must(compute["busiest"] > compute["total"], f"{compute}")
    for group, part in zip(predicted["groups"], parts["groups"]):
        must(group["flops_per_sample"] == part["flops_per_sample"], f"{group} {part}")
        must(group["device"] and group["seconds"] > 0, f"{group}")


def check_group(fleet, job, parts, datasets=FASHION, arguments=()):
    """The law: `paceline-agent train` of a group's spec gives the group's file. Returns the
    spec."""
    spec = fleet.get(f"/v1/jobs/{job['id']}/groups/1/spec")
    with tempfile.TemporaryDirectory(prefix="paceline-stem-") as directory:
        stem = pathlib.Path(directory) / "stem.safetensors"
        stem.write_bytes(content_of(fleet, spec["init"]["checkpoint"]))
        local = train(spec, datasets, 1, ["--checkpoint", stem, *arguments])[0]
    trained = model_of(fleet, parts["groups"][1]["part"]["checkpoint"])
    must(local == trained, f"{local}, the group has {trained}")
    return spec


def wait_for_groups(fleet, job):
    """All groups train, or have trained."""
    return fleet.wait_until(
        job,
        lambda seen: all(group["part"]["job"] for group in groups_of(fleet, job)["groups"])
        and seen["state"] == "running",
        "groups",
    )


def test_a_group_names_its_outputs_as_its_spec_alone_does():
    size = "size=16x16,channels=1"
    with Fleet() as fleet, tempfile.TemporaryDirectory(prefix="paceline-named-") as directory:
        digits = pathlib.Path(directory) / "digits.tar"
        digits.write_bytes(png_digits("train"))
        fleet.start_coordinator("--heartbeat-ms", 100)
        fleet.request(
            "PUT",
            f"/v1/datasets/digits?{size.replace(',', '&')}",
            digits.read_bytes(),
            {"Content-Type": "application/octet-stream"},
            expect=201,
        )
        fleet.start_agents(2)
        job = fleet.submit({**submodel_job(), "dataset": {"train": "digits"}})
        fleet.wait(job, "succeeded")
        spec = check_group(fleet, job, groups_of(fleet, job), {"digits": [digits]}, ("--as", size))
    names = spec["model"]["description"]["class_names"]
    must(names == ["digit-3", "digit-4", "digit-5", "other"], f"{names}")


def test_a_device_and_the_coordinator_die_and_the_model_is_the_same():
    expected = undisturbed(SMALL)
    with fashion_fleet(3, "--slowdown", SLOWDOWN, lease_ms=LEASE_MS) as fleet:
        job = fleet.submit(submodel_job(SMALL))
        wait_for_groups(fleet, job)
        must(groups_of(fleet, job)["phase"] == "groups", "the groups have ended")
        fleet.agents[0].kill()
        fleet.coordinator.kill()
        fleet.restart_coordinator("--heartbeat-ms", 100, "--lease-ms", LEASE_MS)
        seen = fleet.wait(job, "succeeded")
        model = model_of(fleet, seen["checkpoint"])
        must(model == expected, f"{model}, not {expected}")


def test_a_device_with_memory_for_its_slice_alone_trains_a_group():
    """The target needs 10 MB, a slice at most 6."""
    with fashion_fleet(1) as fleet:
        fleet.start_agent("small", "--memory", "8M", "--label", "size=small")
        (small,) = [d["id"] for d in fleet.wait_for_devices(2) if d["name"] == "small"]
        labels = {"size": "small"}
        whole = {**fashion_job(SMALL), "devices": {"min": 1, "labels": labels}}
        refused = fleet.request("POST", "/v1/jobs", whole)
        must(refused.json["code"] == "model_too_large", f"{refused.body}")
        groups = [{**GROUPS[0], "labels": labels}, *GROUPS[1:]]
        job = fleet.submit(submodel_job(SMALL, groups=groups))
        seen = fleet.wait(job, "succeeded")
        must(seen["state_reason"] is None, f"{seen}")
        part = groups_of(fleet, job)["groups"][0]["part"]
        plans = fleet.get(f"/v1/jobs/{part['job']}/plans")["items"]
        must([s["device"] for s in plans[0]["stages"]] == [small], f"{plans}")


def test_planned_groups_fit_the_memory_of_their_devices():
    """A slice needs 4.9 MB or more."""
    memory = {"small0": 5 << 20, "small1": 5 << 20, "tiny": 2 << 20}
    with fashion_fleet(1) as fleet:
        for name, most in memory.items():
            fleet.start_agent(name, "--memory", most, wait=False)
        names = {device["id"]: device["name"] for device in fleet.wait_for_devices(4)}
        job = fleet.submit(submodel_job(SMALL, groups=None))
        seen = fleet.wait(job, "succeeded")
        must(seen["state_reason"] is None, f"{seen}")
        groups = groups_of(fleet, job)["groups"]
        planned = sorted(names[group["device"]] for group in groups)
        must(planned == ["agent0", "small0", "small1"], f"{groups}")
        for group in groups:
            (plan, *_) = fleet.get(f"/v1/jobs/{group['part']['job']}/plans")["items"]
            (stage,) = plan["stages"]
            must(stage["device"] == group["device"], f"{group}: {plan}")
            most = memory.get(names[stage["device"]], stage["memory_bytes"])
            must(stage["memory_bytes"] <= most, f"{plan}")


if __name__ == "__main__":
    run(globals())
