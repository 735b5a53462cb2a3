"""Data sets whose format needs an option, or whose values are no bytes: float arrays, texts,
sounds."""

import gzip
import io
import struct
import tarfile
import threading
import zlib

from api import BINARY, Api, record
from fake_agent import FakeAgent
from paceline import ROOT, data_files, must, tar_of


def test_a_text_is_split_into_samples_of_bytes():
    text = bytes(range(256)) * 20
    with Api(data=False) as api:
        first = api.request("PUT", "/v1/datasets/text?text=64", text, BINARY, expect=201).json
        must(
            (first["samples"], first["height"], first["width"], first["channels"])
            == (79, 64, 1, 1),
            f"{first}",
        )
        must((first["classes"], first["positions"], first["dtype"]) == (256, 64, "U8"), f"{first}")
        packed = api.request(
            "PUT", "/v1/datasets/packed?text=64", gzip.compress(text), BINARY, expect=201
        ).json
        must(packed["sha256"] == first["sha256"], "gzip changed the text")
        content = api.request("GET", "/v1/datasets/text/content", expect=200).body
        must(text[: 79 * 64] in content, "the inputs are not the bytes of the text")
        view = api.get("/v1/models/gpt-mini?dataset=text")
        must(
            view["classes"] == 256
            and view["units"][-1]["output"] == {"height": 64, "width": 1, "channels": 256},
            f"{view}",
        )
        api.problem("GET", "/v1/models/lenet5?dataset=text", code="invalid_fields")
        must(api.get("/v1/models/gpt-mini")["assumed"], "an input that no request names is assumed")
        api.problem(
            "PUT", "/v1/datasets/x?text=0", text, BINARY, code="invalid_parameter", words=("text",)
        )
        api.problem(
            "PUT",
            "/v1/datasets/x?text=40000",
            text,
            BINARY,
            code="invalid_parameter",
            words=("text",),
        )
        api.problem(
            "PUT",
            "/v1/datasets/x?text=6000",
            text,
            BINARY,
            code="invalid_dataset",
            words=("5120 bytes of text",),
        )
        images = api.request(
            "PUT", "/v1/datasets/images", tar_of(*data_files("digits", "train")), BINARY, expect=201
        ).json
        must("positions" not in images, f"{images}")
        job = {"model": {"name": "gpt-mini"}, "dataset": {"train": "text", "test": "images"}}
        api.problem(
            "POST", "/v1/jobs?dry_run=true", job, code="invalid_fields", words=("/dataset/test",)
        )


