"""Accuracies of a parameter server beside those of a pipeline, seed by seed."""

import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

import exchange_accuracy  # noqa: E402
from paceline import must  # noqa: E402
from runner import run  # noqa: E402


def summary_of(*differences):
    """Of seeds that differ more than the strategies do."""
    rows = []
    for seed, difference in enumerate(differences, 1):
        pipeline = 0.5 + 0.1 * seed
        row = {"model": "lenet5", "epochs": 1, "seed": seed, "pipeline": pipeline}
        rows.append({**row, "parameter_server": pipeline + difference})
    return exchange_accuracy.summary(rows)


def test_differences_of_a_seed_count_not_those_between_seeds():
    for differences, within in (
        ((0.02, 0.02, 0.02), False),
        ((0.02, -0.01, 0.01), True),
        ((0.0, 0.0, 0.0), True),
        ((-0.03, -0.02, -0.01), False),
    ):
        found = summary_of(*differences)
        must(found["within_spread"] == within, f"{differences}: {found}")
    found = summary_of(0.02, -0.01, 0.02)
    must(math.isclose(found["difference"], 0.01), f"{found}")
    must(math.isclose(found["difference_spread"], math.sqrt(3) / 100), f"{found}")


def test_both_sides_train_the_same_job_but_for_the_strategy():
    one, other = (
        exchange_accuracy.strategy_job(strategy, "lenet5", 3, 5)
        for strategy in exchange_accuracy.STRATEGIES
    )
    different = {name for name in one if one[name] != other[name]}
    must(one.keys() == other.keys() and different == {"strategy"}, f"{one}, {other}")


if __name__ == "__main__":
    run(globals())
