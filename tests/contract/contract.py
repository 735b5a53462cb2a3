"""The API's contract against the running coordinator: every route, every answer against its schema,
every documented error.

In a run of all tests, the last ones compare the recorded answers with all of schema/openapi.yaml
and schema/problem.c.
"""

import re
import sys

import access
import agents
import connections
import datasets
import deletes
import events
import gossip
import jobs
import objects
import service
import plans
import submodels
import survive
import webhook
from api import COMMON_PROBLEMS, SEEN, operations
from paceline import ROOT, must
from runner import run

# Codes that no request can provoke, and why. All others must occur.
UNREACHABLE = {
    "wrong_key": "needs TLS, which tests/e2e/tls.py has",
    "internal": (
        "needs a disk that fails or memory that runs out under the coordinator; the store's unit"
        " tests make both"
    ),
}
# Documented problems of single operations that no request can provoke, and why.
UNREACHABLE_OF = {
    (method, path, "wrong_key")
    for method, path in (
        ("POST", "/v1/agent/join"),
        ("POST", "/v1/agent/enroll"),
        ("POST", "/v1/agent/heartbeat"),
        ("GET", "/v1/agent/assignment"),
        ("GET", "/v1/agent/blobs/{sha256}"),
        ("PUT", "/v1/agent/averages/{sha256}"),
        ("PUT", "/v1/agent/blobs/{sha256}"),
        ("GET", "/v1/agent/datasets/{sha256}/content"),
    )
} | {("PUT", "/v1/agent/averages/{sha256}", "disk_full")}  # no match is made on a full disk


def test_every_operation_of_the_contract_was_answered_with_success():
    missing = []
    for (method, path), operation in operations().items():
        seen = {
            status
            for seen_method, seen_path, status, problem in SEEN
            if (seen_method, seen_path) == (method, path) and problem is None
        }
        missing += [
            f"{method} {path} {status}"
            for status in operation["responses"]
            if status not in ("4XX", "default") and int(status) not in seen
        ]
    must(not missing, f"never occurred: {missing}")


def test_every_problem_of_the_table_was_seen():
    table = (ROOT / "schema/problem.c").read_text(encoding="utf-8")
    codes = set(re.findall(r'\[PROBLEM_[A-Z_]+\] = \{"([a-z_]+)", [0-9]+', table)) - {"none"}
    must(len(codes) > 20, f"the table was not read: {codes}")
    seen = {problem for _, _, _, problem in SEEN}
    must(
        not codes - seen - UNREACHABLE.keys(),
        f"never occurred: {sorted(codes - seen - UNREACHABLE.keys())}",
    )
    must(
        not seen & UNREACHABLE.keys(),
        f"occurred although listed as unreachable: {seen & UNREACHABLE.keys()}",
    )
    documented = set(COMMON_PROBLEMS).union(
        *(operation.get("x-problems", ()) for operation in operations().values())
    )
    must(
        codes == documented,
        f"in problem.c and in openapi.yaml differ: {sorted(codes ^ documented)}",
    )


def test_every_problem_that_an_operation_names_was_seen_there():
    missing = []
    for (method, path), operation in operations().items():
        seen = {
            problem
            for seen_method, seen_path, _, problem in SEEN
            if (seen_method, seen_path) == (method, path)
        }
        missing += [
            f"{method} {path} {code}"
            for code in operation.get("x-problems", ())
            if code not in seen and (method, path, code) not in UNREACHABLE_OF
        ]
    must(not missing, f"never occurred: {missing}")


COVERAGE = {name: value for name, value in globals().items() if name.startswith("test_")}


if __name__ == "__main__":
    tests = {}
    modules = (service, objects, datasets, jobs, submodels, gossip)
    for module in (*modules, deletes, agents, survive, plans, events, connections, access, webhook):
        tests.update(
            {name: value for name, value in vars(module).items() if name.startswith("test_")}
        )
    run(tests if len(sys.argv) > 1 else {**tests, **COVERAGE})
