"""Private memory of idle programs, and allocations per step and per message while they train."""

import argparse
import time

from alloc_table import AGENTS, LIBRARY, PIPELINE, SERVERS, STEPS, measure, start_counted_agents
from paceline import Fleet, fashion_fleet, on_devices
from report import finish, say, skip, table

STRATEGIES = {"pipeline": PIPELINE, "parameter_server": SERVERS}
JOB = {
    "name": "footprint",
    "model": {"name": "lenet5"},
    "dataset": {"train": "fashion-train", "test": "fashion-test"},
    "batch": 32,
    "epochs": 2,
    **on_devices(AGENTS, AGENTS),
}


def idle_memory(idle_seconds):
    """Rows of Private_Dirty: after the enrolment, and after a job."""
    rows = []

    def look(fleet, when):
        time.sleep(idle_seconds)
        for process in (fleet.coordinator, *fleet.agents):
            rows.append(
                {
                    "measure": "private_dirty_bytes",
                    "program": process.program,
                    "when": when,
                    "value": process.private_dirty_bytes(),
                }
            )

    with Fleet() as fleet:
        fleet.start_coordinator()
        fleet.start_agents(AGENTS)
        look(fleet, "after the enrolment")
        for name, part in (("fashion-train", "train"), ("fashion-test", "test")):
            fleet.upload(name, "fashion-mini", part)
        fleet.wait(fleet.submit(JOB), "succeeded")
        look(fleet, "after a job")
    return rows


def row_of(strategy, stage, thread):
    per, value = (
        ("step", stage.per_step) if thread == "compute" else ("message", stage.per_message)
    )
    return {
        "measure": "allocations",
        "strategy": strategy,
        "stage": stage.stage,
        "thread": thread,
        "per": per,
        "ours": value(thread, "ours"),
        "library": value(thread, "library"),
        "library_shorter_run": value(thread, "library", 1),
    }


def allocations():
    """Allocations per step (compute) or message in three stages, by thread and origin."""
    rows = []
    with fashion_fleet() as fleet:
        start_counted_agents(fleet, AGENTS)
        for strategy, work in STRATEGIES.items():
            for stage in measure(fleet, work):
                rows += [row_of(strategy, stage, thread) for thread in stage.threads()]
    return rows


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--idle", type=float, default=10, help="seconds before the memory is looked at"
    )
    options = arguments.parse_args()
    if not LIBRARY.exists():
        skip(f"{LIBRARY} is not built")
    memory = idle_memory(options.idle)
    counts = allocations()
    table(
        ["program", "when", "Private_Dirty MB"],
        [[row["program"], row["when"], f"{row['value'] / 1e6:.2f}"] for row in memory],
    )
    say("the goal after the enrolment: agent below 6 MB, coordinator below 10 MB")
    table(
        [
            "strategy",
            "stage",
            "thread",
            "per",
            "ours",
            "libraries",
            f"libraries over {STEPS[1] - STEPS[0]} steps",
        ],
        [
            [
                row["strategy"],
                row["stage"],
                row["thread"],
                row["per"],
                f"{row['ours']:.2f}",
                f"{row['library']:.2f}",
                f"{row['library_shorter_run']:.2f}",
            ]
            for row in counts
        ],
    )
    say(
        f"allocations over {STEPS[2] - STEPS[0]} steps after the first {STEPS[0]}; "
        "goal: 0 in the compute thread, 0 from our code"
    )
    finish("footprint", [*memory, *counts])


if __name__ == "__main__":
    main()
