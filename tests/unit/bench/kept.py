"""The rows that a benchmark keeps: an interrupted run continues after any partial last line."""

import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

from kept import Kept  # noqa: E402
from paceline import must  # noqa: E402
from runner import run  # noqa: E402


def never():
    raise AssertionError("the row was there")


def test_a_partial_last_line_is_measured_again():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "rows.jsonl"
        must(Kept(path).rows == [], "unexpected rows")
        for torn in ('{"key": "b", "acc', '{"key": "b", "accuracy": 2}', "\0\0"):
            path.write_text('{"key": "a", "accuracy": 1}\n' + torn)
            kept = Kept(path)
            must(kept.row("a", never)["accuracy"] == 1, "the first row")
            must(
                kept.row("b", lambda: {"accuracy": 3}) == {"key": "b", "accuracy": 3},
                "the second row",
            )
            must(
                [json.loads(line)["accuracy"] for line in path.read_text().splitlines()] == [1, 3],
                path.read_text(),
            )
            must(Kept(path).row("b", never)["accuracy"] == 3, "read again")


def test_a_damaged_line_is_an_error():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "rows.jsonl"
        path.write_text('{"key": "a"}\n{"ke\n{"key": "c"}\n')
        try:
            Kept(path)
        except SystemExit as error:
            must("line 2 is not a row" in str(error), f"{error}")
        else:
            must(False, "a damaged line was read over")
        must(path.read_text().count("\n") == 3, "the file was changed")


if __name__ == "__main__":
    run(globals())