def test_data_that_devices_offer_are_listed_by_device():
    with Api(data=False) as api:
        offer = record("offer", name="xrays", sha256="ab" * 32, samples=9, classes=2)
        offer |= {"height": 8, "width": 8, "channels": 1, "dtype": "U8", "class_counts": [5, 4]}
        first = FakeAgent(api, name="ward-1", data=[offer, {**offer, "name": "notes"}])
        FakeAgent(api, name="ward-2", data=[{**offer, "class_names_sha256": "cd" * 32}])
        rows = api.get("/v1/datasets?local=true")["items"]
        seen = sorted((row["device_name"], row["name"]) for row in rows)
        must(seen == [("ward-1", "notes"), ("ward-1", "xrays"), ("ward-2", "xrays")], f"{rows}")
        must(api.get("/v1/datasets")["items"] == [], "an offered data set is listed as uploaded")
        page = api.get("/v1/datasets?local=true&limit=2")
        rest = api.get(f"/v1/datasets?local=true&limit=2&cursor={page['next_cursor']}")
        must(page["items"] + rest["items"] == rows, f"{page} {rest}")
        backwards = api.get("/v1/datasets?local=true&order=desc")["items"]
        must(backwards == rows[::-1], f"{backwards}")
        named = api.get("/v1/datasets?local=true&name=notes")["items"]
        must([row["device"] for row in named] == [first.id], f"{named}")
        must(len(api.get(f"/v1/devices/{first.id}")["data"]) == 2, "the device shows no data")
        for query in ("local=maybe", "local=true&cursor=xrays", "local=true&state=online"):
            api.problem("GET", f"/v1/datasets?{query}", code="invalid_parameter")
        for counts, samples in (([5, 5], 9), ([2**53 - 1, 2**53 - 1], 9), ([3, 4], 9)):
            liar = FakeAgent(api, name="ward-3", enrol=False, data=[offer])
            body = liar.request_body()
            body["data"] = [{**offer, "class_counts": counts, "samples": samples}]
            api.problem(
                "POST",
                "/v1/agent/enroll",
                body,
                code="invalid_fields",
                words=("/data/0/class_counts", "add up"),
            )
        parts = [{"sha256": digit * 64, "samples": count} for digit, count in (("1", 4), ("2", 8))]
        for extends in (parts[::-1], parts[:1] * 2, [{**parts[0], "samples": 9}]):
            body = FakeAgent(api, name="ward-3", enrol=False, data=[offer]).request_body()
            body["data"] = [{**offer, "extends": extends}]
            api.problem(
                "POST",
                "/v1/agent/enroll",
                body,
                code="invalid_fields",
                words=("/data/0/extends", "become longer"),
            )
        grown = {**offer, "sha256": "ef" * 32, "extends": parts, "stale": True}
        body = {**first.request_body(), "data": [grown]}
        api.request("POST", "/v1/agent/enroll", body, expect=200)
        row = api.get("/v1/datasets?local=true&name=xrays")["items"][0]
        must(row["device"] == first.id and row["extends"] == parts and row["stale"], f"{row}")


