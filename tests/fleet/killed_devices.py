"""The devices of a program end with it, also if it is killed (77 if the machine cannot have them).
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

from namespaces import TOOL, NamespaceFleet, run_on
from paceline import must
from runner import run

DEVICES = "coord\nboard0 0.3 100 1\n"
SECONDS = 60


def hold_fleet():
    """On coord: start programs, say where and which they are, and wait for a signal."""
    with NamespaceFleet() as fleet:
        fleet.start_coordinator()
        fleet.start_device("board0")
        fleet.wait_for_agents()
        pids = [program.process.pid for program in (fleet.coordinator, *fleet.agents)]
        print(fleet.path, *pids, flush=True)
        while True:
            signal.pause()


def namespaces(name):
    names = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True)
    return [line for line in names.stdout.splitlines() if name in line]


def test_no_device_outlives_the_program_that_made_it():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        name = f"killed{os.getpid()}-{number.name}"
        owner = subprocess.Popen(
            [sys.executable, __file__, run_on.__name__],
            stdout=subprocess.PIPE,
            env={**os.environ, "FLEET_ID": name},
            text=True,
        )
        with owner:
            place, *pids = owner.stdout.readline().split()
            must(len(namespaces(name)) == 3, f"{namespaces(name)}")
            owner.send_signal(number)
            owner.wait(SECONDS)
            deadline = time.monotonic() + SECONDS
            while namespaces(name) and time.monotonic() < deadline:
                time.sleep(0.1)
        must(not namespaces(name), f"{number.name}: {namespaces(name)} are left")
        left = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
        must(not left, f"{number.name}: {left} of {pids} still run")
        must(not pathlib.Path(place).exists(), f"{number.name}: {place} is left")


if __name__ == "__main__":
    if sys.argv[1:] == [run_on.__name__]:
        sys.exit(run_on(DEVICES, [sys.executable, __file__, hold_fleet.__name__]))
    if sys.argv[1:] == [hold_fleet.__name__]:
        hold_fleet()
    checked = subprocess.run([str(TOOL), "check"], check=False)
    if checked.returncode != 0:
        sys.exit(checked.returncode)
    run(globals())
