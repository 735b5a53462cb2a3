"""Allocations of the agents' threads per step and per message, counted by alloc_count.c in the real
programs.

    with fashion_fleet() as fleet:
        start_counted_agents(fleet, AGENTS)
        for stage in measure(fleet, PIPELINE):
            print(stage.stage, stage.per_message("peer", "library"))

The same job runs with three different numbers of steps; the difference of two runs is the cost of
the steps between. The first run, which fetches the data, is not counted. A thread without
allocations has no row, so the names of threads are also read from the running agents.
"""

import pathlib
import struct
import time

from paceline import BIN, ENDED, fashion_job, must, on_devices

LIBRARY = BIN.parent / "tests/alloc_count.so"
ROW = struct.Struct("<16sQQ")
ORIGINS = ("ours", "library")
MICRO_BATCHES = 4
AGENTS = 3
# All steps that count have three digits: how often libcurl's buffers grow depends on the length of
# a message's address.
STEPS = (120, 220, 320)


class Work:
    """A job's fields, and by stage how many messages the threads of an agent send or receive per
    step.
    """

    def __init__(self, fields, messages):
        self.fields, self.messages = fields, messages


def neighbours(stage):
    before, after = stage > 0, stage < AGENTS - 1
    return {
        "peer": (before + after) * MICRO_BATCHES,
        "send-next": after * MICRO_BATCHES,
        "send-prev": before * MICRO_BATCHES,
    }


LAYERS = 5  # of lenet5, with parameters


def server_and_workers(stage):
    """A message for each layer, worker and direction."""
    workers = AGENTS - 1
    return {"pull": LAYERS, "push": LAYERS} if stage > 0 else {"peer": 2 * LAYERS * workers}


PIPELINE = Work({"cuts": [2, 4]}, neighbours)
SERVERS = Work(
    {
        "strategy": "parameter_server",
        "parameter_server": {"servers": 1, "shares": [2, 2], "transfers": "layer"},
    },
    server_and_workers,
)


def read_table(path):
    """{thread name: {"ours": count, "library": count}}"""
    table = {}
    for name, *counts in ROW.iter_unpack(path.read_bytes()):
        if name[0]:
            table[name.rstrip(b"\0").decode()] = dict(zip(ORIGINS, counts))
    return table


def start_counted_agents(fleet, count):
    for index in range(count):
        name = f"agent{index}"
        fleet.start_agent(
            name,
            wait=False,
            environment={
                "LD_PRELOAD": str(LIBRARY),
                "ALLOC_COUNT_FILE": str(fleet.path / f"{name}.count"),
            },
        )
    fleet.wait_for_agents()


def counts_of(fleet):
    """One table for each agent, in the order of the agents."""
    return [
        read_table(fleet.path / f"agent{index}.count.{agent.process.pid}")
        for index, agent in enumerate(fleet.agents)
    ]


def difference(after, before):
    return {
        name: {
            origin: after[name][origin] - before.get(name, {}).get(origin, 0) for origin in ORIGINS
        }
        for name in after
    }


class StageCounts:
    """The allocations of a stage's agent in each run of STEPS. The planner may give a stage to
    another one of the equal devices in each run. messages: sent or received per step, by thread.
    """

    def __init__(self, stage, work):
        self.stage = stage
        self.messages = {"compute": 0, **work.messages(stage)}
        self.runs = []
        self.seen = set()  # names of the agents' threads while they trained

    def threads(self):
        """The threads that take part in a step at this stage."""
        return [name for name, count in self.messages.items() if count or name == "compute"]

    def extra(self, thread, origin, run):
        """The allocations of run number `run` beyond those of the first one."""
        must(
            thread in self.seen,
            f"stage {self.stage} has no thread '{thread}', only {sorted(self.seen)}",
        )
        zero = dict.fromkeys(ORIGINS, 0)
        return self.runs[run].get(thread, zero)[origin] - self.runs[0].get(thread, zero)[origin]

    def per_step(self, thread, origin, run=2):
        return self.extra(thread, origin, run) / (STEPS[run] - STEPS[0])

    def per_message(self, thread, origin, run=2):
        return self.per_step(thread, origin, run) / self.messages[thread]


def thread_names(agent):
    return {
        path.read_text().strip()
        for path in pathlib.Path(f"/proc/{agent.process.pid}/task").glob("*/comm")
    }


def wait_until_free(fleet):
    """Wait until the agents have ended the job's threads."""
    deadline = time.monotonic() + 30
    while any(device["job"] for device in fleet.get("/v1/devices?limit=500")["items"]):
        must(time.monotonic() < deadline, "the devices are not free again")
        time.sleep(0.05)


def run_job(fleet, work, steps):
    """Run a job. The numbers of its agents, by stage; [the names of their threads]"""
    job = fleet.submit(
        fashion_job(
            steps=steps,
            micro_batches=MICRO_BATCHES,
            evaluate={"every_epochs": 0},
            **work.fields,
            **on_devices(AGENTS, AGENTS),
        )
    )
    seen = fleet.wait_until(job, lambda seen: seen["generation"], "a plan")
    devices = fleet.get("/v1/devices?limit=500")["items"]
    number_of = {one["id"]: int(one["name"].removeprefix("agent")) for one in devices}
    numbers = [number_of[stage["device"]] for stage in fleet.stages(seen)]
    threads = [set() for _ in numbers]
    while fleet.job(job)["state"] not in ENDED:
        for names, number in zip(threads, numbers):
            names |= thread_names(fleet.agents[number])
        time.sleep(0.02)
    fleet.wait(job, "succeeded")
    wait_until_free(fleet)
    return numbers, threads


def measure(fleet, work):
    """[StageCounts] from agents started by start_counted_agents."""
    stages = [StageCounts(stage, work) for stage in range(AGENTS)]
    run_job(fleet, work, STEPS[0])
    for steps in STEPS:
        before = counts_of(fleet)
        numbers, threads = run_job(fleet, work, steps)
        after = counts_of(fleet)
        for stage, number, names in zip(stages, numbers, threads):
            stage.runs.append(difference(after[number], before[number]))
            stage.seen |= names
    return stages
