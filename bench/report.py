"""Statistics, the table for people and the last line for programs, for all benchmarks."""

import contextlib
import datetime
import json
import pathlib
import re
import statistics
import sys
import tempfile

NUMBER = re.compile(r"[+-]?[\d.]+%?")


def seconds_of(moment):
    """Seconds since 1970 of a time of the API."""
    return datetime.datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


def median(values):
    return statistics.median(values)


def spread(values):
    """Half the interquartile range relative to the median; None for fewer than four values."""
    if len(values) < 4:
        return None
    lower, _, upper = statistics.quantiles(values, n=4)
    return (upper - lower) / 2 / statistics.median(values)


def percent(value):
    return "-" if value is None else f"{value:.1%}"


def with_goal(value, met, goal):
    """The value beside what it should be. met: a function of it."""
    if value is None:
        return "not known"
    text = value if isinstance(value, int) else f"{value:.2f}"
    return f"{text} ({'met' if met(value) else 'NOT MET'}: {goal})"


def say(text):
    print(text, flush=True)


def table(headings, rows):
    """rows: lists of texts, one for each heading. Numbers are aligned right, words left."""
    widths = [max(len(str(row[i])) for row in [headings, *rows]) for i in range(len(headings))]

    def line(cells):
        out = []
        for cell, width in zip(cells, widths):
            cell = str(cell)
            out.append(cell.rjust(width) if NUMBER.fullmatch(cell) else cell.ljust(width))
        return "  ".join(out).rstrip()

    say("")
    for row in [headings, *rows]:
        say(line(row))
    say("")


def finish(name, rows, **more):
    """The last line: one JSON object."""
    say(json.dumps({"bench": name, "rows": rows, **more}))


@contextlib.contextmanager
def rows_file(path):
    """The file that keeps the rows: `path`, or, if None, one that ends with the benchmark."""
    if path is not None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as directory:
        yield pathlib.Path(directory) / "rows"


def skip(reason):
    say(f"skip: {reason}")
    sys.exit(77)
