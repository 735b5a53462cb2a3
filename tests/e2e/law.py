"""The law: final weights equal those of one process bit for bit, with any partition, speeds,
replans and pauses.
"""

import json
import os
import random

from paceline import (
    FASHION,
    ROOT,
    Fleet,
    batches_of,
    fashion_fleet,
    fashion_job,
    must,
    on_devices,
    train,
)
from runner import run


PARTITIONS = int(os.environ.get("PACELINE_LAW_PARTITIONS", "5"))


def reference(job, threads=1):
    return train(job, FASHION, threads)[0]


def units_of(fleet, model):
    return len(fleet.get(f"/v1/models/{model}?dataset=fashion-train")["units"])


def with_cuts(job, cuts):
    count = len(cuts) + 1
    return {**job, "cuts": cuts or None, **on_devices(count, count)}


def check_weights(fleet, job, expected, what):
    sha256 = fleet.checkpoint_sha256(job)
    must(sha256 == expected, f"{what}: {sha256}, not {expected}")


def check(fleet, job, expected, what):
    """Run the job to its end and compare its weights with the expected ones."""
    submitted = fleet.submit(job)
    fleet.wait(submitted, "succeeded")
    check_weights(fleet, submitted, expected, what)


def random_cuts(generator, units, most_stages):
    stages = generator.randint(2, min(most_stages, units))
    return sorted(generator.sample(range(1, units), stages - 1))


def test_one_process_gives_the_same_weights_at_1_and_2_threads():
    for model, steps in (("lenet5", 20), ("resnet8", 4), ("mobilenetv2", 2)):
        for strategy in ("pipeline", "parameter_server"):
            job = fashion_job(model, steps=steps, strategy=strategy)
            one, two = reference(job, 1), reference(job, 2)
            must(one == two, f"{model}, {strategy}: {one} with one thread, {two} with two")


def test_every_partition_of_lenet5_over_up_to_5_agents_gives_the_weights_of_one_process():
    job = fashion_job("lenet5", steps=6)
    expected = reference(job)
    with fashion_fleet(5) as fleet:
        units = units_of(fleet, "lenet5")
        for mask in range(1 << (units - 1)):
            cuts = [unit for unit in range(1, units) if mask >> (unit - 1) & 1]
            if len(cuts) < 5:
                check(fleet, with_cuts(job, cuts), expected, f"lenet5 cut at {cuts}")


def random_partitions(model, steps, count, seed, **fields):
    job = fashion_job(model, steps=steps, **fields)
    expected = reference(job)
    generator = random.Random(seed)
    with fashion_fleet(5) as fleet:
        units = units_of(fleet, model)
        for _ in range(count):
            cuts = random_cuts(generator, units, 5)
            check(fleet, with_cuts(job, cuts), expected, f"{model} cut at {cuts}")


def test_random_partitions_of_resnet8_give_the_weights_of_one_process():
    random_partitions("resnet8", 3, PARTITIONS, 1)


def test_random_partitions_of_mobilenetv2_give_the_weights_of_one_process():
    random_partitions("mobilenetv2", 2, PARTITIONS, 2)


def test_partitions_of_a_job_that_clips_by_the_norm_give_the_weights_of_one_process():
    clips = {"optimizer": {"type": "sgd", "clip_norm": 0.5}}
    plain = reference(fashion_job("lenet5", steps=6))
    must(plain != reference(fashion_job("lenet5", steps=6, **clips)), "nothing was clipped")
    random_partitions("lenet5", 6, 6, 3, **clips)
    random_partitions("resnet8", 3, 3, 3, **clips)


AUGMENT = [
    {"type": "crop", "padding": 4},
    {"type": "flip"},
    {"type": "normalise", "mean": [0.286], "std": [0.353]},
]


