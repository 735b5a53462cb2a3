"""Times to an accuracy, rows and summaries of the benchmark of gossip."""

import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

import gossip_results as results  # noqa: E402
from paceline import must  # noqa: E402
from runner import run as run_tests  # noqa: E402

PASS_STEPS = 90


def versions(*accuracies, every=1.0):
    """A version after each pass, `every` seconds apart."""
    return [
        {"seconds": (i + 1) * every, "step": (i + 1) * PASS_STEPS, "accuracy": accuracy}
        for i, accuracy in enumerate(accuracies)
    ]


def run_of(found, variant="async", split="even", seed=1, complete=True, **fields):
    return {
        "data": "fashion-mini",
        "split": split,
        "seed": seed,
        "variant": variant,
        "versions": found,
        "recalls": [0.9, 0.5],
        "evaluation_seconds": 3.0,
        "seconds": found[-1]["seconds"],
        "complete": complete,
        "pass_steps": PASS_STEPS,
        "periods": [[1.0, 1.0], [1.0, 3.0]],
        "bytes_per_device": 10.0,
        "distance": 0.1,
        "missed": 0,
        "predicted": "gossip",
        **fields,
    }


def same(value, expected, text):
    close = value == expected or (
        None not in (value, expected) and math.isclose(value, expected, abs_tol=1e-9)
    )
    must(close, f"{text}: {value}, not {expected}")


RISING = versions(0.5, 0.6, 0.7, 0.8, 0.81, 0.82)
BASELINE = {
    "spacing": 0.06,
    "accuracy": 0.81,
    "seconds": 4.02,
    "end_accuracy": 0.82,
    "passes": 6,
}


def test_the_newest_version_counts_at_each_moment():
    for seconds, expected in ((0.5, None), (1.0, 0.5), (1.99, 0.5), (2.0, 0.6), (99.0, 0.82)):
        found = results.at(RISING, seconds)
        same(found and found["accuracy"], expected, f"at {seconds} s")


def test_an_accuracy_is_reached_where_it_stays_for_three_points():
    for accuracies, expected in (
        ((0.1, 0.8, 0.1, 0.8, 0.8, 0.8), 4.0),  # it falls back after one point
        ((0.1, 0.8, 0.8, 0.1, 0.8, 0.8), 5.0),  # after two; the last version stays the newest
        ((0.1, 0.1, 0.7922, 0.7922, 0.7922), 3.0),  # 0.78 points below
        ((0.1, 0.1, 0.7921, 0.7921, 0.7921), None),
        ((0.9,), 1.0),
        ((), None),
    ):
        same(results.time_to(versions(*accuracies), 1.0, 0.8), expected, f"{accuracies}")
    # A point of the grid lies at or after the version that reaches the accuracy.
    same(results.time_to(RISING, 0.3, 0.8), 4.2, "a finer grid")


def test_a_run_has_ended_when_ten_versions_gain_less_than_a_fifth_of_a_point():
    flat = [0.5] + 9 * [0.8]
    for accuracies, first, expected in (
        (flat, 0, None),
        ([*flat, 0.8, 0.8015], 0, 12),
        ([*flat, 0.8, 0.802], 0, None),  # a gain of exactly 0.2 points
        ([*flat, 0.9, *(10 * [0.9])], 0, 21),
        ([*flat, *(10 * [0.8])], 16, 16),  # the passes of the baseline come first
    ):
        found = results.converged(versions(*accuracies), first)
        must(found == expected, f"{accuracies}: {found}, not {expected}")
    accuracies = [*flat, 0.8, 0.8015, 0.9, 0.9]  # 0.9 follows after the end
    for passes, expected in ((6, (0.8 + 0.8 + 0.8015) / 3), (13, (0.8015 + 0.9 + 0.9) / 3)):
        end = results.end_accuracy(versions(*accuracies), passes, PASS_STEPS)
        same(end, expected, f"the end, after at least {passes} passes")
    same(results.end_accuracy(RISING, 6, PASS_STEPS), 0.81, "a run that might not continue")
    same(results.end_accuracy(RISING, 7, PASS_STEPS), 0.81, "a run that ended early")
    # The same moments, with fewer versions: those of 3, 4 and 6 passes.
    few = [RISING[index] for index in (2, 3, 5)]
    same(results.end_accuracy(few, 6, PASS_STEPS), (0.8 + 0.82) / 2, "of the last three passes")


