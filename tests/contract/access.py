"""Tokens, roles, the audit and shares of callers: who may call what, what is noted of it, and what
one caller can take from the others.
"""

import concurrent.futures
import contextlib
import http.client
import json
import re
import socket
import sqlite3
import struct
import subprocess
import urllib.parse

from api import BINARY, JOB, JSON, Api, check_answer, operations, record
from connections import HEAD, answer_of, talk, wait_for
from fake_agent import FakeAgent, finish
from objects import TINY
from paceline import BIN, ROOT, Answer, Failure, data_files, must, request, tar_of
from service import concrete

ROLES = ("join", "read", "submit", "operate", "admin")  # the first may call no route
UNKNOWN = "pl_" + "A" * 43  # the form of a token, of no coordinator
REFUSALS_BURST = 500  # coordinator/http/access.c
CALLER_STREAMS_MAX = 256
CALLER_CHECKPOINTS_MAX = 8


def bearer(token):
    return {"Authorization": f"Bearer {token}"} if token else {}


def make_admin(state_dir):
    made = subprocess.run(
        [str(BIN / "paceline-coordinator"), "init", "--no-tls", "--state-dir", str(state_dir)],
        capture_output=True,
        text=True,
        check=True,
    )
    return re.search("^token: (pl_[A-Za-z0-9_-]{43})$", made.stdout, re.MULTILINE)[1]


class Locked(Api):
    """A coordinator that needs tokens. Requests have the admin's, unless their headers have
    another, or None for no token; calls of agents have none.
    """

    def __init__(self, *arguments, data=False):
        super().__init__(start=False, data=False)
        self.admin = make_admin(self.path / "coordinator")
        self.start_coordinator("--heartbeat-ms", "5000", "--lease-ms", "20000", *arguments)
        self.joins = self.join_token(name="joins", uses=4096)
        if data:
            self.upload("digits-train", "digits", "train")
            self.upload("digits-test", "digits", "test")

    def request(self, method, path, body=None, headers=None, expect=None, timeout=60):
        headers = dict(headers or {})
        if "Authorization" not in headers and not path.startswith("/v1/agent/"):
            headers.update(bearer(self.admin))
        if headers.get("Authorization", "") is None:
            del headers["Authorization"]
        return super().request(method, path, body, headers, expect, timeout)

    def create(self, name, role="read", **fields):
        """A new token: its id and its secret."""
        body = {"name": name, "role": role, **fields}
        made = self.request("POST", "/v1/tokens", body, expect=201).json
        return made["id"], made["token"]

    def ask(self, token, path="/v1/devices", method="GET", **more):
        return self.request(method, path, headers=bearer(token) or {"Authorization": None}, **more)

    def tokens_of_all_roles(self):
        """{role: secret}, each of its own token."""
        return {role: self.create(f"has-{role}", role)[1] for role in ROLES}

    def revoked_tokens(self):
        """{role: secret} of tokens that are revoked."""
        secrets = {}
        for role in ROLES:
            name, secrets[role] = self.create(f"revoked-{role}", role)
            self.request("POST", f"/v1/tokens/{name}/revoke", expect=202)
        return secrets

    def expired_tokens(self):
        """{role: secret} of tokens that have expired."""
        made = {role: self.create(f"brief-{role}", role, expires_seconds=1000) for role in ROLES}
        self.coordinator.stop()
        with contextlib.closing(sqlite3.connect(self.path / "coordinator/state.db")) as database:
            database.executemany(
                "UPDATE tokens SET document = json_set(document, '$.expires_at',"
                " '2026-01-01T00:00:00.000Z') WHERE id = ?",
                [(name,) for name, _ in made.values()],
            )
            database.commit()
        self.restart_coordinator()
        return {role: secret for role, (_, secret) in made.items()}


def roles_of_the_server():
    """(METHOD, path) -> role, of the server's table."""
    source = (ROOT / "coordinator/http/routes.c").read_text(encoding="utf-8")
    rows = re.findall(r'ROUTE\((\w+), "([A-Z]+)", "([^"]+)"', source)
    return {(method, path): role.lower() for role, method, path in rows}


# ---- every route, every role, every token ----


def test_the_contract_names_the_role_of_every_route():
    stated = {key: operation["x-role"] for key, operation in operations().items()}
    served = roles_of_the_server()
    differ = {
        key: (stated[key], served.get(key)) for key in stated if stated[key] != served.get(key)
    }
    must(not differ and len(served) > 50, f"openapi.yaml and routes.c differ: {differ}")
    for key, operation in operations().items():
        needs_token = operation["x-role"] in ROLES
        must(
            ("security" not in operation) == needs_token,
            f"{key}: security does not follow from the role",
        )


class Caller:
    """One connection for many requests without bodies. An event stream is not read to its end.
    source: the caller's address.
    """

    def __init__(self, api, source="127.0.0.1"):
        self.host, port = api.coordinator.address.rsplit(":", 1)
        self.port, self.source, self.connection = int(port), source, None

    def ask(self, method, path, token):
        self.connection = self.connection or http.client.HTTPConnection(
            self.host, self.port, source_address=(self.source, 0)
        )
        headers = {**bearer(token), "Content-Length": "0"} if method != "GET" else bearer(token)
        self.connection.request(method, path, headers=headers)
        response = self.connection.getresponse()
        endless = "event-stream" in (response.headers["Content-Type"] or "")
        answer = Answer(response.status, response.headers, b"" if endless else response.read())
        if endless:
            self.connection.close()
            self.connection = None
        return answer


