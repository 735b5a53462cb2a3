"""Jobs of workers and servers: the weights are those of one process, bit for bit, whatever the
shares and servers are.
"""

from paceline import FASHION, fashion_fleet, fashion_job, must, on_devices, train
from runner import run


def job_of(model, devices, steps, options=None, **fields):
    return fashion_job(
        model,
        steps=steps,
        strategy="parameter_server",
        parameter_server=options or {},
        **on_devices(devices, devices),
        **fields,
    )


def check(fleet, job, what):
    expected = train(job, FASHION, 1)[0]
    submitted = fleet.submit(job)
    fleet.wait(submitted, "succeeded")
    sha256 = fleet.checkpoint_sha256(submitted)
    must(sha256 == expected, f"{what}: {sha256}, not {expected}")


def test_shares_and_servers_give_the_weights_of_one_process():
    with fashion_fleet(3) as fleet:
        for devices in (1, 2, 3):
            check(fleet, job_of("lenet5", devices, 6), f"lenet5 on {devices}")
        check(fleet, job_of("lenet5", 3, 6, {"servers": 2}), "lenet5 with two servers")


MODELS = (("resnet8", 3), ("mobilenetv2", 2))


def test_models_with_batch_norm_give_the_weights_of_one_process():
    with fashion_fleet(3) as fleet:
        for model, steps in MODELS:
            for options in ({"servers": 1}, {"servers": 3}):
                check(fleet, job_of(model, 3, steps, options), f"{model} with {options}")


def test_jobs_that_clip_by_the_norm_give_the_weights_of_one_process():
    clips = {"optimizer": {"type": "sgd", "clip_norm": 0.5}}
    with fashion_fleet(3) as fleet:
        for servers in (1, 2, 3):
            job = job_of("lenet5", 3, 6, {"servers": servers}, **clips)
            check(fleet, job, f"{servers} servers")


TRANSFERS = "auto optimal stream layer layer_window greedy ready whole fixed".split()


def test_transfers_change_no_weights():
    with fashion_fleet(3) as fleet:
        for transfers in TRANSFERS:
            options = {"servers": 2, "transfers": transfers}
            if transfers == "fixed":
                options["segment_bytes"] = 65536
            check(fleet, job_of("lenet5", 3, 6, options), transfers)


def test_a_job_names_its_servers_and_the_shares_of_its_workers():
    with fashion_fleet(3) as fleet:
        ids = [device["id"] for device in fleet.get("/v1/devices")["items"]]
        units = len(fleet.get("/v1/models/lenet5?dataset=fashion-train")["units"])
        servers = [{"device": ids[2], "end": 2}, {"device": ids[0], "end": units}]
        options = {"servers": servers, "shares": [5, 2, 1]}
        job = job_of("lenet5", 3, 6, options, micro_batches=8)
        expected = train(job, FASHION, 1)[0]
        submitted = fleet.submit(job)
        fleet.wait(submitted, "succeeded")
        sha256 = fleet.checkpoint_sha256(submitted)
        must(sha256 == expected, f"{sha256}, not {expected}")
        given = fleet.job(submitted)["spec"]["parameter_server"]
        must({name: given[name] for name in options} == options, f"{given}")
        stages = fleet.get(f"/v1/jobs/{submitted['id']}/plans")["items"][0]["stages"]
        kept = [{"device": stage["device"], "end": stage["end"]} for stage in stages[:2]]
        must(kept == servers, f"{kept}, not {servers}")
        shares = [stage["share"]["end"] - stage["share"]["first"] for stage in stages]
        must(sorted(shares) == [1, 2, 5], f"shares of {shares}")


def test_a_dry_run_compares_a_job_with_other_ways_to_train():
    with fashion_fleet(3) as fleet:

        def dry(job):
            return fleet.request("POST", "/v1/jobs?dry_run=true", job, expect=200).json

        job = job_of("lenet5", 3, 6, {"transfers": "whole"})
        fleet.wait(fleet.submit(job), "succeeded")  # the links are measured
        plan = dry(job)
        seen = plan["parameter_server"]
        must(seen["step_seconds"] == seen["whole_step_seconds"], f"{seen}")
        must(seen["step_seconds"] == plan["predicted_step_seconds"], f"{seen}")
        names = ("step", "whole_step", "layer_step", "layer_window_step", "pipeline_step")
        must(all(0 < seen[f"{name}_seconds"] < 60 for name in names), f"{seen}")
        seconds = {
            "parameter_server": seen["step_seconds"],
            "pipeline": seen["pipeline_step_seconds"],
            "single": seen["single_step_seconds"],
        }
        must(seen["fastest"] == min(seconds, key=seconds.get), f"{seen}")
        devices = {device["id"] for device in fleet.get("/v1/devices")["items"]}
        must(seen["single_device"] in devices, f"{seen}")
        pipeline = dry({**job, "strategy": "pipeline", "parameter_server": None})
        must(pipeline["parameter_server"] is None, f"{pipeline}")


def test_a_worker_reports_the_time_and_the_number_of_its_transfers():
    steps = 6
    with fashion_fleet(2) as fleet:
        options = {"servers": 1, "transfers": "whole"}
        job = job_of("lenet5", 2, steps, options, evaluate={"every_epochs": 0})
        submitted = fleet.submit(job)
        fleet.wait(submitted, "succeeded")
        # The job may end before the answer to its last sum.
        for name, last in (("pull_seconds", steps), ("push_seconds", steps - 1)):
            seconds = fleet.metric(submitted, name)
            must(seconds.keys() >= set(range(1, last + 1)), f"{name} of {sorted(seconds)}")
            must(all(0 < value < 10 for value in seconds.values()), f"{name}: {seconds}")
        for name in ("segments_pull", "segments_push"):
            must(fleet.metric(submitted, name) == {1: 1}, fleet.metric(submitted, name))


if __name__ == "__main__":
    run(globals())
