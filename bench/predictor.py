"""Compare predictors of units that a device never ran: scalar, cost model, regression."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from namespaces import TOOL, run_on
from report import finish, say, table

SHARES = [1.0, 0.5, 0.25]
THREADS = [1, 2]
EVALUATED = ["resnet8", "mobilenetv2", "vgg11-bn", "dscnn-kws", "gpt-mini"]
OTHERS = ["mlp", "lenet5", "alexnet-cifar", "resnet18"]
LARGE = ["resnet50", "googlenet", "mobilenetv2-224"]  # one sample at a time
MICRO_BATCHES = [2, 8, 16]
SECONDS = 3.0  # of each model and micro-batch; four rounds at least
PREDICTOR, SCALAR = "regression_donor", "scalar"
ERROR_MAX, RATIO_MAX = 0.25, 0.7

DEVICES = "".join(f"cpu{share * 100:.0f} {share} 0 0\n" for share in SHARES)


def program(name):
    return os.path.join(os.environ["PACELINE_BIN"], name)


def settings(share):
    """The models and micro-batches that a device measures, the slow ones on whole cores only."""
    for model in EVALUATED + OTHERS:
        for micro_batch in MICRO_BATCHES:
            yield model, micro_batch
    for model in LARGE if share >= 1 else []:
        yield model, 1


def measure(options, out):
    """Write what every device measures to a file that unit_fit reads."""
    for share in SHARES:
        for threads in THREADS:
            name = f"cpu{share * 100:.0f}"
            out.write(f"device {name}-threads{threads}\n")
            for model, micro_batch in settings(share):
                arguments = [model, micro_batch, threads, options.seconds]
                command = [program("unit_times"), *map(str, arguments)]
                answer = subprocess.run(
                    [str(TOOL), "exec", name, "--", *command],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                out.write(f"model {model} {micro_batch}\n{answer.stdout}")
            out.flush()
            say(f"  measured: share {share:g} of a core, {threads} thread(s)")


def rows_of(path):
    answer = subprocess.run(
        [program("unit_fit"), "evaluate", path, *EVALUATED],
        check=True,
        capture_output=True,
        text=True,
    )
    rows = []
    for line in answer.stdout.splitlines():
        model, known, predictor, error, runs, spread = line.split()
        rows.append(
            {
                "model": model,
                "known_units": known,
                "predictor": predictor,
                "error": float(error),
                "runs": int(runs),
                "spread": float(spread),
            }
        )
    return rows


def mean_error(rows, predictor, model=None):
    errors = [
        row["error"]
        for row in rows
        if row["predictor"] == predictor and model in (None, row["model"])
    ]
    return sum(errors) / len(errors)


def show(rows):
    table(
        ["model", "known units", "predictor", "mean error", "runs", "spread"],
        [
            [
                row["model"],
                row["known_units"],
                row["predictor"],
                f"{row['error']:.1%}",
                row["runs"],
                f"{row['spread']:.1%}",
            ]
            for row in rows
        ],
    )
    worst = max(mean_error(rows, PREDICTOR, model) for model in EVALUATED)
    ratio = mean_error(rows, PREDICTOR) / mean_error(rows, SCALAR)
    say(f"{PREDICTOR}: worst model {worst:.1%} (goal: below {ERROR_MAX:.0%})")
    say(f"{PREDICTOR} / scalar over all models: {ratio:.2f} (goal: at most {RATIO_MAX})")
    finish("predictor", rows, worst_model_error=worst, over_scalar=ratio)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=SECONDS)
    arguments.add_argument("--times", help="keep the measured times in this file, or read them")
    arguments.add_argument("--prior", help="write the prior that ships to this C file")
    options = arguments.parse_args()
    path = options.times or os.path.join(tempfile.gettempdir(), f"unit_times.{os.getpid()}")
    if "FLEET_NAME" in os.environ:
        with open(path, "w", encoding="ascii") as out:
            measure(options, out)
        return
    if not os.path.exists(path):
        command = [sys.executable, __file__, "--seconds", options.seconds, "--times", path]
        status = run_on(DEVICES, command)
        if status:
            sys.exit(status)
    if options.prior:
        prior = subprocess.run(
            [program("unit_fit"), "prior", path], check=True, capture_output=True, text=True
        )
        pathlib.Path(options.prior).write_text(prior.stdout, encoding="ascii")
    show(rows_of(path))
    if not options.times:
        os.unlink(path)


if __name__ == "__main__":
    main()
