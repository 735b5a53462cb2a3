"""Fine-tuning: a job starts from another job's checkpoint or from an uploaded file, and the law
holds.
"""

import hashlib
import json
import pathlib
import struct
import tempfile

from paceline import FASHION, ROOT, fashion_fleet, fashion_job, must, on_devices, train
from runner import run

OCTETS = {"Content-Type": "application/octet-stream"}


def tensors_of(file):
    """A safetensors file as {name: (dtype, shape, bytes)}."""
    length = struct.unpack("<Q", file[:8])[0]
    header = json.loads(file[8 : 8 + length])
    header.pop("__metadata__", None)
    return {
        name: (
            entry["dtype"],
            entry["shape"],
            file[8 + length + entry["data_offsets"][0] : 8 + length + entry["data_offsets"][1]],
        )
        for name, entry in header.items()
    }


def safetensors(tensors, metadata=None):
    """A file as PyTorch's safetensors writes it: another order than ours, metadata, no alignment to
    64.
    """
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def as_pytorch(file):
    tensors = dict(sorted(tensors_of(file).items(), reverse=True))
    for name in [name for name in tensors if name.endswith(".running_mean")]:
        tensors[name.replace("running_mean", "num_batches_tracked")] = (
            "I64",
            [],
            struct.pack("<q", 7),
        )
    tensors["classifier.of.another.model"] = ("F64", [2], bytes(16))
    return safetensors(tensors, {"format": "pt"})


def trained(fleet, **fields):
    """A job that has succeeded: its checkpoint's id and content."""
    job = fleet.submit(fashion_job(steps=5, **fields))
    done = fleet.wait(job, "succeeded")
    return done["checkpoint"], fleet.checkpoint(job)


def upload(fleet, content, expect=201):
    return fleet.request("POST", "/v1/checkpoints", content, OCTETS, expect=expect).json


def reference(job, content):
    """(sha256, bytes) of the weights that one process trains from the checkpoint's content."""
    with tempfile.TemporaryDirectory(prefix="paceline-finetune-") as directory:
        file = pathlib.Path(directory) / "start.safetensors"
        file.write_bytes(content)
        return train(job, FASHION, 2, ["--checkpoint", file])[0]


def from_checkpoint(checkpoint, model="lenet5", steps=6, **fields):
    init = {"seed": 3, "checkpoint": checkpoint, **fields.pop("init", {})}
    return fashion_job(model, steps=steps, init=init, **fields)


def check(fleet, job, expected, what, agents=3):
    submitted = fleet.submit({**job, **on_devices(agents, agents)})
    fleet.wait(submitted, "succeeded")
    sha256 = fleet.checkpoint_sha256(submitted)
    must(sha256 == expected, f"{what}: {sha256}, not {expected}")
    return submitted


def with_head(name, head, outputs):
    """A model of the zoo with another number of outputs."""
    description = json.loads((ROOT / "libtrain/zoo" / f"{name}.json").read_text())
    unit = next(unit for unit in description["units"] if unit["name"] == head)
    unit["ops"][-1]["units"] = outputs
    return {"description": {**description, "name": f"{name}-{outputs}"}}


def test_a_job_from_anothers_checkpoint_gives_the_weights_of_one_process():
    with fashion_fleet(3) as fleet:
        for model in ("lenet5", "resnet8"):
            checkpoint, content = trained(fleet, model=model)
            job = from_checkpoint(checkpoint, model, optimizer={"type": "adamw"})
            expected = reference(job, content)
            must(
                expected != train({**job, "init": {"seed": 3}}, FASHION)[0],
                "the checkpoint made no difference",
            )
            done = check(fleet, job, expected, f"{model} from a checkpoint")
            seen = fleet.job(done)
            must(
                seen["spec"]["init"] == {"seed": 3, "checkpoint": checkpoint, "except": []},
                seen["spec"]["init"],
            )
            must(
                seen["data"]["checkpoint_sha256"] == hashlib.sha256(content).hexdigest(),
                seen["data"],
            )
            must(seen["data"]["checkpoint_size_bytes"] == len(content), seen["data"])


