"""Joining, with agents that take their time: copied disks, addresses that change."""

import pathlib
import re
import shutil

from joining import BRIEF, device_of, secure, start, wait_for
from paceline import fashion_job, must, on_devices
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


def test_a_board_whose_clock_is_wrong_by_years_joins_and_trains():
    libraries = list(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not libraries:
        raise Skip("needs libfaketime (Debian: faketime)")
    fleet, _ = secure()
    with fleet:
        fleet.upload("fashion-train", "fashion-mini", "train")
        for name, clock in (("past", "@1999-01-01 00:00:00"), ("future", "@2059-01-01 00:00:00")):
            faked = ("env", f"LD_PRELOAD={libraries[0]}", f"FAKETIME={clock}")
            faked = (*faked, "DONT_FAKE_MONOTONIC=1")
            done = fleet.join(name, *BRIEF, token=fleet.join_token(), prefix=faked)
            must(done.returncode == 0, f"{done}")
            must(clock[1:5] in done.stdout and "Set the clock" in done.stdout, done.stdout)
            agent = start(fleet, name, prefix=faked)
            wait_for_log(agent, "event=clock_wrong")
        fleet.wait_for_agents()
        job = fleet.submit(fashion_job(steps=20, **on_devices(2, 2)))
        fleet.wait(job, "succeeded")


if __name__ == "__main__":
    run(globals())
