"""The service itself: routes, methods, health, metrics, authorization."""

import json
import random
import re
import signal
import socket
import struct
import threading
import time

from api import CONTRACT, METHODS, Api, operations
from fake_agent import FakeAgent
from paceline import ROOT, data_files, must, request, tar_of

PATH_VALUES = {
    "id": "job_01",
    "name": "digits-train",
    "generation": "1",
    "group": "0",
    "sha256": "0" * 64,
}


def routes_of_the_server():
    """(METHOD, path) of the server's table, read from its source."""
    source = (ROOT / "coordinator/http/routes.c").read_text(encoding="utf-8")
    table = source[source.index("routes[] = {") : source.index("};")]
    return {
        (method, path) for method, path in re.findall(r'ROUTE\(\w+, "([A-Z]+)", "([^"]+)"', table)
    }


def concrete(path):
    return re.sub(r"\{([a-z0-9]+)\}", lambda match: PATH_VALUES[match[1]], path)


def test_the_contract_and_the_servers_routes_are_the_same():
    stated, served = set(operations()), routes_of_the_server()
    must(
        stated == served,
        (
            f"only in openapi.yaml: {sorted(stated - served)}; only in routes.c:"
            f" {sorted(served - stated)}"
        ),
    )
    with Api(data=False) as api:
        document = api.request("GET", "/openapi.json", expect=200).json
        must(document == json.loads(json.dumps(CONTRACT)), "/openapi.json is not openapi.yaml")


def test_unknown_methods_are_answered_with_405_and_the_allowed_methods():
    with Api(data=False) as api:
        for path in CONTRACT["paths"]:
            offered = {method.upper() for method in CONTRACT["paths"][path] if method in METHODS}
            offered |= {"HEAD"} if "GET" in offered else set()
            for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} - offered:
                answer = api.problem(method, concrete(path), code="method_not_allowed")
                allow = set(re.split(", *", answer.headers["Allow"]))
                must(allow == offered, f"{path}: Allow {allow}, offered {offered}")
                must(
                    f"it supports {answer.headers['Allow']}" in answer.json["detail"],
                    f"{path}: {answer.json['detail']}",
                )


def test_unknown_routes_are_answered_with_404():
    with Api(data=False) as api:
        for path in (
            "/",
            "/v1",
            "/v1/",
            "/v2/jobs",
            "/v1/jobs/job_x/pause/now",
            "/v1/jobs/job_x/explode",
            "/v1/agent",
        ):
            api.problem("GET", path, code="not_found", words=("/openapi.json",))
        api.problem("POST", "/v1/jobs/job_x/explode", {}, code="not_found")


def test_health_readiness_and_version():
    with Api(data=False) as api:
        must(api.get("/healthz") == {"status": "ok"}, "healthz")
        must(api.get("/readyz") == {"status": "ready"}, "readyz")
        version = api.get("/version")
        must(
            version["name"] == "paceline-coordinator"
            and version["protocol_min"] <= version["protocol"],
            f"version {version}",
        )


def test_json_answers_end_with_a_newline():
    with Api(data=False) as api:
        for path in (
            "/healthz",
            "/openapi.json",
            "/v1/jobs",
            "/v1/devices",
            "/v1/incidents",
            "/v1/models",
            "/nothing",
            "/v1/jobs/job_x",
        ):
            body = api.request("GET", path).body
            must(
                body.endswith(b"}\n") and body.count(b"\n") == 1 or path == "/openapi.json",
                f"{path}: ...{body[-20:]!r}",
            )


def test_head_answers_the_headers_of_get_without_the_body():
    with Api() as api:
        for path in (
            "/healthz",
            "/v1/jobs",
            "/v1/datasets/digits-train",
            "/v1/datasets/digits-train/content",
            "/openapi.json",
        ):
            whole, head = api.request("GET", path), api.request("HEAD", path)
            must(
                head.status == 200 and head.body == b"", f"HEAD {path}: {head.status} {head.body!r}"
            )
            must(
                head.headers["Content-Length"] == str(len(whole.body)),
                f"HEAD {path}: {head.headers['Content-Length']}",
            )
            must(head.headers["ETag"] == whole.headers["ETag"], f"HEAD {path}: ETag")
        must(
            request(api.coordinator.address, "HEAD", "/v1/jobs/job_nothing").status == 404,
            "HEAD of an unknown job",
        )


