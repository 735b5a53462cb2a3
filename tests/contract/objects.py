"""Devices, models and data sets: lists, revisions, uploads, downloads."""

import concurrent.futures
import contextlib
import gzip
import hashlib
import http.client
import json
import math
import shutil
import sqlite3
import struct
import tempfile
import threading
import time

from api import BINARY, CONTRACT, JSON, Api, example
from fake_agent import FakeAgent, read_safetensors
from paceline import Failure, data_files, must, tar_of

TINY = {
    "name": "tiny",
    "units": [
        {"name": "first", "ops": [{"type": "flatten"}, {"type": "linear", "units": 4}]},
        {"name": "second", "ops": [{"type": "relu"}, {"type": "linear", "units": "classes"}]},
    ],
}
UPLOADS_AT_ONCE = 8  # they share a commit of the database


def safetensors(tensors):
    """{name: shape} of F32 zeros."""
    header, size = {}, 0
    for name, shape in tensors.items():
        end = size + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [size, end]}
        size = end
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


# ---- devices ----


def test_devices_are_listed_in_pages_and_shown():
    with Api(data=False) as api:
        must(api.get("/v1/devices")["items"] == [], "unexpected devices")
        agents = [FakeAgent(api, f"device{index}") for index in range(7)]
        items, pages = api.pages("/v1/devices", 3)
        must(
            [item["id"] for item in items] == [agent.id for agent in agents] and pages == 3,
            f"{pages} pages: {items}",
        )
        must(
            len(api.pages("/v1/devices", 7)[0]) == 7 and api.pages("/v1/devices", 500)[1] == 1,
            "whole pages",
        )
        device = api.get(f"/v1/devices/{agents[3].id}")
        must(device == items[3], "the list and the object differ")
        must(
            device["state"] == "online"
            and device["labels"] == {"room": "kitchen", "power": "solar"},
            f"{device}",
        )
        api.problem(
            "GET",
            "/v1/devices/dev_nothing",
            code="unknown_device",
            words=("dev_nothing", "GET /v1/devices"),
        )
        api.problem("GET", "/v1/devices/job_x", code="unknown_device")


def change_and_undo(api, verb, undo, flag):
    """Both verbs of a device flag, and what rejects them."""
    agent = FakeAgent(api, "one")
    path = f"/v1/devices/{agent.id}"
    before = api.request("GET", path)
    answer = api.request(
        "POST", f"{path}/{verb}", headers={"If-Match": before.headers["ETag"]}, expect=202
    )
    must(
        answer.json[flag] and answer.json["revision"] > before.json["revision"],
        f"{answer.json}",
    )
    for end, method in ((f"/{verb}", "POST"), (f"/{undo}", "POST"), ("", "DELETE")):
        api.problem(
            method,
            path + end,
            headers={"If-Match": before.headers["ETag"]},
            code="revision_mismatch",
        )
        api.problem(
            method,
            path + end,
            headers={"If-Match": "7"},
            code="invalid_parameter",
            words=("If-Match",),
        )
        api.problem(method, "/v1/devices/dev_01" + end, code="unknown_device")
        api.problem(method, f"/v1/devices/dev_{'0' * 26}" + end, code="unknown_device")
    undone = api.request("POST", f"{path}/{undo}", {}, {"If-Match": "*"}, expect=202)
    must(undone.json[flag] is False, undo)
    api.takes_no_body(f"{path}/{verb}")
    api.takes_no_body(f"{path}/{undo}")
    api.request("DELETE", path, expect=204)
    api.problem("GET", path, code="unknown_device")
    must(api.get("/v1/devices")["items"] == [], "a deleted device is listed")


def test_a_device_is_cordoned_and_uncordoned_under_its_revision():
    with Api(data=False) as api:
        change_and_undo(api, "cordon", "uncordon", "cordoned")


def test_a_device_is_drained_and_undrained_under_its_revision():
    with Api(data=False) as api:
        change_and_undo(api, "drain", "undrain", "draining")


def test_an_idle_device_is_drained_at_once():
    with Api(data=False) as api:
        agent = FakeAgent(api, "one")
        agent.heartbeat(all_holdings=True, holdings=[])
        shown = api.request("POST", f"/v1/devices/{agent.id}/drain", expect=202).json
        must(shown["draining"] and shown["drained"], f"{shown}")


