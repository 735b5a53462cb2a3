"""Agents on emulated devices: network namespaces with CPU shares and shaped links, made by the tool
`fleet` beside this file.

A driver runs on the device `coord`, or on one of its own whose work takes nothing from the
coordinator, so that it reaches the others:

    if "FLEET_NAME" not in os.environ:
        sys.exit(run_on(DEVICES, [sys.executable, __file__]))   # with the devices up, on coord
    with NamespaceFleet() as fleet:
        fleet.start_coordinator()
        fleet.start_device("board1")

DEVICES is the text of a fleet file (NAME CPU BW DELAY [LOSS [MEM]]). Where the machine cannot do
it, the tool prints the reason and run_on returns 77. The devices and their processes end with the
program that calls run_on, also if that is killed. Python's standard library only.
"""

import json
import os
import pathlib
import signal
import subprocess
import tempfile

from ending import end_with_parent, raise_on_signals
from paceline import Fleet

TOOL = pathlib.Path(__file__).resolve().with_name("fleet")


def run_on(devices, command, driver="coord"):
    """Run the command on the device `driver` of a new fleet; returns its exit status, or 77 if the
    machine cannot have one.
    """
    raise_on_signals()
    environment = {"FLEET_ID": f"paceline{os.getpid()}", "FLEET_WEIGHT": "10000", **os.environ}
    with tempfile.NamedTemporaryFile("w", suffix=".fleet") as file:
        file.write(devices)
        file.flush()
        on_device = [str(TOOL), "exec", driver, "--", *map(str, command)]
        fleet = subprocess.Popen(
            [str(TOOL), "run", file.name, "--", *on_device],
            env=environment,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
        try:
            return fleet.wait()
        finally:
            fleet.terminate()  # it takes its devices down
            fleet.wait()


def rows_on(devices, command, driver="coord"):
    """run_on of a benchmark that writes its rows into the file of its option --rows; [] if the
    machine cannot have a fleet.
    """
    with tempfile.NamedTemporaryFile("r", suffix=".rows") as file:
        status = run_on(devices, [*command, "--rows", file.name], driver)
        if status not in (0, 77):
            raise subprocess.CalledProcessError(status, list(map(str, command)))
        return [] if status == 77 else json.load(file)


class NamespaceFleet(Fleet):
    """A Fleet with each program on its own device. The programs have addresses other than loopback,
    on a network of their own: without TLS they need --insecure.
    """

    port = 0  # of each agent; 0: any free one

    @property
    def exposure(self):
        return [] if self.tls else ["--insecure"]

    def start_coordinator(self, *arguments, listen=None, prefix=()):
        """On the device coord, wherever the driver runs."""
        return super().start_coordinator(
            *self.exposure,
            *arguments,
            listen=listen or f"{os.environ['FLEET_COORD']}:0",
            prefix=[str(TOOL), "exec", "coord", "--", *prefix],
        )

    def start_device(self, name, *arguments):
        """An agent on the device `name`."""
        address = subprocess.run(
            [str(TOOL), "ip", name], check=True, capture_output=True, text=True
        ).stdout.strip()
        return self.start_agent(
            name,
            *self.exposure,
            *arguments,
            wait=False,
            listen=f"{address}:{self.port}",
            prefix=[str(TOOL), "exec", name, "--"],
        )
