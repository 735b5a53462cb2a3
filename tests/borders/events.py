"""Every log event of level warn or error has a line in docs/troubleshooting.md.

events.py ROOT
"""

import re
import sys

import tree

PAGE = "docs/troubleshooting.md"
ROOMS = ("agent/", "base/", "cli/", "coordinator/", "net/")
CALL = re.compile(r"\blog_(?:warn|error)\(([^;]*);")
LITERAL = re.compile(r'"([^"]*)"')


def events(source):
    """The names in the calls of a C text: the literals before the format, which has a "="."""
    for call in CALL.finditer(source):
        for literal in LITERAL.findall(call.group(1)):
            if not re.fullmatch(r"[a-z][a-z_]*", literal):
                break
            yield source.count("\n", 0, call.start()) + 1, literal


def check(root):
    page, checked, problems = tree.read(root, PAGE), 0, []
    for path in tree.files(root, ".c"):
        if path.startswith(ROOMS):
            for line, event in events(tree.read(root, path)):
                checked += 1
                if f"`{event}`" not in page:
                    problems.append(f"{path}:{line}: {PAGE} does not explain {event}")
    return checked, problems


if __name__ == "__main__":
    tree.verdict("events", *check(sys.argv[1]))
