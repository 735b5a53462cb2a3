"""More failures of workers and servers (servers_chaos.py), and random schedules of them as in
chaos_random.py. PACELINE_CHAOS_SEEDS chooses others.
"""

import functools
import os

import servers_chaos
from chaos_random import Schedule
from runner import run

FIRST, LAST = map(int, os.environ.get("PACELINE_CHAOS_SEEDS", "1 20").split())


def schedule(seed):
    """One server or two; jobs with more workers where the seed is odd."""
    fields = servers_chaos.WITH_WORKERS if seed % 2 else {}
    with servers_chaos.fleet_of() as fleet:
        trial = servers_chaos.Trial(fleet, **fields)
        Schedule(seed, trial).run()
        trial.finish(losses=False)


CHECKS = {
    f"test_{name.removeprefix('check_')}": check
    for name, check in vars(servers_chaos).items()
    if name.startswith("check_")
}
SCHEDULES = {
    f"test_seed_{seed}": functools.partial(schedule, seed) for seed in range(FIRST, LAST + 1)
}

if __name__ == "__main__":
    run(CHECKS | SCHEDULES)
