"""Every header compiles alone, as C17 and without a warning.

    headers.py ROOT COMPILER [FLAG...]
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import tree

WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wshadow",
    "-Wconversion",
    "-Wno-sign-conversion",
    "-Wstrict-prototypes",
    "-Wundef",
    "-Werror",
]


def compile_alone(root, compiler, flags, path):
    """The compiler's messages; "" without any."""
    command = [
        compiler,
        "-std=gnu17",
        "-fsyntax-only",
        "-D_GNU_SOURCE",
        f"-I{root}",
        *WARNINGS,
        *flags,
        "-x",
        "c",
        "-",
    ]
    # With a declaration: ISO C has no empty translation unit, and a header may hold macros only.
    text = f'#include "{path}"\nextern int something;\n'
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return (
        "" if result.returncode == 0 else f"{path}: does not compile alone\n{result.stderr.strip()}"
    )


def check(root, compiler, flags):
    headers = tree.files(root, ".h")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = pool.map(lambda path: compile_alone(root, compiler, flags, path), headers)
        return len(headers), [text for text in said if text]


if __name__ == "__main__":
    tree.verdict("headers", *check(sys.argv[1], sys.argv[2], sys.argv[3:]))
