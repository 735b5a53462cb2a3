"""TLS: the certificates that init makes, what the coordinator serves with, who is refused."""

import os
import pathlib
import re
import shutil
import socket
import ssl
import stat
import subprocess
import tempfile

from paceline import BIN, Fleet, fill, must, request, small_disk
from runner import run


def coordinator(*arguments):
    """The end of a coordinator that must not start: its status and its words."""
    done = subprocess.run(
        [BIN / "paceline-coordinator", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    words = [line for line in done.stderr.splitlines() if not line.startswith("time=")]
    must(len(words) == 1, f"not one line: {done.stderr}")
    return done.returncode, words[0]


def fails(status, *arguments, says):
    code, words = coordinator(*arguments)
    must(code == status, f"{arguments}: status {code}, not {status}: {words}")
    must(says in words, f"{arguments}: '{says}' is not in: {words}")


def refused_by_client(address, context):
    """Why the client refuses the server."""
    try:
        request(address, "GET", "/healthz", tls=context)
    except ssl.SSLError as error:
        return str(error)
    raise AssertionError("the client accepted the server")


def test_an_initialised_coordinator_speaks_tls_only():
    with Fleet() as fleet:
        words = fleet.init()
        must(len(words["ca_sha256"]) == 64 and "127.0.0.1" in words["names"], words)
        fleet.start_coordinator()
        must(fleet.get("/healthz") == {"status": "ok"}, "not healthy")
        address = fleet.coordinator.address
        why = refused_by_client(address, ssl.create_default_context())
        must("certificate verify failed" in why, why)
        old = ssl.create_default_context(cafile=fleet.ca)
        old.options |= ssl.OP_NO_TLSv1_2 | ssl.OP_NO_TLSv1_3
        old.set_ciphers("ALL:@SECLEVEL=0")
        refused_by_client(address, old)
        must("tls_handshake_failed" in fleet.coordinator.log_text(), "no word in the log")
        plain = request(address, "GET", "/healthz")
        must(plain.status == 400 and "https://" in plain.json["detail"], plain.body)
        fleet.coordinator.stop()
        fleet.restart_coordinator()
        must(fleet.get("/healthz") == {"status": "ok"}, "not healthy after a restart")
        for file in (fleet.path / "coordinator/tls").iterdir():
            mode = stat.S_IMODE(file.stat().st_mode)
            must(mode == (0o600 if file.suffix == ".key" else 0o644), f"{file}: {mode:o}")


def test_init_overwrites_nothing():
    with Fleet() as fleet:
        fleet.init("--name", "paceline.example")
        directory = fleet.path / "coordinator/tls"
        before = {file.name: file.read_bytes() for file in directory.iterdir()}
        fails(1, "init", "--state-dir", fleet.path / "coordinator", says="has certificates already")
        must(before == {file.name: file.read_bytes() for file in directory.iterdir()}, "changed")
        fails(
            1,
            "init",
            "--state-dir",
            fleet.path / "other",
            "--name",
            "https://x",
            says="'https://x': expected a host name",
        )
        must(list((fleet.path / "other").iterdir()) == [], "something is left")


def test_a_full_disk_leaves_nothing_half_made():
    with tempfile.TemporaryDirectory(prefix="paceline-tls-") as directory:
        with small_disk(pathlib.Path(directory) / "disk", "12m") as disk:
            state = disk / "coordinator"
            state.mkdir()
            foreign = fill(disk)
            size = foreign.stat().st_size
            for free in (0, 4096, 8192, 16384, 65536, 262144, 1 << 20):
                os.truncate(foreign, size - free)
                code, words = coordinator("init", "--state-dir", state)
                must(code == 1 and re.search("full|space", words), f"{free} bytes: {code}: {words}")
                must(not (state / "tls").exists(), f"{free} bytes: certificates are there")
            foreign.unlink()
            done = subprocess.run(
                [BIN / "paceline-coordinator", "init", "--state-dir", state],
                capture_output=True,
                text=True,
                check=False,
            )
            must(done.returncode == 0 and "token: pl_" in done.stdout, done.stderr)
            must(sorted(file.name for file in (state / "tls").iterdir()), "no certificates")


def test_nothing_listens_beyond_loopback_without_tls():
    with Fleet() as fleet:
        listen = ["--state-dir", fleet.path / "coordinator", "--listen", "0.0.0.0:0"]
        fails(2, *listen, says="run 'paceline-coordinator init', or confirm with --insecure")
        fleet.init()
        fleet.start_coordinator(listen="0.0.0.0:0")
        port = fleet.coordinator.address.split(":")[1]
        must(request(f"127.0.0.1:{port}", "GET", "/healthz", tls=fleet.tls).status == 200, "health")


def test_a_certificate_of_ones_own_is_served_and_checked():
    with Fleet() as fleet:
        fleet.init()
        own = fleet.path / "own"
        shutil.copytree(fleet.path / "coordinator/tls", own)
        shutil.rmtree(fleet.path / "coordinator/tls")
        state = ["--state-dir", fleet.path / "coordinator", "--listen", "127.0.0.1:0"]
        cert, key = ["--tls-cert", own / "server.pem"], ["--tls-key", own / "server.key"]
        fails(2, *state, *cert, says="--tls-key is missing")
        fails(2, *state, *key, says="--tls-cert is missing")
        fails(1, *state, *cert, "--tls-key", own / "ca.key", says="belongs to another certificate")
        fails(1, *state, *cert, "--tls-key", own / "none.key", says="none.key")
        fails(1, *state, *cert, "--tls-key", own / "server.pem", says="not a private key")
        fleet.start_coordinator(*cert, *key)
        must(fleet.get("/healthz") == {"status": "ok"}, "not healthy")


def test_a_client_that_says_nothing_holds_nobody():
    with Fleet() as fleet:
        fleet.init()
        fleet.start_coordinator()
        host, port = fleet.coordinator.address.split(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(100)]
        must(fleet.get("/healthz") == {"status": "ok"}, "not healthy")
        for connection in silent:
            connection.close()


if __name__ == "__main__":
    run(globals())
