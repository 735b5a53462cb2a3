"""No source file calls a banned function or departs from the style's idiom; no build file sets a
flag that changes bits.

    banned.py ROOT
"""

import re
import sys

import tree

FUNCTIONS = [
    "alloca",
    "strcpy",
    "stpcpy",
    "strcat",
    "strncat",
    "sprintf",
    "vsprintf",
    "strncpy",
    "strtok",
    "atoi",
    "atol",
    "atoll",
    "atof",
    "gets",
    "system",
    "popen",
    "rand",
    "srand",
    "rand_r",
    "random",
    "drand48",
    "sleep",
    "usleep",
    "nanosleep",
    "clock_nanosleep",
]
FLAGS = re.compile(r"-ffast-math|-Ofast|-march=native|-mtune=native|-funsafe-math")
# A member of a struct ("->system(") is not the function.
CALL = re.compile(r"(?<![\w.>])(" + "|".join(FUNCTIONS) + r")\s*\(")
# What is written, and the idiom in its place.
IDIOM = [
    (re.compile(r"\bsizeof(?! *\()"), "write sizeof(x)"),
    (re.compile(r"^\s+(?:const )?int code = "), "a return code is called rc"),
    # A constant would move the field into the next version.
    (re.compile(r"\.since = (?!\d)"), "write the number of the version"),
]
MARK = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def check(root):
    problems = []
    sources = tree.files(root, ".c", ".h")
    for path in sources:
        text = tree.read(root, path)
        lines = tree.blank(text).split("\n")
        for number, line in enumerate(lines, 1):
            problems += [f"{path}:{number}: {name} is banned" for name in CALL.findall(line)]
            problems += [
                f"{path}:{number}: {wanted}" for form, wanted in IDIOM if form.search(line)
            ]
        for number, line in enumerate(text.split("\n"), 1):
            problems += [f"{path}:{number}: {mark} left behind" for mark in MARK.findall(line)]
    builds = tree.files(root, "CMakeLists.txt", ".cmake", "CMakePresets.json")
    for path in builds:
        for number, line in enumerate(tree.read(root, path).split("\n"), 1):
            problems += [f"{path}:{number}: {flag} is banned" for flag in FLAGS.findall(line)]
    return len(sources) + len(builds), problems


if __name__ == "__main__":
    tree.verdict("banned", *check(sys.argv[1]))