def npy(descr, shape, data):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def tar_of_bytes(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def test_images_in_directories_become_samples_of_one_size():
    directory = ROOT / "tests" / "golden" / "images"
    images = {
        name: (directory / name).read_bytes() for name in ("colour.jpg", "grey.png", "alpha.png")
    }
    files = {
        "set/b/1.jpg": images["colour.jpg"],
        "set/a/1.png": images["grey.png"],
        "set/b/2.png": images["alpha.png"],
    }
    with Api(data=False) as api:

        def put(name, content, expect=201):
            return api.request(
                "PUT", f"/v1/datasets/{name}", tar_of_bytes(content), BINARY, expect=expect
            ).json

        def refused(name, content, word):
            api.problem(
                "PUT",
                f"/v1/datasets/{name}",
                tar_of_bytes(content),
                BINARY,
                code="invalid_dataset",
                words=(word,),
            )

        seen = put("plain", files)
        shape = [
            seen[field] for field in ("samples", "height", "width", "channels", "dtype", "classes")
        ]
        must(shape == [3, 17, 22, 3, "U8", 2], f"{seen}")
        content = api.request("GET", "/v1/datasets/plain/content", expect=200).body
        must(
            content.endswith(struct.pack("<3i", 1, 0, 1)),
            "labels are not the places of the sorted directories",
        )
        seen = put("small?size=8x9&channels=1", files)
        must(
            (seen["height"], seen["width"], seen["channels"], seen["size_bytes"] < 1000)
            == (8, 9, 1, True),
            f"{seen}",
        )
        must(
            put("small?channels=1&size=8x9", files, expect=200)["sha256"] == seen["sha256"],
            "the same content has another hash",
        )
        refused("x", {**files, "set/a/2.jpg": images["colour.jpg"][:-100]}, "set/a/2.jpg: JPEG: ")
        refused("x", {**files, "set/a/2.png": images["grey.png"][:-40]}, "set/a/2.png: PNG: ")
        refused("x", {**files, "other/a/2.png": images["grey.png"]}, "one directory of classes")
        refused("x?size=8x8", {"a/b": b"text"}, "a/b: is neither JPEG nor PNG")
        for query in ("size=8", "size=8x0", "channels=2", "size=8x8&text=5", "size=8x8&size=8x8"):
            api.problem(
                "PUT",
                f"/v1/datasets/x?{query}",
                b"",
                BINARY,
                code="invalid_parameter",
                words=("query parameter",),
            )
        must(
            [item["name"] for item in api.get("/v1/datasets")["items"]] == ["plain", "small"],
            "a rejected data set was stored",
        )


def test_directories_of_any_name_become_class_names():
    image = (ROOT / "tests" / "golden" / "images" / "grey.png").read_bytes()
    with Api(data=False) as api:

        def put(name, classes, expect=201):
            # Names in a tar are bytes; invalid UTF-8 becomes surrogates here.
            content = tar_of_bytes({f"{directory}/1.png": image for directory in classes})
            return api.request("PUT", f"/v1/datasets/{name}", content, BINARY, expect=expect).json

        def names_of(name):
            return api.get(f"/v1/datasets/{name}/class_names")["class_names"]

        seen = put("odd", ["caf\udce9", "100%", "caf\u00e9", "two\nlines"])
        must(
            names_of("odd") == ["100%25", "caf\u00e9", "caf%E9", "two%0Alines"],
            f"{names_of('odd')}",
        )
        must(
            seen["class_names_sha256"] == api.get("/v1/datasets/odd")["class_names_sha256"]
            and seen["reading"] is None,
            f"{seen}",
        )
        content = api.request("GET", "/v1/datasets/odd/content", expect=200).body
        again = api.request("PUT", "/v1/datasets/again", content, BINARY, expect=201).json
        must(
            (again["sha256"], again["class_names_sha256"])
            == (seen["sha256"], seen["class_names_sha256"]),
            f"{again}",
        )
        must(names_of("again") == names_of("odd"), "the content does not hold the names")
        digits = api.request(
            "PUT", "/v1/datasets/digits", tar_of(*data_files("digits", "test")), BINARY, expect=201
        ).json
        must(digits["class_names_sha256"] is None and names_of("digits") is None, f"{digits}")
        api.problem("GET", "/v1/datasets/none/class_names", code="unknown_dataset")
        api.coordinator.stop()
        api.restart_coordinator()
        must(names_of("odd") == names_of("again"), "the names were lost")


def test_a_job_keeps_the_numbers_of_its_classes():
    image = (ROOT / "tests" / "golden" / "images" / "grey.png").read_bytes()
    job = {"model": {"name": "mlp"}, "batch": 1, "micro_batches": 1}
    with Api(data=False) as api:
        for name, classes in (
            ("pets", ("bird", "cat", "dog")),
            ("fewer", ("bird", "cat")),
            ("gap", ("bird", "dog")),
            ("wild", ("bird", "cat", "wolf")),
        ):
            content = tar_of_bytes({f"{directory}/1.png": image for directory in classes})
            api.request("PUT", f"/v1/datasets/{name}", content, BINARY, expect=201)
        api.request(
            "PUT", "/v1/datasets/plain", tar_of(*data_files("digits", "test")), BINARY, expect=201
        )

        def dry(train, test, **fields):
            return {**job, "dataset": {"train": train, "test": test}, **fields}

        api.request("POST", "/v1/jobs?dry_run=true", dry("pets", "pets"), expect=200)
        api.request("POST", "/v1/jobs?dry_run=true", dry("pets", "fewer"), expect=200)
        for test, words in (
            ("gap", ("/dataset/test", "missing: 'cat'")),
            ("wild", ("missing: 'dog'; unknown: 'wolf'",)),
        ):
            api.problem(
                "POST",
                "/v1/jobs?dry_run=true",
                dry("pets", test),
                code="invalid_fields",
                words=words,
            )
        stated = {
            "description": {
                "name": "stated",
                "class_names": ["cat", "dog", "bird"],
                "units": [
                    {
                        "name": "a",
                        "ops": [{"type": "flatten"}, {"type": "linear", "units": "classes"}],
                    }
                ],
            }
        }
        api.problem(
            "POST",
            "/v1/jobs?dry_run=true",
            dry("pets", None, model=stated),
            code="invalid_fields",
            words=("/model/description/class_names", "class 0 is 'bird', not 'cat'"),
        )


def large_png(side):
    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = zlib.compress(bytes((1 + side) * side))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", rows)
        + chunk(b"IEND", b"")
    )


