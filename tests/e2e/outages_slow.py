"""Successive outages of the coordinator of 5 to 60 s with the default options, and one of minutes
with many agents. PACELINE_OUTAGES="COUNT SECONDS" sets their number and the length of the long one.
"""

import os
import random

from outages import Outages
from paceline import Fleet, on_devices
from runner import run

COUNT, LONG_SECONDS = map(int, os.environ.get("PACELINE_OUTAGES", "20 180").split())

JOB = {"model": "mobilenetv2", "steps": 100000, **on_devices(8, 8)}


def default_fleet(agents, slowdown):
    fleet = Fleet()
    fleet.start_coordinator()
    fleet.upload("fashion-train", "fashion-mini", "train")
    fleet.start_agents(agents, "--slowdown", slowdown)
    return fleet


def test_outages_of_5_to_60_s_with_8_agents_lose_no_device_and_no_step():
    draw = random.Random(20)
    with default_fleet(8, 1) as fleet:
        outages = Outages(fleet, (), **JOB)
        for index in range(COUNT):
            outages.strike(("kill", "freeze")[index % 2], draw.uniform(5, 60))
        fleet.verb(outages.job, "cancel")


def test_an_outage_of_minutes_with_32_agents_loses_no_device_and_no_step():
    with default_fleet(32, 10) as fleet:
        jobs = [Outages(fleet, (), **JOB) for _ in range(4)]
        jobs[0].strike("kill", LONG_SECONDS)
        for outages in jobs:
            outages.check("the long outage")
            fleet.verb(outages.job, "cancel")


if __name__ == "__main__":
    run(globals())
