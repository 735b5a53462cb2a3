"""Check every request of a fleet against the contract: known route, documented status, body that
matches its schema, documented problem. The answers of the whole run are recorded, so that the last
tests can list missing ones.
"""

import json
import re
import socket

import yaml

from paceline import ROOT, Failure, Fleet, must
from shape import Mismatch, Shapes

CONTRACT = yaml.safe_load((ROOT / "schema/openapi.yaml").read_text(encoding="utf-8"))
METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
SHAPES = Shapes(CONTRACT)
COMMON_PROBLEMS = set(CONTRACT["info"]["x-problems"])
SEEN = set()  # (method, path of the contract, status, problem or None)

HEARTBEAT_MS = 5000  # a device that sends no heartbeat stays online for the whole test

JSON = {"Content-Type": "application/json"}
BINARY = {"Content-Type": "application/octet-stream"}
JOB = {
    "model": {"name": "mlp"},
    "dataset": {"train": "digits-train", "test": "digits-test"},
    "batch": 16,
    "micro_batches": 2,
    "steps": 4,
}


def operations():
    """(METHOD, path) -> operation, for every operation of the contract."""
    return {
        (method.upper(), path): operation
        for path, item in CONTRACT["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    }


def template_of(path):
    """The contract's path of a request's path; exact ones first. None: no such route."""
    path = path.split("?")[0]
    if path in CONTRACT["paths"]:
        return path
    for template in CONTRACT["paths"]:
        if re.fullmatch(re.sub(r"\\\{[a-z0-9]+\\\}", "[^/]+", re.escape(template)), path):
            return template
    return None


def check_answer(method, path, answer):
    """Fails unless the contract allows this answer."""
    problem = answer.code
    if problem is not None:
        check_problem(answer)
    template = template_of(path)
    item = CONTRACT["paths"].get(template, {})
    operation = item.get("get" if method == "HEAD" else method.lower())
    SEEN.add((method, template, answer.status, problem))
    if operation is None:
        must(
            problem in COMMON_PROBLEMS,
            f"{method} {path} is not in the contract and answers {answer.status} {problem}",
        )
        return
    if problem is not None:
        allowed = COMMON_PROBLEMS | set(operation.get("x-problems", ()))
        must(
            problem in allowed,
            f"{method} {path} answers {problem}, which the contract does not name: {answer.body!r}",
        )
        return
    response = operation["responses"].get(str(answer.status))
    must(
        response is not None,
        (
            f"{method} {path} answers {answer.status}, which is not in the contract:"
            f" {answer.body[:300]!r}"
        ),
    )
    if method != "HEAD":
        check_body(method, path, SHAPES.resolve(response), answer)


def check_body(method, path, response, answer):
    content = response.get("content")
    kind = (answer.headers.get("Content-Type") or "").split(";")[0]
    if content is None:
        must(
            answer.body == b"" and kind == "",
            f"{method} {path}: {answer.status} has a body: {answer.body[:200]!r}",
        )
        return
    must(kind in content, f"{method} {path}: content type '{kind}', not {list(content)}")
    if kind == "application/json":
        try:
            SHAPES.check(content[kind]["schema"], answer.json)
        except Mismatch as mismatch:
            raise Failure(f"{method} {path}: {mismatch}: {answer.body[:2000]!r}") from None
    if "ETag" in response.get("headers", {}):
        must(answer.headers.get("ETag"), f"{method} {path}: no ETag")
        if kind == "application/json" and "revision" in answer.json:
            must(
                answer.headers["ETag"] == f'"{answer.json["revision"]}"',
                f"{method} {path}: ETag {answer.headers['ETag']}",
            )


def check_problem(answer):
    SHAPES.check({"$ref": "#/components/schemas/problem"}, answer.json)
    body = answer.json
    must(
        body["status"] == answer.status,
        f"status {answer.status} in the line, {body['status']} in the body",
    )
    must(
        body["type"] == f"urn:paceline:problem:{body['code']}",
        f"type {body['type']} of {body['code']}",
    )
    must(re.fullmatch("[0-9a-f]{16}", body["request_id"]), f"request id {body['request_id']}")
    must(
        body["code"] != "invalid_fields" or body["errors"], f"invalid_fields without errors: {body}"
    )
    if answer.status in (429, 503, 507):
        must(
            int(answer.headers.get("Retry-After") or 0) >= 1, f"no Retry-After with {answer.status}"
        )


class Api(Fleet):
    """A coordinator without agents; on request it has the data sets of JOB."""

    def __init__(self, *arguments, data=True, start=True):
        super().__init__()
        if start:
            self.start_coordinator(
                "--heartbeat-ms", str(HEARTBEAT_MS), "--lease-ms", "20000", *arguments
            )
        if data:
            self.upload("digits-train", "digits", "train")
            self.upload("digits-test", "digits", "test")

    def request(self, method, path, body=None, headers=None, expect=None, timeout=60):
        answer = super().request(method, path, body, headers, expect, timeout)
        check_answer(method, path, answer)
        return answer

    def problem(self, method, path, body=None, headers=None, *, code, words=()):
        """A request that must be rejected with this code; the answer must contain every word."""
        answer = self.request(method, path, body, headers)
        must(
            answer.code == code,
            f"{method} {path}: {code} expected, got {answer.status}: {answer.body[:1000]!r}",
        )
        text = answer.body.decode()
        for word in words:
            must(str(word) in text, f"{method} {path}: '{word}' is missing in {text}")
        return answer

    def takes_no_body(self, path):
        """A route that takes at most an empty object."""
        self.problem("POST", path, {"now": True}, code="invalid_fields")
        self.problem("POST", path, b"{", JSON, code="invalid_json")
        self.problem("POST", path, b"{}", {}, code="unsupported_media_type")
        self.problem("POST", path, b" " * (3 << 20), JSON, code="body_too_large")

    def submit_named(self, name, **fields):
        return self.submit({**JOB, "name": name, **fields})

    def verb_of_device(self, agent, verb):
        return self.request("POST", f"/v1/devices/{agent.id}/{verb}", expect=202).json

    def number(self, name):
        """A value of /metrics."""
        text = self.request("GET", "/metrics", expect=200).body.decode()
        return float(
            next(line for line in text.splitlines() if line.startswith(f"{name} ")).split()[1]
        )

    def connect(self):
        """A plain connection, for bytes that http.client would not send."""
        host, port = self.coordinator.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), 30)

    def pages(self, path, limit):
        """All items of a list, read in pages of `limit`, and the number of pages."""
        items, cursor, count = [], None, 0
        while True:
            page = self.get(f"{path}?limit={limit}" + (f"&cursor={cursor}" if cursor else ""))
            items += page["items"]
            count += 1
            must(len(page["items"]) <= limit, f"{path}: {len(page['items'])} items, limit {limit}")
            cursor = page["next_cursor"]
            if cursor is None:
                return items, count
            must(count < 1000, f"{path}: the pages do not end")


def record(name, /, **fields):
    """A record of the contract with these fields; the other required ones have plain values."""
    schema = CONTRACT["components"]["schemas"][name]
    strangers = fields.keys() - schema["properties"].keys()
    must(not strangers, f"{name} has no {sorted(strangers)}")
    return {**SHAPES.least(schema), **fields}


def example(name, folder="valid"):
    """A message of schema/examples."""
    return json.loads((ROOT / f"schema/examples/{folder}/{name}.json").read_text(encoding="utf-8"))
