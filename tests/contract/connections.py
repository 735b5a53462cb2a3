"""Clients that disconnect, stall, or send too much or no HTTP: their answers, and the service of
other clients meanwhile.
"""

import contextlib
import json
import signal
import time

from api import JSON, Api
from fake_agent import FakeAgent
from paceline import Answer, must, sanitizer_of

HEAD = "HTTP/1.1\r\nHost: localhost\r\n"
BODIES_BYTES = 60e6  # of a coordinator with 40 bodies of 2 MiB under way


def talk(api, data, read=True):
    """Send raw bytes and return all bytes received until the coordinator closes the connection."""
    with api.connect() as connection:
        connection.sendall(data)
        return connection.makefile("rb").read() if read else b""


def answer_of(raw):
    """Parse one answer from raw bytes."""
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:])
    must("Content-Length" in headers, f"no answer: {raw!r}")
    must(len(body) == int(headers["Content-Length"]), f"more or less than one answer: {raw!r}")
    return Answer(int(lines[0].split()[1]), headers, body)


def must_refuse(api, data, status, code, word):
    answer = answer_of(talk(api, data))
    must(
        (answer.status, answer.code) == (status, code),
        f"{data[:200]!r}: {answer.status} {answer.body!r}",
    )
    must(word in answer.json["detail"], f"'{word}' is missing in {answer.json['detail']}")
    must(answer.headers["Connection"].lower() == "close", f"{answer.headers}")


# Longer than a slow machine takes, and shorter than any deadline of the server that would end the
# same requests: 60 s of a poll, 120 s of an idle connection.
AT_ONCE_SECONDS = 15


def wait_for(condition, what):
    deadline = time.monotonic() + AT_ONCE_SECONDS
    while not condition():
        must(time.monotonic() < deadline, what)


def descriptors(api):
    return len(api.coordinator.descriptors())


# ---- framing ----


