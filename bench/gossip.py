"""Gossip: how much earlier it is as accurate as plain rounds and as other ways to train."""

import argparse
import os
import pathlib
import sys
import tempfile
import time

import cifar
import gossip_results as results
from gossip_cases import (
    CIFAR,
    DIGITS,
    DRIVER,
    FASHION,
    FURTHER,
    OTHERS,
    PAIR,
    SPLITS,
    SPOKEN,
    VARIANTS,
    fleet_file,
)
from gossip_runs import Expired, Runs
from kept import Kept
from namespaces import run_on
from paceline import ROOT, Failure
from report import finish, say, table, with_goal
from submodel_cases import Data, recorded, shipped

ROWS = ROOT / "build/gossip.jsonl"
MINUTES = {"default": 75, "recorded": 120, "slow": 120}
CIFAR_IMAGES = 4000
PASSES, PASSES_MOST = 16, 40


# ---- what to run ----


class Task:
    """whole: the run continues until it gains nothing; else until it is as accurate as the baseline
    was.
    """

    def __init__(self, case, split, seed, variant, whole):
        self.case, self.split, self.seed = case, split, seed
        self.variant, self.whole = variant, whole

    def setting(self):
        return self.case.data, self.split, self.seed


def tasks_of(part, options):
    """The runs of a part, the most important ones first; each after the baseline that it is
    compared with.
    """
    cases = {"default": (FASHION, DIGITS), "recorded": (SPOKEN,), "slow": (CIFAR,)}[part]
    seeds = options.seeds or {"default": 5, "recorded": 3, "slow": 1}[part]
    splits = options.split or (SPLITS[:1] if part == "slow" else SPLITS)
    wanted = options.variants or list(VARIANTS)
    settings = [
        (case, split)
        for case in cases
        for split in splits
        if part != "default" or options.data in (None, case.data)
    ]
    pair = [options.baseline, *(name for name in PAIR if name != options.baseline)]
    groups = [(1, pair, settings), (1, OTHERS, settings)]
    groups += [(seed, pair, settings) for seed in range(2, seeds + 1)]
    further = [] if part == "recorded" else [one for one in settings if one[0] is not DIGITS]
    groups += [(1, FURTHER, further)]
    for seed, names, places in groups:
        for case, split in places:
            for name in names:
                if name in wanted or name == options.baseline:
                    yield Task(case, split, seed, name, name not in results.COMPARED)


def run_all(tasks, runs, options):
    """Rows of the tasks, the number of those for which there was no time, and the failures."""
    baselines, shares, rows, left, failures = {}, {}, [], 0, []
    for task in tasks:
        setting = task.setting()
        is_baseline = task.variant == options.baseline
        if not is_baseline and setting not in baselines:
            left += 1
            continue
        goal = results.Goal(None if is_baseline else baselines[setting], options.passes, task.whole)
        try:
            run = runs.run(task.case, task.variant, task.split, task.seed, goal)
            if is_baseline:
                baselines[setting] = results.baseline_of(run, options.passes)
                shares[setting] = run["shares"]
        except Expired:
            left += 1
            continue
        except (Failure, OSError, ValueError) as failure:
            # The next run may succeed, with new programs.
            failures.append(f"{', '.join(map(str, setting))}, {task.variant}: {failure}")
            say(f"  FAILED: {failures[-1]}")
            runs.stop(type(failure), failure, failure.__traceback__)
            continue
        rows.append(results.row_of(run, baselines[setting], shares[setting]))
        say(f"  {brief(rows[-1])}")
    return rows, left, failures


# ---- tables ----


def number(value, digits=1):
    return "-" if value is None else f"{value:.{digits}f}"


def share(value):
    return "-" if value is None else f"{100 * value:.1f}"


def brief(row):
    return (
        f"{row['data']}, {row['split']}, seed {row['seed']}, {row['variant']}: "
        f"{number(row['run_seconds'])} s, {row['versions']} models, {share(row['accuracy'])} %; "
        f"{share(row['baseline_accuracy'])} % after {number(row['seconds'])} s "
        f"(baseline {number(row['baseline_seconds'])} s)"
    )


def between(pair):
    return "-" if pair is None else f"{pair[0]:.1f} to {pair[1]:.1f}"


def print_rows(rows):
    table(
        ["data, split", "variant", "seeds", "speed-up", "over best", "best", "points lost"]
        + ["interval", "at 1/2.70", "final %", "worst recall %", "slowest %", "period cv"]
        + ["MB a device", "distance"],
        [
            [
                f"{data}, {split}",
                variant,
                str(len(some)),
                number(results.mean_speed_up(some), 2),
                number(
                    results.geometric_mean([row["over_best"] for row in some if row["over_best"]]),
                    2,
                ),
                some[0]["best_variant"] or "-",
                number(results.mean_of(some, "loss_points")),
                between(some[0]["loss_interval"]),
                number(results.mean_of(some, "loss_at_2_70")),
                *(
                    share(results.mean_of(some, field))
                    for field in ("accuracy", "worst_recall", "slowest_accuracy")
                ),
                number(results.mean_of(some, "period_cv"), 2),
                number(results.mean_of(some, "bytes_per_device") / 1e6),
                number(results.mean_of(some, "distance"), 3),
            ]
            for (data, split, variant), some in results.by(
                rows, "data", "split", "variant"
            ).items()
        ],
    )