def test_conversions_leave_workers_for_short_work():
    image = large_png(4000)
    # The ignored file keeps the expansion ratio of the images within its bound.
    slow = tar_of_bytes(
        {**{f"set/a/{number}.png": image for number in range(80)}, ".space": bytes(10 << 20)}
    )
    with Api(data=False) as api:
        whole = tar_of(*data_files("digits", "test"))
        api.request("PUT", "/v1/datasets/small", whole, BINARY, expect=201)
        ended = []

        def put(number):
            try:
                ended.append(
                    api.request(
                        "PUT", f"/v1/datasets/slow{number}?size=8x8", slow, BINARY, timeout=600
                    ).status
                )
            except OSError:
                pass  # the coordinator was stopped meanwhile

        threads = [threading.Thread(target=put, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        while api.number("paceline_received_bytes_total") < 6 * len(slow):
            must(not ended, f"the slow uploads failed: {ended}")
        content = api.request("GET", "/v1/datasets/small/content", expect=200, timeout=8).body
        must(len(content) > 360 * 64 and not ended, f"the conversions ended first: {ended}")
        api.coordinator.kill()
        for thread in threads:
            thread.join()


def test_float_arrays_become_float32_whatever_their_size_and_order():
    values = [0.5, -2.0, 3.25, 0.0, 1e-3, -1e30]
    labels = npy(">i2", "(2,)", struct.pack(">2h", 4, 1))
    with Api(data=False) as api:
        first = api.request(
            "PUT",
            "/v1/datasets/f4",
            tar_of_bytes({"x": npy("<f4", "(2, 3)", struct.pack("<6f", *values)), "y": labels}),
            BINARY,
            expect=201,
        ).json
        must(
            (first["samples"], first["channels"], first["classes"], first["dtype"])
            == (2, 3, 5, "F32"),
            f"{first}",
        )
        second = api.request(
            "PUT",
            "/v1/datasets/f8",
            tar_of_bytes({"y": labels, "x": npy(">f8", "(2, 3)", struct.pack(">6d", *values))}),
            BINARY,
            expect=201,
        ).json
        must(second["sha256"] == first["sha256"], "the order of bytes changed the numbers")
        must(
            struct.pack("<6f", *values)
            in api.request("GET", "/v1/datasets/f8/content", expect=200).body,
            "other numbers",
        )
        values[4] = float("nan")
        bad = tar_of_bytes({"x": npy("<f4", "(2, 3)", struct.pack("<6f", *values)), "y": labels})
        api.problem(
            "PUT",
            "/v1/datasets/x",
            bad,
            BINARY,
            code="invalid_dataset",
            words=("x: number 1 of sample 1",),
        )
        floats = tar_of_bytes(
            {"x": npy("<f4", "(2, 3)", bytes(24)), "y": npy("<f4", "(2,)", bytes(8))}
        )
        api.problem(
            "PUT", "/v1/datasets/x", floats, BINARY, code="invalid_dataset", words=("integer type",)
        )


def wav(samples, rate=8000):
    data = struct.pack(f"<{len(samples)}h", *samples)
    form = struct.pack("<HHIIHH", 1, 1, rate, 2 * rate, 2, 16)
    content = (
        b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(data)) + data
    )
    return b"RIFF" + struct.pack("<I", len(content)) + content


def test_sounds_become_spectrograms_with_the_parameters_of_the_upload():
    square, saw = [9000 if at % 80 < 40 else -9000 for at in range(4000)], [
        at % 50 * 300 for at in range(9000)
    ]
    folders = tar_of_bytes(
        {"set/yes/a.wav": wav(square), "set/no/a.wav": wav(saw), "set/yes/b.wav": wav(square[:1])}
    )
    with Api(data=False) as api:
        first = api.request(
            "PUT", "/v1/datasets/words?sound=8000", folders, BINARY, expect=201
        ).json
        must(
            (first["samples"], first["height"], first["width"], first["channels"])
            == (3, 49, 10, 1),
            f"{first}",
        )
        must(
            (first["classes"], first["dtype"]) == (2, "F32") and "positions" not in first,
            f"{first}",
        )
        must(
            first["reading"]
            == "sound=8000,clip_ms=1000,window_ms=40,hop_ms=20,mels=10,floor_db=60",
            f"{first}",
        )
        packed = api.request(
            "PUT", "/v1/datasets/packed?sound=8000", gzip.compress(folders), BINARY, expect=201
        ).json
        must(packed["sha256"] == first["sha256"], "gzip changed the sounds")
        view = api.get("/v1/models/dscnn-kws?dataset=words")
        must(view["classes"] == 2 and not view.get("assumed"), f"{view}")
        names = tar_of_bytes({"1_a.wav": wav(square), "0_b.wav": wav(saw), "2_b.wav": wav(saw)})
        shape = "sound=8000&label=prefix&clip_ms=500&window_ms=32&hop_ms=12&mels=20&floor_db=80"
        second = api.request("PUT", f"/v1/datasets/names?{shape}", names, BINARY, expect=201).json
        must((second["height"], second["width"], second["classes"]) == (40, 20, 3), f"{second}")
        labels = struct.pack("<3i", 1, 0, 2)
        must(
            api.request("GET", "/v1/datasets/names/content", expect=200).body.endswith(labels),
            "other labels",
        )


def test_bad_sounds_and_parameters_are_rejected():
    square = [9000 if at % 80 < 40 else -9000 for at in range(400)]
    good = tar_of_bytes({"yes/a.wav": wav(square)})
    faults = {
        "sound=1": ("sound", "4000"),
        "sound=96001": ("sound",),
        "sound=8000&sound=8000": ("sound", "twice"),
        "sound=8000&text=64": ("text",),
        "mels=40": ("mels",),
        "label=prefix": ("label",),
        "sound=8000&label=folder": ("label", "directory"),
        "sound=8000&mells=4": ("mels",),
        "sound=8000&clip_ms=100000": ("clip_ms",),
        "sound=8000&hop_ms=0": ("hop_ms",),
        "sound=8000&window_ms=0": ("window_ms",),
        "sound=8000&mels=257": ("mels",),
        "sound=8000&floor_db=-1": ("floor_db",),
    }
    refused = {
        "sound=16000": (good, ("yes/a.wav", "8000")),
        "sound=8000&clip_ms=30": (good, ("clips of 240",)),
        "sound=8000&mels=256": (good, ("fewer bands",)),
        "sound=8000&label=prefix": (good, ("yes/a.wav",)),
        "sound=8000": (tar_of_bytes({"yes/a.wav": wav(square)[:-10]}), ("yes/a.wav", "RIFF")),
        "sound=4000": (tar_of_bytes({"a.wav": wav(square)}), ("a.wav", "directory")),
    }
    with Api(data=False) as api:
        for query, words in faults.items():
            api.problem(
                "PUT",
                f"/v1/datasets/x?{query}",
                good,
                BINARY,
                code="invalid_parameter",
                words=words,
            )
        for query, (content, words) in refused.items():
            api.problem(
                "PUT",
                f"/v1/datasets/x?{query}",
                content,
                BINARY,
                code="invalid_dataset",
                words=words,
            )
        api.problem(
            "PUT", "/v1/datasets/x", good, BINARY, code="invalid_dataset", words=("yes/a.wav",)
        )
        must(api.get("/v1/datasets")["items"] == [], "a rejected upload was stored")