def expected(needed, had):
    """The problem that refuses a caller, or None. had: a role, or None without a valid token."""
    if needed in ("open", "device"):
        return None
    if had is None:
        return "unauthorized"
    return None if ROLES.index(had) >= ROLES.index(needed) else "forbidden"


def check_refusal(caller, method, path, needed, token, had):
    """The answer to a route that needs a role. had: the token's role if it is valid."""
    answer, code = caller.ask(method, concrete(path), token), expected(needed, had)
    refused = answer.code in ("unauthorized", "forbidden")
    must(
        answer.code == code if code else not refused,
        f"{answer.status} {answer.code}, expected {code or 'no refusal'}",
    )
    must(refused == ("WWW-Authenticate" in answer.headers), f"{answer.headers}")
    if answer.code:
        check_answer(method, path, answer)


def test_every_route_answers_every_role_and_every_token_as_its_role_says():
    with Locked() as api, Locked() as another:
        wrong = {"none": None, "unknown": UNKNOWN, "of another coordinator": another.admin}
        kinds = {  # {name or role: secret}
            "wrong": wrong,
            "expired": api.expired_tokens(),
            "revoked": api.revoked_tokens(),
            "valid": api.tokens_of_all_roles(),
        }
        cells = 0
        for last, (kind, secrets) in enumerate(kinds.items(), 2):
            caller = Caller(api, f"127.0.0.{last}")  # refusals are limited by address
            for (method, path), operation in sorted(operations().items()):
                for name, secret in secrets.items():
                    had = name if kind == "valid" else None
                    try:
                        check_refusal(caller, method, path, operation["x-role"], secret, had)
                    except Failure as failure:
                        raise Failure(f"{method} {path}, {kind} token {name}: {failure}") from None
                    cells += 1
        must(cells == (3 + 3 * len(ROLES)) * len(operations()), f"{cells} cells")


def test_unknown_routes_need_no_token_and_head_needs_that_of_get():
    with Locked() as api:
        api.problem("GET", "/v1/nothing", headers={"Authorization": None}, code="not_found")
        api.problem("PUT", "/v1/jobs", headers={"Authorization": None}, code="method_not_allowed")
        for token, status in ((None, 401), (UNKNOWN, 401), (api.admin, 200)):
            head = request(api.coordinator.address, "HEAD", "/v1/devices", headers=bearer(token))
            must((head.status, head.body) == (status, b""), f"HEAD: {head.status}")


# ---- the header ----


def test_the_header_is_read_strictly():
    with Locked() as api:
        devices = {}
        for scheme in ("Bearer", "bearer", "BEARER", "Bearer  "):
            devices["Authorization"] = f"{scheme} {api.admin}"
            api.request("GET", "/v1/devices", headers=devices, expect=200)
        refused = [
            "",
            "Bearer",
            "Bearer ",
            api.admin,
            f"Basic {api.admin}",
            f"Token {api.admin}",
            f"Bearer{api.admin}",
            f"Bearer {api.admin} {api.admin}",
            f"Bearer {api.admin}=",
            f"Bearer {api.admin},",
            f"Bearer {api.admin[:-1]}",
            f"Bearer {api.admin}A",
            f"Bearer {api.admin.swapcase()}",
            f"Bearer \xe9{api.admin}",
            f"Bearer {'A' * 20000}",
        ]
        for value in refused:
            answer = api.problem(
                "GET", "/v1/devices", headers={"Authorization": value}, code="unauthorized"
            )
            must(
                answer.headers["WWW-Authenticate"].startswith('Bearer realm="paceline"'),
                f"{value[:50]!r}: {answer.headers}",
            )
            must(api.admin not in answer.body.decode(), "the answer repeats the token")


def test_a_token_outside_of_one_whole_header_is_refused():
    with Locked() as api:
        line = f"Authorization: Bearer {api.admin}\r\n".encode()
        get = b"GET /v1/devices " + HEAD.encode()
        twice = answer_of(talk(api, get + line + line + b"\r\n"))
        must((twice.status, twice.code) == (400, "invalid_parameter"), f"{twice.body}")
        two = answer_of(talk(api, get + line + b"authorization: Bearer x\r\n\r\n"))
        must((two.status, two.code) == (400, "invalid_parameter"), f"{two.body}")
        cut = answer_of(talk(api, get + line[:-2] + b"\0\r\n\r\n"))
        must((cut.status, cut.code) == (400, "invalid_parameter"), f"{cut.body}")
        folded = answer_of(talk(api, get + line[:22] + b"\r\n " + line[22:] + b"\r\n"))
        must((folded.status, folded.code) == (400, "invalid_parameter"), f"{folded.body}")
        with api.connect() as connection, contextlib.suppress(OSError):
            connection.settimeout(1)  # the coordinator closes its side and reads no further
            connection.sendall(get + b"Authorization: Bearer " + b"A" * 10_000_000)
            must(connection.recv(12) == b"HTTP/1.1 400", "a long header is accepted")
        for name in ("access_token", "token"):
            query = urllib.parse.urlencode({name: api.admin})
            api.problem(
                "GET", f"/v1/devices?{query}", headers={"Authorization": None}, code="unauthorized"
            )
            api.problem("GET", f"/v1/devices?{query}", code="invalid_parameter")
        cookie = {"Authorization": None, "Cookie": f"token={api.admin}"}
        api.problem("GET", "/v1/devices", headers=cookie, code="unauthorized")
        must(api.ask(api.admin).status == 200, "the coordinator does not serve any more")