def test_partitions_of_a_job_that_augments_give_the_weights_of_one_process():
    plain = reference(fashion_job("lenet5", steps=6))
    seen = {plain}
    for count in range(1, 4):
        seen.add(reference(fashion_job("lenet5", steps=6, augment=AUGMENT[:count])))
    must(len(seen) == 4, "an augmentation changed nothing")
    random_partitions("lenet5", 6, 6, 4, augment=AUGMENT)
    random_partitions("resnet8", 3, 3, 4, augment=AUGMENT)


def test_batches_prints_the_samples_of_each_step():
    job = fashion_job("lenet5", batch=64, epochs=2)
    lines = [json.loads(line) for line in batches_of(job, FASHION).splitlines()]
    per_epoch = 3000 // 64
    must(
        [line["step"] for line in lines] == list(range(1, 2 * per_epoch + 1)), f"{len(lines)} steps"
    )
    must(all(len(line["samples"]) == 64 for line in lines), "a batch of another size")
    epochs = [
        [
            sample
            for line in lines[epoch * per_epoch : (epoch + 1) * per_epoch]
            for sample in line["samples"]
        ]
        for epoch in (0, 1)
    ]
    must(
        all(len(set(epoch)) == len(epoch) and set(epoch) <= set(range(3000)) for epoch in epochs),
        "a sample twice, or none of them",
    )
    must(epochs[0] != epochs[1], "both epochs have one order")
    short = batches_of({**job, "steps": 3}, FASHION).splitlines()
    must([json.loads(line) for line in short] == lines[:3], "fewer steps are other steps")
    other = batches_of({**job, "init": {"seed": 2}}, FASHION)
    must(json.loads(other.splitlines()[0]) != lines[0], "another seed changed nothing")


def test_agents_that_recompute_give_the_weights_of_one_process_that_does_not():
    for model, steps, partitions, seed in (
        ("lenet5", 6, 3, 4),
        ("resnet8", 3, 1, 5),
        ("mobilenetv2", 2, 1, 6),
    ):
        again = fashion_job(model, steps=steps, recompute="unit")
        expected = reference(fashion_job(model, steps=steps))
        alone = [reference(again, threads) for threads in (1, 2)]
        must(alone == [expected, expected], f"{model}: {alone} in one process, not {expected}")
        generator = random.Random(seed)
        with fashion_fleet(3) as fleet:
            units = units_of(fleet, model)
            for _ in range(partitions):
                cuts = random_cuts(generator, units, 3)
                check(
                    fleet,
                    with_cuts(again, cuts),
                    expected,
                    f"{model} cut at {cuts}, computed again",
                )


