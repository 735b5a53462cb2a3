"""Shards: jobs that train on their part of a data set, with the law, and what `batches` lists."""

import collections
import json

from paceline import FASHION, Failure, batches_of, fashion_job, must, on_devices, train
from paceline import fashion_fleet as plain_fleet
from runner import run
from views import labels_of

SHARDS = 3
SEED = 11
CLASSES = labels_of(FASHION["fashion-train"][1])
COUNTS = collections.Counter(CLASSES)
BOTH = {"train": "fashion-train", "test": "fashion-test"}


def ranges_of(index):
    """An uneven division: shard 0 lacks class 9, of which shard 1 has all but one."""
    ranges = []
    for label, count in sorted(COUNTS.items(), reverse=True):
        cut = [0, count // 2, count * 2 // 3, count] if label < 9 else [0, 0, count - 1, count]
        if cut[index + 1] > cut[index]:
            first = cut[index]
            ranges.append({"class": label, "first": first, "count": cut[index + 1] - first})
    return ranges


def shard_job(index, ranges=None, **fields):
    shard = {
        "index": index,
        "count": SHARDS,
        "seed": SEED,
        "class_ranges": ranges or ranges_of(index),
    }
    return fashion_job("lenet5", **{"view": {"shard": shard}, "epochs": 1, **fields})


def fashion_fleet(agents):
    fleet = plain_fleet()
    fleet.upload("fashion-test", "fashion-mini", "test")
    fleet.start_agents(agents)
    return fleet


def size_of(ranges):
    return sum(part["count"] for part in ranges)


def test_a_shard_gives_the_weights_of_one_process_on_any_devices():
    servers = {"strategy": "parameter_server", "parameter_server": {"servers": 2}}
    with fashion_fleet(3) as fleet:
        for index, devices, fields in (
            (0, 1, {}),
            (1, 2, {"cuts": [2]}),
            (2, 3, {"cuts": [1, 3]}),
            (2, 3, servers),
        ):
            job = shard_job(index, dataset=BOTH, **fields, **on_devices(devices, devices))
            submitted = fleet.submit(job)
            seen = fleet.wait(submitted, "succeeded")
            samples = size_of(ranges_of(index))
            must(seen["data"]["epoch_samples"] == samples, f"{seen['data']}")
            must(seen["progress"]["step"] == samples // job["batch"], f"{seen['progress']}")
            must(seen["spec"]["view"] == job["view"], f"{seen['spec']['view']}")
            sha256 = fleet.checkpoint_sha256(submitted)
            expected = train(job, FASHION)[0]
            must(sha256 == expected, f"shard {index}: {sha256}, not {expected}")


def test_batches_lists_each_sample_of_each_shard_once_in_an_epoch():
    seen = []
    for index in range(SHARDS):
        ranges = ranges_of(index)
        job = shard_job(index, batch=1, micro_batches=1, epochs=2, init={"seed": 5 + index})
        lines = [json.loads(line) for line in batches_of(job, FASHION).splitlines()]
        samples = [line["samples"][0] for line in lines]
        labels = [line["labels"][0] for line in lines]
        size = size_of(ranges)
        must(labels == [CLASSES[sample] for sample in samples], "labels are class numbers")
        must(len(samples) == 2 * size, f"{len(samples)} samples of two epochs, not {2 * size}")
        first, second = samples[:size], samples[size:]
        must(sorted(first) == sorted(second) and first != second, "the order changes, no sample")
        must(
            collections.Counter(labels[:size])
            == {part["class"]: part["count"] for part in ranges},
            f"{labels[:size]}",
        )
        seen += first
    must(sorted(seen) == list(range(len(CLASSES))), "the shards are not the data set")


def test_samples_follow_from_the_seed_and_the_ranges_of_the_shard_alone():
    def samples_of(job):
        lines = batches_of({**job, "batch": 1, "micro_batches": 1}, FASHION).splitlines()
        return [json.loads(line)["samples"][0] for line in lines]

    plain = samples_of(shard_job(0))
    must(samples_of(shard_job(2, ranges_of(0))) == plain, "index and count name the shard only")
    must(samples_of(shard_job(0, ranges_of(0)[::-1])) == plain, "the order of the ranges")
    other = samples_of(shard_job(0, init={"seed": 2}))
    must(other != plain and sorted(other) == sorted(plain), "the seed of the job is of the order")
    job = shard_job(0)
    job["view"]["shard"]["seed"] += 1
    must(sorted(samples_of(job)) != sorted(plain), "the seed of the shard chooses samples")


def test_a_shard_that_the_data_does_not_have_is_rejected_locally():
    count = COUNTS[3]
    for ranges, batch, words in (
        ([{"class": 3, "first": 1, "count": count}], 8, f"first + count is {count + 1}"),
        ([{"class": 3, "first": 0, "count": 1}] * 2, 8, "same class as /view/shard/class_ranges/0"),
        ([{"class": 10, "first": 0, "count": 1}], 8, "no class 10"),
        ([{"class": 3, "first": 0, "count": 7}], 8, "batch of 8"),
    ):
        for command in (batches_of, train):
            try:
                command(shard_job(0, ranges, batch=batch), FASHION)
            except Failure as failure:
                must(words in str(failure), f"{failure} lacks {words}")
            else:
                raise Failure(f"{command.__name__} takes {ranges}")


if __name__ == "__main__":
    run(globals())
