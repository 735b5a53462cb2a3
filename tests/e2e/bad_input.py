"""Bad input: each gets a clear problem or a one-line error, leaves nothing stored, and does not
stop the coordinator.
"""

import gzip
import hashlib
import json
import os
import pathlib
import resource
import socket
import subprocess
import tempfile

from paceline import BIN, ROOT, Failure, Fleet, data_files, tar_of
from runner import run

JOB = {
    "model": {"name": "mlp"},
    "dataset": {"train": "digits-train", "test": "digits-test"},
    "batch": 16,
    "micro_batches": 2,
    "epochs": 1,
}


def expect_problem(answer, status, code, *words):
    problem = answer.json
    text = json.dumps(problem)
    if answer.status != status or problem["code"] != code or problem["status"] != status:
        raise Failure(f"{status} {code} expected, got {answer.status}: {text}")
    if "problem+json" not in answer.headers["Content-Type"] or not problem["request_id"]:
        raise Failure(f"not a whole problem: {text}")
    for word in words:
        if word not in text:
            raise Failure(f"'{word}' is missing in {text}")


def fleet_with_data():
    fleet = Fleet()
    fleet.start_coordinator("--heartbeat-ms", "100", "--max-dataset", "64M")
    fleet.upload("digits-train", "digits", "train")
    fleet.upload("digits-test", "digits", "test")
    return fleet


def nothing_left_behind(fleet, jobs=0, datasets=2):
    """No partial row, orphan blob or unknown file remains; a good request still works."""
    if (
        len(fleet.get("/v1/jobs")["items"]) != jobs
        or len(fleet.get("/v1/datasets")["items"]) != datasets
    ):
        raise Failure("a rejected request left something")
    files = {path.name for path in (fleet.path / "coordinator").iterdir()}
    if any(not name.startswith(("state.", "checkpoints.")) for name in files):
        raise Failure(f"files are left: {files}")
    if fleet.get("/healthz") != {"status": "ok"}:
        raise Failure("the coordinator is not healthy")


def test_problems_of_bad_jobs_name_the_field_and_the_reason():
    with fleet_with_data() as fleet:

        def post(change, raw=None):
            return fleet.request(
                "POST",
                "/v1/jobs",
                raw if raw is not None else {**JOB, **change},
                {"Content-Type": "application/json"},
            )

        expect_problem(
            post({"model": {"name": "lenet6"}}),
            422,
            "invalid_fields",
            "/model/name",
            "lenet6",
            "lenet5",
        )
        expect_problem(
            post({"model": {"name": "lenet5"}}),
            422,
            "invalid_fields",
            "/model/name",
            "window",
            "5 x 5",
        )
        expect_problem(
            post({"dataset": {"train": "nothing"}}),
            422,
            "invalid_fields",
            "/dataset/train",
            "nothing",
        )
        expect_problem(post({"optimiser": {}}), 422, "invalid_fields", "/optimiser", "optimizer")
        for field, meant in (
            ("modle", "model"),
            ("batch_size", "batch"),
            ("lr", "learning_rate"),
            ("seed", "init.seed"),
        ):
            expect_problem(
                post({field: 1}), 422, "invalid_fields", f"/{field}", f"did you mean '{meant}'?"
            )
        expect_problem(
            post({"learning_rate": 0.1}), 422, "invalid_fields", "an object with the members "
        )
        expect_problem(
            post({"batch": 10, "micro_batches": 4}), 422, "invalid_fields", "micro_batches"
        )
        expect_problem(post({"batch": "many"}), 422, "invalid_fields", "/batch")
        expect_problem(post({"batch": 60000}), 422, "invalid_fields", "/batch", "1437")
        expect_problem(
            post({"learning_rate": {"type": "constant", "value": -1}}),
            422,
            "invalid_fields",
            "/learning_rate/value",
        )
        expect_problem(
            post({"strategy": "swarm"}), 422, "invalid_fields", "/strategy", "pipeline, submodel"
        )
        expect_problem(post({"cuts": [99]}), 422, "invalid_fields", "/cuts")
        expect_problem(post(None, b"{not json"), 400, "invalid_json", "line")
        expect_problem(post(None, b""), 400, "invalid_json")
        expect_problem(post(None, b"[1, 2]"), 422, "invalid_fields")
        expect_problem(post(None, b'{"batch": 1, "batch": 2}'), 400, "invalid_json")
        expect_problem(post(None, b"[" * 100000), 400, "invalid_json")
        expect_problem(post(None, b'"' + b"x" * (3 << 20) + b'"'), 413, "body_too_large")
        wide = {
            "name": "wide",
            "input": {"shape": [8, 8, 1]},
            "units": [
                {"name": "a", "ops": [{"type": "flatten"}, {"type": "linear", "units": 1 << 40}]}
            ],
        }
        expect_problem(
            post({"model": {"description": wide}}),
            422,
            "invalid_fields",
            "/model/description/units/0/ops/1",
        )
        expect_problem(
            fleet.request(
                "POST", "/v1/jobs", json.dumps(JOB).encode(), {"Content-Type": "text/plain"}
            ),
            415,
            "unsupported_media_type",
        )
        expect_problem(fleet.request("GET", "/v1/jobs/job_nothing"), 404, "unknown_job")
        expect_problem(fleet.request("GET", "/v1/jbos"), 404, "not_found")
        expect_problem(fleet.request("DELETE", "/v1/jobs"), 405, "method_not_allowed")
        expect_problem(fleet.request("GET", "/v1/jobs?limt=3"), 400, "invalid_parameter", "limit")
        expect_problem(
            fleet.request("GET", "/v1/jobs?limit=501"), 400, "invalid_parameter", "limit"
        )
        nothing_left_behind(fleet)