def test_a_job_starts_from_an_uploaded_file_of_pytorch():
    with fashion_fleet(3) as fleet:
        _, content = trained(fleet, model="resnet8")
        foreign = as_pytorch(content)
        first = upload(fleet, foreign)
        must(
            first["sha256"] == hashlib.sha256(foreign).hexdigest()
            and first["job"] is None
            and first["version"] == 0,
            first,
        )
        must(upload(fleet, foreign, expect=200) == first, "the same content is the same checkpoint")
        must(
            fleet.request("GET", f"/v1/checkpoints/{first['id']}/content", expect=200).body
            == foreign,
            "the content changed",
        )
        must(first in fleet.get("/v1/checkpoints")["items"], "the list lacks the upload")
        job = from_checkpoint(first["id"], "resnet8")
        expected = reference(job, content)
        must(
            reference(job, foreign) == expected,
            "the order of tensors in the file made a difference",
        )
        check(fleet, job, expected, "resnet8 from an uploaded file")
        fleet.coordinator.stop()
        fleet.restart_coordinator("--heartbeat-ms", 100, "--lease-ms", 10000)
        fleet.wait_for_devices(3)
        must(upload(fleet, foreign, expect=200) == first, "the upload was forgotten")
        check(fleet, job, expected, "resnet8 from an uploaded file after a restart")


def test_differing_units_start_from_the_seed_only_if_the_job_says_so():
    with fashion_fleet(3) as fleet:
        checkpoint, content = trained(fleet)
        job = {**from_checkpoint(checkpoint), "model": with_head("lenet5", "head", 12)}
        refused = fleet.submit(job, expect=422)
        must([fault["pointer"] for fault in refused["errors"]] == ["/init/checkpoint"], refused)
        must(
            "unit 'head': tensor 'head.0.weight' is 10 x 84 in the checkpoint, 12 x 84 in the model"
            in refused["detail"],
            refused,
        )
        job["init"]["except"] = ["head"]
        done = check(fleet, job, reference(job, content), "lenet5 with another head")
        must(
            tensors_of(fleet.checkpoint(done))["head.0.weight"][1] == [12, 84],
            "the head is not the new one",
        )


def test_unsuitable_checkpoints_are_rejected_with_the_reason():
    with fashion_fleet() as fleet:

        def refused(job, pointer, text):
            answer = fleet.submit(job, expect=422)
            must(answer["code"] == "invalid_fields", answer)
            must(
                any(
                    fault["pointer"] == pointer and text in fault["message"]
                    for fault in answer["errors"]
                ),
                answer,
            )

        def refused_file(content, text):
            answer = upload(fleet, content, expect=422)
            must(answer["code"] == "invalid_checkpoint" and text in answer["detail"], answer)

        tensors = {"conv1.0.weight": ("F32", [6, 1, 5, 5], bytes(600))}
        whole = safetensors(tensors)
        one = upload(fleet, whole)["id"]
        refused(
            from_checkpoint("ckpt_01J00000000000000000000000"),
            "/init/checkpoint",
            "no such checkpoint",
        )
        refused(
            from_checkpoint(one),
            "/init/checkpoint",
            "unit 'conv1': the checkpoint has no tensor 'conv1.0.bias'",
        )
        refused(
            from_checkpoint(one, init={"except": ["conv3"]}),
            "/init/except/0",
            "did you mean 'conv1'?",
        )
        refused(
            from_checkpoint(one, init={"except": ["dense1", "dense1"]}),
            "/init/except/1",
            "is the same unit as /init/except/0",
        )
        refused(fashion_job(init={"except": ["dense1"]}), "/init/except", "there is none")
        wide = safetensors(
            {
                "conv1.0.weight": ("F64", [6, 1, 5, 5], bytes(1200)),
                "conv1.0.bias": ("F32", [6], bytes(24)),
            }
        )
        refused(
            from_checkpoint(upload(fleet, wide)["id"]),
            "/init/checkpoint",
            "'conv1.0.weight' is F64 in the checkpoint",
        )
        more = safetensors(
            {
                **tensors,
                "conv1.0.bias": ("F32", [6], bytes(24)),
                "conv1.0.scale": ("F32", [6], bytes(24)),
            }
        )
        refused(
            from_checkpoint(upload(fleet, more)["id"]),
            "/init/checkpoint",
            "the model has no tensor 'conv1.0.scale'",
        )
        refused_file(b"", "ends before its header")
        refused_file(whole[:30], "ends before its header")
        refused_file(whole[:-1], "bytes")
        refused_file(whole + b"x", "bytes")
        refused_file(b"\xff" * 64, "the header claims")
        refused_file(safetensors({}), "no tensors")
        refused_file(struct.pack("<Q", 8) + b"nonsense", "header byte 0")
        form = fleet.request(
            "POST", "/v1/checkpoints", whole, {"Content-Type": "text/plain"}, expect=415
        )
        must(form.code == "unsupported_media_type", form.body)
        dry = fleet.request("POST", "/v1/jobs?dry_run=true", from_checkpoint(one), expect=422).json
        must(dry["errors"][0]["pointer"] == "/init/checkpoint", dry)


