"""Train on spoken words from WAV files on three agents; compare the losses with PyTorch's."""

import argparse
import io
import json
import pathlib
import re
import subprocess
import tarfile
import tempfile
import time

from paceline import ROOT, Fleet, on_devices
from report import finish, say, skip, table

PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's PyTorch
SEED = 7  # of the initial weights that torch_sound.py draws
AGENTS = 3
SECONDS = 1800
PAGE = 500
LIMIT = 0.02
LIMIT_RATE = 0.01  # the limit holds for this learning rate: a larger one magnifies rounding faster
COMPARED = 100  # steps: behind them rounding decides which way a net goes
NAME = re.compile(r"[^_]+_.+_(\d+)\.wav")
TEST_RECORDINGS = 5  # of each word and speaker, 0 to 4: the set's official split
BINARY = {"Content-Type": "application/x-tar"}


def archives(directory, name_of=lambda path: path.name):
    """{"train": tar, "test": tar} of the recordings CLASS_SPEAKER_NUMBER.wav; name_of: their names
    there.
    """
    out = {}
    for part in ("train", "test"):
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for path in sorted(directory.rglob("*.wav")):
                number = NAME.fullmatch(path.name)
                if number and (int(number[1]) < TEST_RECORDINGS) == (part == "test"):
                    archive.add(path, arcname=name_of(path))
        out[part] = content.getvalue()
    return out


def metric(fleet, job, name):
    values, since = [], 0
    while True:
        items = fleet.get(f"/v1/jobs/{job['id']}/metrics?name={name}&limit={PAGE}&since={since}")[
            "items"
        ]
        values += [item["value"] for item in items]
        if len(items) < PAGE:
            return values
        since = items[-1]["step"]


def our_run(directory, job, content, query):
    """Upload and train; the row and the losses. Leaves the stored data sets in the directory."""
    with Fleet() as fleet:
        fleet.start_coordinator()
        began = time.monotonic()
        sets = {
            part: fleet.request(
                "PUT",
                f"/v1/datasets/words-{part}?{query}",
                content[part],
                BINARY,
                expect=201,
                timeout=600,
            ).json
            for part in content
        }
        upload_seconds = time.monotonic() - began
        for part in sets:
            (directory / part).write_bytes(
                fleet.request("GET", f"/v1/datasets/words-{part}/content", expect=200).body
            )
        train = sets["train"]
        say(
            f"{train['samples']} + {sets['test']['samples']} recordings of {train['classes']} "
            f"classes as {train['height']} x {train['width']}, uploaded and converted in "
            f"{upload_seconds:.1f} s; {job['model']['name']}, batch {job['batch']}, "
            f"{job['epochs']} epochs (examples/jobs/words.json)"
        )
        fleet.start_agents(AGENTS)
        began = time.monotonic()
        done = fleet.wait(fleet.submit({**job, **on_devices(AGENTS, AGENTS)}), "succeeded", SECONDS)
        seconds = time.monotonic() - began
        losses = metric(fleet, done, "loss")
        accuracies = metric(fleet, done, "test_accuracy")
        units = [stage["end"] - stage["first"] for stage in fleet.stages(done)]
    say(
        f"{AGENTS} agents, units by stage {' + '.join(map(str, units))}: {len(losses)} steps in "
        f"{seconds:.1f} s, accuracy after each epoch "
        f"{' '.join(f'{value:.4f}' for value in accuracies)}"
    )
    return {
        "accuracy": accuracies[-1],
        "seconds": seconds,
        "upload_seconds": upload_seconds,
        "units_by_stage": units,
    }, losses


def torch_run(directory, job):
    """PyTorch's result on the stored data sets; None (the reason is printed) if it cannot run."""
    (directory / "job.json").write_text(json.dumps(job))
    done = subprocess.run(
        [
            PYTHON,
            "-B",
            str(ROOT / "bench/torch_sound.py"),
            *(str(directory / part) for part in ("train", "test")),
            str(directory / "job.json"),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode == 77:
        say(f"without PyTorch: {done.stdout.strip()}")
        return None
    if done.returncode:
        raise SystemExit(f"torch_sound.py: {done.stderr}")
    return json.loads(done.stdout)


def compare(ours, theirs, rate):
    rows = [
        {"step": step + 1, "ours": our, "torch": their, "difference": abs(our - their) / their}
        for step, (our, their) in enumerate(zip(ours, theirs))
    ][:COMPARED]
    table(
        ["step", "loss", "loss of PyTorch", "difference"],
        [
            [
                str(row["step"]),
                f"{row['ours']:.5f}",
                f"{row['torch']:.5f}",
                f"{row['difference']:.4%}",
            ]
            for row in rows
            if row["step"] in (1, 2, 5) or row["step"] % 20 == 0
        ],
    )
    worst = max(row["difference"] for row in rows)
    met = worst < LIMIT if rate <= LIMIT_RATE else None
    verdict = (
        f"no goal at a rate of {rate}; see --rate {LIMIT_RATE}"
        if met is None
        else "met"
        if met
        else "NOT MET"
    )
    say(
        f"largest difference of the first {len(rows)} steps {worst:.4%}: {verdict} "
        f"(at most {LIMIT:.0%})"
    )
    return rows, worst, met


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        help="directory of the recordings, CLASS_SPEAKER_NUMBER.wav. Needed.",
    )
    parser.add_argument(
        "--as",
        dest="reading",
        default="sound=8000,label=prefix",
        help="how they are read. Default: sound=8000,label=prefix.",
    )
    parser.add_argument("--epochs", type=int, help="Default: those of examples/jobs/words.json.")
    parser.add_argument(
        "--rate",
        type=float,
        help="of learning, at the start. Default: that of examples/jobs/words.json.",
    )
    arguments = parser.parse_args()
    if not arguments.data:
        skip(
            "needs recordings: --data DIRECTORY, for example the Free Spoken Digit set "
            "(docs/benchmarks.md)"
        )
    job = {**json.loads((ROOT / "examples/jobs/words.json").read_text()), "init": {"seed": SEED}}
    job["epochs"] = arguments.epochs or job["epochs"]
    job["learning_rate"]["value"] = arguments.rate or job["learning_rate"]["value"]
    with tempfile.TemporaryDirectory(prefix="paceline-sound-") as directory:
        directory = pathlib.Path(directory)
        result, losses = our_run(
            directory, job, archives(arguments.data), arguments.reading.replace(",", "&")
        )
        theirs = torch_run(directory, job)
    if not theirs:
        finish("sound", [], **result)
        return
    rows, worst, met = compare(losses, theirs["losses"], job["learning_rate"]["value"])
    say(f"accuracy {result['accuracy']:.4f}, PyTorch's {theirs['accuracy']:.4f}")
    finish("sound", rows, **result, torch_accuracy=theirs["accuracy"], worst=worst, met=met)


if __name__ == "__main__":
    main()
