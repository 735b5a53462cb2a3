"""Sub-models: parts of a job train on real agents and one model comes out, the same whatever fails;
each group's weights are those of one process with its spec; which device trains a group.
"""

import pathlib
import tempfile

from data_forms import png_digits
from paceline import FASHION, Fleet, fashion_fleet, fashion_job, must, train
from predict import predict_json
from runner import run
from submodel_parts import DIGITS, JOB, content_of, digits_fleet

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
        job = fleet.submit({**submodel_job(SMALL), "dataset": {"train": "digits"}})
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


def test_stem_and_joint_phase_take_the_schedule_and_the_codec_of_the_job():
    halves = [{"classes": list(range(5))}, {"classes": list(range(5, 10))}]
    job = {
        **JOB,
        "batch": 32,
        "epochs": 1,
        "evaluate": {"every_epochs": 0},  # groups of one epoch would not pass the quality gate
        "devices": {"min": 2, "max": 2},
        "submodel": {"groups": halves, "joint": {"epochs": 1, "units": "all"}},
    }
    with digits_fleet(2) as fleet:
        models = []
        for fields in ({}, {"pipeline": "async", "micro_batches": 1}, {"compression": "q8"}):
            seen = fleet.wait(fleet.submit({**job, **fields}), "succeeded")
            parts = fleet.get(f"/v1/jobs/{seen['id']}/groups")
            rows = [fleet.get(f"/v1/jobs/{parts[part]['job']}") for part in ("stem", "joint")]
            must(seen["exact"] == (not fields), f"{fields}: {seen}")
            must(all(row["exact"] == (not fields) for row in rows), f"{fields}: {rows}")
            for group in parts["groups"]:
                row = fleet.get(f"/v1/jobs/{group['part']['job']}")
                must(row["exact"], f"a group has one device: {row}")
            models.append(content_of(fleet, seen["checkpoint"]))
        must(len(set(models)) == 3, "a schedule or a codec changed nothing")


def test_a_group_follows_the_classes_that_a_device_prefers():
    wanted = [4, 5, 6]
    with digits_fleet(0) as fleet:
        fleet.start_agent("plain0", wait=False)
        fleet.start_agent("kitchen", "--label", "classes=4-6", wait=False)
        fleet.start_agent("plain1", wait=False)
        devices = {device["name"]: device["id"] for device in fleet.wait_for_agents()}
        submodel = {"stem": 1, "group_count": 3, "joint": {"epochs": 0}}
        job = fleet.submit({**JOB, "epochs": 12, "submodel": submodel})
        fleet.wait(job, "succeeded")
        groups = fleet.get(f"/v1/jobs/{job['id']}/groups")["groups"]
        mine = [group for group in groups if group.get("device") == devices["kitchen"]]
        must(len(mine) == 1 and len(groups) == 3, f"{groups}")
        classes = mine[0]["classes"]
        must(set(wanted) <= set(classes) or set(classes) <= set(wanted), f"{groups}")
        must({group["device"] for group in groups} == set(devices.values()), f"{groups}")
        for group in groups:
            plan = fleet.get(f"/v1/jobs/{group['part']['job']}/plans")["items"][0]
            must(plan["stages"][0]["device"] == group["device"], f"{group}: {plan}")
        check_small_model(content_of(fleet, mine[0]["part"]["checkpoint"]), classes)


def check_small_model(data, classes):
    """The file of a group knows its classes and takes all others for the last output."""
    with tempfile.TemporaryDirectory(prefix="paceline-small-") as place:
        path = pathlib.Path(place) / "model.safetensors"
        path.write_bytes(data)
        images = ",".join(map(str, DIGITS["digits-test"]))
        samples, total, _ = predict_json(path, images, "--top", 10)
    names = {entry["class"]: entry["name"] for entry in samples[0]["top"]}
    must(
        [names[k] for k in sorted(names)] == [f"class {c}" for c in classes] + ["other"], f"{names}"
    )
    must(total["accuracy"] > 0.8, f"{total}")


if __name__ == "__main__":
    run(globals())
