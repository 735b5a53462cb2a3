"""How soon segments follow a change, and its plot."""

import pathlib
import sys
import tempfile
import xml.dom.minidom

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests/fleet"))

import chart  # noqa: E402
import exchange_drift  # noqa: E402
from paceline import must  # noqa: E402
from runner import run  # noqa: E402

CHANGE = 4


def step_of(step, chosen, rate):
    return {
        "step": step,
        "chosen": chosen,
        "bytes": [100000.0] * 4,
        "forward": [0.1] * 4,
        "backward": [0.2] * 4,
        "links": {"pull": [0.001, rate], "push": [0.001, rate]},
    }


LAYERS, WHOLE = [[1, 2, 3, 4]] * 2, [[4], [4]]


def steps_with(*chosen):
    """Steps from the first on; the link becomes slow after step CHANGE."""
    return [step_of(i + 1, one, 1e6 if i < CHANGE else 1e5) for i, one in enumerate(chosen)]


def steps_to(*after):
    steps = steps_with(*[WHOLE] * CHANGE, *after)
    return exchange_drift.steps_to(exchange_drift.over_optimum(steps, CHANGE), CHANGE)


def test_steps_count_until_all_later_segments_are_near_the_optimum():
    for after, expected in (
        ([LAYERS] * 4, 0),
        ([WHOLE, WHOLE, LAYERS, LAYERS], 2),
        ([LAYERS, WHOLE, LAYERS, LAYERS], 2),
        ([WHOLE] * 4, None),
        ([LAYERS, LAYERS, LAYERS, WHOLE], None),
    ):
        found = steps_to(*after)
        must(found == expected, f"{after}: {found}, not {expected}")


def test_the_optimum_is_that_of_the_times_after_the_change():
    fast = steps_with(*[WHOLE] * CHANGE, *[LAYERS] * 6)
    slow = [{**step, "links": fast[-1]["links"]} for step in fast]
    must(
        exchange_drift.over_optimum(fast, CHANGE) == exchange_drift.over_optimum(slow, CHANGE),
        "times before the change count",
    )
    over = exchange_drift.over_optimum(fast, CHANGE)
    must(list(over) == list(range(CHANGE, 11)), f"{over}")
    must(over[CHANGE] > 1.05 > over[CHANGE + 1] >= 1, f"{over}")


def test_frozen_requests_are_as_many_as_at_the_change():
    steps = steps_with(*[[[2, 4], [1, 4]]] * CHANGE, *[LAYERS] * 2)
    must(exchange_drift.segment_bytes(steps, CHANGE) == 200000, "two of four layers each")
    must(exchange_drift.segment_bytes(steps, CHANGE + 1) == 100000, "a request for each layer")
    small = [{**step, "bytes": [10.0] * 4} for step in steps]
    must(exchange_drift.segment_bytes(small, CHANGE) == 65536, "the least that a job may have")


def runs():
    seconds = {str(step): 1.0 if step <= CHANGE else 3.0 for step in range(1, 11)}
    for variant in exchange_drift.VARIANTS:
        steps = [] if variant == "layer" else steps_with(*[WHOLE] * CHANGE, *[LAYERS] * 6)
        yield {
            "variant": variant,
            "round": 0,
            "change": CHANGE,
            "seconds": seconds,
            "steps": steps,
        }


def test_rows_are_made_of_stored_runs():
    rows = list(map(exchange_drift.row_of, runs()))
    exchange_drift.show(rows)
    optimal, layer, _ = rows
    must((optimal["seconds_before"], optimal["seconds_after"]) == (1.0, 3.0), f"{optimal}")
    must(optimal["steps_to_optimum"] == 0, f"{optimal}")
    must(optimal["requests_before"] == [1, 1] and optimal["requests_after"] == [4, 4], f"{optimal}")
    must(layer["steps_to_optimum"] is None and layer["seconds_after"] == 3.0, f"{layer}")


def test_the_plot_has_a_line_for_each_variant():
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / "new/plot.svg"
        exchange_drift.plot(list(runs()), path)
        found = xml.dom.minidom.parse(str(path))
    lines = found.getElementsByTagName("polyline")
    must(len(lines) == 3, f"{len(lines)} lines")
    must(all(len(line.getAttribute("points").split()) == 10 for line in lines), "points")
    texts = [one.firstChild.data for one in found.getElementsByTagName("text")]
    must({*exchange_drift.VARIANTS, "seconds a step", "0", "5"} <= set(texts), f"{texts}")


def test_charts_are_among_each_other_in_one_file():
    charts = [
        chart.Chart("one", {"": [(0, 1.0), (60, 2.0)]}, dots=[30], tick=30, unit=" s"),
        chart.Chart("other", {"": [(0, 0.0), (0, 0.0)]}, events=[(0, "starts")]),
    ]
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / "plot.svg"
        chart.write(path, charts)
        text = path.read_text()
    must(">60 s<" in text and ">starts<" in text and text.count("<circle") == 1, text)
    must(f'height="{2 * chart.HEIGHT}"' in text, text)


if __name__ == "__main__":
    run(globals())
