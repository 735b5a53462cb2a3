"""Rows that a benchmark keeps: an interrupted run goes on, whatever it had written of its last
line.
"""

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


def test_a_torn_last_line_is_made_again():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "rows.jsonl"
        must(Kept(path).rows == [], "rows from nowhere")
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


def test_a_damaged_line_is_told():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "rows.jsonl"
        path.write_text('{"key": "a"}\n{"ke\n{"key": "c"}\n')
        try:
            Kept(path)
        except SystemExit as error:
            must("line 2 is no row" in str(error), f"{error}")
        else:
            must(False, "a damaged line was read over")
        must(path.read_text().count("\n") == 3, "the file was changed")


if __name__ == "__main__":
    run(globals())