# ---- tokens ----


def test_a_token_is_created_shown_once_used_and_revoked():
    with Locked() as api:
        key = {"Idempotency-Key": "one"}
        body = {"name": "ci", "role": "submit", "expires_seconds": 3600}
        made = api.request("POST", "/v1/tokens", body, key, expect=201).json
        secret = made.pop("token")
        must(re.fullmatch("pl_[A-Za-z0-9_-]{43}", secret), secret)
        again = api.request("POST", "/v1/tokens", body, key, expect=201)
        must(again.json == made, f"a repeated answer differs: {again.json} {made}")
        api.problem(
            "POST", "/v1/tokens", {**body, "role": "read"}, key, code="idempotency_mismatch"
        )
        api.problem("POST", "/v1/tokens", body, code="name_taken", words=("ci",))
        path = f"/v1/tokens/{made['id']}"
        must(api.get(path) == made and made["last_used_at"] is None, f"{made}")
        own = api.ask(secret, "/v1/tokens/self", expect=200).json
        must(own["id"] == made["id"] and own["state"] == "active", f"{own}")
        wait_for(lambda: api.get(path)["last_used_at"], "the use is not noted")
        listed, pages = api.pages("/v1/tokens", 1)
        names = [item["name"] for item in listed]
        must(pages == 3 and names == ["admin", "joins", "ci"], f"{listed}")
        api.problem("POST", f"{path}/revoke", None, {"If-Match": '"7"'}, code="revision_mismatch")
        ended = api.request("POST", f"{path}/revoke", None, {"If-Match": '"1"'}, expect=202).json
        must(ended["state"] == "revoked" and ended["revoked_at"], f"{ended}")
        must(api.request("POST", f"{path}/revoke", expect=202).json == ended, "a second time")
        for word in ("revoked", "ci"):
            answer = api.ask(secret)
            must(answer.code == "unauthorized" and word in answer.json["detail"], f"{answer.body}")
        api.coordinator.kill()
        api.restart_coordinator()
        must(api.ask(secret).status == 401 and api.get(path) == ended, "after a restart")
        other = api.create("ci", "read")
        must(other[0] != made["id"], "the name of a revoked token is free")


def test_wrong_requests_about_tokens_are_refused():
    with Locked() as api:
        unknown = "/v1/tokens/tok_" + "0" * 26
        api.problem("GET", unknown, code="unknown_token", words=("/v1/tokens",))
        api.problem("POST", f"{unknown}/revoke", code="unknown_token")
        admin = api.get("/v1/tokens")["items"][0]
        revoke = f"/v1/tokens/{admin['id']}/revoke"
        api.problem("POST", revoke, code="wrong_state", words=("admin", "last"))
        api.takes_no_body(revoke)
        key = {"Idempotency-Key": "two"}
        other = api.create("second", "admin")
        api.request("POST", f"/v1/tokens/{other[0]}/revoke", None, key, expect=202)
        api.problem("POST", "/v1/tokens", {}, key, code="idempotency_mismatch")
        api.problem("POST", revoke, None, key, code="idempotency_mismatch")
        good = {"name": "x", "role": "read"}
        for fields, words in (
            ({"name": "With Space"}, ("/name",)),
            ({"role": "root"}, ("/role", "join, read, submit, operate, admin")),
            ({"expires_seconds": 0}, ("/expires_seconds",)),
            ({"expires_seconds": 10**12}, ("/expires_seconds",)),
            ({"expire": 5}, ("/expire", "expires_seconds")),
            ({"max_bytes": 5}, ("/max_bytes", "submit")),
            ({"max_jobs": 5}, ("/max_jobs", "submit")),
            ({"role": "submit", "max_jobs": 0}, ("/max_jobs",)),
        ):
            api.problem(
                "POST", "/v1/tokens", {**good, **fields}, code="invalid_fields", words=words
            )
        api.problem("POST", "/v1/tokens", b"{", JSON, code="invalid_json")
        api.problem("POST", "/v1/tokens", b"{}", code="unsupported_media_type")
        api.problem("POST", "/v1/tokens", b" " * (3 << 20), JSON, code="body_too_large")
        for path in ("/v1/tokens", "/v1/audit", "/v1/tokens/self"):
            api.problem("GET", f"{path}?nothing=1", code="invalid_parameter")


# ---- joining ----


def names_of(api):
    return [device["name"] for device in api.get("/v1/devices")["items"]]