def test_web_pages_of_other_origins_are_rejected():
    with Api(data=False) as api:
        own = f"http://{api.coordinator.address}"
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": "file://"},
            {"Host": "evil.example"},
            {"Host": "127.0.0.1.evil.example"},
            {"Host": "127.evil.example"},
            {"Host": "[::1].evil.example"},
            {"Host": "localhost.evil.example:7410"},
            {"Host": ""},
        ):
            for method, path in (
                ("GET", "/v1/jobs"),
                ("POST", "/v1/jobs"),
                ("GET", "/healthz"),
                ("GET", "/nothing"),
            ):
                api.problem(method, path, None, headers, code="forbidden_origin")
        for headers in (
            {"Origin": own},
            {"Host": "localhost"},
            {"Host": "LOCALHOST:1"},
            {"Host": "[::1]:7410"},
            {"Host": "127.8.9.1"},
        ):
            api.request("GET", "/v1/jobs", headers=headers, expect=200)


def test_a_reverse_proxy_may_forward_its_own_host_name():
    with Api("--allow-host", "paceline.example", "--allow-host=Other.example", data=False) as api:
        for host in ("paceline.example", "PACELINE.example:8443", "other.example", "localhost"):
            api.request(
                "GET", "/v1/jobs", headers={"Host": host, "Origin": f"https://{host}"}, expect=200
            )
        for headers in (
            {"Host": "paceline.example.evil"},
            {"Host": "x.paceline.example"},
            {"Host": "paceline"},
            {"Host": "paceline.example", "Origin": "https://evil.example"},
        ):
            api.problem("GET", "/v1/jobs", None, headers, code="forbidden_origin")


def test_malformed_targets_and_parameters_are_named():
    with Api(data=False) as api:
        api.problem("GET", "/v1/jobs/%zz", code="invalid_parameter")
        api.problem("GET", "/v1/jobs/%00", code="invalid_parameter")
        api.problem(
            "GET",
            "/v1/jobs?" + "&".join(f"a{index}=1" for index in range(40)),
            code="invalid_parameter",
        )
        api.problem("GET", "/v1/jobs?limt=3", code="invalid_parameter", words=("limt", "limit"))
        api.problem("GET", "/v1/jobs?limit=0", code="invalid_parameter", words=("limit",))
        api.problem("GET", "/v1/jobs?limit=501", code="invalid_parameter", words=("limit",))
        api.problem("GET", "/v1/jobs?limit=1e2", code="invalid_parameter", words=("limit",))
        for things, cursor in (
            ("jobs", "x" * 200),
            ("jobs", "nonsense"),
            ("jobs", "dev_01"),
            ("jobs", ""),
            ("jobs", "job_"),
            ("devices", "job_01"),
            ("datasets", "A%20B"),
            ("datasets", "../x"),
            ("incidents", "1"),
            ("checkpoints", "2"),
            ("models", "lenet5"),
            ("models", "00"),
            ("models", "2a"),
        ):
            api.problem(
                "GET",
                f"/v1/{things}?cursor={cursor}",
                code="invalid_parameter",
                words=("cursor", "next_cursor"),
            )
        api.problem("GET", "/v1/jobs/job_x?wait=61", code="invalid_parameter", words=("wait",))
        api.problem("GET", "/v1/jobs/job_x?after=-1", code="invalid_parameter", words=("after",))
        api.problem(
            "POST",
            "/v1/jobs",
            {},
            {"Idempotency-Key": "k" * 128},
            code="invalid_parameter",
            words=("Idempotency-Key",),
        )


# ---- the contract itself ----


def test_every_operation_documents_its_callers_and_problems():
    must(CONTRACT["security"] == [{"token": []}], "requests need a token unless they say otherwise")
    for (method, path), operation in operations().items():
        for status in ("4XX", "default"):
            must(
                operation["responses"][status] == {"$ref": "#/components/responses/problem"},
                f"{method} {path}: {status}",
            )


def test_the_contract_lists_the_types_of_events_that_the_core_publishes():
    published = set()
    for file in (ROOT / "coordinator/core").rglob("*.c"):
        text = " ".join(file.read_text(encoding="utf-8").split()).replace("( ", "(")
        calls = re.findall(r"act_publish(?:_job)?\(core, ([^;]*)", text) + re.findall(
            r"set_state\(core, device, [A-Z_]+, ([^;]*)", text
        )
        for call in calls:
            published.update(
                re.findall('"([a-z]+_[a-z_]+)"', call.split(".text")[0].split(", id")[0])
            )
        if file.name == "states.c":
            published.update(re.findall('= "(job_[a-z_]+)"', text))
        if file.name == "deletions.c":
            published.update(re.findall('"([a-z]+_deleted)"', text))
        if file.name == "drain.c":
            published.update(re.findall('"(device_[a-z]+)"', text))
    stated = set(CONTRACT["components"]["schemas"]["event_type"]["enum"])
    must(
        len(stated) > 20 and stated == published, f"on one side only: {sorted(stated ^ published)}"
    )


# ---- /metrics ----

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
SAMPLE = re.compile(
    rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?\}})?"
    r" ([-+]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)|NaN|[-+]Inf)"
)
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")


