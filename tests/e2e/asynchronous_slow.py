"""Asynchronous jobs under random kills, freezes and replans: each job ends with the weights of a
replay of its plans. PACELINE_ASYNC_STRIKES sets how many strikes there are (200).
"""

import os
import random
import signal
import time

from asynchronous import LEASE_MS, SLOWDOWN, async_job, check
from paceline import Failure, fashion_fleet, on_devices
from runner import run

STRIKES = int(os.environ.get("PACELINE_ASYNC_STRIKES", "200"))
SEED = int(os.environ.get("PACELINE_ASYNC_SEED", "1"))
STRIKES_OF_JOB = 5
AGENTS = 4
UNITS = 5


def victim(fleet, job, generator):
    return fleet.agent_of(job, generator.randrange(len(fleet.stages(fleet.job(job)))))


def kill(fleet, job, generator):
    agent = victim(fleet, job, generator)
    agent.kill()
    time.sleep(generator.uniform(0, 1))
    fleet.start_agent(agent.name, "--slowdown", SLOWDOWN, wait=False)


def freeze(fleet, job, generator):
    """Stop an agent for longer or shorter than its lease: a cut of all its links."""
    agent = victim(fleet, job, generator)
    agent.signal(signal.SIGSTOP)
    time.sleep(generator.uniform(0.2, 1.5 * LEASE_MS / 1000))
    agent.signal(signal.SIGCONT)


def replan(fleet, job, generator):
    stages = generator.randint(1, 3)
    cuts = sorted(generator.sample(range(1, UNITS), stages - 1))
    fleet.request("POST", f"/v1/jobs/{job['id']}/replan", {"cuts": cuts})


def strike(fleet, job, generator):
    try:
        generator.choice((kill, freeze, replan))(fleet, job, generator)
    except (Failure, IndexError, StopIteration):
        pass  # between two plans the job has no stages


def one_job(seed):
    generator = random.Random(seed)
    fields = generator.choice(({}, {"aggregate_every": 3}, {"vertical_sync": True}))
    with fashion_fleet(AGENTS, "--slowdown", SLOWDOWN, lease_ms=LEASE_MS) as fleet:
        job = fleet.submit(async_job(steps=400, **on_devices(1, 3), **fields))
        for _ in range(STRIKES_OF_JOB):
            time.sleep(generator.uniform(0.2, 1.5))
            strike(fleet, job, generator)
        check(fleet, job)


def test_every_job_under_random_strikes_ends_with_the_weights_of_its_plans():
    for seed in range(SEED, SEED + STRIKES // STRIKES_OF_JOB):
        one_job(seed)
        print(f"seed {seed}: the weights are those of the plans", flush=True)


if __name__ == "__main__":
    run(globals())