def test_a_job_larger_than_the_devices_memory_is_rejected_with_unit_and_bytes():
    huge = {
        "name": "huge",
        "units": [
            {"name": "first", "ops": [{"type": "flatten"}, {"type": "linear", "units": 16384}]},
            {"name": "giant", "ops": [{"type": "linear", "units": 4096}]},
            *[
                {"name": f"more{index}", "ops": [{"type": "linear", "units": 4096}]}
                for index in range(30)
            ],
            {"name": "head", "ops": [{"type": "linear", "units": "classes"}]},
        ],
    }
    with fleet_with_data() as fleet:
        fleet.start_agent("small", "--memory", "64M")
        fleet.wait_for_devices(1)
        job = {**JOB, "model": {"description": huge}}
        expect_problem(
            fleet.request("POST", "/v1/jobs?dry_run=true", job), 422, "model_too_large", "small"
        )
        expect_problem(fleet.request("POST", "/v1/jobs", job), 422, "model_too_large")
        nothing_left_behind(fleet)


def test_problems_of_bad_data_sets_name_the_fault_and_its_place():
    images, labels = (path.read_bytes() for path in data_files("digits", "train"))
    with fleet_with_data() as fleet, tempfile.TemporaryDirectory() as directory:

        def put(data, name="bad", **headers):
            return fleet.request(
                "PUT",
                f"/v1/datasets/{name}",
                data,
                {"Content-Type": "application/octet-stream", **headers},
            )

        def tar(**files):
            paths = []
            for name, data in files.items():
                paths.append(pathlib.Path(directory) / name)
                paths[-1].write_bytes(data)
            return tar_of(*paths)

        expect_problem(put(b""), 422, "invalid_dataset", "empty")
        expect_problem(put(b"hello, this is not a data set"), 422, "invalid_dataset")
        expect_problem(
            put(tar(images=images[:1000], labels=labels)), 422, "invalid_dataset", "images"
        )
        expect_problem(
            put(tar(images=gzip.decompress(images)[:5000], labels=labels)),
            422,
            "invalid_dataset",
            "images",
            "bytes",
        )
        test_labels = data_files("digits", "test")[1].read_bytes()
        expect_problem(
            put(tar(images=images, labels=test_labels)), 422, "invalid_dataset", "360", "1437"
        )
        expect_problem(put(tar(images=images)), 422, "invalid_dataset", "labels")
        expect_problem(put(tar_of(*data_files("digits", "train"))[:20000]), 422, "invalid_dataset")
        bomb = gzip.compress(b"\0" * (80 << 20))
        expect_problem(put(tar(images=bomb, labels=labels)), 422, "invalid_dataset")
        expect_problem(put(b"x" * (65 << 20)), 413, "body_too_large")
        expect_problem(put(images, name="Bad%20Name"), 400, "invalid_parameter")
        expect_problem(
            put(images, **{"Content-Type": "multipart/form-data; boundary=x"}),
            415,
            "unsupported_media_type",
        )
        expect_problem(fleet.request("GET", "/v1/datasets/bad"), 404, "unknown_dataset")
        expect_problem(
            fleet.request(
                "GET", "/v1/datasets/digits-train/content", headers={"Range": "bytes=99999999-"}
            ),
            416,
            "range_not_satisfiable",
        )
        nothing_left_behind(fleet)


def test_an_agent_with_an_unknown_protocol_version_gets_both_versions():
    with fleet_with_data() as fleet:
        version = fleet.get("/version")["protocol"]
        enrol = json.loads(
            pathlib.Path(__file__)
            .resolve()
            .parents[2]
            .joinpath("schema/examples/valid/enroll_request.full.json")
            .read_text()
        )
        enrol["protocol"] = version + 7
        expect_problem(
            fleet.request("POST", "/v1/agent/enroll", enrol),
            409,
            "protocol_version",
            str(version),
            str(version + 7),
        )
        if fleet.get("/v1/devices")["items"]:
            raise Failure("a device with an unknown protocol was enrolled")
        nothing_left_behind(fleet)


