"""The seconds that follow from what a worker logs of its segments."""

import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

import segment_times  # noqa: E402
from paceline import Failure, must  # noqa: E402
from runner import run  # noqa: E402

LINE = (
    "time=2026-11-29T12:00:00.000Z level=debug event=segments step={step} pull=1,3 push=3 "
    "pull_links=10000,1000000 push_links=20000,2000000 bytes=1000,2000,300000 "
    "forward_us={forward},200000,300000 backward_us=200000,400000,600000"
)


def lines(*forward):
    """A log of steps, between other lines."""
    found = [LINE.format(step=i + 1, forward=one) for i, one in enumerate(forward)]
    return "\n".join(["event=segments_of_another", *found, found[0][:-20], found[0][:200]])


def test_truncated_lines_are_left_out():
    steps = segment_times.steps_of(lines(100000, 110000))
    must([step["step"] for step in steps] == [1, 2], f"{steps}")
    must(steps[0]["chosen"] == [[1, 3], [3]], f"{steps[0]}")
    must(steps[0]["links"] == {"pull": [0.01, 1e6], "push": [0.02, 2e6]}, f"{steps[0]}")


def test_ways_are_calculated_from_the_medians_of_the_steps():
    times = segment_times.middle(segment_times.steps_of(lines(90000, 100000, 500000)))
    must(math.isclose(times["forward"][0], 0.1), f"{times}")
    found = segment_times.calculate(times, [[[3], [3]], [[1, 2, 3], [1, 2, 3]]])
    # A request of all layers, then the passes, then another one; the first one is parked already.
    whole = 0.005 + 0.303 + 0.6 + 1.2 + 0.02 + 0.1515
    must(math.isclose(found["whole"], whole), f"{found}")
    must(math.isclose(found["chosen"][0], whole), f"{found}")
    must(math.isclose(found["chosen"][1], found["layer"]), f"{found}")
    must(found["optimal"] <= min(found["chosen"]), f"{found}")


def test_choices_that_are_none_are_errors():
    times = segment_times.middle(segment_times.steps_of(lines(100000)))
    for chosen in ([[2], [3]], [[2, 1, 3], [3]], [[3], [4]], [[3]], []):
        try:
            segment_times.calculate(times, [chosen])
        except Failure as failure:
            must("'chosen'" in str(failure), f"{failure}")
        else:
            must(False, f"{chosen} was accepted")


if __name__ == "__main__":
    run(globals())
