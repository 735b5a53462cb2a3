"""Sub-models: the computation that they save, the accuracy that they cost, and their wall time."""

import argparse
import itertools
import os
import pathlib
import statistics
import tempfile
import time

import cifar
from kept import Kept
from paceline import ROOT
from report import finish, say, table
from submodel_cases import (
    BATCH,
    DEFAULT,
    JOINTS,
    MAIN,
    RECORDED,
    RECORDINGS,
    SLOW,
    UNEVEN,
    VARIANTS,
    Data,
    job_of,
    recorded,
    shipped,
    sliced_job,
)
from submodel_runs import PASSES, QUEUE, QUEUE_SLOWDOWNS, SLOWDOWNS, Expired, Runs

ROWS = ROOT / "build/submodel.jsonl"
MINUTES = {"default": 45, "data": 120, "slow": 120}
CIFAR_IMAGES = 8000
SOURCE_SAVING = 11.8  # of the source's abstract
LOST_MAX = 1.5
COLUMNS = ("per_sample_least", "total", "busiest")
GROUP_FIELDS = ("classes", "widths", "predicted", "measured", "phase", "trial", "divisions")


# ---- rows ----


def joint_work(units, joint):
    """Operations of the joint phase per sample of the data set."""
    trained, epochs = JOINTS[joint]
    backward = units[-1] if trained == "head" else sum(units)
    return epochs * (sum(units) + (PASSES - 1) * backward)


def savings(run, target, epochs, joint):
    """How much less is computed per sample, in all, and by the busiest device: each group has a
    device, and all divide stem and joint phase equally.
    """
    units, samples = target["units"], target["samples"]
    central = PASSES * sum(units)
    shared = samples * (central + joint_work(units, joint))
    work = [group["load"] * group["samples"] * group["attempts"] for group in run["groups"]]
    loads = [group["load"] for group in run["groups"]]
    return {
        "per_sample_most": central / min(loads),
        "per_sample_least": central / max(loads),
        "total": epochs * samples * central / (shared + sum(work)),
        "busiest": epochs * samples * central / (shared / len(work) + max(work)),
    }


def empty_row(case, variant, seed):
    return {
        "data": case.data,
        "model": case.model,
        "variant": variant.name,
        "groups": len(variant.groups) if isinstance(variant.groups, tuple) else variant.groups,
        "negatives": variant.negatives,
        "seed": seed,
        **dict.fromkeys(("per_sample_most", *COLUMNS, "seconds", "central_seconds")),
        **dict.fromkeys(("seconds_busiest", "accuracy_central", "accuracy_harvest")),
        **dict.fromkeys(("accuracy_final", "accuracy_equal_total", "accuracy_narrow")),
        "loss_points": None,
    }


def sliced_row(runs, variant, seed, joint="head"):
    """A row of one job of sub-models beside the target."""
    case, run = runs.case, runs.sliced(variant, seed)
    row = empty_row(case, variant, seed)
    row |= savings(run, runs.target(), case.epochs, joint)
    row["accuracy_central"] = runs.central(seed)
    row["accuracy_harvest"], row["accuracy_final"] = run["accuracy"]["off"], run["accuracy"][joint]
    row["loss_points"] = 100 * (row["accuracy_central"] - row["accuracy_final"])
    row["missing"] = run["missing"]
    row["attempts"] = [group["attempts"] for group in run["groups"]]
    if joint != "head":
        row["variant"] += f", joint {joint}"
    elif variant in UNEVEN:
        row["accuracy_without_prior"] = run["accuracy_without_prior"]
    return row


def main_row(runs, variant, seed):
    """The same with the two dense baselines: a shorter training, and a narrower model."""
    row = sliced_row(runs, variant, seed)
    steps = runs.target()["samples"] // BATCH * runs.case.epochs
    load = max(group["load"] for group in runs.sliced(variant, seed)["groups"])
    try:
        if runs.case.data != "cifar10":
            row["accuracy_equal_total"] = runs.central(seed, max(1, round(steps / row["total"])))
            row["accuracy_narrow"] = runs.narrow(seed, load)
        if seed == 1 and variant == MAIN[0] and runs.options.times:
            row["step_saving"] = runs.step_saving(variant, seed)
    except Expired:
        row["unfinished"] = True
    return row


def main_runs(runs, seed):
    """Make what the most important row needs; the baselines follow if there is time."""
    runs.central(seed)
    runs.sliced(MAIN[0], seed)
    return []


def federated_row(runs, seed):
    row = empty_row(runs.case, MAIN[0], seed)
    row |= {"variant": "federated averaging", "groups": 5, "negatives": None}
    row["accuracy_central"] = runs.central(seed)
    row["accuracy_final"] = runs.federated(seed)
    row["loss_points"] = 100 * (row["accuracy_central"] - row["accuracy_final"])
    return row


