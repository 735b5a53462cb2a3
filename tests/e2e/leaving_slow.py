"""Fifty devices that leave at random moments of running jobs, in both schedules."""

import random
import time

from asynchronous import replay
from leaving import STEPS, check, ended_by_itself, start
from paceline import fashion_fleet, must, on_devices, replicated_job
from runner import run

LEAVES = 25  # of each schedule
NAMES = ("a", "b", "c")
PAUSE_SECONDS = 1.0  # and one step


class Course:
    """A job as it is seen, and the longest time without a new step."""

    def __init__(self, fleet, job):
        self.fleet, self.job = fleet, job
        self.step, self.since, self.longest = 0, time.monotonic(), 0.0

    def look(self):
        seen = self.fleet.job(self.job)
        now = time.monotonic()
        if seen["progress"]["step"] > self.step:
            self.longest = max(self.longest, now - self.since)
            self.step, self.since = seen["progress"]["step"], now
        return seen

    def until(self, condition):
        """Look until the condition holds for the job or the job has ended."""
        while not condition(seen := self.look()) and seen["state"] != "succeeded":
            time.sleep(0.005)
        return seen


def run_leaves(draw, fleet, agents, most, **fields):
    """One job of which devices leave, at most so many: (how many left, the longest pause)."""
    job = fleet.submit(replicated_job(STEPS, **on_devices(2, 3), **fields))
    fleet.wait_for_step(job, 1)
    left, course = 0, Course(fleet, job)
    while left < most:
        target = course.step + draw.randrange(1, STEPS // 6)
        agent = agents[draw.choice(NAMES)]
        course.until(lambda seen: seen["progress"]["step"] >= target)
        seen = course.until(lambda seen: "event=enrolled" in agent.log_text())
        if seen["progress"]["step"] > STEPS * 3 // 4:
            break
        agent.process.terminate()
        course.until(lambda seen: not agent.running())
        ended_by_itself(agent)
        fleet.agents.remove(agent)
        agents[agent.name] = start(fleet, agent.name)
        left += 1
    course.until(lambda seen: False)
    check(fleet, job, replay(fleet, fleet.job(job)) if fields else None)
    return left, course.longest


def run_all(seed, **fields):
    draw, leaves, longest = random.Random(seed), 0, 0.0
    with fashion_fleet() as fleet:
        agents = {name: start(fleet, name) for name in NAMES}
        fleet.wait_for_agents()
        while leaves < LEAVES:
            left, pause = run_leaves(draw, fleet, agents, LEAVES - leaves, **fields)
            leaves, longest = leaves + left, max(longest, pause)
    print(f"{leaves} devices left, the longest pause took {longest:.2f} s")
    must(longest < PAUSE_SECONDS, f"a pause of {longest:.2f} s")


def test_25_devices_leave_synchronous_jobs():
    run_all(1)


def test_25_devices_leave_asynchronous_jobs():
    run_all(2, pipeline="async", micro_batches=1)


if __name__ == "__main__":
    run(globals())
