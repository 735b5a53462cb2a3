"""Steady training allocates nothing in our code: counted, not timed, in the real agents
(tests/support/alloc_count.c).
"""

import functools

from alloc_table import (
    AGENTS,
    LIBRARY,
    PIPELINE,
    SERVERS,
    STEPS,
    counts_of,
    difference,
    measure,
    start_counted_agents,
    thread_names,
    wait_until_free,
)
from gossip import gossip_fleet, gossip_job, mixes_of, of_kind
from paceline import fashion_fleet, must
from runner import Skip, run

# Of allocations a message. A neighbour without room yet turns one message into two.
LIBRARY_TOLERANCE = 0.25


@functools.cache
def counted():
    """The stages' counts; one set of runs of each strategy serves all tests."""
    if not LIBRARY.exists():
        raise Skip(f"{LIBRARY.name} is not built: a sanitizer replaces malloc")
    with fashion_fleet() as fleet:
        start_counted_agents(fleet, AGENTS)
        return measure(fleet, PIPELINE) + measure(fleet, SERVERS)


def expect_none(stage, thread, origin):
    for index in (1, 2):
        extra = stage.extra(thread, origin, index)
        must(
            extra == 0,
            (
                f"stage {stage.stage}, thread {thread}: {STEPS[index] - STEPS[0]} more steps made"
                f" {extra} more allocations ({origin})"
            ),
        )


def test_the_compute_thread_allocates_nothing_per_step():
    for stage in counted():
        for origin in ("ours", "library"):
            expect_none(stage, "compute", origin)


def test_our_transfer_code_allocates_nothing_per_message():
    for stage in counted():
        for thread in stage.threads():
            expect_none(stage, thread, "ours")


def test_the_libraries_allocate_a_constant_number_per_message():
    for stage in counted():
        for thread in stage.threads():
            if thread == "compute":
                continue
            fewer, more = (stage.per_message(thread, "library", index) for index in (1, 2))
            print(
                (
                    f"stage {stage.stage}, thread {thread}: {fewer:.2f} allocations a message by"
                    f" libraries over {STEPS[1] - STEPS[0]} steps, {more:.2f} over"
                    f" {STEPS[2] - STEPS[0]}"
                ),
                flush=True,
            )
            must(
                abs(fewer - more) <= LIBRARY_TOLERANCE,
                f"stage {stage.stage}, thread {thread}: not constant",
            )


MIX_STEPS = (1200, 2400, 4800)  # of all groups together
GROWTH = 20  # of the buffers of headers, which have more records now and then
FILE_PER_AVERAGE = 10  # of the header of the file that goes to the coordinator
MIX_THREADS = ("compute", "mix", "average", "peer")


def count_mixes(fleet, steps):
    """Run a job. (its mixes, its averages, what each agent has allocated)"""
    before = counts_of(fleet)
    options = {"average_every": 2}
    job = fleet.submit(gossip_job(AGENTS, options, steps=steps, epochs=100))
    fleet.wait_until(
        job,
        lambda _: all(thread_names(agent).issuperset(MIX_THREADS) for agent in fleet.agents),
        f"threads {MIX_THREADS}",
    )
    fleet.wait(job, "succeeded")
    wait_until_free(fleet)
    records = mixes_of(fleet, job)
    moves = len(of_kind(records, "pair")) + len(of_kind(records, "adopt"))
    averages = len(of_kind(records, "average"))
    return moves, averages, [difference(*pair) for pair in zip(counts_of(fleet), before)]


def test_a_mix_allocates_nothing():
    if not LIBRARY.exists():
        raise Skip(f"{LIBRARY.name} is not built: a sanitizer replaces malloc")
    with gossip_fleet(0) as fleet:
        start_counted_agents(fleet, AGENTS)
        count_mixes(fleet, MIX_STEPS[0])  # fetches the data
        few, stored, first = count_mixes(fleet, MIX_STEPS[1])
        many, all_stored, second = count_mixes(fleet, MIX_STEPS[2])
        most = {
            "compute": 0,
            "mix": GROWTH,
            "average": GROWTH + FILE_PER_AVERAGE * (all_stored - stored),
            "peer": GROWTH,
        }
        must(many >= few + 10, f"{few} mixes, then {many}")
        for thread in MIX_THREADS:
            ours = [
                sum(agent.get(thread, {"ours": 0})["ours"] for agent in run)
                for run in (first, second)
            ]
            print(
                f"thread {thread}: {ours[0]} for {few} mixes and {stored} averages,"
                f" {ours[1]} for {many} and {all_stored}",
                flush=True,
            )
            more = ours[1] - ours[0]
            must(more <= most[thread], f"thread {thread}: {many - few} more mixes made {more}")


if __name__ == "__main__":
    run(globals())
