"""Floods of clients that disconnect, send byte by byte or stop half-way, against a coordinator and
against an agent's peer port in a running job. The coordinator still answers /healthz and accepts a
job within a second, its memory has a bound, and it closes all descriptors afterwards. Loopback
only.

flood_slow.py runs it with the full numbers.
"""

import contextlib
import multiprocessing
import resource
import socket
import struct
import time

from paceline import FASHION, Fleet, fashion_fleet, fashion_job, must, train
from runner import run

ANSWER_SECONDS = 1.0
MEMORY_BYTES = 300e6
GIVEN_BACK_SECONDS = 15
HEAD = "HTTP/1.1\r\nHost: localhost\r\n"
JOB = {
    "model": {"name": "mlp"},
    "dataset": {"train": "digits-train", "test": "digits-test"},
    "steps": 4,
}
TORSOS = [
    text.encode()
    for text in (
        "GET /",
        f"GET /healthz {HEAD}X-Half: ",
        "\x16\x03\x01\x02",
        f"POST /v1/jobs {HEAD}Content-Length: 18446744073709551615\r\n\r\n",
        f"GET /v1/jobs?limit=1 {HEAD}\r\n",
        f"GET /v1/devices/dev_none?after=5&wait=60 {HEAD}\r\n",
        f"PUT /v1/agent/blobs/{'0' * 64} {HEAD}Content-Length: 100\r\n\r\n",
    )
]


def connect(address, source=1):
    host, port = address.rsplit("/", 1)[-1].rsplit(":", 1)
    return socket.create_connection((host, int(port)), 30, source_address=(f"127.0.0.{source}", 0))


def vanish(address, count):
    """Send the start of a request and disconnect: half of the clients with a reset."""
    for index in range(count):
        with contextlib.suppress(OSError), connect(address, 1 + index % 4) as connection:
            connection.sendall(TORSOS[index % len(TORSOS)])
            if index % 2:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def creep(address, count, seconds):
    """Keep connections open and send a header byte by byte; closed connections are opened once
    more.
    """
    deadline = time.monotonic() + seconds
    held = []
    while time.monotonic() < deadline:
        while len(held) < count:
            connection = connect(address)
            connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Creeping: ")
            held.append(connection)
        kept = []
        for connection in held:
            try:
                connection.sendall(b"x")
                kept.append(connection)
            except OSError:
                connection.close()
        held = kept
        time.sleep(0.5)


def stop_half_way(address, count, seconds, path="/v1/models"):
    """Send half of a large body and then nothing."""
    head = (
        f"POST {path} {HEAD}Content-Type: application/json\r\n"
        f"Content-Length: {2 << 20}\r\n\r\n".encode()
    )
    held = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            connection = connect(address)
            held.append(connection)
            connection.settimeout(5)
            connection.sendall(head + b" " * (1 << 20))
    time.sleep(seconds)


def more_descriptors():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Flood:
    """A flood in a process of its own, which does not slow down the tests' own clients."""

    def __init__(self, function, *arguments):
        self.process = multiprocessing.get_context("fork").Process(target=function, args=arguments)

    def __enter__(self):
        self.process.start()
        return self

    def __exit__(self, kind, value, trace):
        ended = not self.process.is_alive()
        self.process.kill()
        self.process.join()
        must(
            kind or not ended or self.process.exitcode == 0,
            f"the flood failed: {self.process.exitcode}",
        )

    def running(self):
        return self.process.is_alive()


def timed(what, function):
    began = time.monotonic()
    answer = function()
    seconds = time.monotonic() - began
    must(seconds < ANSWER_SECONDS, f"{what} took {seconds:.2f} s")
    return seconds, answer


def ask(fleet):
    """Send the requests that must always be answered in time; (seconds of the slowest, memory)."""
    health, _ = timed("/healthz", lambda: fleet.request("GET", "/healthz", expect=200))
    submit, job = timed("a new job", lambda: fleet.submit(JOB))
    fleet.verb(job, "cancel")
    used = fleet.coordinator.private_dirty_bytes()
    must(used < MEMORY_BYTES, f"{used / 1e6:.0f} MB")
    return max(health, submit), used


def check_coordinator(function, *arguments):
    more_descriptors()
    with Fleet() as fleet:
        fleet.start_coordinator()
        fleet.upload("digits-train", "digits", "train")
        fleet.upload("digits-test", "digits", "test")
        ask(fleet)
        before = len(fleet.coordinator.descriptors())
        slowest = used = count = 0
        with Flood(function, fleet.coordinator.address, *arguments) as flood:
            while flood.running():
                seconds, memory = ask(fleet)
                slowest, used, count = max(slowest, seconds), max(used, memory), count + 1
        ended = time.monotonic()
        while (left := len(fleet.coordinator.descriptors())) > before:
            must(
                time.monotonic() < ended + GIVEN_BACK_SECONDS,
                f"{left} descriptors, {before} before",
            )
            ask(fleet)
        print(
            f"{count} times asked, slowest {slowest:.3f} s, at most {used / 1e6:.0f} MB, given back"
            f" after {time.monotonic() - ended:.1f} s"
        )


def check_agent(steps, vanished, creeping, half_way, seconds):
    """Run all floods for `seconds` against one of two agents that train."""
    more_descriptors()
    job = fashion_job(steps=steps)
    with fashion_fleet(2) as fleet:
        agent = fleet.agents[0]
        before = len(agent.descriptors())
        submitted = fleet.submit(job)
        fleet.wait_for_step(submitted, 2)
        with Flood(creep, agent.address, creeping, seconds), Flood(
            stop_half_way, agent.address, half_way, seconds, "/peer/v1/job/1/ping"
        ), Flood(vanish, agent.address, vanished):
            fleet.wait(submitted, "succeeded", seconds=600)
        incidents = fleet.get(f"/v1/jobs/{submitted['id']}/incidents")["items"]
        must(incidents == [], f"{incidents}")
        must(
            fleet.checkpoint_sha256(submitted) == train(job, FASHION)[0],
            "other weights than those of one device",
        )
        ended = time.monotonic()
        while (left := len(agent.descriptors())) > before + 8:
            must(
                time.monotonic() < ended + GIVEN_BACK_SECONDS,
                f"{left} descriptors, {before} before",
            )
            time.sleep(0.1)


def test_an_agent_trains_on_while_its_peer_port_is_flooded():
    check_agent(60, 1000, 100, 20, 3)


if __name__ == "__main__":
    run(globals())
