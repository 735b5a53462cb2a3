"""List source files, strip comments and literals from C text, and print the verdict of a border
check.
"""

import os
import re
import sys

SKIPPED_DIRECTORIES = {"build", "__pycache__", "node_modules"}
HIDDEN_SCRIPTS = [".ci/run"]  # the only text in hidden directories that belongs to the tree
SKIP = 77

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def files(root, *endings):
    """Sorted paths (relative to root) of files with these endings, without hidden directories and
    build trees.
    """
    found = []
    for directory, names, entries in os.walk(root):
        names[:] = sorted(
            n for n in names if n not in SKIPPED_DIRECTORIES and not n.startswith(".")
        )
        found += [
            os.path.relpath(os.path.join(directory, e), root)
            for e in entries
            if e.endswith(endings)
        ]
    return sorted(found)


def hidden_scripts(root):
    return [path for path in HIDDEN_SCRIPTS if os.path.exists(os.path.join(root, path))]


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as source:
        return source.read()


def blank(text):
    """C text with comments and literals emptied; every line keeps its number. Paths of #include
    lines are literals too.
    """

    def empty(match):
        token = match.group(0)
        newlines = "\n" * token.count("\n")
        return newlines or (token[0] * 2 if token[0] in "\"'" else " ")

    return TOKEN.sub(empty, text)


def without_fences(text):
    """Markdown with its fenced code emptied; every line keeps its number."""
    return FENCE.sub(lambda match: "\n" * match.group(0).count("\n"), text)


def verdict(name, checked, problems):
    """Print the problems or the count of checks, and exit. Zero checks are a failure."""
    for problem in problems:
        print(problem)
    print(f"{name}: {checked} checked, {len(problems)} problems")
    sys.exit(1 if problems or checked == 0 else 0)


def skip(reason):
    print(f"skip: {reason}")
    sys.exit(SKIP)
