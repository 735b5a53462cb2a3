"""A program that is ended by a signal ends the coordinator and the agents that it has started."""

import os
import pathlib
import signal
import subprocess
import sys

from paceline import Fleet, must
from runner import run

SECONDS = 60


def hold_fleet():
    """Start a fleet, say where and which processes it is, and wait for a signal."""
    with Fleet() as fleet:
        fleet.start_coordinator()
        fleet.start_agents(1)
        pids = [program.process.pid for program in (fleet.coordinator, *fleet.agents)]
        print(fleet.path, *pids, flush=True)
        while True:
            signal.pause()


def end_by(number):
    holder = subprocess.Popen(
        [sys.executable, __file__, hold_fleet.__name__], stdout=subprocess.PIPE, text=True
    )
    with holder:
        place, *pids = holder.stdout.readline().split()
        must(all(os.path.exists(f"/proc/{pid}") for pid in pids), "the programs run")
        holder.send_signal(number)
        holder.wait(SECONDS)
    return holder.returncode, pathlib.Path(place), pids


def test_a_signal_ends_the_programs_and_removes_their_files():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        status, place, pids = end_by(number)
        expected = -number if number == signal.SIGINT else 128 + number
        must(status == expected, f"{number.name}: exit status {status}")
        left = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
        must(not left, f"{number.name}: {left} of {pids} still run")
        must(not place.exists(), f"{number.name}: {place} is left")


if __name__ == "__main__":
    if sys.argv[1:] == [hold_fleet.__name__]:
        hold_fleet()
    run(globals())
