"""Random schedules of failures on real processes. Each seed kills, freezes, thaws and starts agents
and the coordinator at random moments; afterwards the job ends with the weights of one undisturbed
process. PACELINE_CHAOS_SEEDS="FIRST LAST" or "SEED" chooses others. A seed fixes the failures and
their order; the moments depend on the machine.
"""

import functools
import os
import random
import signal
import time

import finetune
import submodels
from chaos import AGENTS, OPTIONS, Trial, fire_fleet
from paceline import fashion_fleet, must
from runner import run

SEEDS = [int(seed) for seed in os.environ.get("PACELINE_CHAOS_SEEDS", "1 2").split()]
FIRST, LAST = SEEDS[0], SEEDS[-1]
BLOWS = 6
PARENT_BLOWS, PARENT_PACE = 10, 0.7  # of a job of sub-models, which takes longer
PARENT_MODEL, PARENT_SLOWDOWN = "resnet8", 3
MODELS = ("lenet5", "lenet5", "resnet8", "mobilenetv2")


class Schedule:
    def __init__(self, seed, trial):
        self.draw = random.Random(seed)
        self.trial, self.fleet = trial, trial.fleet
        self.frozen = []

    def running(self):
        return [
            agent for agent in self.fleet.agents if agent.running() and agent not in self.frozen
        ]

    def down(self):
        up = {agent.name for agent in self.fleet.agents if agent.running()}
        return [f"agent{index}" for index in range(AGENTS) if f"agent{index}" not in up]

    def kill_agent(self):
        if self.running():
            self.draw.choice(self.running()).kill()

    def kill_two(self):
        for agent in self.draw.sample(self.running(), min(2, len(self.running()))):
            agent.kill()

    def start_agent(self):
        if self.down():
            self.trial.start(self.draw.choice(self.down()))

    def freeze(self):
        if self.running():
            self.frozen.append(self.draw.choice(self.running()))
            self.frozen[-1].signal(signal.SIGSTOP)

    def thaw(self):
        for agent in self.frozen:
            agent.signal(signal.SIGCONT)
        self.frozen = []

    def kill_coordinator(self):
        self.fleet.coordinator.kill()
        time.sleep(self.draw.uniform(0, 0.5))
        self.fleet.restart_coordinator(*OPTIONS)

    def run(self, count=BLOWS, pace=2.0):
        blows = (
            self.kill_agent,
            self.kill_agent,
            self.kill_two,
            self.start_agent,
            self.start_agent,
            self.freeze,
            self.thaw,
            self.kill_coordinator,
        )
        for _ in range(count):
            time.sleep(self.draw.expovariate(pace))
            blow = self.draw.choice(blows)
            print(f"    {blow.__name__}", flush=True)
            blow()
        self.thaw()
        while self.down():
            self.start_agent()


def schedule(seed):
    model = MODELS[seed % len(MODELS)]
    with fire_fleet(model) as fleet:
        recompute = "unit" if seed % 2 else "none"
        checkpoint = finetune.trained(fleet, model=model)[1] if seed % 3 == 0 else None
        print(
            (
                f"  seed {seed}: {model}, recompute"
                f" {recompute}{', from a checkpoint' if checkpoint else ''}"
            ),
            flush=True,
        )
        trial = Trial(fleet, model, checkpoint, recompute=recompute)
        Schedule(seed, trial).run()
        trial.finish()


class Parent:
    """A fleet with a job of sub-models."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.job = fleet.submit(submodels.submodel_job(PARENT_MODEL))

    def start(self, name):
        self.fleet.start_agent(name, "--slowdown", PARENT_SLOWDOWN, wait=False)

    def finish(self):
        seen = self.fleet.wait(self.job, "succeeded", 300)
        model = submodels.model_of(self.fleet, seen["checkpoint"])
        must(model == undisturbed_parent(), f"{model}, not {undisturbed_parent()}")


@functools.cache
def undisturbed_parent():
    return submodels.undisturbed(PARENT_MODEL)


def schedule_of_parent(seed):
    slowdown = ("--slowdown", PARENT_SLOWDOWN)
    with fashion_fleet(AGENTS, *slowdown, lease_ms=submodels.LEASE_MS) as fleet:
        parent = Parent(fleet)
        Schedule(seed, parent).run(PARENT_BLOWS, PARENT_PACE)
        parent.finish()


def tests_of_parents(first, last):
    return {
        f"test_parent_{seed}": functools.partial(schedule_of_parent, seed)
        for seed in range(first, last + 1)
    }


def tests_of_seeds(first, last):
    return {
        f"test_seed_{seed}": functools.partial(schedule, seed) for seed in range(first, last + 1)
    }


if __name__ == "__main__":
    run(tests_of_seeds(FIRST, LAST))