def test_a_device_verb_acts_once_under_an_idempotency_key():
    with Api(data=False) as api:
        one, two = FakeAgent(api, "one"), FakeAgent(api, "two")
        for verb, key in (("cordon", "k1"), ("uncordon", "k2"), ("drain", "k3"), ("undrain", "k4")):
            first = api.request(
                "POST", f"/v1/devices/{one.id}/{verb}", headers={"Idempotency-Key": key}, expect=202
            )
            again = api.request(
                "POST", f"/v1/devices/{one.id}/{verb}", headers={"Idempotency-Key": key}, expect=202
            )
            must(
                first.body == again.body and again.headers["Idempotent-Replay"] == "true",
                f"{verb}: {again.body!r}",
            )
            api.problem(
                "POST",
                f"/v1/devices/{two.id}/{verb}",
                headers={"Idempotency-Key": key},
                code="idempotency_mismatch",
            )


def test_a_request_waits_for_a_device():
    with Api(data=False) as api:
        agent = FakeAgent(api, "one")
        now = api.get(f"/v1/devices/{agent.id}")
        same = api.request(
            "GET", f"/v1/devices/{agent.id}?after={now['revision']}&wait=1", expect=200
        )
        must(same.json["revision"] == now["revision"], "the wait returned something else")
        must(
            api.get(f"/v1/devices/{agent.id}?after={now['revision'] - 1}&wait=60")["revision"]
            >= now["revision"],
            "a newer revision must be answered at once",
        )
        seen = {}
        poll = threading.Thread(
            target=lambda: seen.update(
                answer=api.request("GET", f"/v1/devices/{agent.id}?after={now['revision']}&wait=60")
            )
        )
        poll.start()
        api.request("POST", f"/v1/devices/{agent.id}/cordon", expect=202)
        poll.join(30)
        must(seen["answer"].json["cordoned"], f"{seen}")
        poll = threading.Thread(
            target=lambda: seen.update(
                answer=api.request("GET", f"/v1/devices/{agent.id}?after=1000000&wait=60")
            )
        )
        poll.start()
        api.request("DELETE", f"/v1/devices/{agent.id}", expect=204)
        poll.join(30)
        must(
            seen["answer"].code == "unknown_device",
            "a wait for a deleted device ends",
        )


# ---- models ----