def test_a_repeated_post_of_a_fine_tuning_job_is_answered_with_the_same_job():
    with fashion_fleet() as fleet:
        start = upload(fleet, safetensors({"conv1.0.weight": ("F32", [6, 1, 5, 5], bytes(600))}))[
            "id"
        ]
        job = from_checkpoint(
            start, init={"except": ["conv1", "conv2", "dense1", "dense2", "head"]}
        )
        key = {"Idempotency-Key": "once"}
        first = fleet.request("POST", "/v1/jobs", job, key, expect=201)
        again = fleet.request("POST", "/v1/jobs", job, key, expect=201)
        must(
            first.json["id"] == again.json["id"] and again.headers["Idempotent-Replay"] == "true",
            again.body,
        )
        other = fleet.request("POST", "/v1/jobs", {**job, "batch": 16}, key, expect=409)
        must(other.code == "idempotency_mismatch", other.body)


def test_a_job_restarts_from_its_checkpoint_if_agents_die_before_the_first_copy():
    with fashion_fleet(4, lease_ms=1500) as fleet:
        checkpoint, content = trained(fleet)
        job = from_checkpoint(
            checkpoint,
            steps=600,
            replication={"neighbor_every": 0, "center_every": 0},
        )
        expected = reference(job, content)
        submitted = fleet.submit({**job, **on_devices(3, 3)})
        for step in (3, 6):
            fleet.wait_for_step(submitted, step)
            before = fleet.job(submitted)["generation"]
            fleet.agent_of(submitted, 1).kill()
            fleet.start_agent(None)
            fleet.wait_until(
                submitted,
                lambda seen, g=before: seen["generation"] > g and seen["state"] == "running",
                "runs again",
            )
            plan = fleet.get(
                f"/v1/jobs/{submitted['id']}/plans/{fleet.job(submitted)['generation']}"
            )
            must(plan["resume_version"] == 0, plan)
        fleet.wait(submitted, "succeeded")
        must(fleet.checkpoint_sha256(submitted) == expected, "other weights after two failures")


def test_a_waiting_job_keeps_its_checkpoint_over_a_restart_of_the_coordinator():
    with fashion_fleet(1) as fleet:
        checkpoint, content = trained(fleet)
        job = from_checkpoint(checkpoint)
        expected = reference(job, content)
        submitted = fleet.submit({**job, **on_devices(2, 2)})
        fleet.coordinator.stop()
        fleet.restart_coordinator("--heartbeat-ms", 100, "--lease-ms", 10000)
        fleet.start_agent()
        fleet.wait(submitted, "succeeded")
        must(fleet.checkpoint_sha256(submitted) == expected, "other weights after a restart")


def part_of(tensors, units):
    return {name: tensor for name, tensor in tensors.items() if name.split(".")[0] in units}


def check_frozen(fleet, job, content, frozen, what, agents=3):
    """The law holds, and exactly the frozen tensors of the export equal the checkpoint's, byte for
    byte.
    """
    expected = reference(job, content)
    must(reference({**job, "freeze": []}, content) != expected, f"{what}: nothing was frozen")
    done = check(fleet, job, expected, what, agents)
    before, after = tensors_of(content), tensors_of(fleet.checkpoint(done))
    must(part_of(after, frozen) == part_of(before, frozen), f"{what}: a frozen tensor changed")
    same = {
        name
        for name in after
        if name.split(".")[0] not in frozen and after[name] == before.get(name)
    }
    must(not same, f"{what}: {same} did not change")
    return done


