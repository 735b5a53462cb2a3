"""No source file is longer than a reader takes in at once.

    lengths.py ROOT
"""

import sys

import tree

MOST = {".c": 500, ".h": 200}
# Files that may be longer, and why.
EXEMPT = {
    "libtrain/train.h": "the whole interface of libtrain, one page for its users",
}


def check(root):
    count, problems = 0, []
    for ending, most in MOST.items():
        for path in tree.files(root, ending):
            count += 1
            lines = tree.read(root, path).count("\n")
            if lines > most and path not in EXEMPT:
                problems.append(f"{path}: {lines} lines; at most {most}: cut it by subject")
    return count, problems


if __name__ == "__main__":
    tree.verdict("lengths", *check(sys.argv[1]))