def test_a_machine_joins_with_a_token_and_no_other_way():
    with Locked() as api:
        stranger = FakeAgent(api, "stranger", enrol=False)
        refused = api.problem(
            "POST", "/v1/agent/enroll", stranger.request_body(), code="unauthorized"
        )
        must("paceline-agent join" in refused.json["detail"], f"{refused.body}")
        expired, revoked = api.expired_tokens()["admin"], api.create("ended", "join")
        api.request("POST", f"/v1/tokens/{revoked[0]}/revoke", expect=202)
        for token, code, word in (
            (None, "unauthorized", "paceline token create --join"),
            ("x", "unauthorized", "not one of this coordinator"),
            (UNKNOWN, "unauthorized", "not one of this coordinator"),
            (expired, "unauthorized", "has expired"),
            (revoked[1], "unauthorized", "was revoked"),
            (api.admin, "forbidden", "'join'"),
        ):
            answer = stranger.join(token)
            must(answer.code == code and word in answer.json["detail"], f"{token}: {answer.body}")
            must("WWW-Authenticate" in answer.headers, f"{answer.headers}")
        must(names_of(api) == [], "a device without a token")
        token = api.join_token(name="two", uses=2)
        made = stranger.join(token)
        must(made.status == 201 and not made.json["pending"], f"{made.body}")
        device = api.get(f"/v1/devices/{made.json['device']}")
        row = next(row for row in api.get("/v1/tokens")["items"] if row["name"] == "two")
        must(device["state"] == "joined" and device["join_token"] == row["id"], f"{device}")
        again = stranger.join(UNKNOWN)
        must(again.status == 200 and again.json["device"] == made.json["device"], f"{again.body}")
        stranger.enrol()
        must(stranger.id == made.json["device"], "another device enrolled")
        must(api.get(f"/v1/tokens/{row['id']}")["uses_left"] == 1, "one use for one device")
        FakeAgent(api, "other", enrol=False).join(token)
        used = api.get(f"/v1/tokens/{row['id']}")
        must(used["state"] == "used_up" and used["last_used_at"], f"{used}")
        third = FakeAgent(api, "third", enrol=False).join(token)
        must("no uses left" in third.json["detail"], f"{third.body}")
        entries = [entry for entry in api.get("/v1/audit")["items"] if "join" in entry["path"]]
        must([entry["token_name"] for entry in entries] == ["two", "two"], f"{entries}")
        must(entries[1]["subject"] == stranger.id, f"{entries}")


def test_uses_and_devices_survive_a_crash_together():
    with Locked() as api:
        token = api.join_token(name="few", uses=3)
        joined = [FakeAgent(api, name, enrol=False).join(token) for name in ("a", "b")]
        api.coordinator.kill()
        api.restart_coordinator("--heartbeat-ms", "5000", "--lease-ms", "20000")
        row = next(row for row in api.get("/v1/tokens")["items"] if row["name"] == "few")
        must(row["uses_left"] == 1, f"{row}")
        must(sorted(names_of(api)) == ["a", "b"], f"{names_of(api)}")
        must(FakeAgent(api, "a", enrol=False).join(token).status == 200, f"{joined}")
        FakeAgent(api, "a")


def test_wrong_join_requests_are_refused():
    with Locked() as api:
        path, agent = "/v1/agent/join", FakeAgent(api, "one", enrol=False)
        body = {"token": api.joins, "name": "one", "public_key": "0" * 64, "protocol": 4}
        api.problem("POST", path, b"{", JSON, code="invalid_json")
        api.problem("POST", path, b"{}", code="unsupported_media_type")
        api.problem("POST", path, b" " * (3 << 20), JSON, code="body_too_large")
        for fields, pointer in (
            ({"name": "With Space"}, "/name"),
            ({"public_key": "0" * 63}, "/public_key"),
            ({"token": "t" * 200}, "/token"),
            ({"tokens": 1}, "/tokens"),
        ):
            api.problem("POST", path, {**body, **fields}, code="invalid_fields", words=(pointer,))
        api.problem("POST", path, {**body, "protocol": 99}, code="protocol_version")
        api.problem("POST", f"{path}?x=1", body, code="invalid_parameter")
        must(names_of(api) == [], "a device")
        must(agent.join("").code == "invalid_fields", "an empty token")


def test_a_pending_device_waits_for_a_user():
    with Locked("--heartbeat-ms", "1000", data=True) as api:
        agent = FakeAgent(api, "new", enrol=False)
        joined = agent.join(api.join_token(pending=True)).json
        agent.enrol()
        must(joined["pending"] and api.get(f"/v1/devices/{agent.id}")["pending"], f"{joined}")
        preview = api.request("POST", "/v1/jobs?dry_run=true", JOB, expect=200).json
        must("1 waiting to be accepted" in preview["waiting_for"], f"{preview}")
        job = api.request("POST", "/v1/jobs", JOB, expect=201).json
        agent.heartbeat()
        must(agent.assignment()["run"] is None, "a pending device works")
        wait_for(lambda: "accepted" in (api.job(job)["message"] or ""), "the reason")
        accept = f"/v1/devices/{agent.id}/accept"
        api.takes_no_body(accept)
        api.problem("POST", accept, None, {"If-Match": '"1"'}, code="revision_mismatch")
        api.problem("POST", "/v1/devices/dev_0/accept", code="unknown_device")
        key = {"Idempotency-Key": "accept"}
        device = api.request("POST", accept, None, key, expect=202).json
        must(not device["pending"], f"{device}")
        cordon = f"/v1/devices/{agent.id}/cordon"
        api.problem("POST", cordon, None, key, code="idempotency_mismatch")
        api.problem("POST", accept, {}, {**key, **JSON}, code="idempotency_mismatch")
        must(api.request("POST", accept, expect=202).json["pending"] is False, "a second time")
        wait_for(lambda: agent.assignment()["run"], "the job does not come")
        api.verb(job, "cancel")


