"""Compare seconds per step of a coordinated job with `paceline-agent train`: on one agent, and of a
worker with a server.
"""

import argparse
import json
import pathlib
import tempfile

from paceline import FASHION, Fleet, fashion_job, on_devices, train
from report import finish, median, percent, say, spread, table

ALONE = ("lenet5", "resnet8")
SERVED = ("resnet8",)
SERVERS = {
    "strategy": "parameter_server",
    "micro_batches": 4,
    "parameter_server": {
        "servers": 1,
        "server_labels": {"role": "server"},
        "worker_labels": {"role": "worker"},
    },
    **on_devices(2, 2),
}
BATCH = 32
RUN_SECONDS = 10
WAIT_SECONDS = 900
CALIBRATION_STEPS = 60
WARMUP_STEPS = 20  # caches, pages, clock frequency
PAGE = 10000


def job_of(model, steps, served):
    way = SERVERS if served else on_devices(1, 1)
    return fashion_job(model, batch=BATCH, steps=steps, evaluate={"every_epochs": 0}, **way)


def steady(seconds):
    return seconds[WARMUP_STEPS:]


def alone(job):
    """Seconds of each step of `paceline-agent train`."""
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as directory:
        metrics = pathlib.Path(directory) / "metrics"
        train(job, FASHION, arguments=["--metrics", str(metrics)])
        lines = map(json.loads, metrics.read_text().splitlines())
        return [line["value"] for line in lines if line["name"] == "step_seconds"]


def coordinated(fleet, job):
    """Seconds of each step of the same job under the coordinator, from its metrics."""
    submitted = fleet.submit(job)
    fleet.wait(submitted, "succeeded", WAIT_SECONDS)
    seconds, since = [], 0
    while True:
        items = fleet.get(
            f"/v1/jobs/{submitted['id']}/metrics?name=step_seconds&limit={PAGE}&since={since}"
        )["items"]
        if not items:
            return seconds
        seconds += [item["value"] for item in items]
        since = items[-1]["step"]


def compare(fleet, model, pairs, run_seconds, served=False):
    calibration = steady(alone(job_of(model, CALIBRATION_STEPS, served)))
    steps = WARMUP_STEPS + int(run_seconds / min(calibration)) + 1
    job = job_of(model, steps, served)
    ours, reference = [], []
    for pair in range(pairs):
        # The order changes, so that a machine that gets slower favours neither.
        for side in ("coordinated", "alone") if pair % 2 else ("alone", "coordinated"):
            seconds = steady(coordinated(fleet, job) if side == "coordinated" else alone(job))
            (ours if side == "coordinated" else reference).append(median(seconds))
            if len(seconds) != steps - WARMUP_STEPS:
                missing = steps - WARMUP_STEPS - len(seconds)
                say(f"  {model}: {missing} steps are missing in the metrics ({side})")
        say(
            f"  {model} pair {pair + 1}: coordinated {ours[-1] * 1e3:.3f} ms, "
            f"alone {reference[-1] * 1e3:.3f} ms, ratio {ours[-1] / reference[-1]:.4f}"
        )
    ratios = [mine / other for mine, other in zip(ours, reference)]
    return {
        "model": model,
        "strategy": job.get("strategy", "pipeline"),
        "batch": BATCH,
        "steps": steps,
        "pairs": pairs,
        "coordinated_step_seconds": median(ours),
        "coordinated_spread": spread(ours),
        "alone_step_seconds": median(reference),
        "alone_spread": spread(reference),
        "ratio": median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pairs", type=int, default=5)
    arguments.add_argument(
        "--seconds", type=float, default=RUN_SECONDS, help="of one run, at least"
    )
    options = arguments.parse_args()
    with Fleet() as fleet:
        fleet.start_coordinator()
        fleet.upload("fashion-train", "fashion-mini", "train")
        fleet.start_agent("worker", "--label", "role=worker")
        fleet.wait_for_agents()
        rows = [compare(fleet, model, options.pairs, options.seconds) for model in ALONE]
        fleet.start_agent("server", "--label", "role=server")
        fleet.wait_for_agents()
        rows += [compare(fleet, model, options.pairs, options.seconds, True) for model in SERVED]
    table(
        [
            "model",
            "strategy",
            "batch",
            "steps",
            "pairs",
            "coordinated ms/step",
            "spread",
            "alone ms/step",
            "spread",
            "ratio",
            "from",
            "to",
        ],
        [
            [
                row["model"],
                row["strategy"],
                row["batch"],
                row["steps"],
                row["pairs"],
                f"{row['coordinated_step_seconds'] * 1e3:.3f}",
                percent(row["coordinated_spread"]),
                f"{row['alone_step_seconds'] * 1e3:.3f}",
                percent(row["alone_spread"]),
                f"{row['ratio']:.4f}",
                f"{row['ratio_min']:.4f}",
                f"{row['ratio_max']:.4f}",
            ]
            for row in rows
        ],
    )
    say("ratio: median over the pairs of the two runs' medians; the goal is at most 1.05")
    finish("overhead", rows)


if __name__ == "__main__":
    main()
