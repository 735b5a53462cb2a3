"""A job of gossip while it trains: its events, its averages, and their accuracies."""

import http.client
import json
import queue
import socket
import threading
import time

from paceline import Failure, must
from report import seconds_of

EVENT_SECONDS = 0.5
START_SECONDS = 180
SILENT_SECONDS = 180  # without a model


class Events(threading.Thread):
    """A reader of GET /v1/events: opened before the job is submitted, so that it misses none."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.found = queue.Queue()
        host, port = address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port))
        connection.request("GET", "/v1/events")
        self.socket = connection.sock  # the answer may take it
        self.response = connection.getresponse()
        must(self.response.status == 200, f"events: {self.response.status}")
        self.start()

    def run(self):
        for line in self.response:
            if line.startswith(b"data: "):
                self.found.put(json.loads(line[6:]))
        self.found.put(None)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.join()

    def next(self, job, seconds):
        """The next event of the job itself; None: there is none in time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                event = self.found.get(timeout=left)
            except queue.Empty:
                return None
            must(event, "the coordinator has ended the stream of events")
            if event.get("job") == job["id"]:
                return event
        return None


class Evaluator(threading.Thread):
    """Fills the accuracy of versions in their order. put: a version and its file."""

    def __init__(self, predict):
        super().__init__(daemon=True)
        self.predict, self.given = predict, queue.Queue()
        self.done, self.recalls, self.seconds, self.failure = [], None, 0.0, None
        self.start()

    def put(self, version, content):
        self.given.put((version, content))

    def run(self):
        while (item := self.given.get()) is not None:
            version, content = item
            began = time.monotonic()
            try:
                version["accuracy"], self.recalls = self.predict(content)
            except Exception as failure:  # pylint: disable=broad-except
                self.failure = failure
                return
            self.seconds += time.monotonic() - began
            self.done.append(version)

    def check(self):
        if self.failure:
            raise self.failure

    def finish(self):
        """Evaluate what is left."""
        self.given.put(None)
        self.join()
        self.check()


class Watched:
    """A job of gossip while it trains: its averages, and what its groups showed at each. disturb:
    called once, after so many steps.
    """

    def __init__(self, runs, job, events, evaluator, disturb=None, after=0):
        self.runs, self.job, self.events, self.evaluator = runs, job, events, evaluator
        self.disturb, self.after = disturb, after
        self.began, self.seconds, self.missed = None, 0.0, 0
        self.speeds, self.periods, self.distance, self.pass_steps = {}, [], None, None

    def follow(self, goal):
        deadline = time.monotonic() + START_SECONDS
        while True:
            event = self.events.next(self.job, EVENT_SECONDS)
            self.evaluator.check()
            if event and self.take(event):
                deadline = time.monotonic() + SILENT_SECONDS
            must(time.monotonic() < deadline, "no average is stored")
            if self.began is not None:
                self.seconds = time.time() - self.began
            if self.disturb and self.steps() >= self.after:
                self.disturb()
                self.disturb = None
            if event and event["type"] == "job_failed":
                raise Failure(event["message"])
            if event and event["type"] == "job_succeeded":
                return
            done = list(self.evaluator.done)
            if self.pass_steps and goal.ends(done, self.pass_steps, self.seconds):
                return

    def steps(self):
        return self.runs.fleet.job(self.job)["progress"]["step"]

    def take(self, event):
        """Whether the event says that something was trained."""
        moment = seconds_of(event["created_at"])
        if event["type"] == "group_started" and self.began is None:
            self.began = moment
        if event["type"] != "average_stored":
            return event["type"] == "group_started"
        answer = self.runs.fleet.request("GET", f"/v1/checkpoints/{event['subject']}/content")
        view = self.runs.fleet.get(f"/v1/jobs/{self.job['id']}/groups")
        self.look_at(view["groups"])
        steps = {one["checkpoint"]: one["step"] for one in view["averages"]}
        if answer.status != 200 or event["subject"] not in steps:
            self.missed += 1  # the newest two stay
            return True
        version = {"seconds": moment - self.began, "step": steps[event["subject"]]}
        self.evaluator.put(version, answer.body)
        return True

    def look_at(self, groups):
        mixes = [group["mixes"] for group in groups]
        batch = self.job["spec"]["batch"]
        self.pass_steps = sum(one["samples"] for one in mixes) / batch
        if all(one["samples_per_second"] and one["every"] for one in mixes):
            levelled = [one for one in mixes if not one.get("slows")]
            if len(levelled) > 1:
                self.periods.append(
                    [one["every"] * batch / one["samples_per_second"] for one in levelled]
                )
            self.speeds = {one["device"]: one["samples_per_second"] for one in mixes}
        distances = [one["distance"] for one in mixes if one["distance"] is not None]
        if distances:
            self.distance = max(distances)
