"""Times to an accuracy, rows and summaries of the benchmark of gossip. Pure.

A run is {"versions": [{"seconds", "step", "accuracy"}, ...], ...}: models in the order of their
time since the job trains. Accuracies are shares, losses are points.
"""

import bisect
import math
import statistics

POINTS = 100  # of the grid, in the baseline's passes
BAND = 0.0078  # below the baseline's accuracy that counts as reached: the source's loss
HOLD = 3  # points of the grid for which it must stay reached
NEVER = 10  # times the baseline's seconds that a run counts which does not get there
LAST = 3  # versions whose mean is the accuracy of a run
LAST_PASSES = 3  # in place of them, at its end
GAIN, GAIN_VERSIONS = 0.002, 10  # a run that gains less in so many versions has ended
SPEED_UP = 2.70  # the source's
LOSS_MAX, SETTING_LOSS_MAX = 0.78, 2.0
PREDICTED_MIN = 0.8
PERIOD_CV_MAX = 0.15
KILLED_TIME_MAX, KILLED_POINTS_MAX = 1.5, 1.0  # of a run that loses its fastest device
EPSILON = 1e-9

BASELINE, GOSSIP, KILLED = "plain_rounds", "async", "async_killed"
COMPARED = ("plain_rounds_sized", "fedavg_sized", "single", "parameter_server")
# What a dry run compares, and the variants that are it.
WAYS = {"gossip": GOSSIP, "pipeline": "pipeline", "single": "single"}

# 97.5 % quantiles of Student's distribution, by degrees of freedom from 1.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


# ---- one run ----


def at(versions, seconds):
    """The newest version at this time; None before the first one."""
    times = [version["seconds"] for version in versions]
    index = bisect.bisect_right(times, seconds + EPSILON)
    return versions[index - 1] if index else None


def versions_until(versions, seconds):
    return sum(version["seconds"] <= seconds + EPSILON for version in versions)


def seconds_of_passes(versions, passes, pass_steps):
    """When the run had made so many passes, by the steps of its versions; None: it was shorter."""
    steps = passes * pass_steps
    before = {"seconds": 0.0, "step": 0}
    for version in versions:
        if version["step"] >= steps:
            share = (steps - before["step"]) / (version["step"] - before["step"])
            return before["seconds"] + share * (version["seconds"] - before["seconds"])
        before = version
    return None


def last_accuracy(versions):
    return statistics.mean(version["accuracy"] for version in versions[-LAST:])


def time_to(versions, spacing, accuracy):
    """The first point of the grid from which the accuracy is reached for HOLD points; None: never.
    The last version stays the newest after the end of the run.
    """
    if not versions:
        return None
    held = 0
    for point in range(1, math.ceil(versions[-1]["seconds"] / spacing) + HOLD + 1):
        newest = at(versions, point * spacing)
        reached = newest and newest["accuracy"] >= accuracy - BAND - EPSILON
        held = held + 1 if reached else 0
        if held == HOLD:
            return (point - HOLD + 1) * spacing
    return None


def converged(versions, first):
    """The number of versions, at least `first`, of which the last GAIN_VERSIONS are not GAIN better
    than all before them; None: none yet.
    """
    best = 0.0
    bests = []
    for version in versions:
        best = max(best, version["accuracy"])
        bests.append(best)
    for count in range(max(first, GAIN_VERSIONS + 1), len(bests) + 1):
        if bests[count - 1] - bests[count - 1 - GAIN_VERSIONS] < GAIN - EPSILON:
            return count
    return None


def first_end(versions, passes, pass_steps):
    """The number of versions of the passes that each run makes at least; None: it was shorter."""
    seconds = seconds_of_passes(versions, passes, pass_steps)
    return None if seconds is None else versions_until(versions, seconds)


def end_accuracy(versions, passes, pass_steps):
    """Of a run that continued until it gained nothing, or as long as it might: the mean of the
    versions of its last passes, so that runs with few versions are not judged by early ones.
    """
    first = first_end(versions, passes, pass_steps)
    count = None if first is None else converged(versions, first)
    found = versions[: count or len(versions)]
    since = found[-1]["step"] - LAST_PASSES * pass_steps
    return statistics.mean(one["accuracy"] for one in found if one["step"] > since)


