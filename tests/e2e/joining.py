"""Joining: a machine that has a URL and a token becomes a device, and nobody else does."""

import contextlib
import http.server
import json
import os
import re
import shutil
import socket
import sqlite3
import ssl
import subprocess
import threading
import time

from paceline import BIN, Fleet, Process, fashion_job, fill, must, on_devices, request
from paceline import small_disk
from runner import run
from tls import certificate_of, wait_for_log

BRIEF = ("--threads", "1", "--listen", "127.0.0.1:0", "--leave-seconds", "0")


def command_line(fleet, *words):
    """`paceline` with contexts of its own; the ended process."""
    return subprocess.run(
        [BIN / "paceline", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "XDG_CONFIG_HOME": str(fleet.path / "config")},
    )


def start(fleet, name, *arguments, prefix=()):
    """An agent that knows nothing but its state directory."""
    agent = Process(
        "paceline-agent",
        ["--state-dir", fleet.path / name, *arguments],
        fleet.path / f"{name}.log",
        prefix=prefix,
        name=name,
    )
    fleet.agents.append(agent)
    return agent


def secure():
    """A fleet whose coordinator has tokens and TLS, and runs; what init printed."""
    fleet = Fleet()
    words = fleet.init()
    fleet.start_coordinator("--heartbeat-ms", 100)
    return fleet, words


def fails(done, *words, status=1):
    must(done.returncode == status, f"{done.returncode}, not {status}: {done.stdout} {done.stderr}")
    lines = [line for line in done.stderr.splitlines() if not line.startswith("time=")]
    must(len(lines) == 1 and all(word in lines[0] for word in words), f"{words}: {done.stderr}")


def device_of(fleet, name):
    return next(item for item in fleet.get("/v1/devices")["items"] if item["name"] == name)


def wait_for(condition, what):
    deadline = time.monotonic() + 20
    while not condition():
        must(time.monotonic() < deadline, what)
        time.sleep(0.02)