def test_a_name_that_a_user_gave_stays():
    with Locked() as api:
        one, two = FakeAgent(api, "one"), FakeAgent(api, "two")
        path = f"/v1/devices/{one.id}"
        before = api.get(path)
        api.problem("PATCH", path, {"name": "two"}, code="name_taken", words=(two.id,))
        api.problem("PATCH", path, {"name": "Two Words"}, code="invalid_fields", words=("/name",))
        api.problem("PATCH", path, {"state": "lost"}, code="invalid_fields", words=("/state",))
        api.problem("PATCH", path, {}, code="invalid_fields", words=("/name",))
        api.problem("PATCH", path, b"{", JSON, code="invalid_json")
        api.problem("PATCH", path, b"{}", code="unsupported_media_type")
        api.problem("PATCH", path, b" " * (3 << 20), JSON, code="body_too_large")
        api.problem("PATCH", "/v1/devices/dev_0", {"name": "x"}, code="unknown_device")
        wrong = {"If-Match": f'"{before["revision"] + 7}"'}
        api.problem("PATCH", path, {"name": "x"}, wrong, code="revision_mismatch")
        key = {"Idempotency-Key": "rename"}
        seen = api.request("PATCH", path, {"name": "kitchen"}, key, expect=200).json
        must(seen["name"] == "kitchen" and seen["revision"] > before["revision"], f"{seen}")
        api.problem("PATCH", path, {"name": "y"}, key, code="idempotency_mismatch")
        one.enrol("boot2")
        must(api.get(path)["name"] == "kitchen", "the agent's name came back")
        api.coordinator.kill()
        api.restart_coordinator("--heartbeat-ms", "5000", "--lease-ms", "20000")
        one.enrol("boot3")
        must(api.get(path)["name"] == "kitchen", "the name is lost")
        api.request("PATCH", f"/v1/devices/{two.id}", {"name": "one"}, expect=200)


def test_a_machine_that_was_set_up_anew_becomes_its_device():
    with Locked() as api:
        old = FakeAgent(api, "board")
        path = f"/v1/devices/{old.id}"
        key = api.get(path)["public_key"]
        rekey = {"role": "join", "device": old.id}
        for fields, pointer in (
            ({"uses": 2}, "/uses"),
            ({"pending": True}, "/pending"),
            ({"role": "read"}, "/device"),
        ):
            api.problem(
                "POST", "/v1/tokens", {**rekey, **fields}, code="invalid_fields", words=(pointer,)
            )
        api.problem("POST", "/v1/tokens", {"role": "read", "uses": 1}, code="invalid_fields")
        gone = {**rekey, "device": "dev_" + "0" * 26}
        api.problem("POST", "/v1/tokens", gone, code="unknown_device")
        other = FakeAgent(api, "other")
        token = api.join_token(device=old.id)
        must(other.join(token).code == "wrong_state", "a device became another one")
        new = FakeAgent(api, "fresh", enrol=False)
        must(new.join(token).json["device"] == old.id, "another device")
        must(new.join(token).status == 200, "a repeated request")
        seen = api.get(path)
        must(seen["state"] == "joined" and seen["public_key"] != key, f"{seen}")
        beat = record(
            "heartbeat", device=old.id, boot="boot1", revision=0, phase="idle", step=0,
            highest_generation=0,
        )
        must(api.request("POST", "/v1/agent/heartbeat", beat).code == "stale_boot", "the old boot")
        refused = api.request("POST", "/v1/agent/enroll", old.request_body(boot="boot9"))
        must(refused.code == "unauthorized", f"the old key: {refused.body}")
        new.enrol()
        must(new.id == old.id and api.get(path)["name"] == "board", f"{api.get(path)}")
        removed = api.join_token(device=other.id)
        api.request("DELETE", f"/v1/devices/{other.id}", expect=204)
        late = FakeAgent(api, "late", enrol=False).join(removed)
        must(late.code == "unknown_device", f"{late.body}")
        must(api.request("POST", "/v1/agent/enroll", other.request_body()).status == 401, "removed")


def test_a_token_without_a_name_gets_one():
    with Locked() as api:
        made = [api.request("POST", "/v1/tokens", {"role": "join"}, expect=201).json for _ in "ab"]
        must(all(re.fullmatch("join-[0-9a-z]{8}", row["name"]) for row in made), f"{made}")
        must(made[0]["name"] != made[1]["name"] and made[0]["uses_left"] == 1, f"{made}")
        must(made[0]["expires_at"], "a join token that never expires")
        must(re.fullmatch("pl_[A-Za-z0-9_-]{43}", made[0]["token"]), "no authority, no hash")


def test_the_authority_is_public_and_named_by_join_tokens():
    with Api(data=False) as api:
        api.problem("GET", "/ca.pem", code="not_found", words=("init",))
    with Api(start=False, data=False) as api:
        words = api.init()
        api.start_coordinator()
        pem = api.request("GET", "/ca.pem", headers={"Authorization": ""}, expect=200)
        must(pem.body == api.ca.read_bytes(), f"{pem.body}")
        token = api.join_token()
        must(token[46:] == f"_{words['ca_sha256']}", token)


def test_without_tokens_a_machine_joins_with_anything():
    with Api(data=False) as api:
        agent = FakeAgent(api, "one", enrol=False)
        made = agent.join(UNKNOWN)
        must(made.status == 201 and made.json["device"], f"{made.body}")
        device = api.get(f"/v1/devices/{made.json['device']}")
        must(device["state"] == "joined" and device["join_token"] is None, f"{device}")
        agent.enrol()
        must(agent.id == device["id"], "another device")


