"""Rows and summaries of the benchmark of a parameter server's transfers. Pure.

A run is a line of the file of runs: a job with one variant, in one setting and round.
"""

import statistics

from report import median, spread

WORKER_COUNT = 2
TRANSFERS = ("whole", "layer", "layer_window", "fixed_1m", "fixed_4m", "greedy", "ready")
TRANSFERS += ("optimal", "stream", "auto")
BASELINES = ("layer", "layer_window", "fixed_1m", "fixed_4m", "greedy", "ready")
PLAIN = ("layer", "fixed_1m", "fixed_4m")  # baselines that know no times
ALONE, PIPELINE = "single", "pipeline"
VARIANTS = (*TRANSFERS, ALONE, PIPELINE)
# What a dry run compares, and the variants that are it.
WAYS = {"parameter_server": "auto", "pipeline": PIPELINE, "single": ALONE}
# Names of segment_times that are not those of variants.
CALCULATED = {"1 MiB": "fixed_1m", "4 MiB": "fixed_4m", "window": "layer_window"}

SETTING = ("model", "link_mbit", "delay_ms", "share")
TRANSFER_SECONDS = ("pull_seconds", "push_seconds")
TRANSFER_COUNTS = ("segments_pull", "segments_push")

PLAIN_MIN = 1.04  # of the best plain baseline over optimal
GAIN_SHARE_MIN = 0.7  # of the calculated gain
ERROR_MAX = 0.15
AUTO_MAX = 1.03
NAMED_MIN = 0.8
# Of mobilenetv2 at 100 Mbit/s, share 1.
WHOLE_GAIN, WHOLE_SETTINGS = 0.28, 2
LAYER_GAINS = {1: 0.08, 5: 0.28, 20: 0.55}  # by ms each way


# ---- runs ----


def setting_of(run):
    return tuple(run[field] for field in SETTING)


def by_variant(runs, setting):
    """{variant: its runs}, in the order of VARIANTS"""
    of = [run for run in runs if setting_of(run) == setting]
    return {
        variant: some
        for variant in VARIANTS
        if (some := [run for run in of if run["variant"] == variant])
    }


def step_seconds(runs):
    return median([median(run["seconds"]) for run in runs])


def spread_of(runs):
    return spread([second for run in runs for second in run["seconds"]])


def best_of(found, names):
    """(seconds, variant) of the fastest of these variants; None: none has a run."""
    return min(((step_seconds(found[name]), name) for name in names if name in found), default=None)


# ---- rows ----


def rows_of(setting, runs):
    """over_best_baseline: the time of the best baseline over that of the variant."""
    found = by_variant(runs, setting)
    best = best_of(found, BASELINES)
    optimal = step_seconds(found["optimal"]) if "optimal" in found else None
    for variant, some in found.items():
        seconds = step_seconds(some)
        yield {
            "model": setting[0],
            "link_mbit": setting[1],
            "delay_ms": setting[2],
            "workers": WORKER_COUNT if variant in TRANSFERS else None,
            "servers": 1 if variant in TRANSFERS else None,
            "share": setting[3],
            "variant": variant,
            "seconds_per_step": seconds,
            "predicted_seconds": some[-1]["predicted_seconds"],
            "over_optimal": seconds / optimal if optimal else None,
            "over_best_baseline": best[0] / seconds if best else None,
            **{name: some[-1][name] for name in TRANSFER_SECONDS + TRANSFER_COUNTS},
            "spread": spread_of(some),
            "rounds": len(some),
            "steps": sum(len(run["seconds"]) for run in some),
            "skipped": min(run["skipped"] for run in some),
            "stages": some[-1]["stages"],
        }


# ---- gains ----


def calculated_of(runs):
    """{variant: seconds} by the times that the worker measured in these runs, their medians; None:
    they kept none.
    """
    kept = [run["calculated"] for run in runs if run.get("calculated")]
    if not kept:
        return None
    return {CALCULATED.get(name, name): median([one[name] for one in kept]) for name in kept[0]}