def test_the_line_that_init_prints_makes_a_device():
    with Fleet() as fleet:
        state = fleet.path / "coordinator"
        printed = subprocess.run(
            [BIN / "paceline-coordinator", "init", "--state-dir", state],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout
        fleet.token = re.search("^token: (.*)$", printed, re.MULTILINE)[1]
        fleet.ca = state / "tls/ca.pem"
        fleet.tls = ssl.create_default_context(cafile=fleet.ca)
        fleet.start_coordinator("--heartbeat-ms", 100)
        token = re.search(r"paceline-agent join https://\S+ (pl_\S+)", printed)[1]
        done = fleet.join("board", *BRIEF, "--label", "room=cellar", token=token)
        must(done.returncode == 0 and f"device: {device_of(fleet, 'board')['id']}" in done.stdout,
             f"{done.stdout} {done.stderr}")
        must(device_of(fleet, "board")["state"] == "joined", f"{device_of(fleet, 'board')}")
        must("clock" not in done.stdout and token not in done.stdout, done.stdout)
        must((fleet.path / "board/ca.pem").read_bytes() == fleet.ca.read_bytes(), "the authority")
        conf = (fleet.path / "board/joined.conf").read_text(encoding="utf-8")
        must("token" not in conf and "pl_" not in conf and "name = board" in conf, conf)
        start(fleet, "board", "--label", "room=attic").wait_for_address()
        fleet.wait_for_devices(1)
        device = device_of(fleet, "board")
        must(device["join_token"] and device["address"].startswith("https://127.0.0.1:"), device)
        must(device["labels"] == {"room": "attic"}, f"the command line comes first: {device}")


def test_a_token_is_read_from_standard_input_and_never_shown():
    fleet, _ = secure()
    with fleet:
        token = fleet.join_token()
        done = fleet.join("quiet", given=f"{token}\n")
        must(done.returncode == 0, f"{done}")
        silent = socket.create_server(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        waiting = subprocess.Popen(
            [BIN / "paceline-agent", "join", "--state-dir", fleet.path / "x", url, token],
            stderr=subprocess.DEVNULL,
        )
        try:
            silent.accept()  # it has read its command line
            with open(f"/proc/{waiting.pid}/cmdline", "rb") as file:
                line = file.read()
            must(url.encode() in line and token[:10].encode() not in line, f"{line}")
        finally:
            waiting.kill()
            waiting.wait()
        must(token[:46] not in fleet.coordinator.log_text(), "the token is in the log")
        files = (fleet.path / "coordinator").glob("*.db*")
        database = b"".join(path.read_bytes() for path in files)
        must(token[:46].encode() not in database, "the token is in the database")


def test_a_wrong_join_changes_nothing():
    fleet, _ = secure()
    with fleet, Fleet() as other:
        other.init()
        other.start_coordinator()
        address, token = fleet.coordinator.address, fleet.join_token(uses=2)
        must(fleet.join("board", *BRIEF, token=token).returncode == 0, "the first join")
        board = fleet.path / "board"
        files = {name: (board / name).read_bytes() for name in ("joined.conf", "ca.pem")}
        foreign = other.join_token()
        wrong = fleet.join("board", token=foreign)
        fails(wrong, "is not the coordinator of this token", foreign[47:])
        fails(fleet.join("new", token=token[:46] + "_" + foreign[47:]), "not the coordinator")
        fails(fleet.join("new", token=foreign[:46] + token[46:]), "401", "not one of this")
        fails(fleet.join("new", token=fleet.token + token[46:]), "403", "role 'admin'")
        fails(fleet.join("new", token=token[:-1]), "cut off", status=2)
        swapped = fleet.join("new", url=token, token=f"https://{address}")
        fails(swapped, "URL comes before TOKEN", status=2)
        login = command_line(fleet, "login", fleet.token, f"https://{address}")
        must(login.returncode == 2 and "not a server" in login.stderr, f"{login}")
        must(token[:46] not in swapped.stderr and fleet.token not in login.stderr, "a token")
        fails(fleet.join("new", token=""), "cut off", status=2)
        fails(fleet.join("new", token=token, url=f"http://{address}"), "use https://", status=1)
        fails(fleet.join("new", token=token, url="ftp://x"), "--coordinator", status=2)
        fails(fleet.join("new", "--coordinator", "http://x", token=token), "URL", status=2)
        nobody = socket.create_server(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        nobody.close()
        fails(fleet.join("new", token=token, url=f"https://127.0.0.1:{port}"), str(port))
        fails(fleet.join("new", token=token, url=f"https://no-such-host.invalid:{port}"), "resolve")
        fails(fleet.join("new", token=token[:46], url="http://192.0.2.1:1"), "--insecure")
        must(not (fleet.path / "new/joined.conf").exists(), "a configuration")
        for name, before in files.items():
            must((board / name).read_bytes() == before, f"{name} has changed")
        must(len(fleet.get("/v1/devices")["items"]) == 1, "another device")
        row = next(row for row in fleet.get("/v1/tokens")["items"] if row.get("uses_left") == 1)
        must(row["role"] == "join", f"{row}")


def test_a_full_disk_ends_a_join_that_can_be_repeated():
    """join with more and more free bytes: the token is used once, and the rest follows."""
    fleet, _ = secure()
    with fleet, small_disk(fleet.path / "disk", "1m") as disk:
        foreign, token = fill(disk), fleet.join_token()
        size, failures = foreign.stat().st_size, []
        for free in range(0, 1 << 18, 4096):
            os.truncate(foreign, size - free)
            done = fleet.join("disk/board", "--name", "board", token=token)
            if done.returncode == 0:
                break
            fails(done, "No space left")
            failures.append(done.stderr)
            must(not (disk / "board/joined.conf").exists(), "half a configuration")
        must(done.returncode == 0, done.stderr)
        must(any("has joined as dev_" in text for text in failures), failures)
        must(any("has joined" not in text for text in failures), failures)
        must(len(fleet.get("/v1/devices")["items"]) == 1, "another device")
        files = sorted(path.name for path in (disk / "board").iterdir())
        must(files == ["ca.pem", "identity", "joined.conf", "lock"], files)


class Relay(http.server.BaseHTTPRequestHandler):
    """A man in the middle who shows the true authority and his own, on one lasting connection."""

    protocol_version = "HTTP/1.1"
    pem, seen = b"", []

    def do_GET(self):  # pylint: disable=invalid-name
        self.answer()

    def do_POST(self):  # pylint: disable=invalid-name
        self.answer()

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.seen.append((self.path, body))
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.pem)))
        self.end_headers()
        self.wfile.write(self.pem)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