def read_prometheus(text):
    """{name: {labels: value}} of Prometheus' text format 0.0.4; strict: HELP and TYPE once and
    first, no sample twice.
    """
    must(text.endswith("\n"), "the last line does not end")
    helped, typed, samples, families = {}, {}, {}, []
    for line in text[:-1].split("\n"):
        comment = re.fullmatch(rf"# (HELP|TYPE) ({NAME}) (.+)", line)
        if comment:
            kind, name, rest = comment.groups()
            must(name not in families, f"{line}: HELP or TYPE after a sample")
            must(name not in (helped if kind == "HELP" else typed), f"{line}: twice")
            (helped if kind == "HELP" else typed)[name] = rest
            must(kind == "HELP" or rest in TYPES, f"{line}: unknown type")
            continue
        sample = SAMPLE.fullmatch(line)
        must(sample, f"not a sample: {line!r}")
        name, labels, value = sample.groups()
        family = re.sub("_(sum|count)$", "", name)
        family = family if typed.get(family) == "summary" else name
        must(family in helped and family in typed, f"{line}: without HELP and TYPE")
        must(labels not in samples.setdefault(name, {}), f"{line}: twice")
        if family not in families:
            families.append(family)
        must(families[-1] == family, f"{line}: the samples of {family} are not adjacent")
        must(
            typed[family] != "counter" or name.endswith("_total"),
            f"{line}: a counter's name ends with _total",
        )
        samples[name][labels] = float(value)
    return samples


def test_metrics_are_prometheus_text_and_count():
    with Api() as api:
        api.submit_named("counted")
        answer = api.request("GET", "/metrics", expect=200)
        must(
            answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8",
            answer.headers["Content-Type"],
        )
        first = read_prometheus(answer.body.decode())
        must(first["paceline_jobs"]['state="queued"'] == 1, f"jobs {first['paceline_jobs']}")
        must(first["paceline_blobs"][None] == 2, f"blobs {first['paceline_blobs']}")
        size = api.get("/v1/datasets/digits-test")["size_bytes"]
        api.request("GET", "/v1/datasets/digits-test/content")
        second = read_prometheus(api.request("GET", "/metrics").body.decode())
        must(
            second["paceline_http_requests_total"][None]
            == first["paceline_http_requests_total"][None] + 3,
            "requests",
        )
        must(
            second["paceline_sent_bytes_total"][None]
            == first["paceline_sent_bytes_total"][None] + size,
            "sent bytes",
        )
        must(second["paceline_received_bytes_total"][None] > 10000, "received bytes")
        build = next(iter(second["paceline_build_info"]))
        must(f'version="{api.get("/version")["version"]}"' in build, f"build {build}")
        for name, least in (
            ("process_resident_memory_bytes", 1e6),
            ("process_open_fds", 5),
            ("process_start_time_seconds", time.time() - 600),
            ("paceline_disk_free_bytes", 1e6),
        ):
            must(second[name][None] > least, f"{name} {second[name]}")
        must(sum(second["paceline_state_bytes"].values()) > 10000, "files")
        events = second["paceline_events_total"]
        must(
            {f'type="{kind}"' for kind in CONTRACT["components"]["schemas"]["event_type"]["enum"]}
            == set(events),
            f"{events}",
        )
        must(events['type="job_queued"'] == 1 and events['type="job_failed"'] == 0, f"{events}")


def test_metrics_name_jobs_devices_and_links():
    with Api() as api:
        job = api.submit_named("named", devices={"min": 2, "max": 2})
        one, two = FakeAgent(api, "one"), FakeAgent(api, "two")
        one.heartbeat(resident_bytes=5 << 20, free_memory_bytes=1 << 30)
        text = api.request("GET", "/metrics").body.decode()
        samples = read_prometheus(text)
        name = f'job_id="{job["id"]}",job_name="named"'
        must(name in samples["paceline_job_step"], f"{samples['paceline_job_step']}")
        must(
            any(label.startswith(name + ',state="') for label in samples["paceline_job_state"]),
            f"{samples['paceline_job_state']}",
        )
        must("paceline_job_loss" not in samples, "a loss before the first step")
        device = f'device_id="{one.id}",device_name="one"'
        must(samples["paceline_device_online"][device] == 1, "online")
        must(samples["paceline_device_resident_bytes"][device] == 5 << 20, "resident")
        must(samples["paceline_device_free_memory_bytes"][device] == 1 << 30, "free")
        must(samples["paceline_device_busy_ratio"][device] == 0, "busy")
        must(samples["paceline_device_silent_seconds"][device] < 60, "silent")
        must(f'device_id="{two.id}",device_name="two"' in samples["paceline_device_online"], "two")
        must(
            api.get(f"/v1/devices/{one.id}")["free_memory_bytes"] == 1 << 30,
            "the device shows another number",
        )


# ---- clients that disconnect ----