def baseline_of(run, passes):
    """What the other runs of the same data, split and seed are compared with: the spacing of the
    grid, the accuracy after the passes, its time, and the accuracy in the end.
    """
    seconds = seconds_of_passes(run["versions"], passes, run["pass_steps"])
    if seconds is None:
        raise ValueError(f"the baseline made less than {passes} passes")
    count = versions_until(run["versions"], seconds)
    if count < LAST:
        raise ValueError(f"the baseline stored {count} averages in {passes} passes, not {LAST}")
    accuracy = last_accuracy(run["versions"][:count])
    spacing = seconds / POINTS
    return {
        "spacing": spacing,
        "accuracy": accuracy,
        "seconds": time_to(run["versions"], spacing, accuracy),
        "end_accuracy": end_accuracy(run["versions"], passes, run["pass_steps"]),
        "passes": passes,
    }


def variation(periods):
    """The coefficient of variation of the groups' periods, the mean over the moments at which they
    were seen; None: there are none.
    """
    found = [
        statistics.pstdev(some) / statistics.mean(some)
        for some in periods
        if len(some) > 1 and min(some) > 0
    ]
    return statistics.mean(found) if found else None


# ---- when a run may end ----


class Goal:
    """When a run may end. baseline: of the same data, split and seed; None: the run is it."""

    def __init__(self, baseline, passes, whole):
        self.baseline, self.passes, self.whole = baseline, passes, whole

    def ends(self, versions, pass_steps, seconds):
        """Whether the evaluated versions suffice after so many seconds."""
        if self.baseline is None or self.whole:
            first = first_end(versions, self.passes, pass_steps)
            return first is not None and converged(versions, first) is not None
        return seconds > NEVER * self.baseline["seconds"] or (
            bool(versions) and self.held(versions)
        )

    def held(self, versions):
        """Whether the newest version is from after the points of the grid that decide."""
        spacing = self.baseline["spacing"]
        found = time_to(versions, spacing, self.baseline["accuracy"])
        last = HOLD - 1
        return found is not None and found + last * spacing <= versions[-1]["seconds"]


def cumulated(step_seconds):
    """{step: seconds from the start to its end}"""
    out, seconds = {}, 0.0
    for step in sorted(step_seconds):
        seconds += step_seconds[step]
        out[step] = seconds
    return out


def steps_wanted(accuracies, goal):
    """The step of the second of two epochs in a row that hold the baseline's accuracy."""
    least = goal.baseline["accuracy"] - BAND
    steps = sorted(accuracies)
    for one, other in zip(steps, steps[1:]):
        if min(accuracies[one], accuracies[other]) >= least:
            return other
    return steps[-1]


# ---- rows ----


def row_of(run, baseline, shares):
    """The row of a run. shares: of each class among the samples of the slowest device's group."""
    versions = run["versions"]
    recalls = run["recalls"]
    seconds = time_to(versions, baseline["spacing"], baseline["accuracy"])
    early = at(versions, baseline["seconds"] / SPEED_UP)
    counted = NEVER * baseline["seconds"] if seconds is None else seconds
    loss = None
    if run["complete"] and versions:
        end = end_accuracy(versions, baseline["passes"], run["pass_steps"])
        loss = 100 * (baseline["end_accuracy"] - end)
    return {
        **{name: run[name] for name in ("data", "split", "seed", "variant")},
        "seconds": seconds,
        "evaluation_seconds": run["evaluation_seconds"],
        "accuracy": last_accuracy(versions) if versions else None,
        "worst_recall": min(recalls) if recalls else None,
        "slowest_accuracy": (
            sum(share * recall for share, recall in zip(shares, recalls)) if recalls else None
        ),
        "baseline_seconds": baseline["seconds"],
        "baseline_accuracy": baseline["accuracy"],
        "speed_up": baseline["seconds"] / counted,
        "over_best": None,
        "best_variant": None,
        "loss_points": loss,
        "loss_interval": None,
        "loss_at_2_70": (
            100 * (baseline["accuracy"] - early["accuracy"]) if early is not None else None
        ),
        "period_cv": variation(run["periods"]),
        "bytes_per_device": run["bytes_per_device"],
        "distance": run["distance"],
        "run_seconds": run["seconds"],
        "versions": len(versions),
        "missed": run["missed"],
        "predicted": run["predicted"],
    }


def interval(values):
    """The 95 % interval of the mean of a few values; None of one."""
    if len(values) < 2:
        return None
    quantile = STUDENT[min(len(values) - 1, len(STUDENT)) - 1]
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    middle = statistics.mean(values)
    return [middle - half, middle + half]