def test_a_man_in_the_middle_gets_no_token():
    fleet, _ = secure()
    with fleet:
        thief = fleet.path / "thief"
        thief.mkdir()
        (thief / "identity").write_text("11" * 32 + "\n", encoding="ascii")
        own = certificate_of(thief)
        certificate = own.read_text().partition("-----BEGIN CERTIFICATE")
        Relay.pem = fleet.ca.read_bytes() + (certificate[1] + certificate[2]).encode()
        Relay.seen = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Relay)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"https://127.0.0.1:{server.server_address[1]}"
        fails(fleet.join("board", token=fleet.join_token(), url=url), "SSL")
        login = ("login", "--ca-sha256", fleet.join_token()[47:], url, fleet.token)
        done = command_line(fleet, *login)
        must(done.returncode == 6 and "SSL" in done.stderr, f"{done}")
        server.shutdown()
        server.server_close()
        must([path for path, _ in Relay.seen] == ["/ca.pem", "/ca.pem"], f"{Relay.seen}")
        must(not (fleet.path / "config").exists(), "a context")


def test_a_user_logs_in_by_the_hash_of_the_authority():
    fleet, words = secure()
    with fleet:
        url = f"https://{fleet.coordinator.address}"
        wrong = command_line(fleet, "login", "--ca-sha256", "0" * 64, url, fleet.token)
        must(wrong.returncode != 0 and words["ca_sha256"] in wrong.stderr, f"{wrong}")
        short = command_line(fleet, "login", "--ca-sha256", "abc", url, fleet.token)
        must(short.returncode == 2 and "64" in short.stderr, f"{short}")
        colons = ":".join(re.findall("..", words["ca_sha256"].upper()))
        done = command_line(fleet, "login", "--ca-sha256", colons, url, fleet.token)
        must(done.returncode == 0, f"{done}")
        made = command_line(fleet, "token", "create", "--join", "--uses", "5", "--expires", "1d")
        token = re.search(r"^TOKEN +(\S+)$", made.stdout, re.MULTILINE)
        must(made.returncode == 0 and (token or "token" in made.stdout), f"{made}")
        secret = token[1] if token else json.loads(made.stdout)["token"]
        must(secret[47:] == words["ca_sha256"], secret)
        must(fleet.join("board", token=secret).returncode == 0, "the join")
        both = command_line(fleet, "token", "create", "--join", "--role", "read")
        must(both.returncode == 2 and "exclude" in both.stderr, f"{both}")
        for verb, more in (("rename", ["cellar"]), ("accept", []), ("get", [])):
            name = "board" if verb == "rename" else "cellar"
            did = command_line(fleet, "device", verb, name, *more)
            must(did.returncode == 0 and "cellar" in did.stdout, f"{verb}: {did}")
        rekey = command_line(fleet, "device", "rekey", "cellar", "--expires", "1h")
        must(rekey.returncode == 0 and device_of(fleet, "cellar")["id"] in rekey.stdout, f"{rekey}")


def test_a_clock_that_is_wrong_by_years_is_said():
    class Old(Relay):
        """A coordinator without TLS whose clock is wrong."""

    Old.pem = json.dumps(
        {"device": "dev_1", "name": "b", "pending": False, "time": "1999-01-01T00:00:00.000Z"}
    ).encode()
    with Fleet() as fleet:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Old)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        done = fleet.join("board", token="pl_" + "A" * 43, url=url)
        server.shutdown()
        server.server_close()
        must(done.returncode == 0 and "1999-01-01" in done.stdout, f"{done}")
        must("Set the clock" in done.stdout, done.stdout)


