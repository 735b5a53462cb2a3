#!/usr/bin/env python3
"""Train a model of the zoo on an uploaded data set, and follow the job to its end.

    examples/clients/jobs.py MODEL DATASET [EPOCHS]

The coordinator is at $PACELINE_URL (default http://127.0.0.1:7410), the token in $PACELINE_TOKEN,
the coordinator's authority in the file $PACELINE_CA. Shows the API from Python without a library:
paceline_types.py has the types of all messages, so that a type checker such as mypy knows their
members. Exit status 1 unless the job succeeds.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Iterator, cast

from paceline_types import Job, JobList, JobMetric, JobSpec, MetricList, Problem

ENDED = ("succeeded", "failed", "cancelled")
WAIT_SECONDS = 30


class ApiError(Exception):
    """A request that the coordinator refused; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem['code']}: {problem.get('detail', '')}")
        self.problem = problem


class Api:
    """Requests to one coordinator."""

    def __init__(self, url: str, token: str | None, authority: str | None) -> None:
        self.url = url.rstrip("/")
        self.token = token
        self.tls = ssl.create_default_context(cafile=authority)

    def call(self, method: str, path: str, body: object = None, **query: object) -> Any:
        """The answer's JSON. ApiError for a problem; OSError if the coordinator is away."""
        target = self.url + path + ("?" + urllib.parse.urlencode(query) if query else "")
        request = urllib.request.Request(target, method=method)
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        if body is not None:
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body).encode()
        context = self.tls if target.startswith("https:") else None
        try:
            with urllib.request.urlopen(
                request, timeout=2 * WAIT_SECONDS, context=context
            ) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise ApiError(cast(Problem, json.load(error))) from error

    def submit(self, spec: JobSpec) -> Job:
        """Submit a job."""
        return cast(Job, self.call("POST", "/v1/jobs", spec))

    def changes(self, job: Job) -> Iterator[Job]:
        """The job now, and after each change until it has ended."""
        while True:
            yield job
            if job["state"] in ENDED:
                return
            path = f"/v1/jobs/{job['id']}"
            job = cast(Job, self.call("GET", path, after=job["revision"], wait=WAIT_SECONDS))

    def metrics(self, job: Job, name: str) -> Iterator[JobMetric]:
        """All values of a metric, page by page."""
        query: dict[str, object] = {"name": name}
        while True:
            path = f"/v1/jobs/{job['id']}/metrics"
            page = cast(MetricList, self.call("GET", path, **query))
            yield from page["items"]
            if page["next_cursor"] is None:
                return
            query["cursor"] = page["next_cursor"]

    def newest(self, limit: int) -> JobList:
        """The newest jobs, in the short view."""
        return cast(JobList, self.call("GET", "/v1/jobs", order="desc", view="short", limit=limit))


def follow(api: Api, model: str, dataset: str, epochs: int) -> int:
    """Submit the job and print what becomes of it. Returns the exit status."""
    job = api.submit({"model": {"name": model}, "dataset": {"train": dataset}, "epochs": epochs})
    shown = None
    for job in api.changes(job):
        if job["state"] != shown:
            shown = job["state"]
            print(f"{job['id']} {shown} {job['message'] or ''}".rstrip(), flush=True)
    losses = [metric["value"] for metric in api.metrics(job, "loss")]
    if losses:
        print(f"{len(losses)} losses, from {losses[0]:.4f} to {losses[-1]:.4f}")
    for other in api.newest(5)["items"]:
        print(f"{other['id']} {other['state']} {other['progress']['fraction']:.0%}")
    return 0 if job["state"] == "succeeded" else 1


def main() -> int:
    """The exit status."""
    if len(sys.argv) not in (3, 4):
        print("usage: jobs.py MODEL DATASET [EPOCHS]", file=sys.stderr)
        return 2
    api = Api(
        os.environ.get("PACELINE_URL", "http://127.0.0.1:7410"),
        os.environ.get("PACELINE_TOKEN"),
        os.environ.get("PACELINE_CA"),
    )
    try:
        return follow(api, sys.argv[1], sys.argv[2], int((sys.argv[3:] or ["1"])[0]))
    except (ApiError, OSError) as error:
        print(f"jobs.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