def print_summary(found):
    say("geometric means of the speed-up over plain_rounds, and points lost against it:")
    gossip, lost, worst = found["speed_up"], found["loss_points"], found["worst_setting_loss"]
    for text, value, met, aim in (
        ("async, speed-up", gossip, lambda v: v >= results.SPEED_UP, "at least 2.70"),
        ("async, points lost", lost, lambda v: v <= results.LOSS_MAX, "at most 0.78"),
        ("  in the worst setting", worst, lambda v: v <= results.SETTING_LOSS_MAX, "at most 2"),
        (
            "async over the best other way, Dirichlet data",
            found["over_best_dirichlet"],
            lambda v: v >= 1,
            "at least 1.0",
        ),
        ("levelled_rounds, speed-up", found["levelled_speed_up"], lambda v: v >= 1.5, "1.5"),
        (
            "levelled_rounds, points lost",
            found["levelled_loss_points"],
            lambda v: v <= results.LOSS_MAX,
            "at most 0.78",
        ),
        (
            "settings whose fastest way the dry run named",
            found["named"],
            lambda v: v >= results.PREDICTED_MIN,
            "at least 0.8",
        ),
        (
            "async, variation of periods",
            found["period_cv"],
            lambda v: v <= results.PERIOD_CV_MAX,
            f"at most 0.15; baseline {number(found['baseline_period_cv'], 2)}",
        ),
        (
            "async_killed, time over async, the worst",
            found["killed_time"],
            lambda v: v <= results.KILLED_TIME_MAX,
            "at most 1.5",
        ),
        (
            "  points below async, the worst",
            found["killed_points"],
            lambda v: v <= results.KILLED_POINTS_MAX,
            "at most 1.0",
        ),
    ):
        say(f"  {text}: {with_goal(value, met, aim)}")
    for setting in found["settings"]:
        say(
            f"  {setting['data']}, {setting['split']}: fastest {setting['best']} "
            f"({number(setting['best_speed_up'], 2)}x); the dry run names "
            f"{setting['predicted'] or 'nothing'}, measured {setting['fastest_way'] or '-'}"
        )


# ---- options ----


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data",
        metavar="NAME|DIRECTORY",
        help=f"{FASHION.data} or {DIGITS.data}: only this data set; a directory: its recordings "
        "CLASS_SPEAKER_NUMBER.wav (docs/benchmarks.md) in place of these. Default: both.",
    )
    cifar.add_arguments(parser, required=False)
    parser.add_argument(
        "--slow", action="store_true", help="CIFAR-10 in place of these; needs --cifar10."
    )
    parser.add_argument("--split", choices=SPLITS, nargs="+", help="Default: all.")
    parser.add_argument(
        "--seeds", type=int, help="of the baseline and async. Default: 5; 3 or 1 with other data."
    )
    parser.add_argument(
        "--variants",
        type=lambda text: text.split(","),
        metavar="A,B",
        help=f"beside the baseline. Default: all of {', '.join(VARIANTS)}.",
    )
    parser.add_argument(
        "--baseline",
        choices=PAIR,
        default=results.BASELINE,
        help=f"that the others are compared with. Default: {results.BASELINE}.",
    )
    parser.add_argument(
        "--passes",
        type=int,
        default=PASSES,
        help="of the baseline, until its accuracy counts, and at least of a run that continues "
        f"until it gains nothing. Default: {PASSES}.",
    )
    parser.add_argument(
        "--most", type=int, default=PASSES_MOST, help=f"passes of a run. Default: {PASSES_MOST}."
    )
    parser.add_argument(
        "--average-every",
        type=int,
        metavar="MIXES",
        help="of variants that do not state it. Default: that of jobs.",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        help="after which no run begins; repeat the command. Default: 75; 120 with other data.",
    )
    parser.add_argument(
        "--rows",
        type=pathlib.Path,
        default=ROWS,
        help="where finished runs are kept. Default: build/gossip.jsonl.",
    )
    options = parser.parse_args()
    if options.slow and not options.cifar10:
        parser.error("--slow needs --cifar10 TRAIN TEST")
    unknown = [name for name in options.variants or () if name not in VARIANTS]
    if unknown:
        parser.error(f"--variants: unknown: {', '.join(unknown)}")
    return options


def part_of(options):
    if options.slow:
        return "slow"
    return "default" if options.data in (None, FASHION.data, DIGITS.data) else "recorded"


def files_of(case, options, directory):
    if case is SPOKEN:
        return recorded(SPOKEN.data, pathlib.Path(options.data), directory)
    if case is CIFAR:
        train_file, test_file = options.cifar10
        part = directory / "train.bin"
        cifar.write_part(train_file, CIFAR_IMAGES, part)
        return Data(case.data, {"train": [part], "test": [test_file]})
    return shipped(case.data)


def measure(options):
    """On the device of the driver; the exit status."""
    part = part_of(options)
    options.until = time.monotonic() + 60 * (options.minutes or MINUTES[part])
    tasks = list(tasks_of(part, options))
    say(f"{len(tasks)} runs; finished ones are kept in {options.rows}")
    with tempfile.TemporaryDirectory(prefix="paceline-gossip-") as place:
        cases = dict.fromkeys(task.case for task in tasks)
        data = {case: files_of(case, options, pathlib.Path(place)) for case in cases}
        with Runs(data, Kept(options.rows), options) as runs:
            rows, left, failures = run_all(tasks, runs, options)
    results.compare(rows)
    print_rows(rows)
    found = results.summary(rows)
    print_summary(found)
    if left:
        say(f"{left} runs were not begun in time; repeat the command")
    for failure in failures:
        say(f"FAILED: {failure}")
    finish("gossip", rows, summary=found, left=left, failures=len(failures))
    return 1 if failures else 0


def main():
    options = parse()
    if "FLEET_NAME" in os.environ:
        sys.exit(measure(options))
    sys.exit(run_on(fleet_file(), [sys.executable, __file__, *sys.argv[1:]], driver=DRIVER))


if __name__ == "__main__":
    main()
