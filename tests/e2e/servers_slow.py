"""More jobs of workers and servers (servers.py): random places, shares and options on real
processes, over TLS and a relay, with views and early stops, and on as many devices as a plan has.
"""

import random

import relay
import stopping
import views
from paceline import FASHION, Fleet, data_files, fashion_fleet, must, on_devices, train
from runner import run
from servers import check, job_of

MICRO_BATCHES = 8
DEVICES = 5
OPTIONS = (
    {},
    {"optimizer": {"type": "sgd", "clip_norm": 0.5}},
    {"optimizer": {"type": "sgd", "clip_value": 0.01}},
    {"optimizer": {"type": "adam"}},
    {"optimizer": {"type": "adamw"}},
    {"recompute": "unit"},
    {"augment": [{"type": "crop", "padding": 2}, {"type": "flip"}]},
)
TRANSFERS = ("auto", "optimal", "stream", "layer", "layer_window", "greedy", "ready", "whole")


def parts(draw, whole, count):
    """`count` positive numbers that add up to `whole`."""
    ends = [0, *sorted(draw.sample(range(1, whole), count - 1)), whole]
    return [end - first for first, end in zip(ends, ends[1:])]


def random_job(draw, fleet, model, steps):
    """Servers and shares in random places; at least one device keeps units, at most all."""
    devices = [device["id"] for device in fleet.get("/v1/devices")["items"]]
    units = fleet.get(f"/v1/models/{model}?dataset=fashion-train")["units"]
    servers = draw.randint(1, min(3, len(units) - 1))
    workers = draw.randint(1, 4)
    ends = sorted(draw.sample(range(1, len(units)), servers - 1)) + [len(units)]
    places = zip(draw.sample(devices, servers), ends)
    options = {
        "servers": [{"device": device, "end": end} for device, end in places],
        "shares": sorted(parts(draw, MICRO_BATCHES, workers), reverse=True),
        "transfers": draw.choice(TRANSFERS),
    }
    fields = dict(draw.choice(OPTIONS))
    if draw.random() < 0.3:
        fields["freeze"] = [units[0]["name"]]
    job = job_of(model, 1, steps, options, micro_batches=MICRO_BATCHES, **fields)
    return {**job, "devices": {"min": max(servers, workers), "max": servers + workers}}


def random_jobs(seed, model, count, steps):
    draw = random.Random(seed)
    with fashion_fleet(DEVICES) as fleet:
        for _ in range(count):
            job = random_job(draw, fleet, model, steps)
            check(fleet, job, f"{model}: {job}")


def test_random_splits_of_lenet5_give_the_weights_of_one_process():
    random_jobs(1, "lenet5", 20, 6)


def test_random_splits_of_resnet8_give_the_weights_of_one_process():
    random_jobs(2, "resnet8", 10, 3)


def test_random_splits_of_mobilenetv2_give_the_weights_of_one_process():
    random_jobs(3, "mobilenetv2", 10, 2)


def relay_job():
    return {
        **relay.JOB,
        "strategy": "parameter_server",
        "parameter_server": {"servers": 2, "shares": [2, 1, 1]},
    }


def hidden_devices(tls):
    expected = train(relay_job(), {"digits-train": data_files("digits", "train")})[0]
    with Fleet() as fleet:
        relay.open_fleet(fleet, tls)
        fleet.start_agent("open")
        relay.start_hidden(fleet, "hidden0")
        relay.start_hidden(fleet, "hidden1")
        fleet.wait_for_devices(3)
        job = fleet.submit(relay_job())
        fleet.wait(job, "succeeded")
        must(fleet.checkpoint_sha256(job) == expected, "other weights")
        must(relay.relayed(fleet), "nothing was relayed")


def test_hidden_devices_give_the_weights_of_one_process():
    hidden_devices(False)


def test_hidden_devices_over_tls_give_the_weights_of_one_process():
    hidden_devices(True)


SERVERS = {"strategy": "parameter_server", "parameter_server": {"servers": 2}}


def test_a_view_with_a_hold_out_gives_the_weights_and_metrics_of_one_process():
    job = views.view_job(**SERVERS, **on_devices(3, 3))
    expected, output = train(job, FASHION)
    with views.fashion_fleet(3) as fleet:
        submitted = fleet.submit(job)
        fleet.wait(submitted, "succeeded")
        must(fleet.checkpoint_sha256(submitted) == expected, "other weights")
        recall = views.last_metric(fleet, submitted, "recall")
        must(views.recall_of(output)[-1] == f"recall {recall:.4f}", f"{recall}: {output}")


def test_a_job_stops_early_at_the_version_of_one_process():
    rule = {"metric": "test_accuracy", "patience": 2}
    job = stopping.stopping_job(stop=rule, **SERVERS, **on_devices(3, 3))
    expected, accuracies = stopping.reference(job)
    end = max(accuracies)
    with stopping.fleet_with_test(3) as fleet:
        ended = fleet.wait(fleet.submit(job), "succeeded")
        must(ended["progress"]["step"] == end, f"{ended['progress']}, not step {end}")
        must(fleet.checkpoint_sha256(ended) == expected, "other weights")


def test_a_plan_of_32_devices_gives_the_weights_of_one_process():
    most = 32
    with fashion_fleet(most) as fleet:
        options = {"servers": 4, "shares": [1] * most}
        job = job_of("lenet5", most, 3, options, batch=64, micro_batches=most)
        check(fleet, job, f"{most} devices")


if __name__ == "__main__":
    run(globals())