def test_requests_with_an_ambiguous_end_are_rejected_and_their_connection_closes():
    body = b"Content-Type: application/json\r\n"
    cases = [
        (
            b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            "Transfer-Encoding",
        ),
        (
            b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            "Transfer-Encoding",
        ),
        (b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "chunked"),
        (b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", "Content-Length"),
        (b"Content-Length: 2\r\nHost: other\r\n\r\n{}", "Host"),
        (b"Spaced : x\r\nContent-Length: 2\r\n\r\n{}", "name"),
        (b"X-Bell: \x07\r\nContent-Length: 2\r\n\r\n{}", "control"),
    ]
    with Api(data=False) as api:
        for headers, word in cases:
            request = (
                b"POST /v1/plans "
                + HEAD.encode()
                + body
                + headers
                + b"GET /healthz "
                + HEAD.encode()
                + b"\r\n"
            )
            must_refuse(api, request, 400, "invalid_parameter", word)
        must_refuse(api, b"GET /healthz HTTP/1.1\r\n\r\n", 400, "invalid_parameter", "Host")
        must_refuse(
            api, f"GET /v1/jobs?limit= 5 {HEAD}\r\n".encode(), 400, "invalid_parameter", "space"
        )
        must(api.get("/healthz") == {"status": "ok"}, "the coordinator serves on")


def test_duplicate_and_nameless_query_parameters_are_rejected():
    with Api(data=False) as api:
        api.problem(
            "GET", "/v1/jobs?limit=1&limit=600", code="invalid_parameter", words=("limit", "twice")
        )
        api.problem("GET", "/v1/jobs?=1", code="invalid_parameter", words=("name",))


def test_a_range_of_changed_content_is_answered_with_the_whole():
    with Api() as api:
        path = "/v1/datasets/digits-test/content"
        whole = api.request("GET", path, expect=200)
        part = {"Range": "bytes=0-9"}
        must(
            api.request("GET", path, headers={**part, "If-Range": whole.headers["ETag"]}).status
            == 206,
            "its ETag",
        )
        for other in ('"other"', f'W/{whole.headers["ETag"]}', "Sun, 22 Nov 2026 10:00:00 GMT"):
            answer = api.request("GET", path, headers={**part, "If-Range": other})
            must(
                (answer.status, answer.body) == (200, whole.body),
                f"If-Range: {other}: {answer.status}",
            )


def test_bytes_other_than_http_get_a_problem_and_no_page():
    begin = b"GET /healthz " + HEAD.encode()
    cases = [
        (b"HELLO\r\n\r\n", "METHOD"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "method"),
        (b"GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n", "version"),
        (b"GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n", "space"),
        (begin + b": nameless\r\n\r\n", "name"),
        (begin + b"No-Colon\r\n\r\n", "colon"),
        (begin + b"X-Cut: a\0b\r\n\r\n", "control"),
        (begin + b"X-Folded: a\r\n b\r\n\r\n", "folded"),
        (begin + b"X-Long: " + b"x" * 28672 + b"\r\n\r\n", "28672"),
        (b"POST /v1/jobs " + HEAD.encode() + b"Content-Length: -1\r\n\r\n", "Content-Length"),
        (b"POST /v1/jobs " + HEAD.encode() + b"Content-Length: 12x\r\n\r\n", "Content-Length"),
    ]
    with Api(data=False) as api:
        for request, word in cases:
            must_refuse(api, request, 400, "invalid_parameter", word)
        # In pieces, each of which the server reads alone: another connection that opens or closes
        # meanwhile could make it run before it has checked the bytes that arrive then.
        with api.connect() as connection, api.connect() as other:
            for piece in (b"GET /healthz HT", b"TP/1.1\r\nHost: loc", b"alhost\r\nX-Cut: a\0b"):
                connection.sendall(piece)
                other.sendall(f"GET /healthz {HEAD}\r\n".encode())
                must(b" 200 OK" in other.recv(65536), "no answer meanwhile")
            must(
                answer_of(connection.makefile("rb").read()).code == "invalid_parameter", "in pieces"
            )
        must(api.number("paceline_http_requests_open") == 1, "requests are open")


# ---- rejected uploads ----


def test_a_problem_arrives_in_the_middle_of_an_upload_of_any_size():
    piece = b"PK\x03\x04" + bytes((1 << 20) - 4)
    with Api(data=False) as api, api.connect() as connection:
        connection.sendall(
            f"POST /v1/checkpoints {HEAD}Content-Type: application/octet-stream\r\n"
            f"Content-Length: {200 << 20}\r\n\r\n".encode()
        )
        for _ in range(200):
            connection.sendall(piece)
        answer = answer_of(connection.makefile("rb").read())
        must(
            answer.code == "invalid_checkpoint" and "from_torch" in answer.json["detail"],
            f"{answer.status} {answer.body!r}",
        )


def test_a_data_set_of_another_kind_is_rejected_by_its_first_bytes():
    cases = (
        ("", b"PK\x03\x04", "zip"),
        ("", b"hello", "unknown format"),
        ("?sound=8000", b"RIFF", "tar"),
    )
    with Api(data=False) as api:
        for query, start, word in cases:
            with api.connect() as connection:
                connection.settimeout(20)
                connection.sendall(
                    f"PUT /v1/datasets/other{query} {HEAD}"
                    f"Content-Length: {1 << 30}\r\n\r\n".encode() + start.ljust(1024, b"x")
                )
                answer = answer_of(connection.makefile("rb").read())
            must(
                answer.code == "invalid_dataset" and word in answer.json["detail"],
                f"{answer.status} {answer.body!r}",
            )


# ---- bounds ----


def waiting(api, path):
    connection = api.connect()
    connection.sendall(f"GET {path} {HEAD}\r\n".encode())
    return connection


def test_clients_above_the_bound_get_a_problem_and_agents_are_served():
    with Api("--connections", "16") as api, contextlib.ExitStack() as stack:
        agent = FakeAgent(api, "one")
        job = api.submit_named("watched")
        path = f"/v1/jobs/{job['id']}?after={job['revision']}&wait=60"
        polls = [stack.enter_context(contextlib.closing(waiting(api, path))) for _ in range(12)]
        wait_for(lambda: api.request("GET", "/v1/jobs").status == 503, "no bound")
        answer = api.problem("POST", "/v1/jobs", {"steps": 1}, JSON, code="busy")
        must(answer.headers["Retry-After"], f"{answer.headers}")
        must(api.get("/healthz") == {"status": "ok"}, "healthz")
        agent.heartbeat()
        agent.assignment()
        FakeAgent(api, "two")
        polls[0].close()
        wait_for(lambda: api.request("GET", "/v1/jobs").status == 200, "no connection is freed")
        must(api.number("paceline_http_refused_total") >= 2, "rejections are not counted")
        wait_for(
            lambda: "event=connections_full" in api.coordinator.log_text(), "nothing is logged"
        )


def test_large_bodies_in_flight_share_a_bound_and_small_ones_pass():
    half = b" " * (1 << 20)
    head = (
        f"POST /v1/models {HEAD}Content-Type: application/json\r\n"
        f"Content-Length: {2 << 20}\r\n\r\n".encode()
    )
    with Api(data=False) as api, contextlib.ExitStack() as stack:
        for _ in range(40):
            connection = stack.enter_context(contextlib.closing(api.connect()))
            with contextlib.suppress(OSError):
                connection.sendall(head + half)
        wait_for(
            lambda: api.request("POST", "/v1/models", b" " * (2 << 20), JSON).code == "busy",
            "no bound",
        )
        api.problem("POST", "/v1/models", {}, JSON, code="invalid_fields")
        if not sanitizer_of("paceline-coordinator"):  # it keeps what is freed
            dirty = api.coordinator.private_dirty_bytes()
            must(dirty < BODIES_BYTES, f"{dirty} bytes")
        stack.close()
        wait_for(
            lambda: api.request("POST", "/v1/models", b" " * (2 << 20), JSON).code != "busy",
            "the bound stays reached",
        )


def test_pages_of_metrics_in_flight_are_bounded():
    with Api() as api, contextlib.ExitStack() as stack:
        path = f"/v1/jobs/{api.submit_named('measured')['id']}/metrics?limit=10000"
        begun = [waiting(api, "/healthz") for _ in range(200)]
        clients = [stack.enter_context(contextlib.closing(client)) for client in begun]
        for client in clients:
            client.recv(65536)
        api.coordinator.signal(signal.SIGSTOP)  # all requests come in one turn
        for client in clients:
            client.sendall(f"GET {path} {HEAD}\r\n".encode())
        api.coordinator.signal(signal.SIGCONT)
        first = [client.recv(12) for client in clients]
        must(set(first) == {b"HTTP/1.1 200", b"HTTP/1.1 503"}, f"{set(first)}")
        must(api.get(path)["items"] == [], "the bound stays reached")


def test_questions_about_plans_wait_their_turn_four_at_most():
    with Api() as api, contextlib.ExitStack() as stack:
        job = api.submit_named("asked")
        body = json.dumps({"job": job["id"]})
        begun = [waiting(api, "/healthz") for _ in range(12)]
        clients = [stack.enter_context(contextlib.closing(client)) for client in begun]
        for client in clients:
            client.recv(65536)
        api.coordinator.signal(signal.SIGSTOP)  # all questions come in one turn
        for client in clients:
            client.sendall(
                f"POST /v1/plans {HEAD}Content-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
            )
        api.coordinator.signal(signal.SIGCONT)
        answers = [client.recv(65536) for client in clients]
        refused = [answer for answer in answers if answer.startswith(b"HTTP/1.1 429")]
        must(len(answers) - len(refused) >= 5, "one is answered and four wait")
        must(refused and all(b"Retry-After: 1" in answer for answer in refused), f"{answers}")
        api.problem("POST", "/v1/plans", {"job": job["id"]}, code="not_enough_devices")


# ---- clients that disconnect ----

TORSOS = [
    b"GET /",
    f"GET /healthz {HEAD}X-Half: ".encode(),
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    f"POST /v1/jobs {HEAD}Content-Length: 18446744073709551615\r\n\r\n".encode(),
    f"POST /v1/jobs {HEAD}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode(),
    f"PUT /v1/datasets/gone {HEAD}Content-Length: 1000000\r\n\r\nabc".encode(),
    f"GET /v1/events {HEAD}\r\n".encode(),
    b"",
]


def test_resources_of_disconnected_clients_are_freed_at_once():
    with Api() as api:
        job = api.submit_named("watched")
        poll = f"GET /v1/jobs/{job['id']}?after={job['revision']}&wait=60 {HEAD}\r\n".encode()
        api.get("/healthz")
        before = descriptors(api)
        for index in range(1000):
            talk(api, [*TORSOS, poll][index % (len(TORSOS) + 1)], read=False)
        began = time.monotonic()
        must(
            api.get("/healthz") == {"status": "ok"}
            and time.monotonic() - began < AT_ONCE_SECONDS,
            f"{time.monotonic() - began} s",
        )
        wait_for(
            lambda: descriptors(api) <= before,
            f"{descriptors(api)} descriptors, {before} before",
        )
        must(
            api.number("paceline_long_polls") == 0 and api.number("paceline_event_readers") == 0,
            "closed connections are still counted",
        )
        must(api.number("paceline_http_requests_open") == 1, "requests are open")