def test_a_removed_device_ends_and_may_join_again():
    fleet, _ = secure()
    with fleet:
        agent = fleet.start_agent("board")
        fleet.wait_for_devices(1)
        running = fleet.join("board", token=fleet.join_token())
        fails(running, "stop the agent before it joins")
        before = device_of(fleet, "board")["id"]
        fleet.request("DELETE", f"/v1/devices/{before}", expect=204)
        must(agent.process.wait(20) == 1, "it goes on")
        must("paceline-agent join" in agent.log_text(), agent.log_text()[-2000:])
        fleet.agents.remove(agent)
        must(fleet.join("board", token=fleet.join_token()).returncode == 0, "the join")
        must(device_of(fleet, "board")["id"] != before, "the same device")


def test_a_board_that_was_set_up_anew_is_the_same_device():
    fleet, _ = secure()
    with fleet:
        must(fleet.join("board", *BRIEF, token=fleet.join_token()).returncode == 0, "the join")
        before = device_of(fleet, "board")
        shutil.move(fleet.path / "board", fleet.path / "old")
        token = fleet.join_token(device=before["id"])
        must(fleet.join("board", *BRIEF, "--name", "fresh", token=token).returncode == 0, "again")
        start(fleet, "board")
        old = start(fleet, "old", "--ca", fleet.ca)
        wait_for(lambda: device_of(fleet, "board")["state"] == "online", "not online")
        after = device_of(fleet, "board")
        must(after["id"] == before["id"] and after["public_key"] != before["public_key"], after)
        must(old.process.wait(20) == 1, "the old key is accepted")
        fleet.agents.remove(old)
        must("401" in old.log_text() and "not joined" in old.log_text(), old.log_text()[-2000:])


def boots_of(fleet):
    """{device: boot}, which no answer shows."""
    copy = fleet.path / "copied"
    copy.mkdir(exist_ok=True)
    for file in (fleet.path / "coordinator").glob("state.db*"):  # the coordinator locks its own
        shutil.copy(file, copy)
    with contextlib.closing(sqlite3.connect(copy / "state.db")) as database:
        rows = database.execute("SELECT document FROM devices").fetchall()
    return {row["id"]: row["boot"] for row in (json.loads(document) for (document,) in rows)}


def client_of(fleet, name):
    """TLS settings of a client with the key of the agent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(certificate_of(fleet.path / name))
    return context


def test_a_ticket_is_worth_nothing_with_another_key():
    fleet, _ = secure()
    with fleet:
        fleet.upload("fashion-train", "fashion-mini", "train")
        agents = {name: fleet.start_agent(name, wait=False) for name in ("one", "two")}
        must(fleet.join("thief", token=fleet.joins).returncode == 0, "the thief's join")
        fleet.wait_for_agents()
        job = fleet.submit(fashion_job(**on_devices(2, 2)))
        fleet.wait(job, "running")
        first = fleet.stages(fleet.job(job))[0]["device"]
        name = next(n for n in ("one", "two") if device_of(fleet, n)["id"] == first)
        own = client_of(fleet, name)
        path = f"/v1/agent/assignment?device={first}&boot={boots_of(fleet)[first]}"
        run_of = request(fleet.coordinator.address, "GET", path, tls=own).json["run"]
        peer = run_of["next"]
        ping = f"/peer/v1/{run_of['job']}/{run_of['generation']}/ping"
        ticket = {"Authorization": f"Bearer {peer['ticket']}"}
        address = peer["url"].removeprefix("https://")
        called = next(agent for other, agent in agents.items() if other != name)
        must(request(address, "GET", ping, headers=ticket, tls=own).status == 204, "its own ticket")
        must("event=peer_refused" not in called.log_text(), "refused before")
        stolen = request(address, "GET", ping, headers=ticket, tls=client_of(fleet, "thief"))
        must(stolen.status in (401, 403), f"{stolen.status} {stolen.body}")
        wait_for_log(called, "event=peer_refused")
        line = next(line for line in called.log_text().splitlines() if "peer_refused" in line)
        must(device_of(fleet, "thief")["public_key"] in line, line)
        must(peer["ticket"] not in called.log_text(), "the ticket is in the log")
        fleet.verb(job, "cancel")


if __name__ == "__main__":
    run(globals())
