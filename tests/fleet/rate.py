"""A link carries bytes at its new rate when the rate changes while packets wait in its queue."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time

from namespaces import TOOL, run_on
from paceline import must
from runner import run

FAST, SLOW = 100, 20  # Mbit/s
DEVICES = f"coord\nboard 0 {FAST} 5\n"
ROUNDS = 6
SETTLE_SECONDS, COUNTED_SECONDS = 1, 1

SENDER = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
    while True:
        connection.sendall(bytes(1 << 20))
"""


class Stream:
    """Bytes that the device sends as fast as its link takes them, to this one."""

    def __init__(self, server):
        address = [os.environ["FLEET_COORD"], str(server.getsockname()[1])]
        command = [str(TOOL), "exec", "board", "--", sys.executable, "-c", SENDER, *address]
        self.sender = subprocess.Popen(command)
        self.connection, _ = server.accept()
        self.bytes = 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        with contextlib.suppress(OSError):
            while data := self.connection.recv(1 << 16):
                self.bytes += len(data)

    def mbit(self):
        """The rate once it has settled."""
        time.sleep(SETTLE_SECONDS)
        before, began = self.bytes, time.monotonic()
        time.sleep(COUNTED_SECONDS)
        return (self.bytes - before) * 8e-6 / (time.monotonic() - began)

    def close(self):
        self.sender.kill()
        self.sender.wait()
        self.connection.close()


def set_rate(mbit):
    subprocess.run([str(TOOL), "set", "board", f"bw={mbit}"], check=True)


def test_a_link_goes_on_at_its_new_rate():
    with socket.create_server((os.environ["FLEET_COORD"], 0)) as server:
        stream = Stream(server)
        try:
            for turn in range(ROUNDS):
                for rate in (SLOW, FAST):
                    set_rate(rate)
                    found = stream.mbit()
                    must(rate / 2 < found < 1.2 * rate, f"round {turn}: {found:.1f} of {rate}")
        finally:
            stream.close()


if __name__ == "__main__":
    if "FLEET_NAME" not in os.environ:
        sys.exit(run_on(DEVICES, [sys.executable, __file__]))
    run(globals())
