"""Agents end by SIGTERM while they train: other devices take their work, no step is retrained, and
the weights are those of one undisturbed process.
"""

import functools
import time

from paceline import FASHION, by_build, fashion_fleet, must, on_devices, replicated_job, train
from runner import run

STEPS = 200
SLOWDOWN = by_build(10, 1)
LEAVE_SECONDS = 30


@functools.cache
def reference():
    return train(replicated_job(STEPS), FASHION)[0]


def start(fleet, name):
    """An agent that leaves as users' agents do."""
    return fleet.start_agent(
        name, "--leave-seconds", LEAVE_SECONDS, "--slowdown", SLOWDOWN, wait=False
    )


def ended_by_itself(agent):
    """After SIGTERM, before its time was over."""
    must(agent.stop() == 0, f"{agent.name} failed: {agent.log_text()[-2000:]}")
    must("event=left reason=drained" in agent.log_text(), agent.log_text()[-2000:])


def check(fleet, job, expected=None):
    """No step was retrained, and the weights are right."""
    incidents = fleet.get(f"/v1/jobs/{job['id']}/incidents")["items"]
    must(not incidents, f"a device that leaves is no incident: {incidents}")
    plans = sorted(
        fleet.get(f"/v1/jobs/{job['id']}/plans?limit=500")["items"],
        key=lambda plan: plan["generation"],
    )
    for before, plan in zip(plans, plans[1:]):
        must(
            plan["resume_version"] == before["last_version"] and not before["failure"],
            f"steps are retrained: {before} {plan}",
        )
    fleet.check_losses(job, STEPS)
    sha256 = fleet.checkpoint_sha256(job)
    expected = expected or reference()
    must(sha256 == expected, f"{sha256}, not {expected}")


def test_the_work_of_a_device_that_leaves_moves():
    with fashion_fleet() as fleet:
        for name in ("a", "b", "c"):
            start(fleet, name)
        fleet.wait_for_agents()
        job = fleet.submit(replicated_job(STEPS, **on_devices(2, 3)))
        fleet.wait_for_step(job, 20)
        ended_by_itself(fleet.agent_of(job, 1))
        must(fleet.job(job)["generation"] > 1, "it ended before a plan without it was made")
        fleet.wait(job, "succeeded")
        check(fleet, job)


def test_the_only_device_leaves_and_returns():
    with fashion_fleet() as fleet:
        agent = start(fleet, "a")
        fleet.wait_for_agents()
        job = fleet.submit(replicated_job(STEPS, **on_devices(1, 1)))
        fleet.wait_for_step(job, 20)
        ended_by_itself(agent)
        seen = fleet.wait(job, "waiting_for_devices")
        must(seen["version"] == seen["progress"]["step"] >= 20, f"the center lacks steps: {seen}")
        start(fleet, "a")
        fleet.wait(job, "succeeded")
        check(fleet, job)


def test_a_second_signal_ends_at_once():
    with fashion_fleet() as fleet:
        agent = start(fleet, "a")
        fleet.wait_for_agents()
        job = fleet.submit(replicated_job(STEPS, **on_devices(1, 1)))
        fleet.wait_for_step(job, 10)
        fleet.coordinator.process.kill()
        begin = time.monotonic()
        agent.process.terminate()
        time.sleep(0.05)
        agent.process.terminate()
        agent.process.wait(5)
        must(time.monotonic() - begin < 2.5, "the second signal did not end it")


if __name__ == "__main__":
    run(globals())
