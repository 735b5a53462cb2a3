"""Every C file is formatted as .clang-format says.

    format.py ROOT
"""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import tree


BATCH = 32  # files a process: most of a process's time is its start
FAULT = re.compile(r"^(.+?):\d+:\d+: error: .*$", re.MULTILINE)


def check_batch(root, paths):
    """A text for each file that is not formatted: clang-format's first complaint."""
    result = subprocess.run(
        ["clang-format", "--dry-run", "-Werror", *paths],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    first = {}
    for fault in FAULT.finditer(result.stderr):
        first.setdefault(fault.group(1), fault.group(0))
    if result.returncode and not first:
        return [f"clang-format: {result.stderr.strip()}"]
    return [f"{path}: clang-format -i is needed ({line})" for path, line in first.items()]


def check(root):
    sources = tree.files(root, ".c", ".h")
    batches = [sources[start : start + BATCH] for start in range(0, len(sources), BATCH)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = pool.map(lambda paths: check_batch(root, paths), batches)
        return len(sources), [text for texts in said for text in texts]


if __name__ == "__main__":
    if not shutil.which("clang-format"):
        tree.skip("clang-format is not installed")
    tree.verdict("format", *check(sys.argv[1]))