def test_a_web_page_of_another_origin_cannot_drive_the_api():
    with fleet_with_data() as fleet:
        for headers in (
            {"Origin": "http://evil.example"},
            {"Host": "evil.example"},
            {"Origin": "null"},
        ):
            expect_problem(fleet.request("POST", "/v1/jobs", JOB, headers), 403, "forbidden_origin")
        nothing_left_behind(fleet)


def one_line_error(program, *arguments, words=(), environment=()):
    done = subprocess.run(
        [str(BIN / program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **dict(environment)},
    )
    lines = done.stderr.strip().splitlines()
    if done.returncode == 0 or len(lines) != 1 or any(word not in lines[0] for word in words):
        raise Failure(f"{program} {arguments}: {done.returncode}: {done.stderr}")


def test_programs_reject_bad_options_in_one_line():
    with tempfile.TemporaryDirectory() as directory:
        one_line_error("paceline-coordinator", "--listn", "x", words=("listn", "listen"))
        one_line_error(
            "paceline-coordinator",
            "--listen",
            "0.0.0.0:0",
            "--state-dir",
            directory,
            words=("--insecure",),
        )
        one_line_error(
            "paceline-agent",
            "--listen",
            "0.0.0.0:0",
            "--state-dir",
            directory,
            words=("--insecure",),
        )
        one_line_error("paceline-agent", "--slowdown", "fast", words=("slowdown",))
        one_line_error("paceline-agent", "--label", "classes=3-1", words=("classes=0-3_7",))
        one_line_error(
            "paceline-agent",
            "trian",
            "job.json",
            words=("unknown word 'trian'; did you mean 'train'?",),
        )
        one_line_error("paceline-agent", "sing", words=("unknown word 'sing' (see --help)",))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            listen = "127.0.0.1:%d" % taken.getsockname()[1]
            one_line_error(
                "paceline-coordinator",
                "--listen",
                listen,
                "--log-level",
                "error",
                "--state-dir",
                f"{directory}/taken",
                words=(listen, "--listen"),
            )
        one_line_error(
            "paceline-agent",
            "train",
            "/nothing.json",
            "--output",
            f"{directory}/m",
            words=("/nothing.json",),
        )
        one_line_error(
            "paceline",
            "job",
            "get",
            "job_" + "0" * 26,
            "--server",
            "http://127.0.0.1:1",
            words=("127.0.0.1:1",),
        )


def test_a_model_is_written_although_its_metrics_cannot_be():
    tiny = {
        "name": "tiny",
        "units": [
            {"name": "all", "ops": [{"type": "flatten"}, {"type": "linear", "units": "classes"}]}
        ],
    }
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        (place / "job.json").write_text(
            json.dumps({**JOB, "model": {"description": tiny}, "epochs": 30})
        )
        data = [
            f"--dataset=digits-{part}={','.join(map(str, data_files('digits', part)))}"
            for part in ("train", "test")
        ]
        # Limit files to 128 KiB: model and data are smaller, the metrics larger. SIGXFSZ stays
        # ignored, as Python sets it.
        done = subprocess.run(
            [
                str(BIN / "paceline-agent"),
                "train",
                str(place / "job.json"),
                "--output",
                str(place / "model"),
                "--metrics",
                str(place / "metrics"),
                *data,
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            restore_signals=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, 1 << 17)),
        )
        if done.returncode != 1 or "metrics" not in done.stderr.strip().splitlines()[-1]:
            raise Failure(f"train: {done.returncode}: {done.stderr}")
        sha256 = hashlib.sha256((place / "model").read_bytes()).hexdigest()
        if f"sha256 {sha256}" not in done.stdout:
            raise Failure(f"the model is not what {done.stdout} says")


def test_a_quickstart_on_a_used_port_keeps_the_earlier_result():
    with tempfile.TemporaryDirectory() as directory, socket.create_server(
        ("127.0.0.1", 0)
    ) as taken:
        for name in ("quickstart", "model.safetensors"):
            (pathlib.Path(directory) / name).touch()
        one_line_error(
            ROOT / "deploy" / "quickstart.sh",
            words=("is taken", "QUICKSTART_PORT"),
            environment={
                "QUICKSTART_DIR": directory,
                "QUICKSTART_PORT": str(taken.getsockname()[1]),
            },
        )
        if len(list(pathlib.Path(directory).iterdir())) != 2:
            raise Failure("the earlier quickstart's directory was emptied")


if __name__ == "__main__":
    run(globals())