def test_a_machine_that_guesses_tokens_is_limited():
    with Locked() as api:
        agent = FakeAgent(api, "guesser", enrol=False)
        caller = Caller(api)
        while caller.ask("GET", "/v1/devices", UNKNOWN).code != "too_many":
            pass
        codes = {agent.join(UNKNOWN).code for _ in range(3)}
        must("too_many" in codes, f"{codes}")
        FakeAgent(api, "honest")


def test_tokens_have_idempotency_keys_of_their_own():
    with Locked() as api:
        key = {"Idempotency-Key": "same"}
        one, two = api.create("one", "admin")[1], api.create("two", "admin")[1]
        body = {"name": "made", "role": "read"}
        first = api.request("POST", "/v1/tokens", body, {**key, **bearer(one)}, expect=201)
        must(first.json["token"], "a secret")
        api.problem("POST", "/v1/tokens", body, {**key, **bearer(two)}, code="name_taken")


def test_without_init_everybody_on_loopback_is_an_admin():
    with Api(data=False) as api:
        must("event=access_open" in api.coordinator.log_text(), "the mode is not logged")
        api.problem(
            "POST",
            "/v1/tokens",
            {"name": "x", "role": "read"},
            code="wrong_state",
            words=("paceline-coordinator init",),
        )
        api.problem("GET", "/v1/tokens/self", code="unknown_token", words=("init",))
        must(api.get("/v1/tokens")["items"] == [], "tokens without init")
        api.request("GET", "/v1/devices", headers=bearer(UNKNOWN), expect=200)
        api.upload("digits-train", "digits", "train")
        entry = api.get("/v1/audit")["items"][0]
        must(entry["token"] is None and entry["subject"] == "digits-train", f"{entry}")
        address = entry["address"]
        must(address.startswith("127.0.0.1:"), address)


def test_init_makes_another_admin_and_needs_a_stopped_coordinator():
    with Locked() as api:
        state = api.path / "coordinator"
        running = subprocess.run(
            [str(BIN / "paceline-coordinator"), "init", "--no-tls", "--state-dir", str(state)],
            capture_output=True,
            text=True,
            check=False,
        )
        must(running.returncode == 1 and "token:" not in running.stdout, f"{running}")
        api.coordinator.stop()
        second = make_admin(state)
        api.restart_coordinator()
        names = [api.ask(token, "/v1/tokens/self").json["name"] for token in (api.admin, second)]
        must(names == ["admin", "admin-2"], f"{names}")


# ---- the end of a token in the middle of a request ----


def open_stream(api, token):
    """A reader of events that is past the first comment."""
    host, port = api.coordinator.address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    connection.request("GET", "/v1/events", headers=bearer(token))
    response = connection.getresponse()
    must(response.status == 200 and response.readline() == b": events\n", f"{response.status}")
    return connection, response


def ended(response):
    """Read to the end, which must come by itself."""
    try:
        while response.readline():
            pass
    except (http.client.HTTPException, OSError):
        pass
    return True


def test_a_revoked_token_ends_its_streams_polls_and_uploads_and_no_others():
    with Locked() as api:
        doomed_id, doomed = api.create("doomed", "submit")
        _, kept = api.create("kept", "submit")
        agent = FakeAgent(api, "one")
        device = api.get(f"/v1/devices/{agent.id}")
        poll = f"/v1/devices/{agent.id}?after={device['revision']}&wait=60"
        streams = [open_stream(api, doomed), open_stream(api, kept)]
        upload = api.connect()
        upload.sendall(
            b"PUT /v1/datasets/half "
            + HEAD.encode()
            + f"Authorization: Bearer {doomed}\r\nContent-Length: 1000000\r\n\r\n".encode()
            + bytes(1000)
        )
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            polls = [pool.submit(api.ask, token, poll) for token in (doomed, kept)]
            wait_for(lambda: api.number("paceline_long_polls") == 2, "two polls")
            api.request("POST", f"/v1/tokens/{doomed_id}/revoke", expect=202)
            must(ended(streams[0][1]), "the stream goes on")
            must(upload.recv(1000) == b"", "the upload goes on")
            must(isinstance(polls[0].exception(30), (OSError, http.client.HTTPException)), "a poll")
            must(api.number("paceline_long_polls") == 1, "the other poll has ended too")
            api.verb_of_device(agent, "cordon")
            must(polls[1].result().status == 200, "the poll of another token")
        must(api.number("paceline_event_readers") == 1, "the stream of another token")
        streams[1][0].close()
        upload.close()
        must(api.ask(doomed).status == 401, "it works again")


def test_an_expired_token_ends_its_streams():
    with Locked() as api:
        _, brief = api.create("brief", "read", expires_seconds=1)
        connection, response = open_stream(api, brief)
        must(ended(response), "the stream goes on")
        connection.close()
        answer = api.ask(brief)
        must(answer.status == 401 and "expired" in answer.json["detail"], f"{answer.body}")


def test_a_token_that_revokes_itself_gets_its_answer():
    with Locked() as api:
        own_id, own = api.create("own", "admin")
        seen = api.request("POST", f"/v1/tokens/{own_id}/revoke", None, bearer(own), expect=202)
        must(seen.json["state"] == "revoked", f"{seen.json}")
        must(api.ask(own).status == 401, "it works on")


# ---- the audit ----