def timed_rows(runs):
    """Seconds of the whole job on five unequal devices: of equal and of planned groups, and of a
    pipeline, beside the target on the fastest. With many classes: of planned groups, also of more
    groups than devices. Last, planned groups with all epochs of the case: these are long enough to
    be divided again.
    """
    case = runs.case
    epochs = case.timed_epochs
    target = {**job_of(case, 1, epochs), "dataset": {"train": "train"}}
    target["evaluate"] = {"every_epochs": 0}
    central = runs.timed("central", target, SLOWDOWNS[:1])
    equal = sliced_job(case, MAIN[0], 1, epochs, 1)
    planned = sliced_job(case, MAIN[0], 1, epochs, 1)
    planned["submodel"]["groups"] = None
    if not case.epochs:
        planned["evaluate"] = target["evaluate"]  # so few epochs would not pass the quality gate
    queued = {**planned, "submodel": {**planned["submodel"], "group_count": QUEUE}}
    ways = {
        "pipeline": (target, SLOWDOWNS),
        "equal widths": (equal, SLOWDOWNS),
        "planned groups": (planned, SLOWDOWNS),
        "queued groups": (queued, QUEUE_SLOWDOWNS),
        "planned groups, all epochs": (
            {**planned, "epochs": case.epochs, "evaluate": target["evaluate"]},
            SLOWDOWNS,
        ),
    }
    names = ["pipeline", "equal widths", "planned groups"]
    if not case.epochs:
        names = ["planned groups", "queued groups"]
    elif epochs < case.epochs:
        names.append("planned groups, all epochs")
    for name in names:
        job, slowdowns = ways[name]
        run = runs.timed(name, job, slowdowns)
        beside = central if job["epochs"] == epochs else dict.fromkeys(central)
        yield {
            **empty_row(case, MAIN[0], 1),
            "variant": f"timed: {name}",
            "negatives": None if name == "pipeline" else MAIN[0].negatives,
            "timed_epochs": job["epochs"],
            **run.get("savings", {}),
            "seconds": run["seconds"],
            "central_seconds": beside["seconds"],
            "seconds_busiest": run["busiest"],
            "central_busiest": beside["busiest"],
            "accuracy_central": beside["accuracy"],
            "accuracy_final": run["accuracy"],
            "loss_points": points_lost(beside["accuracy"], run["accuracy"]),
            "devices": len(slowdowns),
            **{name: run.get(name) for name in GROUP_FIELDS},
            "same_model": (
                run["sha256"] == runs.sliced(MAIN[0], 1)["sha256"]
                if job is equal and epochs == case.epochs
                else None
            ),
        }


def tasks(runs, seeds):
    """The rows to make, each as a function, the most important ones first."""
    case = runs.case
    full = case.full and not runs.options.main
    variants = VARIANTS if full else MAIN[: 1 if case.data == "cifar10" else 2]
    seeds = seeds if case.epochs else ()
    for seed in seeds:
        yield lambda: main_runs(runs, seed)
    for variant, seed in itertools.product(MAIN[: len(variants)], seeds):
        yield lambda: [main_row(runs, variant, seed)]
    for seed in seeds:
        yield lambda: [
            sliced_row(runs, MAIN[0], seed, joint) for joint in JOINTS if joint != "head"
        ]
    if case.timed_epochs and runs.options.times:
        yield lambda: list(timed_rows(runs))
    for seed, variant in itertools.product(seeds, variants[len(MAIN) :]):
        yield lambda: [sliced_row(runs, variant, seed)]
    if full:
        for seed in seeds:
            yield lambda: [federated_row(runs, seed)]


def rows_of(runs, seeds):
    """The finished rows of a case, and the number of tasks that the time did not allow."""
    rows, left = [], 0
    for task in tasks(runs, seeds):
        try:
            made = task()
        except Expired:
            left += 1
            continue
        for row in made:
            say(f"  {brief(row)}")
        rows += made
        left += sum(row.get("unfinished", False) for row in made)
    return rows, left


# ---- tables ----


def number(value, digits=1):
    return "-" if value is None else f"{value:.{digits}f}"


def ratio(above, below):
    return None if above is None else above / below


def points_lost(central, final):
    """Points of accuracy."""
    return None if central is None else 100 * (central - final)


def share(value):
    return "-" if value is None else f"{100 * value:.1f}"


def brief(row):
    return (
        f"{row['data']}, {row['model']}, {row['variant']}, seed {row['seed']}: "
        f"central {share(row['accuracy_central'])} %, final {share(row['accuracy_final'])} %, "
        f"{number(row['per_sample_least'])}x per sample"
    )