def test_the_baseline_is_measured_in_its_passes_by_the_rule_of_all():
    longer = versions(0.5, 0.6, 0.7, 0.8, 0.81, 0.82, 0.9, 0.9)
    found = results.baseline_of(run_of(longer), 6)
    same(found["spacing"], 0.06, "a hundredth of six passes")
    same(found["accuracy"], 0.81, "the last three in the passes")
    same(found["seconds"], 5.04, "0.81 is the first within 0.78 points of it")
    same(found["end_accuracy"], (0.82 + 0.9 + 0.9) / 3, "the end")
    row = results.row_of(run_of(longer, "plain_rounds"), found, [0.5, 0.5])
    same(row["speed_up"], 1.0, "the baseline over itself")
    same(row["loss_points"], 0.0, "its loss against itself")
    for versions_of, words in (
        (RISING, "less than 7 passes"),
        ([*RISING[:2], {"seconds": 9.0, "step": 900, "accuracy": 0.9}], "stored 2 averages"),
    ):
        try:
            results.baseline_of(run_of(versions_of), 7)
        except ValueError as error:
            must(words in str(error), f"{error}")
        else:
            must(False, f"a baseline without '{words}' was taken")


def test_passes_end_between_the_versions_around_their_steps():
    for passes, expected in ((0.5, 0.5), (1, 1.0), (2.25, 2.25), (6, 6.0), (6.1, None)):
        same(results.seconds_of_passes(RISING, passes, PASS_STEPS), expected, f"{passes} passes")


def test_a_row_states_time_losses_and_recalls():
    early = results.row_of(run_of(versions(0.7, 0.805, 0.82)), BASELINE, [0.25, 0.75])
    same(early["seconds"], 2.04, "time")
    same(early["speed_up"], 4.02 / 2.04, "speed-up")
    same(early["loss_at_2_70"], 100 * (0.81 - 0.7), "at 4.02 / 2.70 s")
    same(early["loss_points"], 100 * (0.82 - (0.7 + 0.805 + 0.82) / 3), "loss")
    same(early["worst_recall"], 0.5, "worst recall")
    same(early["slowest_accuracy"], 0.25 * 0.9 + 0.75 * 0.5, "the slowest device's classes")
    same(early["period_cv"], 0.25, "the mean of 0 and 0.5")
    never = results.row_of(run_of(versions(0.7), complete=False), BASELINE, [1])
    same(never["seconds"], None, "never there")
    same(never["speed_up"], 0.1, "ten times the baseline's time")
    same(never["loss_points"], None, "stopped before its end")
    late = results.row_of(run_of(versions(0.9, every=5.0)), BASELINE, [1])
    same(late["loss_at_2_70"], None, "no model yet")


def test_a_run_ends_when_more_of_it_decides_nothing():
    accuracies = (0.5, 0.6, 0.7, 0.8, 0.81, 0.82, *(10 * [0.82]))
    baseline = results.Goal(None, 6, True)
    whole, stopped = (results.Goal(BASELINE, 6, whole) for whole in (True, False))
    for goal, count, seconds, expected in (
        (baseline, 5, 5.0, False),  # not yet its passes
        (baseline, 15, 15.0, False),  # it still gains
        (baseline, 16, 16.0, True),
        (whole, 15, 15.0, False),
        (whole, 16, 16.0, True),
        (stopped, 0, 1.0, False),
        (stopped, 5, 5.0, False),  # 0.81 may be followed by less
        (stopped, 6, 6.0, True),
        (stopped, 2, 40.3, True),  # ten times the baseline's seconds without success
    ):
        found = goal.ends(versions(*accuracies[:count]), PASS_STEPS, seconds)
        must(found == expected, f"{count} versions, {seconds} s: {found}, not {expected}")


