"""`paceline-agent predict` with models of a fleet repeats the job's evaluation to the last bit."""

import gzip
import io
import json
import pathlib
import struct
import subprocess
import tarfile
import tempfile

from data_forms import png, png_digits
from law import tiny_gpt
from paceline import BIN, DATA, ROOT, Fleet, data_files, must, on_devices, tar_of
from runner import run

IMAGES, LABELS = data_files("digits", "test")
TEXT = ROOT / "docs" / "protocol.md"


def predict(*words, fails=False):
    command = [str(BIN / "paceline-agent"), "predict", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    must(
        (done.returncode != 0) == fails,
        f"{command}: {done.returncode}: {done.stdout[-1000:]} {done.stderr}",
    )
    return done.stderr if fails else done.stdout


def predict_json(*words):
    """(lines of samples, the totals, {label: predicted classes})."""
    lines = [json.loads(line) for line in predict(*words, "--json").splitlines()]
    total = [line for line in lines if "samples" in line]
    must(len(total) == 1, f"{lines[-3:]}")
    return (
        [line for line in lines if "sample" in line],
        total[0],
        {line["label"]: line["taken_for"] for line in lines if "taken_for" in line},
    )


def last_metric(fleet, job, name):
    return fleet.get(f"/v1/jobs/{job['id']}/metrics?name={name}")["items"][-1]["value"]


def train_on_fleet(fleet, job, cuts, path):
    """Write the trained model to the path; returns the last reported accuracy and loss."""
    submitted = fleet.submit({**job, "cuts": cuts, **on_devices(len(cuts) + 1, len(cuts) + 1)})
    fleet.wait(submitted, "succeeded")
    path.write_bytes(fleet.checkpoint(submitted))
    return last_metric(fleet, submitted, "test_accuracy"), last_metric(
        fleet, submitted, "test_loss"
    )


def check_confusion(samples, total, confusion):
    """Samples, totals and table agree."""
    wrong = {}
    for sample in samples:
        counts = wrong.setdefault(sample["label"], {})
        best = str(sample["top"][0]["class"])
        counts[best] = counts.get(best, 0) + 1
    must(wrong == confusion, f"{wrong}, not {confusion}")
    must(
        sum(counts.get(str(label), 0) for label, counts in confusion.items()) == total["correct"],
        f"{confusion}",
    )


def test_predict_repeats_the_accuracy_and_the_loss_of_the_job():
    job = {
        "name": "digits",
        "model": {"name": "resnet8"},
        "dataset": {"train": "digits-train", "test": "digits-test"},
        "batch": 56,
        "micro_batches": 4,
        "epochs": 1,
        "learning_rate": {"type": "constant", "value": 0.05},
    }
    with Fleet() as fleet, tempfile.TemporaryDirectory() as directory:
        model = pathlib.Path(directory) / "model.safetensors"
        fleet.start_coordinator("--heartbeat-ms", 100)
        fleet.upload("digits-train", "digits", "train")
        fleet.upload("digits-test", "digits", "test")
        fleet.start_agents(3)
        accuracy, loss = train_on_fleet(fleet, job, [1, 3], model)
        for threads in (1, 2):
            samples, total, confusion = predict_json(
                model, f"{IMAGES},{LABELS}", "--top", 10, "--threads", threads
            )
            must(
                total["accuracy"] == accuracy and total["loss"] == loss,
                f"{total}, the job said {accuracy}, {loss}",
            )
            must(total["samples"] == len(samples) == 360, f"{total}")
            check_confusion(samples, total, confusion)
            for sample in samples:
                shares = [item["probability"] for item in sample["top"]]
                must(
                    abs(sum(shares) - 1) < 1e-6 and shares == sorted(shares, reverse=True),
                    f"{sample}",
                )

        text = predict(model, f"{IMAGES},{LABELS}", "--top", 0)
        must(
            text.startswith("samples 360\n")
            and f"accuracy {accuracy:.4f} ({total['correct']} of 360)" in text,
            text,
        )
        alone, total, confusion = predict_json(model, IMAGES, "--limit", 5, "--micro-batch", 5)
        must(total == {"samples": 5} and not confusion and len(alone) == 5, f"{total} {confusion}")
        must(all("label" not in sample and len(sample["top"]) == 3 for sample in alone), f"{alone}")
        must(
            [sample["top"][0]["class"] for sample in alone]
            == [sample["top"][0]["class"] for sample in samples[:5]],
            f"{alone}",
        )


def go_on(model, prompt, count):
    made = json.loads(predict(model, prompt, "--as", "text=32", "--generate", count, "--json"))[
        "bytes"
    ]
    must(len(made) == count, f"{made}")
    return made


def check_short_prompt(model, prompt):
    """A sample in which each byte is the most probable one after the byte before it."""
    prompt.write_bytes(b"T")
    made = go_on(model, prompt, 40)
    whole = bytes([ord("T"), *made])
    prompt.write_bytes(whole[:33])
    _, total, _ = predict_json(model, prompt, "--as", "text=32")
    must(total["samples"] == 1 and total["correct"] == 32, f"{total} of {whole}")
    for size in (5, 31, 32, 33, 40):
        prompt.write_bytes(whole[:size])
        must(
            go_on(model, prompt, 41 - size) == made[size - 1 :],
            f"the end of {size} bytes of {whole}",
        )
    prompt.write_bytes(b"")
    must(
        "the prompt is empty"
        in predict(model, prompt, "--as", "text=32", "--generate", 1, fails=True),
        "an empty prompt",
    )


def test_a_model_of_text_predicts_and_generates_bytes():
    job = {
        "name": "text",
        "model": {"description": tiny_gpt()},
        "dataset": {"train": "text", "test": "text"},
        "batch": 8,
        "micro_batches": 2,
        "epochs": 1,
        "learning_rate": {"type": "constant", "value": 0.05},
    }
    with Fleet() as fleet, tempfile.TemporaryDirectory() as directory:
        model = pathlib.Path(directory) / "model.safetensors"
        fleet.start_coordinator("--heartbeat-ms", 100)
        fleet.request(
            "PUT",
            "/v1/datasets/text?text=32",
            TEXT.read_bytes(),
            {"Content-Type": "application/octet-stream"},
            expect=201,
        )
        fleet.start_agents(2)
        accuracy, loss = train_on_fleet(fleet, job, [2], model)
        samples, total, _ = predict_json(model, TEXT, "--as", "text=32", "--top", 5)
        must(
            total["accuracy"] == accuracy and total["loss"] == loss,
            f"{total}, the job said {accuracy}, {loss}",
        )
        must(
            total["labels"] == 32 * total["samples"] and total["samples"] == len(samples),
            f"{total}",
        )
        text = TEXT.read_bytes()
        must(
            all(sample["label"] == text[32 * (index + 1)] for index, sample in enumerate(samples)),
            "labels",
        )
        must(
            "most frequent mistakes" in predict(model, TEXT, "--as", "text=32", "--top", 0),
            "no list of mistakes",
        )

        prompt = pathlib.Path(directory) / "prompt"
        for size in (32 * len(samples), 32):
            prompt.write_bytes(text[:size])
            must(
                go_on(model, prompt, 40)[0] == samples[size // 32 - 1]["top"][0]["class"],
                f"a prompt of {size} bytes",
            )
        check_short_prompt(model, prompt)
        must("plain text needs --as text=32" in predict(model, TEXT, fails=True), "no hint")
        must(
            "it needs --as text=32" in predict(model, TEXT, "--as", "text=16", fails=True),
            "no remedy",
        )


def train_narrow(directory):
    """Train a model of one layer on the digits in one process."""
    model, job = pathlib.Path(directory) / "model.safetensors", pathlib.Path(directory) / "job.json"
    linear = [{"type": "flatten"}, {"type": "linear", "units": 10}]
    job.write_text(
        json.dumps(
            {
                "model": {
                    "description": {"name": "narrow", "units": [{"name": "a", "ops": linear}]}
                },
                "dataset": {"train": "digits"},
                "batch": 16,
                "micro_batches": 2,
                "epochs": 1,
                "steps": 2,
            }
        )
    )
    subprocess.run(
        [
            str(BIN / "paceline-agent"),
            "train",
            str(job),
            "--output",
            str(model),
            "--dataset",
            f"digits={','.join(map(str, data_files('digits', 'train')))}",
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return model


def train_fails(directory, data):
    """Train the job of train_narrow on unsuitable data; returns the error."""
    command = [
        str(BIN / "paceline-agent"),
        "train",
        f"{directory}/job.json",
        "--output",
        f"{directory}/none",
        "--dataset",
        f"digits={data}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    must(done.returncode != 0, f"{command}")
    return done.stderr


def test_images_need_no_class():
    pixels = gzip.decompress(IMAGES.read_bytes())[16:]
    with tempfile.TemporaryDirectory() as directory:
        model = train_narrow(directory)
        pictures = [pathlib.Path(directory) / f"{index}.png" for index in range(3)]
        for index, path in enumerate(pictures):
            path.write_bytes(png(pixels[64 * index : 64 * index + 64], 8, 8))
        flat = pathlib.Path(directory) / "flat.tar"
        flat.write_bytes(tar_of(*pictures))
        for data, count in (([flat], 3), (pictures, 3), (pictures[:1], 1)):
            samples, total, confusion = predict_json(model, *data)
            expected, _, _ = predict_json(
                model, IMAGES, "--limit", count
            )  # a product's last bits depend on its rows
            must(
                total == {"samples": count} and not confusion and len(samples) == count, f"{total}"
            )
            must(
                [sample["top"] for sample in samples] == [sample["top"] for sample in expected],
                f"{samples}",
            )
        must(
            [sample["file"] for sample in predict_json(model, flat)[0]]
            == ["0.png", "1.png", "2.png"],
            "names in a tar",
        )
        must(
            [sample["file"] for sample in predict_json(model, *pictures)[0]]
            == [*map(str, pictures)],
            "names of files",
        )
        text = predict(model, *pictures)
        one_said = [
            predict_json(model, flat, "--as", said)[0] for said in ("size=8x8", "channels=1")
        ]
        must(one_said[0] == one_said[1], f"{one_said}")
        error = predict(model, flat, "--as", "size=9x8", fails=True)
        must("expects 8 x 8 x 1 uint8; it needs --as size=8x8,channels=1" in error, error)
        must(len(predict_json(model, *pictures[:1] * 63)[0]) == 63, "63 pictures")
        must(
            "more than 63 pictures: put them into a tar"
            in predict(model, *pictures[:1] * 64, fails=True),
            "64 pictures",
        )
        must(text.endswith("samples 3\n") and "wrong" not in text and "label" not in text, text)
        must(
            "0.png: lies in no directory, which would be its class" in train_fails(directory, flat),
            "a job takes it",
        )


def test_files_and_classes_have_their_names_in_the_data():
    with tempfile.TemporaryDirectory() as directory:
        model = train_narrow(directory)
        data = pathlib.Path(directory) / "digits.tar"
        data.write_bytes(png_digits("test"))
        samples, _, _ = predict_json(model, data, "--limit", 20)
        for index, sample in enumerate(samples):
            must(sample["file"] == f"test/digit-{sample['label']}/{index:05}.png", f"{sample}")
            must(sample["label_name"] == f"digit-{sample['label']}", f"{sample}")
            must(
                all(item["name"] == f"digit-{item['class']}" for item in sample["top"]), f"{sample}"
            )
        first = samples[0]
        must(
            predict(model, data, "--limit", 1).startswith(
                f"sample 0 ({first['file']}):"
                f" {first['top'][0]['class']} ({first['top'][0]['name']}) "
            ),
            "text",
        )
        must(
            "sample 0: " in predict(model, f"{IMAGES},{LABELS}", "--limit", 1),
            "unexpected class names",
        )


def description_in(model):
    """The metadata of a trained model's file."""
    file = model.read_bytes()
    header = json.loads(file[8 : 8 + struct.unpack("<Q", file[:8])[0]])
    return json.loads(header["__metadata__"]["paceline"])["model"]


def part_of_tar(content, classes, rename=()):
    """The files of some classes, in the same order."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(content)) as whole, tarfile.open(
        fileobj=out, mode="w", format=tarfile.USTAR_FORMAT
    ) as part:
        for entry in whole:
            directory, name, file = entry.name.split("/")
            if name in classes:
                entry.name = f"{directory}/{dict(rename).get(name, name)}/{file}"
                part.addfile(entry, whole.extractfile(entry))
    return out.getvalue()


def train_named(directory, data, *words, **fields):
    """Train a model of one layer on images in directories of classes, with its own description."""
    model, job, train = (
        pathlib.Path(directory) / name for name in ("named.safetensors", "named.json", "train.tar")
    )
    linear = [{"type": "flatten"}, {"type": "linear", "units": "classes"}]
    train.write_bytes(data)
    job.write_text(
        json.dumps(
            {
                "model": {
                    "description": {"name": "named", "units": [{"name": "a", "ops": linear}]}
                },
                "dataset": {"train": "digits"},
                "batch": 16,
                "micro_batches": 2,
                "epochs": 1,
                "steps": 20,
                "learning_rate": {"value": 0.05},
                **fields,
            }
        )
    )
    done = subprocess.run(
        [
            str(BIN / "paceline-agent"),
            "train",
            str(job),
            "--output",
            str(model),
            "--dataset",
            f"digits={train}",
            *map(str, words),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return model, done


def told(sample):
    top = [(item["class"], item["name"], round(item["probability"], 3)) for item in sample["top"]]
    return [sample["label"], sample["label_name"], *top]


def test_classes_are_found_by_their_names_in_other_archives():
    digits = [f"digit-{digit}" for digit in range(10)]
    test = png_digits("test")
    with tempfile.TemporaryDirectory() as directory:
        model, done = train_named(directory, png_digits("train"), "--as", "channels=1")
        must(done.returncode == 0, done.stderr)
        must(description_in(model)["class_names"] == digits, "the model does not name its classes")
        data = pathlib.Path(directory) / "data.tar"

        def predicted(classes, rename=()):
            data.write_bytes(part_of_tar(test, classes, rename))
            return predict_json(model, data)

        whole, total, table = predicted(digits)
        must(total["accuracy"] > 0.5, f"{total}")
        some = ["digit-3", "digit-5", "digit-8"]
        samples, total, few = predicted(some)
        expected = [sample for sample in whole if sample["label_name"] in some]
        # The last bits of a score may depend on the sample's place in its micro-batch.
        must(
            [told(sample) for sample in samples] == [told(sample) for sample in expected],
            f"{samples[:2]}",
        )
        must(
            few == {label: table[label] for label in (3, 5, 8)}
            and total["samples"] == len(expected),
            f"{few}",
        )
        data.write_bytes(part_of_tar(test, some, {"digit-3": "three", "digit-5": "five"}.items()))
        error = predict(model, data, fails=True)
        must(
            "classes unknown to the model 'named': 'five', 'three'; it knows 'digit-0',"
            " 'digit-1' and 8 more" in error,
            error,
        )
        samples, _, _ = predict_json(model, f"{IMAGES},{LABELS}", "--limit", 3)
        must(
            all(sample["label_name"] == f"digit-{sample['label']}" for sample in samples),
            f"{samples}",
        )


def test_predict_reports_how_it_numbers_classes_of_a_model_without_names():
    with tempfile.TemporaryDirectory() as directory:
        model = train_narrow(directory)
        data = pathlib.Path(directory) / "data.tar"
        data.write_bytes(part_of_tar(png_digits("test"), ["digit-3", "digit-5"]))
        command = [str(BIN / "paceline-agent"), "predict", str(model), str(data), "--top", "0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        must(
            "the model does not name its 10 classes; the data's classes are numbered 0 ('digit-3')"
            " to 1 ('digit-5')" in done.stderr,
            done.stderr,
        )


def test_training_keeps_the_numbers_of_classes():
    train, test = png_digits("train"), png_digits("test")
    with tempfile.TemporaryDirectory() as directory:
        other, start = (
            pathlib.Path(directory) / "other.tar",
            pathlib.Path(directory) / "start.safetensors",
        )
        other.write_bytes(part_of_tar(test, ["digit-0", "digit-4"]))
        _, done = train_named(
            directory,
            train,
            "--dataset",
            f"test={other}",
            dataset={"train": "digits", "test": "test"},
        )
        must(
            "data set 'test' numbers its classes otherwise than 'digits' (missing: 'digit-1',"
            " 'digit-2' and 6 more)" in done.stderr,
            done.stderr,
        )
        model, done = train_named(directory, train)
        model.rename(start)
        words, init = ["--checkpoint", start], {"checkpoint": "ckpt_01JD6Z5N6P7Q8R9S0T1V2W3X4Y"}
        letters = {f"digit-{digit}": f"letter-{digit}" for digit in range(10)}
        named_otherwise = part_of_tar(train, letters, letters.items())
        _, done = train_named(directory, named_otherwise, *words, init=init)
        must(
            "the job's classes are not the checkpoint's (missing: 'digit-0', 'digit-1' and 8 more;"
            " unknown: 'letter-0', 'letter-1' and 8 more); name 'a' in init.except" in done.stderr,
            done.stderr,
        )
        model, done = train_named(
            directory, named_otherwise, *words, init={**init, "except": ["a"]}
        )
        must(done.returncode == 0, done.stderr)
        must(description_in(model)["class_names"][4] == "letter-4", "names of the checkpoint")
        augment = [{"type": "normalise", "mean": [0.3] * 3, "std": [0.4] * 3}]
        _, done = train_named(directory, train, *words, init=init, augment=augment)
        must(
            "the checkpoint was trained on samples times 0.00392, the job's are times 0.00392, mean"
            " 0.3, std 0.4; state the same in augment" in done.stderr,
            done.stderr,
        )


def wav(samples, rate=8000):
    data = struct.pack(f"<{len(samples)}h", *samples)
    form = struct.pack("<HHIIHH", 1, 1, rate, 2 * rate, 2, 16)
    content = (
        b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(data)) + data
    )
    return b"RIFF" + struct.pack("<I", len(content)) + content


def test_sounds_are_read_with_the_parameters_of_the_training():
    with tempfile.TemporaryDirectory() as directory:
        sounds = pathlib.Path(directory) / "sounds"
        for name, period in (("low", 80), ("high", 8)):
            (sounds / name).mkdir(parents=True)
            for index in range(8):
                square = [
                    9000 if (at + index) % period < period // 2 else -9000 for at in range(2000)
                ]
                (sounds / name / f"{index}.wav").write_bytes(wav(square))
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(sounds, ".")
        said = "sound=8000,clip_ms=250,mels=8"
        model, done = train_named(directory, archive.getvalue(), "--as", said)
        must(done.returncode == 0, done.stderr)
        data = pathlib.Path(directory) / "train.tar"
        expected = predict_json(model, data, "--as", said)
        must(expected[1]["accuracy"] > 0.9, f"{expected[1]}")
        must(predict_json(model, data) == expected, "without --as")
        must(
            predict_json(model, data, "--as", "sound=8000") == expected,
            "unstated parameters are not those of the training",
        )
        error = predict(model, data, "--as", "sound=8000,clip_ms=500", fails=True)
        must(
            "--as: the training data of the model 'named' was read otherwise:"
            " 'clip_ms' is 250, not 500" in error,
            error,
        )
        one = predict_json(model, sounds / "low" / "3.wav")[0]
        must(len(one) == 1 and one[0]["top"][0]["name"] == "low", f"{one}")


def test_a_model_without_causal_attention_needs_a_whole_prompt():
    description = tiny_gpt()
    description["units"][1]["residual"]["body"][2]["causal"] = False
    with tempfile.TemporaryDirectory() as directory:
        model, job, prompt = (
            pathlib.Path(directory) / name for name in ("model", "job.json", "prompt")
        )
        job.write_text(
            json.dumps(
                {
                    "model": {"description": description},
                    "dataset": {"train": "text"},
                    "batch": 8,
                    "steps": 2,
                    "epochs": 1,
                }
            )
        )
        subprocess.run(
            [
                str(BIN / "paceline-agent"),
                "train",
                str(job),
                "--output",
                str(model),
                "--dataset",
                f"text={TEXT}",
                "--as",
                "text=32",
            ],
            check=True,
            capture_output=True,
            timeout=60,
        )
        prompt.write_bytes(bytes(range(65, 65 + 32)))
        go_on(model, prompt, 5)
        prompt.write_bytes(bytes(range(65, 65 + 31)))
        error = predict(model, prompt, "--as", "text=32", "--generate", 5, fails=True)
        must("the prompt has 31 bytes; the model 'gpt-tiny' needs at least 32" in error, error)


def test_unsuitable_data_are_rejected_in_one_line():
    digits = DATA / "digits"
    with tempfile.TemporaryDirectory() as directory:
        model = train_narrow(directory)
        colour = pathlib.Path(directory) / "colour.bin"
        colour.write_bytes(bytes([3]) + bytes(3072))
        many = pathlib.Path(directory) / "labels"
        many.write_bytes(bytes([0, 0, 8, 1, 0, 0, 1, 104]) + bytes([11]) * 360)
        for data, words in (
            (colour, "32 x 32 x 3 uint8, the model 'narrow' expects 8 x 8 x 1 uint8"),
            (f"{IMAGES},{many}", "has labels up to 11, the model 'narrow' only up to 9"),
            (LABELS, "labels alone"),
            (digits, "one file of samples and one of labels are needed"),
        ):
            error = predict(model, data, fails=True)
            must(words in error and error.count("\n") == 1, error)


if __name__ == "__main__":
    run(globals())
