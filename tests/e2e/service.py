"""As services: what the programs tell a service manager, where their state is, whom they run as."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import time

from paceline import BIN, Fleet, Process, must
from runner import Skip, run

OTHER = 54321  # a user without a name


class Manager:
    """The service manager's end of $NOTIFY_SOCKET."""

    def __init__(self, directory):
        self.path = str(pathlib.Path(directory) / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(20)
        self.heard = []

    def environment(self, watchdog_seconds):
        return {"NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": str(int(watchdog_seconds * 1e6))}

    def wait_for(self, line):
        """Read messages up to one that begins with the line; returns it."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for said in self.heard:
                if said.startswith(line):
                    return said
            self.heard += self.socket.recv(4096).decode().splitlines()
        raise AssertionError(f"no {line} in {self.heard}")


@contextlib.contextmanager
def managed():
    with Fleet() as fleet:
        yield fleet, Manager(fleet.path)


def test_the_coordinator_tells_that_it_is_ready_alive_and_ending():
    with managed() as (fleet, manager):
        coordinator = Process(
            "paceline-coordinator",
            ["--listen", "127.0.0.1:0", "--state-dir", fleet.path / "c"],
            fleet.path / "c.log",
            manager.environment(0.3),
        )
        try:
            manager.wait_for("READY=1")
            must("event=listening" in coordinator.log_text(), "ready before it listens")
            manager.heard.clear()
            for _ in range(3):
                manager.wait_for("WATCHDOG=1")
                manager.heard.clear()
            coordinator.signal(signal.SIGTERM)
            manager.wait_for("STOPPING=1")
        finally:
            must(coordinator.stop() == 0, coordinator.log_text())


def test_the_agent_tells_its_state_and_asks_for_the_time_to_leave():
    with managed() as (fleet, manager):
        fleet.start_coordinator()
        agent = Process(
            "paceline-agent",
            ["--coordinator", f"http://{fleet.coordinator.address}", "--listen", "127.0.0.1:0"]
            + ["--state-dir", fleet.path / "a", "--threads", 1, "--leave-seconds", 7],
            fleet.path / "a.log",
            manager.environment(0.3),
        )
        try:
            manager.wait_for("READY=1")
            manager.wait_for("STATUS=calls http://")
            status = manager.wait_for("STATUS=enrolled as ")
            must(fleet.get("/v1/devices")["items"][0]["id"] in status, status)
            manager.heard.clear()
            for _ in range(3):
                manager.wait_for("WATCHDOG=1")
                manager.heard.clear()
            agent.signal(signal.SIGTERM)
            manager.wait_for("STOPPING=1")
            extended = manager.wait_for("EXTEND_TIMEOUT_USEC=")
            must(int(extended.partition("=")[2]) > 7000000, extended)
        finally:
            must(agent.stop() == 0, agent.log_text())


def test_a_stopped_program_does_not_tell_that_it_is_alive():
    """What the watchdog is for: a main loop that hangs says nothing."""
    with managed() as (fleet, manager):
        coordinator = Process(
            "paceline-coordinator",
            ["--listen", "127.0.0.1:0", "--state-dir", fleet.path / "c"],
            fleet.path / "c.log",
            manager.environment(0.3),
        )
        try:
            manager.wait_for("WATCHDOG=1")
            coordinator.signal(signal.SIGSTOP)
            manager.socket.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                while True:  # what was sent before
                    manager.socket.recv(4096)
            with contextlib.suppress(TimeoutError):
                raise AssertionError(f"it said {manager.socket.recv(4096)}")
        finally:
            must(coordinator.stop() == 0, coordinator.log_text())


def test_a_malformed_socket_of_the_manager_is_named():
    for program in ("paceline-coordinator", "paceline-agent"):
        with Fleet() as fleet:
            done = subprocess.run(
                [BIN / program, "--listen", "127.0.0.1:0", "--state-dir", fleet.path / "s"],
                env={**os.environ, "NOTIFY_SOCKET": "nonsense"},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            must(done.returncode == 1, f"{program}: {done.returncode}")
            must("NOTIFY_SOCKET 'nonsense'" in done.stderr, f"{program}: {done.stderr}")


def test_the_service_managers_state_directory_is_the_default():
    with Fleet() as fleet:
        for program in ("paceline-coordinator", "paceline-agent"):
            state = fleet.path / program
            process = Process(
                program,
                ["--listen", "127.0.0.1:0"]
                + ["--coordinator", "http://127.0.0.1:9"] * (program == "paceline-agent"),
                fleet.path / f"{program}.log",
                {"STATE_DIRECTORY": str(state)},
            ).wait_for_address()
            process.stop()
            must(state.is_dir() and os.listdir(state), f"{program} left nothing in {state}")


def test_a_program_that_root_starts_becomes_the_owner_of_its_state():
    if os.geteuid() != 0:
        raise Skip("only root can become another user")
    with Fleet() as fleet:
        fleet.path.chmod(0o755)
        state = fleet.path / "state"
        state.mkdir(mode=0o700)
        os.chown(state, OTHER, OTHER)
        subprocess.run(
            [BIN / "paceline-coordinator", "init", "--state-dir", state],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        coordinator = Process(
            "paceline-coordinator",
            ["--listen", "127.0.0.1:0", "--state-dir", state],
            fleet.path / "c.log",
        ).wait_for_address()
        try:
            status = pathlib.Path(f"/proc/{coordinator.process.pid}/status").read_text("ascii")
            users = next(line for line in status.splitlines() if line.startswith("Uid:"))
            must(users.split()[1:] == [str(OTHER)] * 4, users)
        finally:
            must(coordinator.stop() == 0, coordinator.log_text())
        owners = {path.stat().st_uid for path in state.rglob("*")}
        must(owners == {OTHER}, f"files belong to {owners}")


if __name__ == "__main__":
    run(globals())
