"""Rows and summaries of the benchmark of a parameter server's transfers."""

import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

import exchange_results as results  # noqa: E402
import exchange_tables as tables  # noqa: E402
from paceline import must  # noqa: E402
from runner import run as run_tests  # noqa: E402

STEPS = {
    "whole": 3.0,
    "layer": 2.5,
    "layer_window": 2.0,
    "fixed_1m": 2.2,
    "fixed_4m": 2.4,
    "greedy": 2.1,
    "ready": 2.05,
    "optimal": 2.0,
    "stream": 1.6,
    "auto": 1.64,
    "single": 4.0,
    "pipeline": 1.8,
}
CALCULATED = {"optimal": 1.8, "whole": 3.0, "layer": 2.0, "1 MiB": 1.9, "4 MiB": 1.8}
CALCULATED |= {"greedy": 1.8, "ready": 1.8, "window": 1.9, "stream": 1.7}


def run_of(variant, *seconds, **fields):
    return {
        "model": "mobilenetv2",
        "link_mbit": 100,
        "delay_ms": 5,
        "share": 1,
        "variant": variant,
        "round": 0,
        "seconds": list(seconds),
        "skipped": 2,
        "predicted_seconds": 1.1 * seconds[0],
        "stages": 3,
        **dict.fromkeys(results.TRANSFER_SECONDS + results.TRANSFER_COUNTS),
        **fields,
    }


def runs_of(steps=None, **fields):
    """One run of each variant, of four equal steps."""
    return [run_of(name, *[value] * 4, **fields) for name, value in (steps or STEPS).items()]


def with_own_times(runs, fastest="parameter_server"):
    more = {"optimal": {"calculated": CALCULATED}, "auto": {"fastest": fastest}}
    return [{**run, **more.get(run["variant"], {})} for run in runs]


def same(value, expected, text):
    close = value == expected or (
        None not in (value, expected) and math.isclose(value, expected, rel_tol=1e-9)
    )
    must(close, f"{text}: {value}, not {expected}")


def test_the_best_baseline_is_compared_in_each_setting_and_in_the_mean():
    slow = {**STEPS, "layer_window": 9.0, "ready": 9.0, "greedy": 9.0}
    runs = [*runs_of(), *runs_of(slow, delay_ms=20)]
    found = results.summary(runs)
    same(found["settings"][0]["over_best_baseline"], 1.0, "layer_window")
    same(found["settings"][1]["over_best_baseline"], 1.1, "fixed_1m")
    same(found["over_best_baseline"], math.sqrt(1.1), "the geometric mean")
    same(found["over_best_plain"], 1.1, "the best of layer, 1 MiB and 4 MiB")
    for name, expected in (("layer", 1.25), ("fixed_1m", 1.1), ("fixed_4m", 1.2)):
        same(found["over"][name], expected, name)
    rows = {row["variant"]: row for row in results.rows_of(results.setting_of(runs[0]), runs)}
    same(rows["optimal"]["over_best_baseline"], 1.0, "the row of optimal")
    same(rows["stream"]["over_best_baseline"], 1.25, "the row of stream")


def test_gains_stand_beside_those_calculated_from_the_runs_own_times():
    gains = {
        gain["against"]: gain for gain in results.summary(with_own_times(runs_of()))["gains"]
    }
    same(gains["whole"]["gain"], 1 / 3, "measured")
    same(gains["whole"]["calculated_gain"], 0.4, "calculated")
    same(gains["whole"]["of_calculated"], 5 / 6, "the ratio")
    same(gains["fixed_4m"]["of_calculated"], None, "nothing is to be gained")
    found = results.summary(with_own_times(runs_of({**STEPS, "layer": 2.05})))
    same(found["gains_calculated"], 3, "whole, layer and 1 MiB")
    same(found["gains_reached"], 2, "layer gains a fifth of what it might")


def test_earlier_runs_without_own_times_count_for_everything_else():
    found = results.summary(runs_of())
    same(found["gains_calculated"], 0, "gains")
    same(found["named"], None, "the dry run")
    same(found["prediction_error"], 0.1, "predictions")
    same(found["auto_over_better"], 1.025, "auto")
    same(found["layer_gains"][5], 0.2, "against layer")
    same(found["settings"][0]["fastest_way"], "parameter_server", "the fastest way")


def test_a_dry_run_is_judged_where_all_ways_were_measured():
    for fastest, named in (("parameter_server", 1), ("pipeline", 0)):
        found = results.summary(with_own_times(runs_of(), fastest))
        same(found["named"], named, fastest)
    some = [run for run in with_own_times(runs_of()) if run["variant"] != "pipeline"]
    same(results.summary(some)["named"], None, "without a pipeline")


def test_optimal_may_be_slower_by_the_spread():
    steps = {**STEPS, "fixed_1m": 2.5, "fixed_4m": 2.5}
    del steps["optimal"]
    for optimal, names in ((2.4, []), (2.5, ["layer", "fixed_1m", "fixed_4m"])):
        runs = runs_of(steps)
        runs.append(run_of("optimal", optimal, optimal, 1.4 * optimal, 1.4 * optimal))
        slower = [gain["against"] for gain in results.summary(runs)["slower"]]
        must(slower == names, f"optimal {optimal}: slower than {slower}")


def test_goals_are_met_from_their_bounds_on():
    steps = {**STEPS, "fixed_1m": 2.08, "fixed_4m": 2.08, "auto": 1.648}
    for factor, met in ((1.0, True), (1.001, False)):
        runs = with_own_times(
            [
                run
                for delay in (1, 5, 20)
                for run in runs_of({**steps, "optimal": 2.0 * factor}, delay_ms=delay)
            ]
        )
        goals = {text: goal for text, *goal in tables.goals_of(results.summary(runs))}
        value, is_met, _ = goals["best of layer, 1 MiB and 4 MiB over optimal, geometric mean"]
        must(is_met(value + 1e-12) == met, f"optimal {factor}: {value}")
    value, is_met, _ = goals["mobilenetv2 at 100 Mbit/s, delays with 28% less time than whole"]
    must(value == 3 and is_met(value) and not is_met(1), f"{value}")
    value, is_met, _ = goals["  less time than layer with 20 ms"]
    must(not is_met(value) and is_met(0.55), f"{value}")


def test_everything_is_printed_of_any_runs():
    for runs in ([], runs_of()[:1], with_own_times(runs_of())):
        tables.show_summary(results.summary(runs))


if __name__ == "__main__":
    run_tests(globals())
