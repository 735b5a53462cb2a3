"""TLS: the certificates that init makes, what the coordinator serves with, who is refused."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import stat
import subprocess
import tempfile
import threading
import time
import urllib.parse

from paceline import BIN, ROOT, SLOW_LEASE_MS, Fleet, data_files, fill, must, on_devices
from paceline import request, small_disk, train
from runner import run


def coordinator(*arguments):
    """A coordinator, or its command, that ends by itself."""
    return subprocess.run(
        [BIN / "paceline-coordinator", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def fails(status, *arguments, says):
    """It ends with this status and one line that is not of the log."""
    done = coordinator(*arguments)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("time=")]
    must(done.returncode == status, f"{arguments}: {done.returncode}, not {status}: {lines}")
    must(len(lines) == 1 and says in lines[0], f"{arguments}: '{says}' is not in: {lines}")


def wait_for_log(process, part):
    deadline = time.monotonic() + 20
    while part not in process.log_text():
        must(time.monotonic() < deadline, f"no '{part}' in: {process.log_text()[-2000:]}")
        time.sleep(0.02)


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
        wait_for_log(fleet.coordinator, "event=tls_handshake_failed")
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


def test_init_adds_names_to_the_certificate_of_the_server():
    with Fleet() as fleet:
        words = fleet.init("--name", "old.example")
        state = ("--state-dir", fleet.path / "coordinator")
        fleet.start_coordinator()
        more = ("init", *state, "--name", "new.example")
        fails(1, *more, says="stop the coordinator first")
        fleet.coordinator.stop()
        before = (fleet.path / "coordinator/tls/ca.pem").read_bytes()
        fails(1, *more, "--name", "a b", says="'a b': expected a host name")
        done = coordinator(*more)
        names = f"names: {words['names']} new.example\n"
        must(done.returncode == 0 and names in done.stdout, f"{done}")
        must("token" not in done.stdout, "another token")
        must((fleet.path / "coordinator/tls/ca.pem").read_bytes() == before, "another authority")
        fleet.restart_coordinator()
        host, port = fleet.coordinator.address.split(":")
        for name in ("old.example", "new.example"):
            with socket.create_connection((host, int(port)), timeout=10) as plain:
                fleet.tls.wrap_socket(plain, server_hostname=name).close()
        must(len(fleet.get("/v1/tokens")["items"]) == 2, "another token")
    many = [word for i in range(40) for word in ("--name", f"n{i}")]
    with Fleet() as fleet:
        fails(1, "init", "--state-dir", fleet.path / "x", *many, says="at most 32 names")


def test_init_fails_when_nobody_can_read_the_token():
    with Fleet() as fleet, open("/dev/full", "wb") as full:
        init = [BIN / "paceline-coordinator", "init", "--state-dir", fleet.path / "coordinator"]
        done = subprocess.run(
            init, stdout=full, stderr=subprocess.PIPE, text=True, timeout=30, check=False
        )
        must(done.returncode == 1 and "init --no-tls' makes another" in done.stderr, f"{done}")
        again = coordinator("init", "--no-tls", "--state-dir", fleet.path / "coordinator")
        must(again.returncode == 0 and "token: pl_" in again.stdout, f"{again}")


def test_a_full_disk_leaves_nothing_half_made():
    """init with more and more free bytes: whole, or not at all."""
    failures = 0
    with tempfile.TemporaryDirectory(prefix="paceline-tls-") as directory:
        with small_disk(pathlib.Path(directory) / "disk", "12m") as disk:
            state = disk / "coordinator"
            state.mkdir()
            foreign = fill(disk)
            size = foreign.stat().st_size
            for free in range(0, 1 << 20, 16384):
                os.truncate(foreign, size - free)
                done = coordinator("init", "--state-dir", state)
                if done.returncode == 0:
                    break
                must(re.search("full|space", done.stderr), f"{free} bytes: {done.stderr}")
                left = [path.name for path in state.iterdir() if path.name.startswith("tls")]
                must(left == [], f"{free} bytes: {left} are left")
                failures += 1
            must(done.returncode == 0 and "token: pl_" in done.stdout, done.stderr)
            files = sorted(path.name for path in (state / "tls").iterdir())
            must(files == ["ca.key", "ca.pem", "server.key", "server.pem"], files)
            must(failures > 2, f"only {failures} failures")


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
        new = ["--state-dir", fleet.path / "new", "--listen", "0.0.0.0:0"]
        fails(1, *new, *cert, *key, says="without tokens")
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


JOB = {
    "model": {"name": "mlp"},
    "dataset": {"train": "digits-train"},
    "batch": 16,
    "micro_batches": 4,
    "epochs": 1,
    "kernels": {},
    "replan": {"first": 0, "every": 0},
    **on_devices(3, 3),
}


def certificate_of(directory):
    """The key of an agent's state directory and a certificate of it, in one file."""
    seed = bytes.fromhex((directory / "identity").read_text(encoding="ascii"))
    key = bytes.fromhex("302e020100300506032b657004220420") + seed  # RFC 8410
    file = directory / "stolen.pem"
    file.write_text(ssl.DER_cert_to_PEM_cert(key).replace("CERTIFICATE", "PRIVATE KEY"))
    command = ["openssl", "req", "-x509", "-new", "-key", file, "-subj", "/CN=x", "-days", "1"]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    file.write_text(file.read_text() + made.stdout)
    return file


