"""--webhook: a receiver gets signed messages of public events, each until it has taken it."""

import base64
import hashlib
import hmac
import http.server
import json
import subprocess
import threading
import time

from api import CONTRACT, HEARTBEAT_MS, SHAPES, Api
from fake_agent import FakeAgent
from paceline import BIN, must

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PATH = "/hook?key=hidden-in-the-path"


class Receiver:
    """Takes messages on a port of its own; `answers` are the statuses of the next requests, then
    all get 204.
    """

    def __init__(self, port=0, answers=()):
        self.messages, self.answers, self.changed = [], list(answers), threading.Condition()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with receiver.changed:
                    status = receiver.answers.pop(0) if receiver.answers else 204
                    receiver.messages.append((status, self.path, self.headers, body))
                    receiver.changed.notify_all()
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def wait(self, count, seconds=20):
        with self.changed:
            must(
                self.changed.wait_for(lambda: len(self.messages) >= count, seconds),
                f"{len(self.messages)} messages, {count} expected",
            )
            return self.messages[:count]


def event_of(message):
    """The event of a message with a right signature."""
    _status, path, headers, body = message
    must(path == PATH and headers["Content-Type"] == "application/json", f"{path} {headers}")
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    must(headers["webhook-signature"] == f"v1,{expected}", f"signature of {body!r}")
    must(abs(int(headers["webhook-timestamp"]) - time.time()) < 60, "timestamp")
    event = json.loads(body)
    SHAPES.check(
        CONTRACT["webhooks"]["public_event"]["post"]["requestBody"]["content"]["application/json"][
            "schema"
        ],
        event,
    )
    must(event["id"] == headers["webhook-id"], "the id of the message")
    return event


def with_webhook(api, port, start, *arguments):
    secret = api.path / "secret"
    secret.write_text(SECRET + "\n", encoding="utf-8")
    return start(
        "--heartbeat-ms",
        str(HEARTBEAT_MS),
        "--lease-ms",
        "20000",
        "--webhook",
        f"http://127.0.0.1:{port}{PATH}",
        "--webhook-secret",
        secret,
        *arguments,
    )


def cancelled(api, name):
    job = api.submit_named(name)
    return api.verb(job, "cancel")["id"]


def test_the_webhook_delivers_each_end_once_in_order_and_across_a_restart():
    with Api(data=False, start=False) as api:
        with Receiver(answers=[404]) as receiver:  # it is being replaced
            port = receiver.port
            with_webhook(api, port, api.start_coordinator)
            for part in ("train", "test"):
                api.upload(f"digits-{part}", "digits", part)
            first, second = cancelled(api, "first"), cancelled(api, "second")
            messages = receiver.wait(3)
            events = [event_of(message) for message in messages]
            must(
                [(event["type"], event["subject"]) for event in events]
                == [
                    ("job_cancelled", first),
                    ("job_cancelled", first),
                    ("job_cancelled", second),
                ],
                f"{events}",
            )
            must(messages[0][3] == messages[1][3], "the repeated message differs")
            deadline = time.monotonic() + 5
            while api.number("paceline_webhook_delivered_total") < 2:
                must(time.monotonic() < deadline, "the second message was not settled")
                time.sleep(0.02)
            must(api.number("paceline_webhook_failures_total") == 1, "failures")
            must(api.number("paceline_webhook_dropped_total") == 0, "dropped")
            log = api.coordinator.log_text()
            must(log.count("event=webhook_failed") == 1, "one line for the failure")
            must("event=webhook_works" in log, "no line for the success")
        third = cancelled(api, "third")  # nobody listens
        deadline = time.monotonic() + 10
        while "event=webhook_failed" not in api.coordinator.log_text().split("webhook_works")[1]:
            must(time.monotonic() < deadline, "no attempt")
            time.sleep(0.02)
        must(api.number("paceline_webhook_attempts") >= 1, "attempts")
        log = api.coordinator.log_text()
        must("hidden-in-the-path" not in log and SECRET[6:] not in log, "the log shows a secret")
        api.coordinator.kill()
        with Receiver(port) as receiver:
            with_webhook(api, port, api.restart_coordinator)
            (message,) = receiver.wait(1)
            must(event_of(message)["subject"] == third, f"{message}")
            fourth = cancelled(api, "fourth")
            must(event_of(receiver.wait(2)[1])["subject"] == fourth, "the next event")


def test_a_message_that_the_receiver_rejects_does_not_hold_up_the_next():
    with Receiver(answers=[400]) as receiver, Api(data=False, start=False) as api:
        with_webhook(api, receiver.port, api.start_coordinator)
        for part in ("train", "test"):
            api.upload(f"digits-{part}", "digits", part)
        cancelled(api, "rejected")
        taken = cancelled(api, "taken")
        must(event_of(receiver.wait(2)[1])["subject"] == taken, "the next event")
        must(api.number("paceline_webhook_dropped_total") == 1, "dropped")
        must("event=webhook_dropped" in api.coordinator.log_text(), "no line in the log")


def test_a_lost_device_is_told():
    with Receiver() as receiver, Api(data=False, start=False) as api:
        with_webhook(
            api, receiver.port, api.start_coordinator, "--heartbeat-ms=50", "--lease-ms=200"
        )
        agent = FakeAgent(api, "gone")
        event = event_of(receiver.wait(1)[0])
        must(event["type"] == "device_lost" and event["subject"] == agent.id, f"{event}")


def test_a_webhook_without_its_secret_is_refused():
    with Api(data=False, start=False) as api:
        secret = api.path / "short"
        secret.write_text("hunter2\n", encoding="utf-8")
        for arguments, words in (
            (["--webhook=http://127.0.0.1:1/"], ["--webhook-secret is missing"]),
            (["--webhook-secret=x"], ["--webhook is missing"]),
            (["--webhook=ftp://x/", f"--webhook-secret={secret}"], ["--webhook 'ftp://x/'"]),
            (
                ["--webhook=http://127.0.0.1:1/", f"--webhook-secret={secret}"],
                ["--webhook-secret", "16 to 256 characters"],
            ),
        ):
            done = subprocess.run(
                [
                    BIN / "paceline-coordinator",
                    "--listen=127.0.0.1:0",
                    f"--state-dir={api.path}/none",
                    *arguments,
                ],
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            must(done.returncode in (1, 2), f"{arguments}: {done.returncode}")
            must(all(word in done.stderr for word in words), f"{arguments}: {done.stderr}")
            must("hunter2" not in done.stderr, "the message shows the secret")
