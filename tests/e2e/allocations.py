"""Steady training allocates nothing in our code: counted, not timed, in the real agents
(tests/support/alloc_count.c).
"""

import functools

from alloc_table import AGENTS, LIBRARY, PIPELINE, SERVERS, STEPS, measure, start_counted_agents
from paceline import fashion_fleet, must
from runner import Skip, run

# Of allocations a message. A neighbour without room yet turns one message into two.
LIBRARY_TOLERANCE = 0.25


@functools.cache
def counted():
    """The agents' counts; one set of runs of each strategy serves all tests."""
    if not LIBRARY.exists():
        raise Skip(f"{LIBRARY.name} is not built: a sanitizer replaces malloc")
    with fashion_fleet() as fleet:
        start_counted_agents(fleet, AGENTS)
        return measure(fleet, PIPELINE) + measure(fleet, SERVERS)


def expect_none(agent, thread, origin):
    for index in (1, 2):
        extra = agent.extra(thread, origin, index)
        must(
            extra == 0,
            (
                f"{agent.device}, thread {thread}: {STEPS[index] - STEPS[0]} more steps made"
                f" {extra} more allocations ({origin})"
            ),
        )


def test_the_compute_thread_allocates_nothing_per_step():
    for agent in counted():
        for origin in ("ours", "library"):
            expect_none(agent, "compute", origin)


def test_our_transfer_code_allocates_nothing_per_message():
    for agent in counted():
        for thread in agent.threads():
            expect_none(agent, thread, "ours")


def test_the_libraries_allocate_a_constant_number_per_message():
    for agent in counted():
        for thread in agent.threads():
            if thread == "compute":
                continue
            fewer, more = (agent.per_message(thread, "library", index) for index in (1, 2))
            print(
                (
                    f"stage {agent.stage}, thread {thread}: {fewer:.2f} allocations a message by"
                    f" libraries over {STEPS[1] - STEPS[0]} steps, {more:.2f} over"
                    f" {STEPS[2] - STEPS[0]}"
                ),
                flush=True,
            )
            must(
                abs(fewer - more) <= LIBRARY_TOLERANCE,
                f"{agent.device}, thread {thread}: not constant",
            )


if __name__ == "__main__":
    run(globals())