class Middle:
    """A man in the middle with a key of his own: he accepts every connection and reads it."""

    def __init__(self, certificate):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        self.read = b""
        self.refused = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with contextlib.suppress(OSError), connection:
                    connection.settimeout(5)
                    try:
                        with self.context.wrap_socket(connection, server_side=True) as client:
                            self.read += client.recv(1000)
                    except ssl.SSLError:
                        self.refused += 1


def device_requests(fleet, agent, tls):
    """What each route of devices answers to the agent's device, to a client with a certificate or
    without: {(method, path): answer}.
    """
    device = next(item for item in fleet.get("/v1/devices")["items"] if item["name"] == agent.name)
    named = {"device": device["id"], "boot": "earlier"}
    digest = "ab" * 32
    key = {"public_key": device["public_key"]}
    routes = []
    for path, name, own in (
        ("join", "join_request.full", key),
        ("enroll", "enroll_request.full", key),
        ("heartbeat", "heartbeat.idle", named),
    ):
        body = json.loads((ROOT / f"schema/examples/valid/{name}.json").read_text("utf-8"))
        routes.append(("POST", f"/v1/agent/{path}", {**body, **own}))
    for path in ("assignment", f"blobs/{digest}", f"datasets/{digest}/content"):
        routes.append(("GET", f"/v1/agent/{path}", None))
    for path in (f"blobs/{digest}", f"averages/{digest}"):
        routes.append(("PUT", f"/v1/agent/{path}", b"0"))
    query = urllib.parse.urlencode(named)
    binary = {"Content-Type": "application/octet-stream"}
    return {
        (method, path): request(
            fleet.coordinator.address,
            method,
            path if method == "POST" else f"{path}?{query}",
            body,
            binary if method == "PUT" else None,
            tls=tls,
        )
        for method, path, body in routes
    }


def test_a_job_over_tls_has_the_weights_of_a_single_device():
    expected, _ = train(JOB, {"digits-train": data_files("digits", "train")})
    with Fleet() as fleet:
        fleet.init()
        fleet.start_coordinator("--heartbeat-ms", 100, "--lease-ms", SLOW_LEASE_MS)
        fleet.upload("digits-train", "digits", "train")
        devices = fleet.start_agents(3)
        must(all(device["address"].startswith("https://") for device in devices), devices)
        job = fleet.submit(JOB)
        fleet.wait(job, "succeeded")
        must(fleet.checkpoint_sha256(job) == expected, "other weights")


def test_a_device_without_its_key_is_refused():
    with Fleet() as fleet:
        fleet.init()
        fleet.start_coordinator("--heartbeat-ms", 100)
        agent, other = fleet.start_agent("victim"), fleet.start_agent("thief")
        fleet.wait_for_devices(2)
        thief = ssl.create_default_context(cafile=fleet.ca)
        thief.load_cert_chain(certificate_of(fleet.path / other.name))
        for tls in (fleet.tls, thief):
            answers = device_requests(fleet, agent, tls)
            must(len(answers) == 8, f"{list(answers)}")
            for route, answer in answers.items():
                must(answer.status == 403 and answer.code == "wrong_key", f"{route}: {answer.body}")
        wait_for_log(fleet.coordinator, "event=agent_refused")
        own = ssl.create_default_context(cafile=fleet.ca)
        own.load_cert_chain(certificate_of(fleet.path / agent.name))
        for route, answer in device_requests(fleet, agent, own).items():
            must(answer.code != "wrong_key", f"{route}: {answer.body}")
            must(route[0] == "POST" or answer.code == "stale_boot", f"{route}: {answer.body}")


def test_an_agent_of_another_authority_does_not_enrol():
    with Fleet() as fleet, Fleet() as other:
        fleet.init()
        other.init()
        fleet.start_coordinator()
        fleet.ca = other.ca
        agent = fleet.start_agent("lost")
        wait_for_log(agent, "SSL certificate problem")
        wait_for_log(fleet.coordinator, "event=tls_handshake_failed")
        must(fleet.get("/v1/devices")["items"][0]["state"] == "joined", "it enrolled")


def test_a_man_in_the_middle_of_two_agents_reads_nothing():
    with Fleet() as fleet:
        fleet.init()
        fleet.start_coordinator("--heartbeat-ms", 100, "--lease-ms", 2000)
        fleet.upload("digits-train", "digits", "train")
        thief = fleet.path / "thief"
        thief.mkdir()
        (thief / "identity").write_text("11" * 32 + "\n", encoding="ascii")
        middle = Middle(certificate_of(thief))
        first = fleet.start_agent("first")
        fleet.start_agent("second", "--advertise", middle.url)
        fleet.wait_for_devices(2)
        job = fleet.submit({**JOB, **on_devices(2, 2)})
        wait_for_log(first, "event=peer_trouble")
        must("pinned public key" in first.log_text(), first.log_text()[-2000:])
        must(middle.read == b"", middle.read)
        fleet.verb(job, "cancel")
        middle.listener.close()


if __name__ == "__main__":
    run(globals())
