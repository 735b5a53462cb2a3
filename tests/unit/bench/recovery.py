"""Rows and goals of the benchmark of recovery."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

import recovery  # noqa: E402
from paceline import must  # noqa: E402
from runner import run  # noqa: E402


def incident(detect, rest, redone):
    seconds = {"detect": detect, **dict.fromkeys(recovery.AFTER_DETECT, rest / 4)}
    return {"seconds": seconds, "steps_redone": redone}


def goals_of(failed, *incidents):
    totals = [1.0] * len(incidents)
    rows = recovery.rows_of("lenet5", "parameter_server", failed, incidents, totals)
    return {text.split(", ")[-1]: met(value) for text, value, met, _ in recovery.goals_of(rows)}


def test_the_worst_run_decides():
    good, slow, later = incident(0.3, 0.6, 0), incident(0.5, 0.6, 0), incident(0.3, 1.0, 1)
    for failed, incidents, expected in (
        ("worker", [good], [True, True, True]),
        ("worker", [good, slow], [False, True, True]),
        ("worker", [good, later, good], [True, False, False]),
    ):
        found = goals_of(failed, *incidents)
        goals = [found[name] for name in ("detect", "after_detect", "steps redone")]
        must(goals == expected, f"{incidents}: {found}")


def test_only_a_worker_loses_no_step_and_all_agents_have_no_goal():
    again = incident(0.3, 0.6, 2)
    for failed in ("lead", "server", "first"):
        must(goals_of(failed, again) == {"detect": True, "after_detect": True}, failed)
    must(goals_of("all", again) == {}, "all")


if __name__ == "__main__":
    run(globals())