def hang_up(api, generator, text, body=b""):
    """Send a part of a request, read a part of the answer and disconnect."""
    with api.connect() as connection:
        if generator.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        whole = text.replace("\n", "\r\n").encode() + body
        connection.sendall(
            whole[: generator.choice([len(whole), generator.randrange(len(whole) + 1)])]
        )
        if generator.random() < 0.5:
            connection.settimeout(0.02)
            try:
                connection.recv(generator.choice([1, 100, 100000]))
            except OSError:
                pass


def test_clients_that_disconnect_at_any_moment_leave_nothing():
    generator = random.Random(7)
    tar = tar_of(*data_files("digits", "train"))
    with Api() as api:
        api.upload("fashion", "fashion-mini", "train")
        job = api.submit_named("watched")
        head = "HTTP/1.1\nHost: localhost\n"
        requests = [
            lambda: (
                (
                    f"PUT /v1/datasets/gone{generator.randrange(5)} {head}"
                    f"Content-Length: {len(tar)}\n\n"
                ),
                tar,
            ),
            lambda: (f"PUT /v1/datasets/gone {head}Transfer-Encoding: chunked\n\n10000\n", tar),
            lambda: (f"GET /v1/datasets/fashion/content {head}\n", b""),
            lambda: (f"GET /v1/datasets/fashion/content {head}Range: bytes=1000-\n\n", b""),
            lambda: (f"GET /v1/events {head}\n", b""),
            lambda: (f"GET /v1/jobs/{job['id']}?after={job['revision']}&wait=1 {head}\n", b""),
            lambda: (
                f"POST /v1/jobs {head}Content-Type: application/json\nContent-Length: 400\n\n",
                b" " * 400,
            ),
            lambda: (f"GET /metrics {head}\n", b""),
        ]
        for _ in range(200):
            hang_up(api, generator, *generator.choice(requests)())
        deadline = time.monotonic() + 60
        while (
            still_open := api.number("paceline_http_requests_open")
        ) > 1 and time.monotonic() < deadline:
            api.get(
                f"/v1/jobs/{job['id']}?after=1000&wait=1"
            )  # long polls of disconnected clients have ended by then
            api.verb(api.submit_named("noise"), "cancel")  # event streams notice it when they send
        must(still_open == 1, f"{still_open} requests are open, one expected")
        must(
            api.number("paceline_long_polls") == 0 and api.number("paceline_event_readers") == 0,
            "closed connections are still counted",
        )
        must(
            api.request(
                "PUT", "/v1/datasets/after", tar, {"Content-Type": "application/x-tar"}
            ).status
            == 201,
            "an upload",
        )


# ---- the end ----


def test_a_stopping_coordinator_rejects_new_requests_and_finishes_the_others():
    body = tar_of(*data_files("digits", "test"))
    with Api(data=False) as api:
        job_wait = {}
        api.upload("digits-train", "digits", "train")
        api.upload("digits-test", "digits", "test")
        job = api.submit_named("waiting")
        poll = threading.Thread(
            target=lambda: job_wait.update(
                answer=api.request(
                    "GET", f"/v1/jobs/{job['id']}?after={job['revision']}&wait=60", timeout=60
                )
            )
        )
        poll.start()
        wait_for(api, "paceline_long_polls", 1)
        received = wait_for(api, "paceline_received_bytes_total", 0)
        upload = slow_upload(api, "late", body, len(body) // 2)
        wait_for(api, "paceline_received_bytes_total", received + len(body) // 2)
        api.coordinator.signal(signal.SIGTERM)
        poll.join(30)
        must(
            job_wait["answer"].json["revision"] == job["revision"],
            "the long poll was not answered with the job as it is",
        )
        api.problem("GET", "/readyz", code="stopping")
        api.problem("POST", f"/v1/jobs/{job['id']}/cancel", code="stopping")
        must(api.get("/healthz") == {"status": "ok"}, "healthz while stopping")
        upload.sendall(body[len(body) // 2 :])
        stored = upload.makefile("rb").read(12)
        must(stored == b"HTTP/1.1 201", f"the upload under way: {stored!r}")
        upload.close()
        must(api.coordinator.process.wait(20) == 0, "exit status")
        line = next(line for line in api.coordinator.log_text().splitlines() if "stopping " in line)
        must(int(re.search(" requests=([0-9]+)", line)[1]) >= 5 and line.endswith(" open=2"), line)


def wait_for(api, name, least):
    for _ in range(2000):
        value = api.number(name)
        if value >= least:
            return value
    raise AssertionError(f"{name} is below {least}")


def slow_upload(api, name, body, first):
    connection = api.connect()
    connection.sendall(
        f"PUT /v1/datasets/{name} HTTP/1.1\r\nHost: {api.coordinator.address}\r\n"
        "Connection: close\r\nContent-Type: application/x-tar\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:first]
    )
    return connection
