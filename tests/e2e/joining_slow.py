"""Joining, with agents that take their time: copied disks, addresses that change, wrong clocks."""

import contextlib
import http.client
import pathlib
import re
import shutil
import ssl
import time

from joining import BRIEF, device_of, secure, start, wait_for
from paceline import Fleet, Process, fashion_job, must, on_devices
from runner import Skip, run
from tls import wait_for_log


def test_both_agents_of_a_copied_disk_are_named():
    fleet, _ = secure()
    with fleet:
        first = fleet.start_agent("board")
        fleet.wait_for_devices(1)
        shutil.copytree(fleet.path / "board", fleet.path / "copy")
        second = start(fleet, "copy", *BRIEF)
        wait_for_log(fleet.coordinator, "event=device_shared")
        line = next(
            line for line in fleet.coordinator.log_text().splitlines() if "device_shared" in line
        )
        must(first.address in line and line.count("127.0.0.1") >= 2, line)
        must(second.process.wait(30) == 1, "the copy goes on")
        must("remove 'identity'" in second.log_text(), second.log_text()[-2000:])
        fleet.agents.remove(second)
        must(first.running(), "the first one has ended")


def test_an_agent_that_listens_everywhere_is_called_where_it_calls_from():
    fleet, _ = secure()
    with fleet:
        for name, listen in (("all", "0.0.0.0:0"), ("six", "[::]:0")):
            fleet.start_agent(name, listen=listen)
            wait_for(lambda: device_of(fleet, name)["address"] is not None, "no address")
            address = device_of(fleet, name)["address"]
            must(re.fullmatch(r"https://127\.0\.0\.1:\d+", address), address)


def faked(**fields):
    """The environment of a program whose wall clock is another. Timeouts keep the true one."""
    libraries = list(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not libraries:
        raise Skip("needs libfaketime (Debian: faketime)")
    return {"LD_PRELOAD": str(libraries[0]), "DONT_FAKE_MONOTONIC": "1", **fields}


def test_a_board_whose_clock_is_wrong_by_years_joins_and_trains():
    fleet, _ = secure()
    with fleet:
        fleet.upload("fashion-train", "fashion-mini", "train")
        for name, clock in (("past", "@1999-01-01 00:00:00"), ("future", "@2059-01-01 00:00:00")):
            settings = faked(FAKETIME=clock)
            prefix = ("env", *(f"{key}={value}" for key, value in settings.items()))
            done = fleet.join(name, *BRIEF, token=fleet.join_token(), prefix=prefix)
            must(done.returncode == 0, f"{done}")
            must(clock[1:5] in done.stdout and "Set the clock" in done.stdout, done.stdout)
            agent = start(fleet, name, prefix=prefix)
            wait_for_log(agent, "event=clock_wrong")
        fleet.wait_for_agents()
        job = fleet.submit(fashion_job(steps=20, **on_devices(2, 2)))
        fleet.wait(job, "succeeded")


def certificate_now(address):
    """The certificate that a new connection gets."""
    return ssl.get_server_certificate(tuple(address.split(":")))


def test_a_certificate_is_renewed_under_open_connections():
    """300 days pass on the clock of a running coordinator, which looks at it every minute."""
    with Fleet() as fleet:
        fleet.init()
        clock = fleet.path / "clock"
        clock.write_text("+0d", "ascii")
        fleet.coordinator = Process(
            "paceline-coordinator",
            ["--listen", "127.0.0.1:0", "--state-dir", fleet.path / "coordinator"],
            fleet.path / "coordinator.log",
            environment=faked(FAKETIME_TIMESTAMP_FILE=str(clock), FAKETIME_CACHE_DURATION="1"),
        ).wait_for_address()
        address = fleet.coordinator.address
        agent = fleet.start_agent("board")
        fleet.wait_for_devices(1)
        before = certificate_now(address)
        old = http.client.HTTPSConnection(address, timeout=20, context=fleet.tls)
        with contextlib.closing(old):
            old.connect()
            own = old.sock
            clock.write_text("+300d", "ascii")
            deadline = time.monotonic() + 120
            while "event=certificate_renewed" not in fleet.coordinator.log_text():
                must(time.monotonic() < deadline, fleet.coordinator.log_text()[-2000:])
                old.request("GET", "/healthz")
                must(b"ok" in old.getresponse().read(), "not healthy")
                time.sleep(0.5)
            old.request("GET", "/healthz")
            must(b"ok" in old.getresponse().read(), "not healthy")
            must(old.sock is own, "another connection")
        must(certificate_now(address) != before, "the same certificate")
        fleet.tls = ssl.create_default_context()  # by the true clock it is not valid yet
        fleet.tls.check_hostname = False
        fleet.tls.verify_mode = ssl.CERT_NONE
        must(device_of(fleet, "board")["state"] == "online", "the agent has gone")
        must("call_failed" not in agent.log_text(), agent.log_text()[-2000:])


if __name__ == "__main__":
    run(globals())
