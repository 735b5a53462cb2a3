"""What a worker of a parameter server logs of its segments, and the seconds that follow from it.

The worker with the first micro-batches logs, at level debug, an event `segments` for each step: the
segments that it chose, and the times of its layers and of its link by which it did. The program
segment_times calculates with them what each way to choose segments takes.
"""

import json
import re
import subprocess

from paceline import BIN, must
from report import median

TOOL = BIN / "segment_times"
PAIR = re.compile(r"(\w+)=(\S+)")
LAYER_LISTS = {"bytes": 1.0, "forward_us": 1e-6, "backward_us": 1e-6}


def numbers(text):
    return [int(word) for word in text.split(",")]


def step_of(line):
    """{step, pull, push, bytes, forward, backward, links} of a line; None: it is truncated."""
    pairs = dict(PAIR.findall(line))
    try:
        lists = {name: numbers(pairs[name]) for name in (*LAYER_LISTS, "pull", "push")}
        links = {name: numbers(pairs[f"{name}_links"]) for name in ("pull", "push")}
    except (KeyError, ValueError):
        return None
    layers = len(lists["bytes"])
    if any(len(lists[name]) != layers for name in LAYER_LISTS):
        return None
    if lists["pull"][-1] != layers or lists["push"][-1] != layers:
        return None
    return {
        "step": int(pairs["step"]),
        "chosen": [lists["pull"], lists["push"]],
        **{
            name.removesuffix("_us"): [scale * value for value in lists[name]]
            for name, scale in LAYER_LISTS.items()
        },
        "links": {name: [1e-6 * link[0], link[1]] for name, link in links.items()},
    }


def steps_of(log):
    """The steps of a part of a worker's log, in its order."""
    lines = [line for line in log.splitlines() if "event=segments " in line]
    return [step for line in lines if (step := step_of(line))]


def middle(steps):
    """The times of these steps, as segment_times takes them: medians. Of a job with one server."""
    return {
        "bytes": steps[0]["bytes"],
        **{
            name: [median(values) for values in zip(*(step[name] for step in steps))]
            for name in ("forward", "backward")
        },
        **{
            name: [median(values) for values in zip(*(step["links"][name] for step in steps))]
            for name in ("pull", "push")
        },
    }


def calculate(times, chosen=()):
    """{way: seconds} of a step with one micro-batch for each worker; `chosen`: those of each choice
    [ends of the pulls, ends of the pushes].
    """
    done = subprocess.run(
        [str(TOOL)],
        input=json.dumps({**times, "chosen": list(chosen)}),
        capture_output=True,
        text=True,
        check=False,
    )
    must(done.returncode == 0, f"segment_times: {done.stderr}")
    return json.loads(done.stdout)
