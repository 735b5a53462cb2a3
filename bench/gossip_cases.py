"""Data sets, devices, variants and jobs of the benchmark of gossip."""

import collections
import copy

from paceline import on_devices
from submodel_cases import BANDS

# The fleet: the driver has a device of its own, so that it takes nothing from the coordinator.
CORE = 0.055
SPEEDS = (1, 1.7, 2.7, 4.3, 7.1, 9.4)
LINKS_MBIT = (20, 50, 20, 100, 50, 100)
DELAY_MS = 2
COORDINATOR_SHARE = 0.1
DRIVER, DRIVER_SHARE = "bench", 0.3  # evaluates while the others train
DEVICES = tuple(f"board{index}" for index in range(len(SPEEDS)))
SLOWEST, FASTEST = DEVICES[0], DEVICES[-1]

BATCH = 32
SERVER_MICRO_BATCHES = 8  # so that shares can follow speeds
ALPHA = 0.3
SPLITS = ("even", "dirichlet")

Case = collections.namedtuple("Case", "data model rate")
FASHION = Case("fashion-mini", "lenet5", 0.01)
DIGITS = Case("digits", "mlp", 0.02)
SPOKEN = Case("spoken-digits", "dscnn-kws", 0.02)
CIFAR = Case("cifar10", "resnet8", 0.02)

# gossip: its options; None: another strategy. sized: shards follow speeds, on Dirichlet data with
# its alpha. others: fields of the job. killed: the share of the baseline's passes after which the
# fastest device dies; 0: it lives.
Variant = collections.namedtuple("Variant", "gossip sized others killed", defaults=(False, {}, 0))
PLAIN = {
    "schedule": "rounds",
    "level": False,
    "pairs": "uniform",
    "average_every": 1,
    "adopt": False,
}
AVERAGED = {"schedule": "rounds", "average_every": 1}
VARIANTS = {
    "plain_rounds": Variant(PLAIN),
    "async": Variant({}),
    "plain_rounds_sized": Variant(PLAIN, sized=True),
    "fedavg_sized": Variant({**PLAIN, "adopt": True}, sized=True),
    "single": Variant(
        None, others={"devices": {"min": 1, "max": 1, "labels": {"board": FASTEST}}}
    ),
    "parameter_server": Variant(
        None,
        others={
            "strategy": "parameter_server",
            "parameter_server": {},
            "micro_batches": SERVER_MICRO_BATCHES,
        },
    ),
    "levelled_rounds": Variant({"schedule": "rounds"}),
    "async_accuracy": Variant({"weights": "accuracy"}),
    "async_critical_0.3": Variant({"critical": 0.3}),
    "async_critical_1": Variant({"critical": 1}),
    "async_uniform": Variant({"pairs": "uniform"}),
    "async_killed": Variant({}, killed=0.25),
    "rounds_averaged": Variant(AVERAGED),
    "pipeline": Variant(None, others={"micro_batches": None}),
}
PAIR = ("plain_rounds", "async")  # with all seeds
OTHERS = ("plain_rounds_sized", "fedavg_sized", "single", "parameter_server", "levelled_rounds")
OTHERS += ("pipeline",)
FURTHER = tuple(name for name in VARIANTS if name not in (*PAIR, *OTHERS))


def fleet_file():
    lines = [f"coord {COORDINATOR_SHARE}", f"{DRIVER} {DRIVER_SHARE}"]
    for name, speed, mbit in zip(DEVICES, SPEEDS, LINKS_MBIT):
        lines.append(f"{name} {CORE * speed:.4f} {mbit} {DELAY_MS}")
    return "\n".join([*lines, ""])


def dataset_name(case):
    """Of the training data, on the coordinator."""
    return f"{case.data}-train"


def gossip_of(variant, split):
    options = {**VARIANTS[variant].gossip, "split": split}
    if split == "dirichlet":
        options["alpha"] = ALPHA
    if VARIANTS[variant].sized:
        options["split"] = "speed"
    return options


def job_of(case, variant, split, seed, epochs, average_every=None):
    """A job at a constant rate, so that its models do not depend on when it is stopped. The test
    set takes no part in it. average_every: of variants that do not state it.
    """
    job = {
        "name": "gossip",
        "model": {"name": case.model},
        "dataset": {"train": dataset_name(case)},
        "batch": BATCH,
        "micro_batches": 1,
        "epochs": epochs,
        "init": {"seed": seed},
        "evaluate": {"every_epochs": 0},
        "optimizer": {"type": "sgd", "momentum": 0.9},
        "learning_rate": {"type": "constant", "value": case.rate},
        "augment": [BANDS] if case is SPOKEN else [],
        "kernels": {},
        "replication": {"neighbor_every": 0, "center_every": 0},
        "replan": {"first": 0, "every": 0},
        **on_devices(2, len(DEVICES)),
        **copy.deepcopy(VARIANTS[variant].others),
    }
    if VARIANTS[variant].gossip is not None:
        often = {"average_every": average_every} if average_every else {}
        job |= {"strategy": "gossip", "gossip": {**often, **gossip_of(variant, split)}}
        job |= on_devices(len(DEVICES), len(DEVICES))
    return job
