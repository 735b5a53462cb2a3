"""Keep the finished rows of a long benchmark as JSON lines, so that it can be interrupted."""

import hashlib
import json
import os

from paceline import BIN


def program_sha256():
    """SHA-256 of the agent: the build that made our rows."""
    return hashlib.sha256((BIN / "paceline-agent").read_bytes()).hexdigest()


class Kept:
    def __init__(self, path):
        self.path = path
        self.rows = []
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self.rows.append(json.loads(line))
            except ValueError as error:
                raise SystemExit(f"{path}: line {number} is not a row: {error}") from error
        if len(whole) < len(data):  # the run was interrupted while it wrote its last line
            os.truncate(path, len(whole))

    def row(self, key, make):
        """The row stored under this key, or a new one."""
        for row in self.rows:
            if row["key"] == key:
                return row
        row = {"key": key, **make()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.rows.append(row)
        return row
