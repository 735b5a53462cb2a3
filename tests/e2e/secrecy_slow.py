"""Secrets after a full run: no token, key or ticket in a log, an answer, the list of processes, or
what a crash leaves.
"""

import base64
import pathlib
import re
import resource
import signal
import subprocess
import time

from joining import boots_of, client_of, command_line, device_of, secure
from paceline import BIN, Fleet, must, on_devices, request
from relay import JOB, start_hidden
from runner import Skip, run


def key_texts(path):
    """The lines of a key in PEM."""
    return [line for line in path.read_text("ascii").splitlines() if not line.startswith("-")]


def tickets_of(fleet, name):
    """{where: ticket} of the assignment of an agent, which it alone can ask for."""
    device = device_of(fleet, name)["id"]
    path = f"/v1/agent/assignment?device={device}&boot={boots_of(fleet)[device]}"
    answer = request(fleet.coordinator.address, "GET", path, tls=client_of(fleet, name))
    found = re.findall(r'"(\w*ticket\w*)": ?"([0-9a-f]{32,})"', answer.body.decode())
    must(len(found) > 0, f"no ticket in {answer.body}")
    return [ticket for _, ticket in found]


def secrets_of(fleet, names, tokens):
    """Every text that must be in no other place than its own."""
    tls = fleet.path / "coordinator/tls"
    found = {f"token {i}": [token[:46]] for i, token in enumerate(tokens)}
    for key in ("ca.key", "server.key"):
        found[key] = key_texts(tls / key)
    for name in names:
        seed = (fleet.path / name / "identity").read_text("ascii").strip()
        raw = bytes.fromhex(seed)
        found[f"key of {name}"] = [seed, base64.b64encode(raw).decode()[:40]]
        found[f"tickets of {name}"] = tickets_of(fleet, name)
    return found


def answers_of(fleet, job):
    """The answers of everything that can be read."""
    paths = ["/healthz", "/readyz", "/version", "/metrics", "/v1/tokens", "/v1/tokens/self"]
    paths += ["/v1/audit", "/v1/devices", "/v1/jobs", "/v1/datasets", "/v1/models", "/v1/links"]
    paths += [f"/v1/jobs/{job['id']}{more}" for more in ("", "/plans", "/incidents", "/metrics")]
    paths += [f"/v1/devices/{item['id']}" for item in fleet.get("/v1/devices")["items"]]
    paths += [f"/v1/tokens/{item['id']}" for item in fleet.get("/v1/tokens")["items"]]
    return {path: fleet.request("GET", path, expect=200).body.decode() for path in paths}


def processes():
    """Command line and environment of every process."""
    found = {}
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                found[f"{place}/{name}"] = (place / name).read_bytes().decode(errors="replace")
            except OSError:  # it has ended, or is another user's
                continue
    return found


def test_secrets_are_in_no_log_answer_or_process():
    fleet, words = secure()
    with fleet:
        fleet.coordinator.stop()
        fleet.restart_coordinator("--log-level", "debug", "--heartbeat-ms", 100)
        fleet.upload("digits-train", "digits", "train")
        joins = fleet.join_token(uses=2)
        names = ("open", "hidden")
        for name in names:
            done = fleet.join(name, token=joins)
            must(done.returncode == 0 and joins[:46] not in done.stdout + done.stderr, f"{done}")
        url = f"https://{fleet.coordinator.address}"
        login = command_line(fleet, "login", "--ca-sha256", words["ca_sha256"], url, fleet.token)
        must(login.returncode == 0, f"{login}")
        created = fleet.request(
            "POST", "/v1/tokens", {"role": "submit"}, {"Idempotency-Key": "k"}, expect=201
        ).json["token"]
        again = fleet.request("POST", "/v1/tokens", {"role": "submit"}, {"Idempotency-Key": "k"})
        fleet.start_agent("open", "--log-level", "debug")
        start_hidden(fleet, "hidden", "--log-level", "debug")
        fleet.wait_for_agents()
        job = fleet.submit({**JOB, "epochs": 20, **on_devices(2, 2)})
        fleet.wait_for_step(job, 5)
        secrets = secrets_of(fleet, names, (fleet.token, joins, created))
        places = {**answers_of(fleet, job), **processes(), "a repeated answer": again.body.decode()}
        shown = command_line(fleet, "context", "list", "--format", "json")
        places["paceline context list"] = shown.stdout + shown.stderr
        fleet.verb(job, "cancel")
        for program in (fleet.coordinator, *fleet.agents):
            program.stop()
            places[str(program.log)] = program.log_text()
        for path in fleet.path.glob("*.log"):
            places[str(path)] = path.read_text(errors="replace")
        must(len(secrets) == 9 and len(places) > 30, f"{len(secrets)}, {len(places)}")
        must("level=debug" in fleet.coordinator.log_text(), "nothing of level debug")
        for what, texts in secrets.items():
            for text in texts:
                for place, content in places.items():
                    must(text not in content, f"{what} is in {place}")
        database = b"".join(p.read_bytes() for p in (fleet.path / "coordinator").glob("*.db*"))
        for what in (*(f"token {i}" for i in range(3)), *(f"key of {name}" for name in names)):
            must(secrets[what][0].encode() not in database, f"{what} is in the database")


def test_a_crash_leaves_no_core_file():
    """Beside a program that leaves one."""
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text("ascii").strip()
    if "/" in pattern or pattern.startswith("|"):
        raise Skip(f"core files go to '{pattern}'")

    def allow():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    with Fleet() as fleet:
        fleet.init()
        fleet.start_coordinator()
        joins = fleet.join_token()
        must(fleet.join("board", token=joins).returncode == 0, "the join")
        agent = [BIN / "paceline-agent", "--state-dir", fleet.path / "board"]
        other = ["--state-dir", fleet.path / "other", "--listen", "127.0.0.1:0"]
        commands = {
            "sleep": (["sleep", "60"], None),
            "agent": ([*agent, "--listen", "127.0.0.1:0"], "event=enrolled"),
            "coordinator": ([BIN / "paceline-coordinator", *other], "event=listening"),
        }
        left = {}
        for name, (command, ready) in commands.items():
            place = fleet.path / f"crash-{name}"
            place.mkdir()
            with open(place / "log", "wb") as log:
                crashing = subprocess.Popen(
                    command, cwd=place, stderr=log, stdout=log, preexec_fn=allow
                )
            deadline = time.monotonic() + 20
            while ready and ready not in (place / "log").read_text():
                must(time.monotonic() < deadline, (place / "log").read_text())
                time.sleep(0.02)
            crashing.send_signal(signal.SIGABRT)
            must(crashing.wait(20) == -signal.SIGABRT, f"{name}: {crashing.returncode}")
            left[name] = [path.name for path in place.iterdir() if path.name.startswith("core")]
        if not left.pop("sleep"):
            raise Skip("this machine writes no core files at all")
        must(left == {"agent": [], "coordinator": []}, f"{left}")


if __name__ == "__main__":
    run(globals())