def test_an_agent_with_too_little_memory_for_all_activations_trains_a_job_that_recomputes():
    kept = fashion_job(
        "resnet8",
        steps=5,
        batch=64,
        micro_batches=1,
        replication={"neighbor_every": 0, "center_every": 0},
    )
    again = {**kept, "recompute": "unit"}
    expected = reference(kept)
    with fashion_fleet(1) as fleet:
        most, least = (
            fleet.request("POST", "/v1/jobs?dry_run=true", job, expect=200).json["stages"][0][
                "memory_bytes"
            ]
            for job in (kept, again)
        )
    must(least < 0.75 * most, f"{least} of {most} bytes")
    with fashion_fleet(1, "--memory", (least + most) // 2) as fleet:
        refused = fleet.request("POST", "/v1/jobs", kept)
        must(
            refused.status == 422 and "it fits" in refused.json["detail"],
            f"{refused.status} {refused.body!r}",
        )
        check(fleet, again, expected, "with little memory")


def test_partitions_of_a_job_with_chosen_kernels_give_the_weights_of_one_process():
    columns = {"forward": "columns", "backward_data": "columns", "backward_weights": "columns"}
    chosen = {
        "kernels": {
            "block1.body.0": {"forward": "columns"},
            "block3.body.3": columns,
            "block2.shortcut.0": columns,
        }
    }
    plain = reference(fashion_job("resnet8", steps=3))
    must(
        plain != reference(fashion_job("resnet8", steps=3, **chosen)),
        "other kernels, the same bits",
    )
    random_partitions("resnet8", 3, 4, 4, **chosen)


def test_a_job_whose_kernels_were_measured_is_trained_again_with_them():
    job = fashion_job("resnet8", steps=4, kernels=None)
    with fashion_fleet(3) as fleet:
        submitted = fleet.submit(with_cuts(job, [2, 4]))
        done = fleet.wait(submitted, "succeeded")
        measured = "/onednn-" in done["numeric_class"]  # a build without oneDNN has no choice
        plans = fleet.get(f"/v1/jobs/{done['id']}/plans")["items"]
        reasons = [plan["reason"] for plan in sorted(plans, key=lambda plan: plan["generation"])]
        must(reasons == (["first", "tuned"] if measured else ["first"]), f"{reasons}")
        stages = {
            plan["generation"]: [stage["first"] for stage in plan["stages"]] for plan in plans
        }
        must(all(first == [0, 2, 4] for first in stages.values()), f"{stages}")
        kernels = fleet.get(f"/v1/jobs/{done['id']}/kernels")
        passes = [kernel for convolution in kernels.values() for kernel in convolution.values()]
        must("by_shape" not in passes and len(kernels) == 9, f"{kernels}")
        check_weights(
            fleet,
            submitted,
            reference({**job, "kernels": kernels} if measured else job),
            "one process with the kernels of the job",
        )


def three_replans_and_a_pause(**fields):
    job = fashion_job("lenet5", steps=300, evaluate={"every_epochs": 0}, **fields)
    expected = reference(job)
    with fashion_fleet() as fleet:
        for slowdown in (1, 2, 4):
            fleet.start_agent(None, "--slowdown", slowdown, wait=False)
        fleet.wait_for_agents()
        submitted = fleet.submit(with_cuts(job, [2, 4]))
        for step, cuts in ((20, [1, 2]), (60, [3, 4]), (100, [1, 4])):
            fleet.wait_for_step(submitted, step)
            generation = fleet.job(submitted)["generation"]
            fleet.verb(submitted, "replan", {"cuts": cuts})
            fleet.wait_until(
                submitted,
                lambda seen, g=generation: seen["generation"] > g and seen["state"] == "running",
                f"running with cuts {cuts}",
            )
        fleet.wait_for_step(submitted, 140)
        fleet.verb(submitted, "pause")
        paused = fleet.wait(submitted, "paused")
        must(140 <= paused["version"] < 300, f"paused at version {paused['version']}")
        must(
            not any(device["job"] for device in fleet.get("/v1/devices")["items"]),
            "a paused job holds devices",
        )
        fleet.verb(submitted, "resume")
        fleet.wait(submitted, "succeeded")
        check_weights(fleet, submitted, expected, "after three re-plans and a pause")
        plans = fleet.get(f"/v1/jobs/{submitted['id']}/plans")["items"]
        must(
            len(plans) == 5 and any(plan["bytes_moved"] > 0 for plan in plans),
            f"5 plans with moved bytes expected: {plans}",
        )


def test_three_replans_and_a_pause_between_slow_and_fast_agents_change_no_bit():
    three_replans_and_a_pause()


def test_three_replans_and_a_pause_change_no_bit_of_adamw_with_clipping():
    three_replans_and_a_pause(
        optimizer={"type": "adamw", "weight_decay": 0.01, "clip_norm": 0.1},
        learning_rate={"type": "cosine", "value": 0.001, "warmup_steps": 30},
    )


def test_three_replans_and_a_pause_change_no_bit_of_augmented_samples():
    three_replans_and_a_pause(augment=AUGMENT)


def test_checks_of_the_plan_after_every_few_steps_change_no_bit():
    job = fashion_job(
        "lenet5",
        batch=64,
        steps=300,
        evaluate={"every_epochs": 0},
        replan={"first": 5, "every": 5},
    )
    expected = reference(job)
    with fashion_fleet() as fleet:
        for slowdown in (1, 2, 4):
            fleet.start_agent(None, "--slowdown", slowdown, wait=False)
        fleet.wait_for_agents()
        submitted = fleet.submit(with_cuts(job, [1, 2]))
        fleet.wait(submitted, "succeeded")
        check_weights(fleet, submitted, expected, "after checks of the plan")
        must(fleet.job(submitted)["last_check"], "the plan was never checked")


def test_three_replans_and_a_pause_change_no_bit_of_a_job_that_recomputes():
    three_replans_and_a_pause(recompute="unit")


def test_two_jobs_on_disjoint_devices_do_not_disturb_each_other():
    jobs = [fashion_job("lenet5", steps=40, init={"seed": seed}) for seed in (1, 2)]
    expected = [reference(job) for job in jobs]
    with fashion_fleet(4) as fleet:
        submitted = [fleet.submit({**job, **on_devices(2, 2)}) for job in jobs]
        for job, sha256 in zip(submitted, expected):
            fleet.wait(job, "succeeded")
            check_weights(fleet, job, sha256, "beside another job")


def tiny_gpt():
    """gpt-mini with one layer of 24 channels."""
    return {
        "name": "gpt-tiny",
        "input": {"scale": 1},
        "units": [
            {
                "name": "embed",
                "ops": [{"type": "embedding", "rows": 256, "units": 24}, {"type": "positions"}],
            },
            {
                "name": "attend",
                "residual": {
                    "body": [
                        {"type": "layer_norm"},
                        {"type": "linear", "units": 72},
                        {"type": "attention", "heads": 3},
                        {"type": "linear", "units": 24},
                    ]
                },
            },
            {
                "name": "feed",
                "residual": {
                    "body": [
                        {"type": "layer_norm"},
                        {"type": "linear", "units": 96},
                        {"type": "gelu"},
                        {"type": "linear", "units": 24},
                    ]
                },
            },
            {
                "name": "head",
                "ops": [{"type": "layer_norm"}, {"type": "linear", "units": "classes"}],
            },
        ],
    }


def test_a_transformer_on_text_over_three_agents_gives_the_weights_of_one_process():
    text = ROOT / "docs" / "protocol.md"
    job = {
        "name": "text",
        "model": {"description": tiny_gpt()},
        "dataset": {"train": "text", "test": "text"},
        "batch": 8,
        "micro_batches": 4,
        "epochs": 100000,
        "steps": 40,
        "evaluate": {"every_epochs": 1},
        "learning_rate": {"type": "constant", "value": 0.02},
    }
    expected, output = train(job, {"text": [text]}, 2, ["--as", "text=32"])
    with Fleet() as fleet:
        fleet.start_coordinator("--heartbeat-ms", 100)
        fleet.request(
            "PUT",
            "/v1/datasets/text?text=32",
            text.read_bytes(),
            {"Content-Type": "application/octet-stream"},
            expect=201,
        )
        fleet.start_agents(3)
        submitted = fleet.submit(with_cuts(job, [1, 2]))
        done = fleet.wait(submitted, "succeeded")
        check_weights(fleet, submitted, expected, "text over three agents")
        loss = {
            item["step"]: item["value"]
            for item in fleet.get(f"/v1/jobs/{done['id']}/metrics?name=loss")["items"]
        }
        must(
            4 < loss[1] < 8 and loss[40] < loss[1] - 1,
            f"the loss of a text is the mean over its positions: {loss}",
        )
        accuracy = fleet.get(f"/v1/jobs/{done['id']}/metrics?name=test_accuracy")["items"]
        must(accuracy and all(0 < item["value"] < 1 for item in accuracy), f"{accuracy}")
        must("accuracy" in output, output)


if __name__ == "__main__":
    run(globals())