def busy(row):
    """How equally the devices are busy in the phase of groups."""
    divided = "given groups"
    if row["divisions"]:
        divided = f"division {row['divisions']}, begun {row['trial']:.1f} s after the stem"
    if len(row["measured"]) > row["devices"]:
        busy_seconds = sum(row["measured"])
        idle, with_trial = (
            1 - busy_seconds / (row["devices"] * seconds)
            for seconds in (row["phase"], row["phase"] + row["trial"])
        )
        return (
            f"the devices are idle for {idle:.1%} of the groups' time (goal: 10 %), for "
            f"{with_trial:.1%} if an earlier division counts as idle; {divided}"
        )
    predicted, measured = (max(row[of]) / min(row[of]) for of in ("predicted", "measured"))
    return (
        f"the slowest group takes {predicted:.2f} times as long as the fastest as predicted (goal: "
        f"1.25), {measured:.2f} times as measured (goal: 1.35); {divided}"
    )


def by_variant(rows):
    """{(data, model, variant): rows of its seeds}"""
    out = {}
    for row in rows:
        out.setdefault((row["data"], row["model"], row["variant"]), []).append(row)
    return out


def mean(rows, field):
    values = [row[field] for row in rows if row.get(field) is not None]
    return statistics.mean(values) if values else None


def print_accuracies(rows):
    table(
        [
            "data, model",
            "variant",
            "groups",
            "seeds",
            "per sample",
            "total",
            "busiest",
            "central %",
            "harvest %",
            "final %",
            "points lost",
            "spread",
            "equal total %",
            "narrow %",
        ],
        [
            [
                f"{data}, {model}",
                variant,
                str(some[0]["groups"]),
                str(len(some)),
                *(number(mean(some, column)) for column in COLUMNS),
                *(
                    share(mean(some, f"accuracy_{side}"))
                    for side in ("central", "harvest", "final")
                ),
                number(mean(some, "loss_points")),
                number(
                    statistics.stdev(row["loss_points"] for row in some) if len(some) > 1 else None
                ),
                *(share(mean(some, f"accuracy_{side}")) for side in ("equal_total", "narrow")),
            ]
            for (data, model, variant), some in by_variant(rows).items()
            if some[0]["seconds"] is None
        ],
    )
    say(
        "per sample: operations of the target over those of the widest group; total: stem, groups "
        "and joint phase against the same epochs of the target; busiest: the device with the "
        "largest group and an equal part of stem and joint phase; spread: the standard deviation "
        "of the points lost over the seeds"
    )


def print_times(rows):
    timed = [row for row in rows if row["seconds"] is not None]
    if not timed:
        return
    table(
        [
            "data, model",
            "variant",
            "epochs",
            "seconds",
            "central",
            "ratio",
            "per sample",
            "total",
            "busiest",
            "processor seconds",
            "central",
        ],
        [
            [
                f"{row['data']}, {row['model']}",
                row["variant"],
                str(row["timed_epochs"]),
                number(row["seconds"]),
                number(row["central_seconds"]),
                number(ratio(row["central_seconds"], row["seconds"]), 2),
                *(number(row[column]) for column in COLUMNS),
                number(row["seconds_busiest"]),
                number(row["central_busiest"]),
            ]
            for row in timed
        ],
    )
    say(
        f"five devices with --slowdown {', '.join(map(str, SLOWDOWNS))}, three with queued groups "
        f"with {', '.join(map(str, QUEUE_SLOWDOWNS))}; central: the fastest of them alone; "
        "processor seconds: those of the device that computed most"
    )


def frontier(rows):
    """For each data set and model the largest savings with at most so many points lost."""
    out = []
    for data, model in dict.fromkeys((row["data"], row["model"]) for row in rows):
        for points in (1, 2, 3):
            best = dict.fromkeys(COLUMNS)
            for (*of, _), some in by_variant(rows).items():
                lost = mean(some, "loss_points")
                if of != [data, model] or some[0]["seconds"] is not None or lost > points:
                    continue
                for column in COLUMNS:
                    best[column] = max(best[column] or 0, mean(some, column) or 0) or None
            out.append({"data": data, "model": model, "points": points, **best})
    return out


def print_frontier(found):
    table(
        ["data, model", "points lost, at most", *COLUMNS],
        [
            [
                f"{row['data']}, {row['model']}",
                str(row["points"]),
                *(number(row[column]) for column in COLUMNS),
            ]
            for row in found
        ],
    )