def test_models_are_listed_the_zoo_first_and_stored_once():
    with Api(data=False) as api:
        zoo = [item["name"] for item in api.get("/v1/models")["items"]]
        must(
            {"mlp", "lenet5", "resnet50", "mobilenetv2-224", "dscnn-kws"} <= set(zoo), f"zoo: {zoo}"
        )
        stored = [
            api.request("POST", "/v1/models", {**TINY, "name": name}, expect=201)
            for name in ("b" * 63, "b" * 62 + "a", "a")
        ]
        must(all(answer.headers["ETag"] == '"1"' for answer in stored), "ETag")
        items, pages = api.pages("/v1/models", 2)
        must([item["name"] for item in items] == zoo + ["a", "b" * 62 + "a", "b" * 63], f"{items}")
        must(pages == (len(items) + 1) // 2, f"{pages} pages")
        must(
            [item["created_at"] is None for item in items] == [True] * len(zoo) + [False] * 3,
            "created_at",
        )
        again = api.request("POST", "/v1/models", {**TINY, "name": "a"})
        must(
            again.status == 200 and again.json == stored[2].json,
            f"the same again: {again.status} {again.body!r}",
        )
        api.problem(
            "POST",
            "/v1/models",
            {
                **TINY,
                "name": "a",
                "units": [*TINY["units"], {"name": "third", "ops": [{"type": "relu"}]}],
            },
            code="name_taken",
            words=("a", "choose another name"),
        )
        api.problem(
            "POST", "/v1/models", {**TINY, "name": "lenet5"}, code="name_taken", words=("zoo",)
        )
        restarted = items
        api.coordinator.stop()
        api.restart_coordinator()
        must(api.pages("/v1/models", 500)[0] == restarted, "models after a restart")


def test_bad_model_descriptions_are_rejected_with_the_place():
    with Api(data=False) as api:
        api.problem(
            "POST",
            "/v1/models",
            {**TINY, "name": "Bad Name"},
            code="invalid_fields",
            words=("/name",),
        )
        api.problem(
            "POST", "/v1/models", {"units": TINY["units"]}, code="invalid_fields", words=("/name",)
        )
        api.problem(
            "POST", "/v1/models", {**TINY, "units": []}, code="invalid_fields", words=("/units",)
        )
        api.problem(
            "POST",
            "/v1/models",
            {**TINY, "unit": []},
            code="invalid_fields",
            words=("unit", "units"),
        )
        bad = json.loads(json.dumps(TINY))
        bad["units"][1]["ops"][1]["type"] = "linaer"
        api.problem(
            "POST",
            "/v1/models",
            bad,
            code="invalid_fields",
            words=("/units/1/ops/1", "linaer", "linear"),
        )
        flat = {
            "name": "flat",
            "units": [
                {
                    "name": "b",
                    "ops": [
                        {"type": "conv2d", "filters": 4, "kernel": 3},
                        {"type": "linear", "units": 2},
                    ],
                }
            ],
        }
        api.problem(
            "POST",
            "/v1/models",
            flat,
            code="invalid_fields",
            words=(
                "/units/0/ops/1",
                "not 26 x 26 x 4",
                "assumed 28 x 28 x 1 of uint8: state input.shape and input.dtype",
            ),
        )
        api.problem("POST", "/v1/models", [], code="invalid_fields")
        api.problem("POST", "/v1/models", b"{", JSON, code="invalid_json", words=("line",))
        api.problem("POST", "/v1/models", b'{"name": "x", "name": "y"}', JSON, code="invalid_json")
        api.problem(
            "POST",
            "/v1/models",
            json.dumps(TINY).encode(),
            {"Content-Type": "text/json"},
            code="unsupported_media_type",
        )
        api.problem("POST", "/v1/models", b" " * (3 << 20), JSON, code="body_too_large")
        must(
            all(item["created_at"] is None for item in api.get("/v1/models")["items"]),
            "a rejected model was stored",
        )


def test_a_model_is_stored_once_under_an_idempotency_key():
    with Api(data=False) as api:
        key = {"Idempotency-Key": "model"}
        first = api.request("POST", "/v1/models", TINY, key, expect=201)
        again = api.request("POST", "/v1/models", TINY, key, expect=201)
        must(
            first.body == again.body and first.headers["ETag"] == again.headers["ETag"],
            "the same answer again",
        )
        api.problem(
            "POST", "/v1/models", {**TINY, "name": "other"}, key, code="idempotency_mismatch"
        )


def test_a_model_is_shown_for_a_data_set_or_an_assumed_one():
    with Api() as api:
        api.request("POST", "/v1/models", TINY, expect=201)
        shown = api.get("/v1/models/tiny?dataset=digits-train")
        must(
            not shown["assumed"]
            and shown["input"] == {"height": 8, "width": 8, "channels": 1, "dtype": "U8"},
            f"{shown}",
        )
        must(
            [unit["parameters"] for unit in shown["units"]] == [64 * 4 + 4, 4 * 10 + 10]
            and shown["parameters"] == 310,
            f"{shown}",
        )
        must(api.get("/v1/models/tiny")["assumed"], "assumed")
        must(shown["description"] == TINY, f"the description: {shown['description']}")
        two = {
            "name": "two",
            "units": [{"name": "b", "ops": [{"type": "flatten"}, {"type": "linear", "units": 2}]}],
        }
        api.request("POST", "/v1/models", two, expect=201)
        shown = api.get("/v1/models/two")
        must(
            shown["assumed"] and shown["classes"] == 2 and shown["input"]["height"] == 28,
            f"two: {shown}",
        )
        for name in (
            item["name"] for item in api.get("/v1/models")["items"] if item["created_at"] is None
        ):
            must(api.get(f"/v1/models/{name}")["assumed"], f"{name}: assumed")
        copy = {**api.get("/v1/models/lenet5")["description"], "name": "copy"}
        api.request("POST", "/v1/models", copy, expect=201)
        must(api.get("/v1/models/copy")["description"] == copy, "a copy of a model of the zoo")
        large = api.get("/v1/models/resnet50")
        must(
            large["input"]["height"] == 224
            and large["classes"] == 1000
            and large["parameters"] == 25557032,
            f"{large['input']}",
        )
        rates = [model["sgd_learning_rate"] for model in (shown, large)]
        must(rates == [0.01, 0.003], f"rates of jobs that state none: {rates}")
        api.problem(
            "GET", "/v1/models/lenet6", code="unknown_model", words=("lenet6", "lenet5", "tiny")
        )
        api.problem(
            "GET", "/v1/models/tiny?dataset=nothing", code="unknown_dataset", words=("nothing",)
        )
        api.problem(
            "GET", "/v1/models/lenet5?dataset=digits-train", code="invalid_fields", words=("conv",)
        )


# ---- data sets ----


def test_a_data_set_is_stored_once_under_its_name():
    images = tar_of(*data_files("digits", "train"))
    with Api(data=False) as api:
        first = api.request("PUT", "/v1/datasets/a", images, BINARY, expect=201)
        must(
            first.json["samples"] == 1437
            and first.json["classes"] == 10
            and first.json["dtype"] == "U8",
            f"{first.json}",
        )
        again = api.request("PUT", "/v1/datasets/a", images, BINARY, expect=200)
        must(again.json == first.json and api.get("/v1/datasets/a") == first.json, "the same again")
        api.problem(
            "PUT",
            "/v1/datasets/a",
            tar_of(*data_files("digits", "test")),
            BINARY,
            code="name_taken",
            words=("a", "choose another name"),
        )
        must(blobs(api) == 1, "the rejected content is in the center")
        same = api.request("PUT", "/v1/datasets/b", images, BINARY, expect=201)
        must(
            same.json["sha256"] == first.json["sha256"] and blobs(api) == 1,
            "equal content is stored twice",
        )
        for name in ("c", "d", "e"):
            api.request("PUT", f"/v1/datasets/{name}", images, BINARY, expect=201)
        items, pages = api.pages("/v1/datasets", 2)
        must(
            [item["name"] for item in items] == ["a", "b", "c", "d", "e"] and pages == 3, f"{items}"
        )
        api.problem("GET", "/v1/datasets/nothing", code="unknown_dataset")


def test_checkpoints_are_uploaded_once_and_listed():
    files = [safetensors({"stem.0.weight": [size, 3]}) for size in range(1, 6)]
    with Api(data=False) as api:
        must(
            api.get("/v1/checkpoints")["items"] == [],
            "unexpected checkpoints",
        )
        stored = [
            api.request("POST", "/v1/checkpoints", file, BINARY, expect=201).json for file in files
        ]
        must([item["size_bytes"] for item in stored] == [len(file) for file in files], f"{stored}")
        must(
            all(
                item["job"] is None and item["version"] == 0 and item["revision"] == 1
                for item in stored
            ),
            f"{stored}",
        )
        again = api.request("POST", "/v1/checkpoints", files[2], {}, expect=200)
        must(again.json == stored[2] and again.headers["ETag"] == '"1"', f"{again.body!r}")
        items, pages = api.pages("/v1/checkpoints", 2)
        must(items == stored and pages == 3, f"{pages} pages: {items}")
        must(
            api.get(f"/v1/checkpoints/{stored[1]['id']}") == stored[1],
            "the list and the object differ",
        )
        must(
            api.request("GET", f"/v1/checkpoints/{stored[1]['id']}/content", expect=200).body
            == files[1],
            "the content",
        )
        pieces = (files[3][at : at + 7] for at in range(0, len(files[3]), 7))
        must(
            api.request("POST", "/v1/checkpoints", pieces, BINARY, expect=200).json == stored[3],
            "in chunks of unknown number",
        )
        api.coordinator.stop()
        api.restart_coordinator()
        must(api.pages("/v1/checkpoints", 2)[0] == stored, "after a restart")
        must(
            api.request("POST", "/v1/checkpoints", files[0], BINARY, expect=200).json == stored[0],
            "known after a restart",
        )


def test_a_damaged_checkpoint_is_never_served_and_an_upload_repairs_it():
    content = safetensors({"stem.0.weight": [1000, 700]})
    with Api(data=False) as api:
        stored = api.request("POST", "/v1/checkpoints", content, BINARY, expect=201).json
        path = f"/v1/checkpoints/{stored['id']}"
        api.coordinator.stop()
        database = api.path / "coordinator" / "checkpoints.db"
        database.write_bytes(database.read_bytes().replace(b"stem.0.weight", b"stem.0.weighs"))
        api.restart_coordinator()
        for _ in range(2):
            try:
                answer = api.request("GET", f"{path}/content")
                raise Failure(f"{answer.status} with {len(answer.body)} bytes")
            except (http.client.HTTPException, ConnectionError):
                pass
        must(api.get(path)["damaged"] is True, "the row does not say damaged")
        log = api.coordinator.log_text()
        must(
            log.count("level=error event=blob_damaged") == 1
            and f"checkpoint {stored['id']}" in log,
            log,
        )
        api.request("POST", "/v1/checkpoints", content, BINARY, expect=200)
        must(
            api.request("GET", f"{path}/content", expect=200).body == content,
            "the content is not restored",
        )
        must(api.get(path) == stored, "it is still damaged")


def test_damaged_rows_of_checkpoints_keep_all_blobs_and_are_named_once():
    job = "job_" + "0" * 26
    for document in ("{", "{}", '{"sha256":"short"}'):
        with Api(data=False) as api:
            stored = [
                api.request(
                    "POST", "/v1/checkpoints", safetensors({"a.0.weight": [n, 3]}), BINARY
                ).json["id"]
                for n in range(1, 4)
            ]
            api.coordinator.stop()
            path = api.path / "coordinator/state.db"
            with contextlib.closing(sqlite3.connect(path)) as database:
                change = "UPDATE checkpoints SET document = ?, parent = ? WHERE id = ?"
                database.execute(change, (document, job, stored[0]))
                database.execute(change, (document, "", stored[1]))
                database.commit()
            api.restart_coordinator()
            log = api.coordinator.log_text()
            must(log.count("event=row_damaged table=checkpoints") == 1, log)
            must(log.count("checkpoint_row_damaged") == 1, "a job's row was read twice")
            must(f"checkpoint_row_damaged id={stored[1]}" in log, log)
            must(blobs(api) == 3, f"{document}: a blob is lost")
            api.request("GET", f"/v1/checkpoints/{stored[2]}/content", expect=200)


def test_bad_checkpoints_are_rejected():
    good = safetensors({"stem.0.weight": [2, 3]})
    with Api(data=False) as api:
        for body in (
            b"",
            b"nonsense",
            good[:20],
            good[:-1],
            good + b"x",
            safetensors({}),
            bytes(1 << 20),
            safetensors({"stem.0.weight": [2, 3], "stem.1.weight": [0, 3]}),
        ):
            api.problem("POST", "/v1/checkpoints", body, BINARY, code="invalid_checkpoint")
            api.problem(
                "POST",
                "/v1/checkpoints",
                (body[at : at + 5000] for at in range(0, len(body), 5000)),
                BINARY,
                code="invalid_checkpoint",
            )
        api.problem(
            "POST",
            "/v1/checkpoints",
            b"PK\3\4" + bytes(1000),
            BINARY,
            code="invalid_checkpoint",
            words=("a PyTorch file; tools/from_torch.py makes safetensors of it",),
        )
        api.problem(
            "POST",
            "/v1/checkpoints",
            good.replace(b"F32", b"F16"),
            BINARY,
            code="invalid_checkpoint",
            words=("tools/from_torch.py makes F32 of it",),
        )
        api.problem(
            "POST",
            "/v1/checkpoints",
            good,
            {"Content-Type": "text/plain"},
            code="unsupported_media_type",
        )
        api.problem(
            "POST",
            "/v1/checkpoints?name=x",
            good,
            BINARY,
            code="invalid_parameter",
            words=("name",),
        )
        api.problem(
            "POST",
            "/v1/checkpoints",
            b"",
            {**BINARY, "Content-Length": str(5 << 30)},
            code="body_too_large",
        )
        must(
            api.get("/v1/checkpoints")["items"] == [] and blobs(api) == 0,
            "a rejected upload was stored",
        )


def test_a_rejected_upload_keeps_equal_content_of_others():
    one, two = (tar_of(*data_files("digits", part)) for part in ("train", "test"))
    with Api(data=False) as api:
        api.request("PUT", "/v1/datasets/a", one, BINARY, expect=201)
        content = api.request("GET", "/v1/datasets/a/content", expect=200).body
    with Api(data=False) as api:
        stored = api.request("POST", "/v1/checkpoints", content, BINARY, expect=201).json
        api.request("PUT", "/v1/datasets/a", two, BINARY, expect=201)
        api.problem("PUT", "/v1/datasets/a", one, BINARY, code="name_taken")
        must(blobs(api, 2) == 2, "blobs")
        kept = api.request("GET", f"/v1/checkpoints/{stored['id']}/content", expect=200).body
        must(kept == content, "the checkpoint lost its content")


def test_a_checkpoint_above_the_limit_is_rejected_before_its_first_byte():
    with Api(data=False) as api:

        def upload(number):
            content = safetensors({f"stem.{number}.weight": [1]})
            api.request("POST", "/v1/checkpoints", content, BINARY, expect=201)

        with concurrent.futures.ThreadPoolExecutor(UPLOADS_AT_ONCE) as pool:
            list(pool.map(upload, range(1024)))
        with api.connect() as connection:
            connection.sendall(
                b"POST /v1/checkpoints HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Length: 1000000000\r\n\r\n"
            )
            answer = connection.recv(1000)
        must(
            answer.startswith(b"HTTP/1.1 429") and b"1024 uploaded checkpoints" in answer,
            f"{answer}",
        )
        must(blobs(api, 1024) == 1024, "blobs")


def blobs(api, wanted=1):
    """The count after the writer is idle: a deletion is visible with a delay."""
    for _ in range(300):
        count = api.number("paceline_blobs")
        if count <= wanted:
            break
    return count


def test_a_data_set_is_uploaded_with_chunked_encoding():
    images = tar_of(*data_files("fashion-mini", "train"))
    with Api(data=False) as api:
        whole = api.request("PUT", "/v1/datasets/whole", images, BINARY, expect=201).json
        pieces = (images[at : at + 70000] for at in range(0, len(images), 70000))
        chunked = api.request("PUT", "/v1/datasets/chunked", pieces, BINARY, expect=201).json
        must(chunked["sha256"] == whole["sha256"], "the chunks were put together differently")


def test_bad_uploads_are_rejected():
    with Api("--max-dataset", "2M", data=False) as api:
        good = tar_of(*data_files("digits", "train"))
        api.problem("PUT", "/v1/datasets/x", b"nonsense", BINARY, code="invalid_dataset")
        api.problem("PUT", "/v1/datasets/x", b"", BINARY, code="invalid_dataset", words=("empty",))
        api.problem("PUT", "/v1/datasets/x", good[:5000], BINARY, code="invalid_dataset")
        api.problem(
            "PUT", "/v1/datasets/x", gzip.compress(bytes(16 << 20)), BINARY, code="invalid_dataset"
        )
        for kind in (
            "text/plain",
            "multipart/form-data; boundary=x",
            "application/x-www-form-urlencoded",
        ):
            api.problem(
                "PUT", "/v1/datasets/x", good, {"Content-Type": kind}, code="unsupported_media_type"
            )
        api.problem(
            "PUT", "/v1/datasets/x", bytes(3 << 20), BINARY, code="body_too_large", words=(2 << 20,)
        )
        api.problem(
            "PUT",
            "/v1/datasets/x",
            (bytes(1 << 16) for _ in range(40)),
            BINARY,
            code="body_too_large",
            words=(2 << 20,),
        )
        api.problem(
            "PUT", "/v1/datasets/Upper", good, BINARY, code="invalid_parameter", words=("Upper",)
        )
        api.problem(
            "PUT",
            "/v1/datasets/x?force=1",
            good,
            BINARY,
            code="invalid_parameter",
            words=("force",),
        )
        must(
            api.get("/v1/datasets")["items"] == [] and blobs(api) == 0,
            "a rejected upload was stored",
        )


def test_uploads_to_a_full_disk_are_rejected_until_there_is_room():
    good = tar_of(*data_files("digits", "train"))
    with Api("--min-free", "1000T", data=False) as api:
        api.problem("PUT", "/v1/datasets/x", good, BINARY, code="disk_full", words=("free",))
        api.problem(
            "POST",
            "/v1/checkpoints",
            safetensors({"stem.0.weight": [2, 3]}),
            BINARY,
            code="disk_full",
        )
        must(api.get("/healthz") == {"status": "ok"}, "healthz")
        api.coordinator.stop()
        api.restart_coordinator()
        api.request("PUT", "/v1/datasets/x", good, BINARY, expect=201)


def test_the_announced_size_of_an_upload_must_leave_min_free():
    free = shutil.disk_usage(tempfile.gettempdir()).free
    with Api("--min-free", str(max(0, free - (1 << 30))), data=False) as api:
        for request in ("POST /v1/checkpoints", "PUT /v1/datasets/x"):
            with api.connect() as connection:
                connection.sendall(
                    f"{request} HTTP/1.1\r\nHost: localhost\r\n"
                    f"Content-Length: {3 << 30}\r\n\r\n".encode()
                )
                answer = connection.recv(1000)
            must(answer.startswith(b"HTTP/1.1 507") and b"must stay free" in answer, f"{answer}")


def test_simultaneous_uploads_above_the_bound_are_postponed():
    with Api(data=False) as api:
        open_ones = []
        for index in range(64):
            connection = api.connect()
            connection.sendall(
                f"PUT /v1/datasets/d{index} HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Length: 100\r\n\r\n0123".encode()
            )
            open_ones.append(connection)
        refused = api.request("PUT", "/v1/datasets/x", b"0123", BINARY)
        for _ in range(200):
            if refused.code == "too_many":
                break
            refused = api.request(
                "PUT", "/v1/datasets/x", b"0123", BINARY
            )  # some of the others are not read yet
        must(refused.code == "too_many", f"{refused.status} {refused.body!r}")
        for connection in open_ones:
            connection.close()
        answer = api.request("PUT", "/v1/datasets/x", b"0123", BINARY)
        for _ in range(200):
            if answer.code != "too_many":
                break
            answer = api.request("PUT", "/v1/datasets/x", b"0123", BINARY)
        must(
            answer.code == "invalid_dataset",
            f"connections of disconnected clients: {answer.body!r}",
        )


def test_content_is_downloaded_whole_and_by_ranges():
    with Api() as api:
        path = "/v1/datasets/digits-train/content"
        dataset = api.get("/v1/datasets/digits-train")
        whole = api.request("GET", path, expect=200)
        size = len(whole.body)
        must(
            size == dataset["size_bytes"]
            and hashlib.sha256(whole.body).hexdigest() == dataset["sha256"],
            "content",
        )
        must(
            whole.headers["ETag"] == f'"{dataset["sha256"]}"'
            and whole.headers["Accept-Ranges"] == "bytes",
            f"{whole.headers}",
        )
        must("digits-train.safetensors" in whole.headers["Content-Disposition"], f"{whole.headers}")
        header = json.loads(whole.body[8 : 8 + int.from_bytes(whole.body[:8], "little")])
        must(
            header["inputs"]["shape"] == [1437, 8, 8, 1] and header["labels"]["shape"] == [1437],
            f"{header}",
        )
        for text, first, last in (
            ("0-0", 0, 0),
            ("0-99", 0, 99),
            ("100-", 100, size - 1),
            ("-1", size - 1, size - 1),
            (f"-{size * 2}", 0, size - 1),
            (f"{size - 1}-", size - 1, size - 1),
            (f"5-{size + 100}", 5, size - 1),
        ):
            part = api.request("GET", path, headers={"Range": f"bytes={text}"}, expect=206)
            must(part.body == whole.body[first : last + 1], f"{text}: {len(part.body)} bytes")
            must(
                part.headers["Content-Range"] == f"bytes {first}-{last}/{size}",
                f"{text}: {part.headers['Content-Range']}",
            )
        for text in (f"{size}-", "-0", "5-4", "a-b", "0-1,3-4"):
            refused = api.problem(
                "GET", path, headers={"Range": f"bytes={text}"}, code="range_not_satisfiable"
            )
            must(
                refused.headers["Content-Range"] == f"bytes */{size}",
                f"{text}: {refused.headers['Content-Range']}",
            )
        api.problem("GET", "/v1/datasets/nothing/content", code="unknown_dataset")


def test_a_large_content_comes_in_pieces_to_many_readers_at_once():
    with Api(data=False) as api:
        api.upload("fashion", "fashion-mini", "train")
        sha256 = api.get("/v1/datasets/fashion")["sha256"]
        found = []
        readers = [
            threading.Thread(
                target=lambda: found.append(
                    hashlib.sha256(
                        api.request("GET", "/v1/datasets/fashion/content").body
                    ).hexdigest()
                )
            )
            for _ in range(8)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(60)
        must(found == [sha256] * 8, f"{found}")


def test_a_data_set_as_safetensors_comes_back_byte_for_byte():
    with Api() as api:
        content = api.request("GET", "/v1/datasets/digits-test/content").body
        again = api.request("PUT", "/v1/datasets/copy", content, BINARY, expect=201).json
        must(
            again["sha256"] == api.get("/v1/datasets/digits-test")["sha256"],
            "the same content has another hash",
        )
        must(list(read_safetensors(content)) == ["inputs", "labels"], "tensors")


def test_the_example_messages_match_the_contract():
    with Api(data=False) as api:
        agent = FakeAgent(api, "one", enrol=False)
        answer = api.request(
            "POST", "/v1/agent/enroll", {**example("enroll_request.minimal"), "name": "minimal"}
        )
        must(answer.status == 201, f"{answer.body!r}")
        must(agent.enrol().status == 201 and agent.enrol().status == 200, "a device enrols again")


# ---- queries of lists ----


def ids(page):
    return [item["id"] for item in page["items"]]


def test_lists_of_jobs_are_filtered_ordered_and_short():
    with Api() as api:
        jobs = {name: api.submit_named(name) for name in ("night-1", "night-2", "day")}
        api.verb(jobs["night-2"], "cancel")
        one, two, three = (jobs[name]["id"] for name in ("night-1", "night-2", "day"))
        for query, expected in (
            ("", [one, two, three]),
            ("order=desc", [three, two, one]),
            ("order=desc&limit=2", [three, two]),
            (f"order=desc&cursor={two}", [one]),
            ("state=cancelled", [two]),
            ("state=queued", [one, three]),
            ("state=queued,cancelled&order=desc", [three, two, one]),
            ("state=failed", []),
            (f"name={'n' * 63}*", []),
            ("name=night-1", [one]),
            ("name=night*", [one, two]),
            ("name=night*&state=cancelled", [two]),
            ("state=queued&limit=1", [one]),
            (f"state=queued&limit=1&cursor={one}", [three]),
        ):
            must(ids(api.get(f"/v1/jobs?{query}")) == expected, query)
        for view in ("short", "full"):
            page = api.get(f"/v1/jobs?view={view}")
            must(ids(page) == [one, two, three], view)
            must(all(("spec" in item) == (view == "full") for item in page["items"]), view)
        short = api.get("/v1/jobs?view=short&name=night-2")["items"][0]
        whole = api.job(jobs["night-2"])
        must(short["name"] == "night-2" and short["model"] == "mlp", f"{short}")
        must(
            all(whole[name] == value for name, value in short.items() if name in whole),
            f"{short} is not {whole}",
        )
        for query, words in (
            ("state=queue", ("did you mean 'queued'",)),
            ("state=", ("is not a state",)),
            ("name=Night", ("is not a name",)),
            (f"name={'n' * 64}", ("is not a name",)),
            (f"name={'n' * 64}*", ("is not a name",)),
            ("view=brief", ("'short' or 'full'",)),
            ("order=newest", ("'desc' or 'asc'",)),
            ("label=a=b", ("unknown query parameter 'label'",)),
        ):
            api.problem("GET", f"/v1/jobs?{query}", code="invalid_parameter", words=words)


def test_lists_of_devices_are_filtered_by_state_name_and_label():
    with Api(data=False) as api:
        one = FakeAgent(api, "board-1", labels={"room": "kitchen", "gpu": "no"}).id
        two = FakeAgent(api, "board-2", labels={"room": "Attic,2", "eq": "a=b"}).id
        for query, expected in (
            ("order=desc", [two, one]),
            ("state=online", [one, two]),
            ("state=lost,suspect", []),
            ("name=board-2", [two]),
            ("name=board*", [one, two]),
            ("label=room=kitchen", [one]),
            ("label=room=kitchen,gpu=no&state=online&name=board*", [one]),
            ("label=room=kitchen,gpu=yes", []),
            ("label=room=Attic", []),
            ("label=room=Attic,2", [two]),
            ("label=room=Attic,2,eq=a=b", [two]),
            ("label=eq=a%3Db,room=Attic%2C2", [two]),
        ):
            must(ids(api.get(f"/v1/devices?{query}")) == expected, query)
        for query in ("room", "room=", "=kitchen", "Room=kitchen", f"room={'x' * 64}"):
            api.problem("GET", f"/v1/devices?label={query}", code="invalid_parameter")
        short = api.get("/v1/devices?view=short")["items"][0]
        whole = api.get(f"/v1/devices/{one}")
        must("inventory" not in short and short.items() <= whole.items(), f"{short}")


def test_lists_take_every_state_of_the_contract():
    schemas = CONTRACT["components"]["schemas"]
    with Api(data=False) as api:
        for thing in ("device", "job", "incident"):
            parameter = CONTRACT["components"]["parameters"][f"{thing}_states"]
            place = f"#/components/schemas/{thing}/properties/state"
            must(parameter["schema"]["items"] == {"$ref": place}, f"{parameter}")
            states = schemas[thing]["properties"]["state"]["enum"]
            for state in [*states, ",".join(states)]:
                must(api.get(f"/v1/{thing}s?state={state}")["items"] == [], state)


def test_a_list_is_waited_for_until_an_object_of_its_kind_changes():
    with Api(data=False) as api:
        for path, change in (
            ("/v1/devices", lambda: FakeAgent(api, "new")),
            ("/v1/datasets", lambda: api.upload("digits-train", "digits", "train")),
            ("/v1/models", lambda: api.request("POST", "/v1/models", TINY, expect=201)),
            ("/v1/jobs", lambda: api.submit_named("waited", dataset={"train": "digits-train"})),
        ):
            before = api.get(path)
            must(api.get(f"{path}?after={before['revision']}") == before, f"{path}: no wait")
            must(
                api.get(f"{path}?after={before['revision'] - 1}&wait=60") == before,
                f"{path}: another revision",
            )
            seen = {}
            poll = threading.Thread(
                target=lambda path=path, before=before, seen=seen: seen.update(
                    api.get(f"{path}?after={before['revision']}&wait=60&order=desc")
                )
            )
            poll.start()
            wait_for_polls(api, 1)
            change()
            poll.join(30)
            must(seen and seen["revision"] > before["revision"], f"{path}: {seen}")
            must(len(seen["items"]) == len(before["items"]) + 1, f"{path}: {seen}")
            api.problem("GET", f"{path}?after=0&wait=61", code="invalid_parameter")
            api.problem("GET", f"{path}?after=x", code="invalid_parameter")
        old = api.get("/v1/jobs")["revision"]
        api.coordinator.stop()
        api.restart_coordinator()
        must(api.get(f"/v1/jobs?after={old}&wait=60")["revision"] > old, "after a restart")


def wait_for_polls(api, count):
    deadline = time.monotonic() + 10
    while api.number("paceline_long_polls") < count:
        must(time.monotonic() < deadline, "no request waits")
        time.sleep(0.01)
