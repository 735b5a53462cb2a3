"""Two years in an hour on the clock of the wall: certificates, tokens, rows and files of programs
that stay up. Timeouts and heartbeats keep the true clock.
"""

import os
import pathlib
import re
import ssl
import threading
import time

from joining_slow import certificate_now, faked
from paceline import Fleet, fashion_job, must, on_devices, request
from runner import run

DAYS = 730
SECONDS = int(os.environ.get("PACELINE_YEARS_SECONDS", "3600"))
DAY = 86400
JOB_DAYS = 4  # from one job to the next
TOKEN_DAYS = 10
TOKENS_MAX = 256  # then expired ones make room
KEEP_DAYS = 30
WALK_DAYS = 600 * DAYS / SECONDS  # between two walks over the jobs that are to be deleted
LAG_DAYS = 3 * DAYS / SECONDS  # of the clocks of the programs, behind the file
RENEWALS = 2  # one after eight months, when a third of a year is left, and the next ones


class Years:
    """A clock of the wall for programs, which read its offset from the true time in a file, each
    second.
    """

    def __init__(self, file):
        self.file, self.ended = file, threading.Event()
        self.file.write_text("+0", "ascii")
        settings = faked(FAKETIME_TIMESTAMP_FILE=str(file), FAKETIME_CACHE_DURATION="1")
        self.prefix = ("env", *(f"{key}={value}" for key, value in settings.items()))
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        """The clock begins to run ahead."""
        self.began = time.monotonic()
        self.thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.ended.set()
        self.thread.join()

    def day(self):
        return (time.monotonic() - self.began) * DAYS / SECONDS

    def turn(self):
        new = self.file.with_suffix(".new")
        new.write_text(f"+{int(self.day() * DAY)}", "ascii")
        new.rename(self.file)

    def run(self):
        while not self.ended.wait(0.5):
            self.turn()

    def wait_for_day(self, day):
        while self.day() < day:
            time.sleep(0.1)


def bytes_of(directory):
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def memory_of(process):
    status = pathlib.Path(f"/proc/{process.process.pid}/status").read_text("ascii")
    return int(re.search(r"RssAnon:\s+(\d+)", status).group(1)) * 1024


def unverified():
    """Of requests by the true clock, which the programs' certificates are not for."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def seen_of(fleet, years, agents):
    """Sizes of this moment."""
    return {
        "day": int(years.day()),
        "disk": bytes_of(fleet.path / "coordinator"),
        "agent disk": max(bytes_of(fleet.path / agent.name) for agent in agents),
        "memory": memory_of(fleet.coordinator),
        "agent memory": max(memory_of(agent) for agent in agents),
        "jobs": len(fleet.get("/v1/jobs?limit=500")["items"]),
        "tokens": len(fleet.get("/v1/tokens?limit=500")["items"]),
        "log": fleet.coordinator.log.stat().st_size,
    }


def most(rows, name):
    return max(row[name] for row in rows)


def grown(rows):
    """Bytes of log, which begins anew with a restart."""
    return sum(max(0, after["log"] - before["log"]) for before, after in zip(rows, rows[1:]))


def check_bounds(rows):
    """In the last third nothing is larger than in the one before, up to the jobs of a walk. The
    coordinator does not shorten its log: the log grows no faster.
    """
    middle = [row for row in rows if DAYS / 3 <= row["day"] < 2 * DAYS / 3]
    last = [row for row in rows if row["day"] >= 2 * DAYS / 3]
    for name, factor in (
        ("disk", 1.15),
        ("agent disk", 1.15),
        ("memory", 1.1),
        ("agent memory", 1.1),
        ("jobs", 1.15),
    ):
        before, after = most(middle, name), most(last, name)
        must(after <= factor * before, f"{name} grows from {before} to {after}: {rows[-1]}")
    before, after = grown(middle), grown(last)
    must(after <= 1.15 * before, f"the log grows by {before}, then by {after}")
    must(most(rows, "tokens") <= TOKENS_MAX, f"{most(rows, 'tokens')} tokens are kept")
    kept = (KEEP_DAYS + 1.2 * WALK_DAYS) / JOB_DAYS + 2
    must(most(rows, "jobs") <= kept, f"{most(rows, 'jobs')} jobs are kept, not {kept:.0f}")


def live(fleet, years, day):
    """A job of the day, by a token of its own; returns the day on which that expires, and it."""
    admin = fleet.token
    body = {"name": f"d{day}", "role": "submit", "expires_seconds": TOKEN_DAYS * DAY}
    token = fleet.request("POST", "/v1/tokens", body, expect=201).json["token"]
    expires = years.day() + TOKEN_DAYS
    fleet.token = token
    job = fleet.submit(fashion_job(steps=40, **on_devices(2, 2)))
    fleet.token = admin
    fleet.wait_until(job, lambda seen: seen["state"] == "succeeded", "the end")
    return expires, token


def test_two_years_leave_everything_bounded():
    with Fleet() as fleet:
        fleet.init()
        years = Years(fleet.path / "clock")
        options = ("--keep-days", KEEP_DAYS, "--keep-points", 20)
        fleet.start_coordinator(*options, prefix=years.prefix)
        agents = [fleet.start_agent(f"board{i}", prefix=years.prefix) for i in range(2)]
        fleet.wait_for_devices(2)
        fleet.upload("fashion-train", "fashion-mini", "train")
        fleet.tls = unverified()
        first = certificate_now(fleet.coordinator.address)
        tokens, rows, renewals, restarts = [], [], 0, 0
        with years:
            for day in range(0, DAYS, JOB_DAYS):
                years.wait_for_day(day)
                if restarts == 0 and day > DAYS / 2:
                    restarts += 1
                    renewals += fleet.coordinator.log_text().count("event=certificate_renewed")
                    fleet.coordinator.stop()
                    fleet.restart_coordinator(*options, prefix=years.prefix)
                    fleet.wait_for_devices(2)
                tokens.append(live(fleet, years, day))
                while tokens and tokens[0][0] + LAG_DAYS < years.day():
                    _, expired = tokens.pop(0)
                    answer = request(
                        fleet.coordinator.address,
                        "GET",
                        "/v1/jobs",
                        headers={"Authorization": f"Bearer {expired}"},
                        tls=fleet.tls,
                    )
                    must(answer.status == 401, f"day {day}: an expired token is accepted")
                rows.append(seen_of(fleet, years, agents))
        metrics = fleet.request("GET", "/metrics", expect=200).body.decode()
        up = float(re.search(r"^paceline_uptime_seconds (\S+)", metrics, re.MULTILINE).group(1))
        must(up < SECONDS, f"up for {up} s of {SECONDS}: the clock of the wall counts")
        renewals += fleet.coordinator.log_text().count("event=certificate_renewed")
        print(f"{rows[0]}\n{rows[len(rows) // 2]}\n{rows[-1]}\n{renewals} renewals", flush=True)
        must(renewals >= RENEWALS, f"{renewals} renewals in {DAYS} days")
        must(certificate_now(fleet.coordinator.address) != first, "the first certificate is used")
        for agent in agents:
            must("event=call_failed" not in agent.log_text(), agent.log_text()[-2000:])
        check_bounds(rows)


if __name__ == "__main__":
    run(globals())