def test_frozen_units_equal_the_checkpoint_byte_for_byte_and_the_law_holds():
    with fashion_fleet(3) as fleet:
        checkpoint, content = trained(fleet)
        job = {
            **from_checkpoint(
                checkpoint,
                steps=20,
                optimizer={"type": "adamw", "weight_decay": 0.1, "clip_norm": 0.5},
            ),
            "evaluate": {"every_epochs": 0},
        }
        for frozen, cuts in (
            (["conv1", "conv2"], [1, 3]),
            (["conv1", "conv2"], [2, 4]),
            (["conv2", "dense2"], [1, 3]),
        ):
            check_frozen(
                fleet,
                {**job, "freeze": frozen, "cuts": cuts},
                content,
                frozen,
                f"lenet5, {frozen} frozen, cut at {cuts}",
            )


def test_batch_norm_of_frozen_units_keeps_its_statistics():
    with fashion_fleet(3) as fleet:
        checkpoint, content = trained(fleet, model="resnet8")
        for frozen, cuts in ((["stem", "block1"], [2, 3]), (["block2"], [1, 4])):
            job = {
                **from_checkpoint(checkpoint, "resnet8", steps=4),
                "freeze": frozen,
                "cuts": cuts,
            }
            check_frozen(fleet, job, content, frozen, f"resnet8, {frozen} frozen, cut at {cuts}")


def test_frozen_units_move_and_survive_like_any_other():
    with fashion_fleet(4, lease_ms=1500) as fleet:
        checkpoint, content = trained(fleet)
        job = {
            **from_checkpoint(checkpoint, steps=300, init={"except": ["head"]}),
            "freeze": ["conv1", "dense1"],
            "replication": {"neighbor_every": 10, "center_every": 20},
        }
        expected = reference(job, content)
        submitted = fleet.submit({**job, "cuts": [1, 3], **on_devices(3, 3)})
        fleet.wait_until(submitted, lambda seen: seen["version"] > 0, "a version in the center")
        fleet.verb(submitted, "replan", {"cuts": [2, 4]})
        fleet.wait_until(
            submitted,
            lambda seen: seen["generation"] > 1 and seen["state"] == "running",
            "runs again",
        )
        fleet.agent_of(submitted, 0).kill()
        fleet.wait_until(
            submitted,
            lambda seen: seen["generation"] > 2 and seen["state"] == "running",
            "has recovered",
        )
        fleet.verb(submitted, "pause")
        fleet.wait(submitted, "paused")
        fleet.verb(submitted, "resume")
        fleet.wait(submitted, "succeeded")
        must(
            fleet.checkpoint_sha256(submitted) == expected,
            "other weights after a re-plan, a loss and a pause",
        )


def test_unsuitable_freeze_lists_are_rejected():
    with fashion_fleet() as fleet:

        def refused(freeze, pointer, text):
            answer = fleet.submit(fashion_job(freeze=freeze), expect=422)
            must(
                any(
                    fault["pointer"] == pointer and text in fault["message"]
                    for fault in answer["errors"]
                ),
                answer,
            )

        refused(["conv3"], "/freeze/0", "did you mean 'conv1'?")
        refused(["conv1", "conv1"], "/freeze/1", "is the same unit as /freeze/0")
        refused(
            ["conv1", "conv2", "dense1", "dense2", "head"], "/freeze", "nothing is left to train"
        )
        seen = fleet.submit(fashion_job(freeze=["conv1"]))
        plain = fleet.submit(fashion_job())
        must(seen["spec"]["freeze"] == ["conv1"] and plain["spec"]["freeze"] == [], seen["spec"])
        must(
            seen["spec"]["model"]["sha256"] != plain["spec"]["model"]["sha256"],
            "the frozen model is another description",
        )


if __name__ == "__main__":
    run(globals())