def gains_of(setting, runs):
    """By how much less time `optimal` takes than the other ways, as a share of theirs: measured,
    and calculated from the times that the worker measured in the runs of `optimal`.
    """
    found = by_variant(runs, setting)
    if "optimal" not in found:
        return
    optimal = step_seconds(found["optimal"])
    calculated = calculated_of(found["optimal"])
    for name in ("whole", *BASELINES):
        if name not in found:
            continue
        gain = 1 - optimal / step_seconds(found[name])
        expected = 1 - calculated["optimal"] / calculated[name] if calculated else None
        noise = max(spread_of(found[name]) or 0, spread_of(found["optimal"]) or 0)
        yield {
            **dict(zip(SETTING, setting)),
            "against": name,
            "gain": gain,
            "calculated_gain": expected,
            "of_calculated": gain / expected if expected and expected > 0 else None,
            "slower": -gain > noise,
        }


# ---- the summary ----


def mean_over(values):
    return statistics.geometric_mean(values) if values else None


def summary_of(setting, runs):
    found = by_variant(runs, setting)
    seconds = {name: step_seconds(some) for name, some in found.items()}
    optimal = seconds.get("optimal")
    plain, best = best_of(found, PLAIN), best_of(found, BASELINES)
    better = best_of(found, ("optimal", "stream"))
    ways = {way: seconds.get(variant) for way, variant in WAYS.items()}
    fastest = min(ways, key=ways.get) if None not in ways.values() else None
    asked = [run["fastest"] for some in found.values() for run in some if run.get("fastest")]
    named = asked[-1] if asked else None
    return {
        **dict(zip(SETTING, setting)),
        "best_baseline": best[1] if best else None,
        "over_best_baseline": best[0] / optimal if best and optimal else None,
        "over_best_plain": plain[0] / optimal if plain and optimal else None,
        "over": {name: seconds[name] / optimal for name in PLAIN if name in seconds and optimal},
        "auto_over_better": (
            seconds["auto"] / better[0]
            if "auto" in found and {"optimal", "stream"} <= set(found)
            else None
        ),
        "fastest_way": fastest,
        "predicted_way": named,
        "named": named == fastest if named and fastest else None,
    }


def errors_of(runs):
    """Of the predictions of the runs' plans, relative to the measured steps."""
    return [abs(run["predicted_seconds"] / median(run["seconds"]) - 1) for run in runs]


def summary(runs):
    """The figures of all runs, and those of each setting. None: no run has one."""
    places = list(dict.fromkeys(map(setting_of, runs)))
    settings = [summary_of(setting, runs) for setting in places]
    gains = [gain for setting in places for gain in gains_of(setting, runs)]

    def all_of(field):
        return [one[field] for one in settings if one[field] is not None]

    of_mobilenet = {
        (gain["against"], gain["delay_ms"]): gain["gain"]
        for gain in gains
        if (gain["model"], gain["link_mbit"], gain["share"]) == ("mobilenetv2", 100, 1)
    }
    compared = [gain for gain in gains if gain["against"] in ("whole", *PLAIN)]
    judged = [gain for gain in compared if gain["of_calculated"] is not None]
    whole = [of_mobilenet[key] for key in of_mobilenet if key[0] == "whole"]
    errors, named = errors_of(runs), all_of("named")
    return {
        "over_best_baseline": mean_over(all_of("over_best_baseline")),
        "over_best_plain": mean_over(all_of("over_best_plain")),
        "over": {
            name: mean_over([one["over"][name] for one in settings if name in one["over"]])
            for name in PLAIN
        },
        "slower": [gain for gain in compared if gain["slower"]],
        "whole_gains": whole,
        "layer_gains": {
            delay: of_mobilenet[("layer", delay)]
            for delay in LAYER_GAINS
            if ("layer", delay) in of_mobilenet
        },
        "gains_calculated": len(judged),
        "gains_reached": sum(gain["of_calculated"] >= GAIN_SHARE_MIN for gain in judged),
        "prediction_error": median(errors) if errors else None,
        "auto_over_better": max(all_of("auto_over_better"), default=None),
        "named": statistics.mean(named) if named else None,
        "gains": gains,
        "settings": settings,
    }
