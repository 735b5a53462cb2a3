"""The law of asynchronous jobs: the weights are those of `paceline-agent train` with the job's
plans, bit for bit, whatever was killed, cut or replanned meanwhile.
"""

import json
import pathlib
import tempfile

from paceline import FASHION, by_build, fashion_fleet, fashion_job, must, on_devices, train
from runner import run

LEASE_MS = 2000
SLOWDOWN = 3


def async_job(model="lenet5", **fields):
    return fashion_job(
        model,
        **{
            "pipeline": "async",
            "micro_batches": 1,
            "replication": {"neighbor_every": 10, "center_every": 40},
            "evaluate": {"every_epochs": 0},
            **fields,
        },
    )


def plans_of(fleet, job):
    return fleet.get(f"/v1/jobs/{job['id']}/plans?limit=500")


def replay(fleet, job):
    """The weights of `paceline-agent train --plans`."""
    with tempfile.TemporaryDirectory(prefix="paceline-plans-") as directory:
        plans = pathlib.Path(directory) / "plans.json"
        plans.write_text(json.dumps(plans_of(fleet, job)))
        spec = {name: job["spec"][name] for name in SPEC}
        datasets = {
            name: FASHION["fashion-train"] for name in job["spec"]["dataset"].values() if name
        }
        spec["model"] = {"name": spec["model"]["name"]}
        return train({**spec, "kernels": {}}, datasets, 1, ("--plans", str(plans)))[0]


# The fields that decide the weights.
SPEC = (
    "name model dataset batch micro_batches epochs steps optimizer learning_rate pipeline "
    "aggregate_every vertical_sync evaluate recompute init".split()
)


def check(fleet, job):
    """The job ends, and its weights are those of its plans."""
    fleet.wait(job, "succeeded")
    job = fleet.job(job)
    sha256, expected = fleet.checkpoint_sha256(job), replay(fleet, job)
    must(sha256 == expected, f"{sha256}, not {expected}: {plans_of(fleet, job)}")
    return job


def test_the_weights_are_those_of_the_plans_with_every_policy():
    with fashion_fleet(3) as fleet:
        sync = train(fashion_job("lenet5", steps=30, micro_batches=1), FASHION)[0]
        for fields in (
            {},
            {"aggregate_every": 4},
            {"vertical_sync": True},
            {"vertical_sync": True, "aggregate_every": 4},
            {"recompute": "unit", "optimizer": {"type": "adam"}},
        ):
            job = async_job(steps=30, cuts=[1, 3], **on_devices(3, 3), **fields)
            ended = check(fleet, fleet.submit(job))
            must(not ended["exact"], f"{ended}")
            must(fleet.checkpoint_sha256(ended) != sync, "the weights are those of one device")


def test_one_device_alone_gives_the_weights_of_a_synchronous_job():
    with fashion_fleet(1) as fleet:
        ended = check(fleet, fleet.submit(async_job(steps=30, **on_devices(1, 1))))
        expected = train(fashion_job("lenet5", steps=30, micro_batches=1), FASHION)[0]
        must(fleet.checkpoint_sha256(ended) == expected, "other weights than a synchronous job's")
        must(ended["exact"], f"{ended}")


def test_evaluations_empty_the_pipeline():
    with fashion_fleet(3) as fleet:
        job = async_job(
            batch=100,
            epochs=by_build(3, 1),
            dataset={"train": "fashion-train", "test": "fashion-train"},
            evaluate={"every_epochs": 1},
            cuts=[1, 3],
            **on_devices(3, 3),
        )
        check(fleet, fleet.submit(job))


def test_a_pause_and_a_replan_drain_the_pipeline():
    with fashion_fleet(3, "--slowdown", SLOWDOWN) as fleet:
        job = fleet.submit(async_job(steps=160, cuts=[1, 3], **on_devices(2, 3)))
        fleet.wait_for_step(job, 20)
        fleet.verb(job, "replan", {"cuts": [2, 4]})
        fleet.wait_until(job, lambda seen: seen["generation"] == 2, "the second plan")
        fleet.wait_for_step(job, 60)
        fleet.verb(job, "pause")
        fleet.wait(job, "paused")
        fleet.verb(job, "resume")
        check(fleet, job)


def test_a_kill_in_the_middle_costs_the_steps_since_the_last_committed_version():
    with fashion_fleet(3, "--slowdown", SLOWDOWN, lease_ms=LEASE_MS) as fleet:
        job = fleet.submit(async_job(steps=240, cuts=[1, 3], **on_devices(2, 3)))
        before = fleet.wait_until(
            job, lambda seen: seen["neighbor_version"] > 0, "a committed version"
        )
        fleet.agent_of(job, 1).kill()
        check(fleet, job)
        incidents = fleet.get(f"/v1/jobs/{job['id']}/incidents")["items"]
        must(len(incidents) == 1, f"{incidents}")
        incident = incidents[0]
        must(incident["resume_version"] >= before["neighbor_version"], f"{incident} of {before}")
        must(
            incident["steps_redone"]
            == max(0, incident["step_reached"] - incident["resume_version"]),
            f"{incident}",
        )


if __name__ == "__main__":
    run(globals())
