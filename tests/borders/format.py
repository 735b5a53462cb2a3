"""Every C file is formatted as .clang-format says.

    format.py ROOT
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import tree


def check_file(root, path):
    result = subprocess.run(
        ["clang-format", "--dry-run", "-Werror", path],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode == 0:
        return ""
    lines = result.stderr.strip().split("\n")
    return f"{path}: clang-format -i is needed ({lines[0]})"


def check(root):
    sources = tree.files(root, ".c", ".h")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = pool.map(lambda path: check_file(root, path), sources)
        return len(sources), [text for text in said if text]


if __name__ == "__main__":
    if not shutil.which("clang-format"):
        tree.skip("clang-format is not installed")
    tree.verdict("format", *check(sys.argv[1]))
