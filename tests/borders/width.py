"""No line of a text file is longer than 100 columns.

    width.py ROOT

Exceptions: tables and fenced code of Markdown, and lines with a long URL or link target.
"""

import fnmatch
import re
import sys

import tree

COLUMNS = 100
# Files that are exempt, and why.
EXEMPT = {
    "*.json": "JSON has no way to continue a line",
    "schema/examples/*": "documents as programs send them",
    "tests/fuzz/corpus/*": "inputs of the fuzz targets",
    "cli/pages/*": "written by a program",
    "tests/fleet/fleet": "one file that holds shell, awk and C",
}

TABLE = re.compile(r"^\s*\|.*\|\s*$")
URL = re.compile(r"https?://\S+")
LINK = re.compile(r"\]\([^)\s]+\)")


def is_exempt(path):
    return any(fnmatch.fnmatch(path, pattern) for pattern in EXEMPT)


def text_of(root, path):
    """The file's text; None if it is not UTF-8."""
    try:
        return tree.read(root, path)
    except UnicodeDecodeError:
        return None


def without_addresses(line):
    return LINK.sub("", URL.sub("", line))


def long_lines(path, text):
    """(number, columns) of every line that is too long."""
    markdown = path.endswith(".md")
    lines = (tree.without_fences(text) if markdown else text).split("\n")
    return [
        (number, len(line))
        for number, line in enumerate(lines, 1)
        if len(without_addresses(line)) > COLUMNS and not (markdown and TABLE.match(line))
    ]


def check(root):
    count, problems = 0, []
    for path in tree.files(root, "") + tree.hidden_scripts(root):
        text = None if is_exempt(path) else text_of(root, path)
        if text is not None:
            count += 1
            problems += [
                f"{path}:{number}: {columns} columns; at most {COLUMNS}"
                for number, columns in long_lines(path, text)
            ]
    return count, problems


if __name__ == "__main__":
    tree.verdict("width", *check(sys.argv[1]))