def test_steps_that_suffice_are_those_of_two_epochs_that_hold_the_accuracy():
    goal = results.Goal(BASELINE, 6, False)
    for accuracies, expected in (
        ({10: 0.9, 20: 0.5, 30: 0.8023, 40: 0.8023, 50: 0.9}, 40),
        ({10: 0.5, 20: 0.9}, 20),
    ):
        must(results.steps_wanted(accuracies, goal) == expected, f"{accuracies}")
    found = results.cumulated({2: 0.5, 1: 0.25})
    must(found == {1: 0.25, 2: 0.75}, f"{found}")


def row(variant, speed_up, seed=1, split="even", loss=None, predicted=None):
    return {
        **results.row_of(run_of(RISING, variant, split, seed), BASELINE, [1]),
        "speed_up": speed_up,
        "loss_points": loss,
        "predicted": predicted,
    }


def test_rows_are_compared_with_the_best_other_way_of_their_setting():
    rows = results.compare(
        [
            row("async", 3.0, 1, loss=1.0),
            row("async", 6.0, 2, loss=2.0),
            row("async", 6.0, 3, loss=3.0),
            row("single", 4.0),
            row("parameter_server", 2.0),
            row("pipeline", 50.0),  # stands in the table only
            row("async", 3.0, 1, "dirichlet", loss=0.5),
        ]
    )
    for index, expected in enumerate((0.75, 1.5, 1.5, 1.0, 0.5, 12.5)):
        same(rows[index]["over_best"], expected, f"row {index}")
    must({one["best_variant"] for one in rows[:6]} == {"single"}, f"{rows}")
    must(rows[6]["over_best"] is None, "no other way of the split")
    low, high = rows[0]["loss_interval"]
    same(low, 2 - 4.303 / math.sqrt(3), "the interval's begin")
    same(high, 2 + 4.303 / math.sqrt(3), "the interval's end")
    must(rows[6]["loss_interval"] is None, "one seed has no interval")


def test_the_summary_takes_geometric_means_and_judges_the_dry_run():
    rows = results.compare(
        [
            row("async", 2.0, 1, "dirichlet", loss=1.0, predicted="gossip"),
            row("async", 8.0, 2, "dirichlet", loss=3.0, predicted="gossip"),
            row("single", 2.0, 1, "dirichlet"),
            row("pipeline", 1.0, 1, "dirichlet"),
            row("levelled_rounds", 9.0, 1, "dirichlet", loss=0.0, predicted="single"),
            {**row("async_killed", 4.0, 2, "dirichlet"), "accuracy": 0.8},
            row("async", 4.0, 1, loss=-1.0, predicted="gossip"),
            row("single", 5.0),
            row("pipeline", 1.0),
        ]
    )
    found = results.summary(rows)
    same(found["speed_up"], 4.0, "of 2, 8 and 4")
    same(found["loss_points"], 1.0, "the mean loss")
    same(found["worst_setting_loss"], 2.0, "of dirichlet")
    same(found["over_best_dirichlet"], 2.0, "of 1 and 4")
    same(found["levelled_speed_up"], 9.0, "levelled rounds")
    same(found["named"], 0.5, "gossip is the fastest way of one of two settings")
    same(found["period_cv"], 0.25, "of async alone")
    must(found["baseline_period_cv"] is None, f"{found}")
    same(found["killed_time"], 2.0, "8 over 4")
    same(found["killed_points"], 1.0, "0.81 without the loss")
    best = {setting["split"]: setting["best"] for setting in found["settings"]}
    must(best == {"dirichlet": "levelled_rounds", "even": "single"}, f"{best}")
    empty = results.summary([row("single", 5.0)])
    must(empty["speed_up"] is None and empty["named"] is None, f"{empty}")


if __name__ == "__main__":
    run_tests(globals())
