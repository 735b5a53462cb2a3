"""The law for every partition of resnet8 and 40 random ones of mobilenetv2, with and without slow
agents.
"""

import random

from law import check, random_cuts, reference, units_of, with_cuts
from paceline import fashion_fleet, fashion_job
from runner import run

SLOWDOWN = ("--slowdown", 1.5)


def every_partition_of_resnet8(*arguments):
    job = fashion_job("resnet8", steps=3)
    expected = reference(job)
    with fashion_fleet(1, *arguments) as fleet:
        units = units_of(fleet, "resnet8")
        fleet.start_agents(units - 1, *arguments)
        for mask in range(1 << (units - 1)):
            cuts = [unit for unit in range(1, units) if mask >> (unit - 1) & 1]
            check(fleet, with_cuts(job, cuts), expected, f"resnet8 cut at {cuts}")


def random_partitions_of_mobilenetv2(seed, *arguments):
    job = fashion_job("mobilenetv2", steps=2)
    expected = reference(job)
    generator = random.Random(seed)
    with fashion_fleet(8, *arguments) as fleet:
        units = units_of(fleet, "mobilenetv2")
        for _ in range(40):
            cuts = random_cuts(generator, units, 8)
            check(fleet, with_cuts(job, cuts), expected, f"mobilenetv2 cut at {cuts}")


def test_every_partition_of_resnet8_gives_the_weights_of_one_process():
    every_partition_of_resnet8()


def test_every_partition_of_resnet8_over_slowed_agents_gives_the_weights_of_one_process():
    every_partition_of_resnet8(*SLOWDOWN)


def test_forty_random_partitions_of_mobilenetv2_give_the_weights_of_one_process():
    random_partitions_of_mobilenetv2(3)


def test_forty_random_partitions_of_mobilenetv2_over_slowed_agents_match_one_process():
    random_partitions_of_mobilenetv2(4, *SLOWDOWN)


if __name__ == "__main__":
    run(globals())
