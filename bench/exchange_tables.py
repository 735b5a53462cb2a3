"""The tables and the last lines of the benchmark of a parameter server's transfers."""

import exchange_results as results
from report import percent, say, table, with_goal


def ratio(value):
    return "-" if value is None else f"{value:.2f}"


def show(rows):
    table(
        ["model", "Mbit/s", "ms", "share", "variant", "s/step", "predicted", "/optimal"]
        + ["best baseline/", "pull", "pulls", "push", "pushes", "steps", "spread"],
        [
            [
                row["model"],
                row["link_mbit"],
                row["delay_ms"],
                row["share"],
                row["variant"],
                f"{row['seconds_per_step']:.3f}",
                f"{row['predicted_seconds']:.3f}",
                ratio(row["over_optimal"]),
                ratio(row["over_best_baseline"]),
                ratio(row["pull_seconds"]),
                row["segments_pull"] or "-",
                ratio(row["push_seconds"]),
                row["segments_push"] or "-",
                row["steps"],
                percent(row["spread"]),
            ]
            for row in rows
        ],
    )


def place_of(row):
    return f"{row['model']}, {row['link_mbit']} Mbit/s, {row['delay_ms']} ms, share {row['share']}"


def show_gains(gains):
    table(
        ["optimal against", "model, link, share", "less time", "calculated", "of calculated"],
        [
            [
                gain["against"],
                place_of(gain),
                percent(gain["gain"]),
                percent(gain["calculated_gain"]),
                ratio(gain["of_calculated"]),
            ]
            for gain in gains
        ],
    )


def show_settings(settings):
    for one in settings:
        say(
            f"{place_of(one)}: best baseline {one['best_baseline'] or '-'}, over optimal "
            f"{ratio(one['over_best_baseline'])}; fastest way {one['fastest_way'] or 'not known'}, "
            f"the dry run names {one['predicted_way'] or 'not known'}"
        )


def share_of(part, whole):
    return part / whole if whole else None


def goals_of(found):
    """(text, value, whether it is met, what it should be)"""
    yield (
        "best of layer, 1 MiB and 4 MiB over optimal, geometric mean",
        found["over_best_plain"],
        lambda v: v >= results.PLAIN_MIN,
        f"at least {results.PLAIN_MIN}",
    )
    large = sum(gain >= results.WHOLE_GAIN for gain in found["whole_gains"])
    yield (
        f"mobilenetv2 at 100 Mbit/s, delays with {results.WHOLE_GAIN:.0%} less time than whole",
        large if found["whole_gains"] else None,
        lambda v: v >= results.WHOLE_SETTINGS,
        f"at least {results.WHOLE_SETTINGS} of {len(results.LAYER_GAINS)}",
    )
    for delay, least in results.LAYER_GAINS.items():
        yield (
            f"  less time than layer with {delay} ms",
            found["layer_gains"].get(delay),
            lambda v, least=least: v >= least,
            f"at least {least:.2f}",
        )
    yield (
        f"share of gains that are {results.GAIN_SHARE_MIN} of the calculated ones or more",
        share_of(found["gains_reached"], found["gains_calculated"]),
        lambda v: v == 1,
        f"all {found['gains_calculated']}",
    )
    yield (
        "median error of predicted step times",
        found["prediction_error"],
        lambda v: v <= results.ERROR_MAX,
        f"at most {results.ERROR_MAX}",
    )
    yield (
        "auto over the better of optimal and stream, the worst",
        found["auto_over_better"],
        lambda v: v <= results.AUTO_MAX,
        f"at most {results.AUTO_MAX}",
    )
    yield (
        "share of settings whose fastest way the dry run named",
        found["named"],
        lambda v: v >= results.NAMED_MIN,
        f"at least {results.NAMED_MIN}",
    )


def show_summary(found):
    show_gains(found["gains"])
    show_settings(found["settings"])
    over = {"best baseline": found["over_best_baseline"], **found["over"]}
    means = ", ".join(f"{name} {ratio(value)}" for name, value in over.items())
    slower = "; ".join(f"{one['against']}, {place_of(one)}" for one in found["slower"])
    say(f"over optimal, geometric means: {means}")
    say(f"optimal is slower than whole, layer or fixed by more than the spread: {slower or 'no'}")
    for text, value, met, aim in goals_of(found):
        say(f"{text}: {with_goal(value, met, aim)}")