def print_notes(rows):
    """The time of a step, the prior term, the dense models that are as good, and the goal."""
    for (data, model, variant), some in by_variant(rows).items():
        where = f"{data}, {model}, {variant}"
        saving, counted = mean(some, "step_saving"), mean(some, "per_sample_least")
        if saving and counted:
            say(f"{where}: a step {saving:.1f}x faster, {saving / counted:.2f} of the operations")
        prior, harvest = mean(some, "accuracy_without_prior"), mean(some, "accuracy_harvest")
        if prior is not None:
            say(f"{where}: harvest {share(harvest)} %, {share(prior)} % without the prior term")
        for side in ("equal_total", "narrow"):
            dense = mean(some, f"accuracy_{side}")
            if dense is not None and dense >= mean(some, "accuracy_final"):
                say(f"{where}: {side} is as accurate or better ({share(dense)} %)")
        if some[0].get("measured"):
            classes, widths = some[0]["classes"], some[0]["widths"]
            say(f"{where}: {classes} classes, widths {widths}; {busy(some[0])}")
        if some[0].get("same_model") is not None:
            say(
                f"{where}: the model of one device"
                if some[0]["same_model"]
                else f"{where}: DIFFERS"
            )
    reached = [
        key
        for key, some in by_variant(rows).items()
        if key[1] in ("alexnet-cifar", "vgg11-bn")
        and some[0]["seconds"] is None
        and len(some) >= 3
        and mean(some, "per_sample_least") >= SOURCE_SAVING
        and round(mean(some, "loss_points"), 6) <= LOST_MAX  # of whole images
    ]
    say(
        f"{SOURCE_SAVING}x per sample with at most {LOST_MAX} points lost, mean of three seeds: "
        + ("; ".join(", ".join(key) for key in reached) if reached else "NOT REACHED")
    )


# ---- options ----


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        metavar="DIRECTORY",
        help="recordings CLASS_SPEAKER_NUMBER.wav (docs/benchmarks.md): these in place of the "
        "data sets of the tree.",
    )
    cifar.add_arguments(parser, required=False)
    parser.add_argument(
        "--slow", action="store_true", help="CIFAR-10 in place of these; needs --cifar10."
    )
    parser.add_argument("--seeds", type=int, default=3, help="Default: 3; 1 with --slow.")
    parser.add_argument("--only", metavar="DATA/MODEL", help="one case. Default: all.")
    parser.add_argument(
        "--main",
        action="store_true",
        help="5 groups with negatives 2 and 1 only. Default: all variants.",
    )
    parser.add_argument(
        "--no-times",
        dest="times",
        action="store_false",
        help="Without the times on five devices. Default: with them.",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=os.cpu_count(),
        help="of one process, and agents of the other jobs. Default: the processors.",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        help="after which no run begins; repeat the command. Default: 45; 120 with --data or "
        "--slow.",
    )
    parser.add_argument(
        "--rows",
        type=pathlib.Path,
        default=ROWS,
        help="where finished runs are kept. Default: build/submodel.jsonl.",
    )
    options = parser.parse_args()
    if options.slow and not options.cifar10:
        parser.error("--slow needs --cifar10 TRAIN TEST")
    return options


def data_of(name, options, directory):
    if name in RECORDINGS:
        return recorded(name, options.data, directory)
    if name == "cifar10":
        train_file, test_file = options.cifar10
        part = directory / "train.bin"
        cifar.write_part(train_file, CIFAR_IMAGES, part)
        return Data(name, {"train": [part], "test": [test_file]})
    return shipped(name)


def main():
    options = parse()
    part = "slow" if options.slow else "data" if options.data else "default"
    cases = {"slow": SLOW, "data": RECORDED, "default": DEFAULT}[part]
    seeds = range(1, 1 + (1 if options.slow else options.seeds))
    minutes = MINUTES[part] if options.minutes is None else options.minutes
    options.until = time.monotonic() + 60 * minutes
    kept = Kept(options.rows)
    rows, left = [], 0
    say(f"finished runs are kept in {options.rows}")
    for case in cases:
        if options.only not in (None, f"{case.data}/{case.model}"):
            continue
        with tempfile.TemporaryDirectory(prefix="paceline-submodel-") as place:
            directory = pathlib.Path(place)
            data = data_of(case.data, options, directory)
            with Runs(case, data, kept, options, directory) as runs:
                made, more = rows_of(runs, seeds)
        rows, left = rows + made, left + more
    print_accuracies(rows)
    print_times(rows)
    found = frontier(rows)
    print_frontier(found)
    print_notes(rows)
    if left:
        say(f"{left} rows were not begun in time; repeat the command")
    finish("submodel", rows, frontier=found, left=left)


if __name__ == "__main__":
    main()
