"""Each kind of joiner of joiners.py ten times, and all of them at once."""

import functools

from joiners import CorruptCache, FullDisk, HungDisk, LittleMemory, run_trial
from runner import run

TIMES = 10
KINDS = {
    "full_disk": FullDisk,
    "hung_disk": HungDisk,
    "corrupt_cache": CorruptCache,
    "little_memory": LittleMemory,
}

for name, kind in KINDS.items():
    for time in range(1, TIMES + 1):
        globals()[f"test_a_joiner_with_{name}_{time}"] = functools.partial(run_trial, kind)


def test_joiners_of_all_kinds_at_once():
    run_trial(HungDisk, LittleMemory, FullDisk, CorruptCache)


if __name__ == "__main__":
    run(globals())
