"""Gossip on data that never leave their devices is as accurate as on uploaded shards of the same
samples: no further apart than seeds are.
"""

import json
import pathlib
import subprocess
import tempfile

from gossip import BATCH, gossip_job, groups_of
from local_data import fashion, put_folder
from paceline import BIN, FASHION, Fleet, must, places
from runner import run

AGENTS = 6
SEEDS = (1, 2, 3)
EPOCHS = 40
PASSES_LISTED = 12  # of a shard, each of which leaves out a part of a batch
WAIT_SECONDS = 600


def run_job(fleet, seed, train, options):
    job = fleet.submit(
        gossip_job(
            AGENTS,
            options={"average_by": "samples", **options},
            epochs=EPOCHS,
            init={"seed": seed},
            dataset={"train": train, "test": "fashion-test"},
        )
    )
    seen = fleet.wait(job, "succeeded", WAIT_SECONDS)
    must(seen["state_reason"] is None, f"{seen['state_reason']}: {seen['message']}")
    return job, seen["progress"]["accuracy"]


def samples_of(fleet, job, group):
    """Of a group's shard, by their numbers in the data set."""
    spec = fleet.get(f"/v1/jobs/{job['id']}/groups/{group['group']}/spec")
    count = group["mixes"]["samples"]
    data = places({"fashion-train": FASHION["fashion-train"]})
    with tempfile.TemporaryDirectory(prefix="paceline-test-") as place:
        file = pathlib.Path(place) / "group.json"
        file.write_text(json.dumps({**spec, "steps": PASSES_LISTED * (count // BATCH)}))
        listed = subprocess.run(
            [BIN / "paceline-agent", "batches", file, *data],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    found = sorted({one for line in listed.splitlines() for one in json.loads(line)["samples"]})
    must(len(found) == count, f"group {group['group']}: {len(found)} samples, not {count}")
    return found


def uploaded(seed, options):
    """The accuracy, and the samples of each shard."""
    with Fleet() as fleet:
        fleet.start_coordinator()
        for part in ("train", "test"):
            fleet.upload(f"fashion-{part}", "fashion-mini", part)
        fleet.start_agents(AGENTS)
        job, accuracy = run_job(fleet, seed, "fashion-train", options)
        return accuracy, [samples_of(fleet, job, one) for one in groups_of(fleet, job)["groups"]]


def local(seed, shards):
    """The accuracy with each shard in a folder of its own, beside an agent of its own."""
    samples = fashion("train")
    with Fleet() as fleet:
        fleet.start_coordinator()
        fleet.upload("fashion-test", "fashion-mini", "test")
        for index, shard in enumerate(shards):
            folder = put_folder(fleet.path / f"data{index}", [samples[one] for one in shard])
            fleet.start_agent(f"own{index}", "--data", f"photos={folder}", wait=False)
        fleet.wait_for_agents()
        return run_job(fleet, seed, {"local": "photos"}, {})[1]


def compare(options):
    there, own = [], []
    for seed in SEEDS:
        accuracy, shards = uploaded(seed, options)
        there.append(accuracy)
        own.append(local(seed, shards))
        print(
            f"{options['split']}, seed {seed}, shards of {[len(shard) for shard in shards]}: "
            f"uploaded {there[-1]:.1%}, local {own[-1]:.1%}",
            flush=True,
        )
    apart = sum(own) / len(SEEDS) - sum(there) / len(SEEDS)
    spread = max(max(some) - min(some) for some in (there, own))
    print(f"{options['split']}: {apart:+.1%} apart, seeds spread over {spread:.1%}", flush=True)
    must(abs(apart) <= spread, f"{apart:+.1%} apart, seeds spread over {spread:.1%}")


def test_on_dirichlet_shards_local_data_are_as_good_as_uploaded_data():
    compare({"split": "dirichlet", "alpha": 0.3})


def test_with_few_classes_on_each_device_local_data_are_as_good_as_uploaded_data():
    compare({"split": "by_class", "classes_per_shard": 3})


if __name__ == "__main__":
    run(globals())
