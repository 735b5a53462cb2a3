"""The law of the log of mixes: whatever the options are and whatever happens, job and log determine
the bits of the result (`paceline-agent replay`). PACELINE_GOSSIP_SEEDS chooses other schedules of
failures.
"""

import functools
import os
import random
import signal
import statistics
import time

from gossip import (
    GROUPS,
    check_log,
    check_replay,
    gossip_fleet,
    gossip_job,
    groups_of,
    mixes_of,
    of_kind,
)
from paceline import must
from runner import run

FIRST, LAST = map(int, os.environ.get("PACELINE_GOSSIP_SEEDS", "1 6").split())
SPARE = 2  # agents more than groups
EPOCHS = 40  # of a job with failures: some 20 s
SLOWDOWN = 70  # so that a step of `resnet8` takes some seconds

MODELS = ("lenet5", "mlp", "resnet8")
OPTIONS = (
    {},
    {"split": "speed", "average_by": "samples"},
    {"split": "dirichlet", "alpha": 0.3, "average_by": "samples"},
    {"split": "by_class", "classes_per_shard": 4, "pairs": "uniform"},
    {"adopt": False},
    {"average_every": 1},
)
FIELDS = (
    {},
    {
        "optimizer": {"type": "adam", "clip_norm": 1.0},
        "learning_rate": {"type": "cosine", "value": 0.002, "warmup_steps": 20},
        "init": {"seed": 7},
    },
)


def undisturbed(options, fields):
    with gossip_fleet() as fleet:
        for model in MODELS:
            spec = gossip_job(options=options, model=model, epochs=3, **fields)
            job = fleet.submit(spec)
            fleet.wait(job, "succeeded", 300)
            check_log(mixes_of(fleet, job), GROUPS)
            check_replay(fleet, job, spec)


def kill_agent(fleet, draw):
    """Another one takes its place, so that there are always spare ones."""
    running = [agent for agent in fleet.agents if agent.running()]
    draw.choice(running).kill()
    fleet.start_agent(None, wait=False)


def freeze_agent(fleet, draw):
    agent = draw.choice([agent for agent in fleet.agents if agent.running()])
    agent.signal(signal.SIGSTOP)
    time.sleep(draw.uniform(0.5, 4))
    agent.signal(signal.SIGCONT)


def kill_coordinator(fleet, draw):
    fleet.coordinator.kill()
    time.sleep(draw.uniform(0, 3))
    fleet.restart_coordinator("--heartbeat-ms", 100, "--lease-ms", 2000)


def freeze_coordinator(fleet, draw):
    fleet.coordinator.signal(signal.SIGSTOP)
    time.sleep(draw.uniform(0.5, 4))
    fleet.coordinator.signal(signal.SIGCONT)


EVENTS = (kill_agent, freeze_agent, kill_coordinator, freeze_coordinator)


def schedule(seed):
    draw = random.Random(seed)
    with gossip_fleet(GROUPS + SPARE, lease_ms=2000) as fleet:
        spec = gossip_job(options=draw.choice(OPTIONS), epochs=EPOCHS)
        job = fleet.submit(spec)
        happened = []
        while len(happened) < 8 and fleet.job(job)["state"] not in ("succeeded", "failed"):
            time.sleep(draw.uniform(0.2, 2))
            event = draw.choice(EVENTS)
            happened.append(event.__name__)
            event(fleet, draw)
        fleet.wait(job, "succeeded", 300)
        must(happened, "nothing happened")
        check_log(mixes_of(fleet, job), GROUPS)
        check_replay(fleet, job, spec)


def test_groups_whose_steps_take_seconds_mix():
    with gossip_fleet(0) as fleet:
        for name in ("slow", "slower", "slowest"):
            fleet.start_agent(name, "--slowdown", SLOWDOWN, wait=False)
        fleet.wait_for_agents()
        spec = gossip_job(model="resnet8", batch=64, steps=24)
        job = fleet.submit(spec)
        seen = fleet.wait(job, "succeeded", 300)
        records = mixes_of(fleet, job)
        parts = [group["part"]["job"] for group in groups_of(fleet, job)["groups"]]
        seconds = [s for part in parts for s in fleet.metric({"id": part}, "step_seconds").values()]
        must(statistics.median(seconds) > 1.5, f"steps are not slow: {seconds}")
        must(len(of_kind(records, "pair")) >= 4, f"hardly a pair has mixed: {records}")
        must(seen["state_reason"] is None, f"{seen['state_reason']}: {seen['message']}")


UNDISTURBED = {
    f"test_options_{o}_{f}": functools.partial(undisturbed, options, fields)
    for o, options in enumerate(OPTIONS)
    for f, fields in enumerate(FIELDS)
}
SCHEDULES = {
    f"test_seed_{seed}": functools.partial(schedule, seed) for seed in range(FIRST, LAST + 1)
}

if __name__ == "__main__":
    run(globals() | UNDISTURBED | SCHEDULES)