def geometric_mean(values):
    return math.exp(statistics.mean(map(math.log, values))) if values else None


def by(rows, *fields):
    """{values of the fields: rows}, in the order of the rows"""
    out = {}
    for row in rows:
        out.setdefault(tuple(row[field] for field in fields), []).append(row)
    return out


def counted_seconds(row):
    return row["baseline_seconds"] / row["speed_up"]


def compare(rows):
    """Fill what depends on other rows: `over_best`, `best_variant` and `loss_interval`. A compared
    variant without a run of the row's seed counts with the geometric mean of its runs.
    """
    for of_setting in by(rows, "data", "split").values():
        compared = by([row for row in of_setting if row["variant"] in COMPARED], "variant")
        for row in of_setting:
            times = []
            for (variant,), some in compared.items():
                same = [one for one in some if one["seed"] == row["seed"]]
                times.append((geometric_mean(list(map(counted_seconds, same or some))), variant))
            if times:
                best, row["best_variant"] = min(times)
                row["over_best"] = best / counted_seconds(row)
        for some in by(of_setting, "variant").values():
            losses = [row["loss_points"] for row in some if row["loss_points"] is not None]
            for row in some:
                row["loss_interval"] = interval(losses)
    return rows


# ---- the summary ----


def mean_of(rows, field):
    values = [row[field] for row in rows if row[field] is not None]
    return statistics.mean(values) if values else None


def mean_speed_up(rows):
    return geometric_mean([row["speed_up"] for row in rows])


def setting_of(rows):
    """The summary of one data x split: its fastest variant, and whether the dry run named it among
    the ways that it compares; None: not all of these were measured.
    """
    speed_ups = {variant: mean_speed_up(some) for (variant,), some in by(rows, "variant").items()}
    ways = {way: speed_ups.get(variant) for way, variant in WAYS.items()}
    asked = [row["predicted"] for row in rows if row["variant"] == GOSSIP and row["predicted"]]
    predicted = asked[0] if asked else None
    fastest = max(ways, key=ways.get) if None not in ways.values() else None
    return {
        "data": rows[0]["data"],
        "split": rows[0]["split"],
        "best": max(speed_ups, key=speed_ups.get),
        "best_speed_up": max(speed_ups.values()),
        "loss_points": mean_of([row for row in rows if row["variant"] == GOSSIP], "loss_points"),
        "predicted": predicted,
        "fastest_way": fastest,
        "named": predicted == fastest if predicted and fastest else None,
    }


def killed(rows):
    """What a run lost whose fastest device died: its time over that of the same run undisturbed,
    and the points of its last models, each the worst of all settings; None: not measured.
    """
    times, points = [], []
    for some in by(rows, "data", "split", "seed").values():
        pair = {row["variant"]: row for row in some}
        if KILLED in pair and GOSSIP in pair:
            whole, part = pair[GOSSIP], pair[KILLED]
            times.append(whole["speed_up"] / part["speed_up"])
            points.append(100 * (whole["accuracy"] - part["accuracy"]))
    return max(times, default=None), max(points, default=None)


def summary(rows):
    """The figures of all rows, and those of each data x split. None: no row has one."""
    of_gossip = [row for row in rows if row["variant"] == GOSSIP]
    levelled = [row for row in rows if row["variant"] == "levelled_rounds"]
    skewed = [
        row["over_best"]
        for row in of_gossip
        if row["split"] == "dirichlet" and row["over_best"] is not None
    ]
    settings = [setting_of(some) for some in by(rows, "data", "split").values()]
    named = [setting["named"] for setting in settings if setting["named"] is not None]
    losses = [setting["loss_points"] for setting in settings if setting["loss_points"] is not None]
    killed_time, killed_points = killed(rows)
    return {
        "speed_up": mean_speed_up(of_gossip),
        "loss_points": mean_of(of_gossip, "loss_points"),
        "worst_setting_loss": max(losses, default=None),
        "over_best_dirichlet": geometric_mean(skewed),
        "levelled_speed_up": mean_speed_up(levelled),
        "levelled_loss_points": mean_of(levelled, "loss_points"),
        "named": statistics.mean(named) if named else None,
        "period_cv": mean_of(of_gossip, "period_cv"),
        "baseline_period_cv": mean_of(by(rows, "variant").get((BASELINE,), []), "period_cv"),
        "killed_time": killed_time,
        "killed_points": killed_points,
        "settings": settings,
    }
