"""Server-sent events: their form, and how a reader resumes after a restart."""

import http.client
import json

from api import JOB, SEEN, SHAPES, Api
from fake_agent import FakeAgent
from paceline import must


class Stream:
    """A reader of GET /v1/events."""

    def __init__(self, api, last=None, job=None):
        host, port = api.coordinator.address.rsplit(":", 1)
        self.connection = http.client.HTTPConnection(host, int(port), timeout=30)
        path = f"/v1/events?job={job}" if job else "/v1/events"
        self.connection.request("GET", path, headers={"Last-Event-ID": last} if last else {})
        self.response = self.connection.getresponse()
        must(self.response.status == 200, f"{self.response.status}")
        kind = self.response.headers["Content-Type"]
        must(kind.split(";")[0] == "text/event-stream", kind)
        SEEN.add(("GET", "/v1/events", 200, None))
        must(self.line().startswith(":"), "the first line is not a comment")
        must(self.line() == "", "the comment does not end")

    def line(self):
        line = self.response.readline()
        must(line.endswith(b"\n"), f"the stream ended early: {line!r}")
        return line[:-1].decode()

    def next(self):
        """The next event: its id, type and data."""
        fields = {}
        while True:
            line = self.line()
            if line == "" and fields:
                break
            if line == "" or line.startswith(":"):
                continue
            name, value = line.split(": ", 1)
            must(name in ("id", "event", "data") and name not in fields, f"{line}")
            fields[name] = value
        event = json.loads(fields["data"])
        SHAPES.check({"$ref": "#/components/schemas/event"}, event)
        must(event["id"] == fields["id"] and event["type"] == fields["event"], f"{fields}")
        return event

    def take(self, count):
        return [self.next() for _ in range(count)]

    def ends(self):
        """Whether only comments follow."""
        return all(
            line.strip() == b"" or line.startswith(b":")
            for line in self.response.read().splitlines()
        )

    def close(self):
        self.connection.close()


def types(events):
    return [event["type"] for event in events]


def test_events_arrive_at_once():
    with Api() as api:
        stream = Stream(api)
        job = api.submit_named("one")
        api.verb(job, "cancel")
        events = stream.take(2)
        must(types(events) == ["job_queued", "job_cancelled"], f"{events}")
        must(
            all(event["subject"] == job["id"] for event in events)
            and events[0]["id"] < events[1]["id"],
            f"{events}",
        )
        stream.close()
        api.problem(
            "GET",
            "/v1/events",
            headers={"Last-Event-ID": "7"},
            code="invalid_parameter",
            words=("Last-Event-ID",),
        )
        api.problem("GET", "/v1/events?after=7", code="invalid_parameter")


def test_a_reader_resumes_after_its_last_event_over_restarts_and_loses_nothing():
    with Api() as api:
        stream = Stream(api)
        jobs = [api.submit_named(f"job{index}") for index in range(5)]
        first = stream.take(2)
        stream.close()
        resumed = Stream(api, first[-1]["id"])
        must(
            [event["subject"] for event in resumed.take(3)] == [job["id"] for job in jobs[2:]],
            "resumed from the ring",
        )
        resumed.close()
        for way in ("stop", "kill"):
            getattr(api.coordinator, way)()
            api.restart_coordinator()
            jobs.append(api.submit_named("later"))
            stream = Stream(api, first[-1]["id"])
            events = stream.take(len(jobs) - 2)
            must(
                [event["subject"] for event in events] == [job["id"] for job in jobs[2:]],
                f"after a restart: {types(events)}",
            )
            ids = [event["id"] for event in events]
            must(ids == sorted(ids), f"{ids}")
            jobs.append(api.submit_named("live"))
            must(stream.next()["subject"] == jobs[-1]["id"], "new events do not follow")
            stream.close()


def test_a_stream_of_one_job_has_its_events_and_those_of_its_parts():
    with Api() as api:
        every = Stream(api)
        api.submit_named("first")
        job = api.submit({**JOB, "steps": None, "epochs": 1, "strategy": "submodel"})["id"]
        live = Stream(api, job=job)
        last = api.submit_named("last")["id"]
        api.request("POST", f"/v1/jobs/{job}/cancel", expect=202)
        events = [every.next()]
        while events[-1]["type"] != "job_cancelled" or events[-1]["subject"] != job:
            events.append(every.next())
        own = [event for event in events if job in (event.get("job"), event.get("parent"))]
        must(any(event.get("parent") == job for event in own), f"no event of a part: {events}")
        must(any(event.get("job") == last for event in events), f"{events}")
        again = Stream(api, events[0]["id"], job).take(len(own))
        must(again == own, f"{again}, not {own}")
        must(live.next() in own, "an event of another job")
        api.problem("GET", "/v1/events?job=job_none", code="unknown_job")


def test_many_events_of_one_moment_are_resumed_in_their_order():
    with Api() as api:
        stream = Stream(api)
        agents = [FakeAgent(api, f"agent{index}") for index in range(20)]
        for agent in agents:
            api.request("POST", f"/v1/devices/{agent.id}/cordon")
        events = stream.take(40)
        stream.close()
        api.coordinator.stop()
        api.restart_coordinator()
        for start in (0, 7, 19, 38):
            again = Stream(api, events[start]["id"])
            must(again.take(39 - start) == events[start + 1 :], f"resumed after event {start}")
            again.close()


def test_streams_end_when_the_coordinator_stops():
    with Api() as api:
        stream = Stream(api)
        api.submit_named("one")
        must(stream.next()["type"] == "job_queued", "an event")
        must(api.coordinator.stop() == 0, "exit status")
        must(stream.ends(), "more data than the end")


def test_readers_of_events_are_counted_until_they_leave():
    with Api() as api:
        streams = [Stream(api) for _ in range(3)]
        count = api.number("paceline_event_readers")
        must(count == 3, f"{count} readers")
        for stream in streams:
            stream.close()
        for _ in range(50):
            api.verb(api.submit_named("noise"), "cancel")
            if api.number("paceline_event_readers") == 0:
                return
        must(False, "disconnected readers are still counted")
