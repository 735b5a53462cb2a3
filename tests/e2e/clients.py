"""The Python client of examples/clients: its types, and a job that it submits and follows."""

import os
import shutil
import subprocess
import sys

from paceline import ROOT, Fleet, must
from runner import Skip, run

CLIENTS = ROOT / "examples/clients"
MYPY = "/usr/bin/mypy"

# What a type checker has to notice: a member, a state and a type that the API does not have.
MISTAKES = """
from paceline_types import Job, JobSpec, MeasuredLink

def mistakes(job: Job, link: MeasuredLink) -> JobSpec:
    print(job["name"])
    print(job["state"] == "finished")
    print(link["from"].upper())
    return {"model": {"name": "mlp"}, "dataset": {"train": "digits"}, "epochs": "5"}
"""


def mypy(cache, *paths):
    """Run mypy and return its process."""
    return subprocess.run(
        [MYPY, "--strict", "--no-error-summary", "--cache-dir", str(cache), *map(str, paths)],
        env={"PATH": os.environ["PATH"], "MYPYPATH": str(CLIENTS)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_a_type_checker_accepts_the_client_and_finds_mistakes():
    if not shutil.which(MYPY):
        raise Skip("mypy is not installed (apt-get install mypy)")
    with Fleet() as fleet:
        done = mypy(fleet.path / "cache", CLIENTS / "jobs.py")
        must(done.returncode == 0, f"{done.stdout}{done.stderr}")
        wrong = fleet.path / "wrong.py"
        wrong.write_text(MISTAKES, encoding="utf-8")
        done = mypy(fleet.path / "cache", wrong)
        lines = [line for line in done.stdout.splitlines() if ": error: " in line]
        must(len(lines) == 3, f"{done.stdout}{done.stderr}")
        for line, words in zip(lines, ('no key "name"', "Non-overlapping equality", '"epochs"')):
            must(words in line, line)


def client(fleet, *words, **environment):
    """Run the client as a user does, in Debian's Python."""
    return subprocess.run(
        [sys.executable, str(CLIENTS / "jobs.py"), *words],
        env={
            "PATH": os.environ["PATH"],
            "PACELINE_URL": f"http://{fleet.coordinator.address}",
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_client_follows_a_job_to_its_end():
    with Fleet() as fleet:
        fleet.start_coordinator("--heartbeat-ms", "100")
        fleet.start_agents(1)
        fleet.upload("digits-train", "digits", "train")
        done = client(fleet, "mlp", "digits-train", "1")
        must(done.returncode == 0, f"{done.stdout}{done.stderr}")
        for words in ("running", "succeeded", " losses, from ", "100%"):
            must(words in done.stdout, done.stdout)
        job = fleet.get("/v1/jobs")["items"][0]
        losses = fleet.get(f"/v1/jobs/{job['id']}/metrics?name=loss&limit=10000")["items"]
        must(f"{len(losses)} losses" in done.stdout, done.stdout)
        refused = client(fleet, "mlp", "nothing", "1")
        must(
            refused.returncode == 1 and "no data set 'nothing'" in refused.stderr,
            f"{refused.stdout}{refused.stderr}",
        )
        away = client(fleet, "mlp", "digits-train", PACELINE_URL="http://127.0.0.1:9")
        must(away.returncode == 1 and away.stderr.startswith("jobs.py: "), away.stderr)


if __name__ == "__main__":
    run(globals())