def test_each_change_has_a_row_and_nothing_else_has_one():
    with Locked(data=True) as api:
        _, submit = api.create("ci", "submit")
        before = len(api.get("/v1/audit?limit=500")["items"])
        agent = FakeAgent(api, "one")
        job = api.request("POST", "/v1/jobs", JOB, bearer(submit), expect=201).json
        api.request("POST", "/v1/jobs?dry_run=true", {**JOB, "name": "dry"}, expect=200)
        api.ask(submit, "/v1/tokens", method="POST")
        api.problem("POST", f"/v1/jobs/{job['id']}/replan", {"x": 1}, code="invalid_fields")
        api.verb_of_device(agent, "cordon")
        api.verb_of_device(agent, "cordon")
        api.request("POST", f"/v1/jobs/{job['id']}/cancel", expect=202)
        api.request("DELETE", f"/v1/devices/{agent.id}", expect=204)
        must(
            api.request(
                "PUT",
                "/v1/datasets/again",
                tar_of(*data_files("digits", "test")),
                {**BINARY, **bearer(submit)},
            ).status
            == 201,
            "an upload",
        )
        rows = api.get("/v1/audit?limit=500")["items"]
        found = [
            (row["token_name"], row["method"], row["path"], row["subject"], row["status"])
            for row in reversed(rows[: len(rows) - before])
        ]
        device = f"/v1/devices/{agent.id}"
        wanted = [
            ("joins", "POST", "/v1/agent/join", agent.id, 201),
            ("ci", "POST", "/v1/jobs", job["id"], 201),
            ("admin", "POST", f"{device}/cordon", agent.id, 202),
            ("admin", "POST", f"/v1/jobs/{job['id']}/cancel", job["id"], 202),
            ("admin", "DELETE", device, agent.id, 204),
            ("ci", "PUT", "/v1/datasets/again", "again", 201),
        ]
        must(found == wanted, f"{found}")
        items, pages = api.pages("/v1/audit", 2)
        must(items == rows and pages >= len(rows) // 2, f"{pages} pages")
        must([row["id"] for row in rows] == sorted((row["id"] for row in rows), reverse=True), "")
        api.coordinator.kill()
        api.restart_coordinator()
        must(api.get("/v1/audit?limit=500")["items"] == rows, "rows are lost by a kill")
        api.create("later")
        newest = api.get("/v1/audit?limit=1")["items"][0]
        must(newest["id"] > rows[0]["id"] and newest["path"] == "/v1/tokens", f"{newest}")


def test_an_upload_whose_client_left_before_the_answer_has_a_row():
    with Locked() as api:
        data = tar_of(*data_files("digits", "test"))
        head = f"Authorization: Bearer {api.admin}\r\nContent-Length: {len(data)}\r\n\r\n".encode()
        for index in range(10):
            with api.connect() as connection:
                reset = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                connection.sendall(
                    f"PUT /v1/datasets/gone-{index} ".encode() + HEAD.encode() + head + data
                )
                received = (index + 1) * len(data)
                wait_for(
                    lambda least=received: api.number("paceline_received_bytes_total") >= least,
                    "the upload",
                )
        wait_for(lambda: len(api.get("/v1/datasets")["items"]) == 10, "the data sets")
        items = api.get("/v1/audit")["items"]
        rows = {row["subject"]: row for row in items if row["path"] != "/v1/tokens"}
        must(sorted(rows) == [f"gone-{index}" for index in range(10)], f"{list(rows)}")
        for row in rows.values():
            must(row["status"] in (201, None) and row["token_name"] == "admin", f"{row}")


def test_no_secret_reaches_the_log_or_the_disk():
    with Locked("--log-level", "debug") as api:
        key = {"Idempotency-Key": "key"}
        body = {"name": "ci", "role": "submit"}
        secret = api.request("POST", "/v1/tokens", body, key, expect=201).json["token"]
        api.request("POST", "/v1/tokens", body, key, expect=201)
        api.ask(secret)
        api.ask(secret, "/v1/tokens")
        api.ask(UNKNOWN)
        api.request("GET", "/v1/devices?" + urllib.parse.urlencode({"token": secret}))
        api.coordinator.stop()
        for path in [api.path / "coordinator.log", *(api.path / "coordinator").iterdir()]:
            data = path.read_bytes() if path.is_file() else b""
            for text in (secret, api.admin, UNKNOWN):
                must(text.encode() not in data, f"{path} has a secret")


# ---- shares ----


def test_a_token_that_asks_too_often_gets_429_and_the_others_their_answers():
    with Locked("--requests-per-second", "5") as api:
        _, busy = api.create("busy")
        _, calm = api.create("calm")
        seen = [api.ask(busy).status for _ in range(60)]
        must(set(seen) == {200, 429} and seen.count(200) >= 10, f"{seen}")
        must(api.ask(calm).status == 200, "another token is limited too")
        open_routes = [api.ask(None, "/version").status for _ in range(60)]
        must(set(open_routes) == {200, 429}, f"{open_routes}")
        must(api.ask(None, "/healthz").status == 200, "the coordinator looks dead")
        agent = FakeAgent(api, "one")
        agent.heartbeat()
        must(api.number("paceline_http_limited_total") >= 1, "not counted")
        wait_for(lambda: api.ask(busy).status == 200, "the limit does not end")


def test_a_client_with_wrong_tokens_is_limited_and_logged_once():
    with Locked() as api:
        caller, codes = Caller(api), []
        for _ in range(REFUSALS_BURST + 200):
            codes.append(caller.ask("GET", "/v1/devices", UNKNOWN).status)
        must(codes[:REFUSALS_BURST] == [401] * REFUSALS_BURST, "limited too early")
        must(429 in codes, "never limited")
        limited = caller.ask("GET", "/v1/devices", UNKNOWN)
        wait_for(
            lambda: (caller.ask("GET", "/v1/devices", UNKNOWN).code == "too_many"), "no problem"
        )
        must(limited.status in (401, 429), f"{limited.status}")
        must(api.ask(api.admin).status == 200, "a valid token is refused")
        must(api.number("paceline_http_unauthorized_total") >= REFUSALS_BURST, "not counted")
        wait_for(lambda: "event=access_refused" in api.coordinator.log_text(), "not logged")
        lines = api.coordinator.log_text().count("event=access_refused")
        must(lines < 10, f"{lines} lines for one series")
        must(
            not any(entry["status"] == 401 for entry in api.get("/v1/audit")["items"]),
            "refused attempts are stored",
        )


def test_a_quota_ends_uploads_and_jobs():
    with Locked(data=True) as api:
        agent = FakeAgent(api, "one")
        data = tar_of(*data_files("digits", "train"))
        token, secret = api.create("half", "submit", max_bytes=2 * len(data) - 1, max_jobs=1)
        mine, path = bearer(secret), f"/v1/tokens/{token}"
        api.request("PUT", "/v1/datasets/first", data, {**BINARY, **mine}, expect=201)
        must(api.get(path)["used_bytes"] == len(data), f"{api.get(path)}")
        for method, where in (("PUT", "/v1/datasets/second"), ("POST", "/v1/checkpoints")):
            words = ("half", str(len(data)), str(2 * len(data) - 1))
            headers = {**BINARY, **mine}
            api.problem(method, where, data, headers, code="quota_exceeded", words=words)
        # A body that does not say its length is stopped where the quota ends.
        chunked = http.client.HTTPConnection(api.coordinator.address, timeout=20)
        with contextlib.closing(chunked):
            where, body = "/v1/datasets/second", iter([data])
            chunked.request("PUT", where, body, headers, encode_chunked=True)
            must(chunked.getresponse().status == 403, "accepted")
        must(api.get(path)["used_bytes"] < 2 * len(data), f"{api.get(path)}")
        must(api.get("/v1/datasets?name=second")["items"] == [], "a data set")
        job = api.request("POST", "/v1/jobs", {**JOB, "steps": 3}, mine, expect=201).json
        words = ("half", "max_jobs")
        api.problem("POST", "/v1/jobs", JOB, mine, code="quota_exceeded", words=words)
        api.request("POST", "/v1/jobs?dry_run=true", JOB, mine, expect=200)
        finish(api, job, [agent])
        clone = f"/v1/jobs/{job['id']}/clone"
        api.problem("POST", clone, {"from": "last"}, mine, code="quota_exceeded", words=words)
        before = api.get(path)
        must(before["used_jobs"] == 1, f"{before}")
        api.coordinator.kill()
        api.restart_coordinator()
        must(api.get(path)["used_jobs"] == 1, "forgotten")
        must(api.get(path)["used_bytes"] == before["used_bytes"], "forgotten")
        api.problem("POST", "/v1/jobs", JOB, mine, code="quota_exceeded")


def test_descriptions_of_models_count_as_bytes():
    with Locked() as api:
        body = json.dumps(TINY).encode()
        token, secret = api.create("poster", "submit", max_bytes=2 * len(body) - 1)
        mine, path = {**JSON, **bearer(secret)}, f"/v1/tokens/{token}"
        once = {**mine, "Idempotency-Key": "once"}
        api.request("POST", "/v1/models", body, once, expect=201)
        api.request("POST", "/v1/models", body, once, expect=201)  # replayed: nothing is stored
        must(api.get(path)["used_bytes"] == len(body), f"{api.get(path)}")
        words = ("poster", str(len(body)), str(2 * len(body) - 1))
        api.problem("POST", "/v1/models", body, mine, code="quota_exceeded", words=words)
        must(api.get(path)["used_bytes"] == len(body), "a refused model counts")


def test_one_token_cannot_open_all_event_streams_or_uploads():
    with Locked() as api:
        _, greedy = api.create("greedy", "submit")
        with contextlib.ExitStack() as stack:
            for _ in range(CALLER_STREAMS_MAX):
                stack.callback(open_stream(api, greedy)[0].close)
            api.problem("GET", "/v1/events", headers=bearer(greedy), code="too_many")
            stack.callback(open_stream(api, api.admin)[0].close)
            for _ in range(CALLER_CHECKPOINTS_MAX):
                upload = stack.enter_context(api.connect())
                upload.sendall(
                    b"POST /v1/checkpoints "
                    + HEAD.encode()
                    + f"Authorization: Bearer {greedy}\r\nContent-Length: 9999\r\n\r\n".encode()
                )
            wait_for(
                lambda: api.number("paceline_http_requests_open")
                >= CALLER_STREAMS_MAX + CALLER_CHECKPOINTS_MAX,
                "the uploads begin",
            )
            api.problem(
                "POST",
                "/v1/checkpoints",
                b"12345678",
                {**BINARY, **bearer(greedy)},
                code="too_many",
            )
            api.problem("POST", "/v1/checkpoints", b"12345678", BINARY, code="invalid_checkpoint")
        wait_for(lambda: api.number("paceline_event_readers") == 0, "streams stay open")
        open_stream(api, greedy)[0].close()
