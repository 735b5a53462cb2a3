"""A module calls only modules that its room's CMakeLists.txt lists before it.

    calls.py ARCHIVE ROOM

A README.md of the room with a table of the modules shows them in the same order.
"""

import pathlib
import re
import subprocess
import sys

import tree


def stated_order(text):
    """The modules in the order of the list of sources; comments are left out."""
    sources = re.search(r"\bSOURCES\b(.*?)\bLINKS\b", re.sub(r"#[^\n]*", "", text), re.DOTALL)
    return re.findall(r"\b(\w+)\.c\b", sources.group(1))


def listed(text):
    """The modules in the order of the README's table."""
    return re.findall(r"^\|[^|]*\| `(\w+)` \|", text, re.MULTILINE)


def symbols(archive):
    """Two maps of module names: to the symbols each defines, and to those it uses."""
    listing = subprocess.run(
        ["nm", "-A", "-P", archive], capture_output=True, text=True, check=True
    ).stdout
    defines, uses = {}, {}
    for line in listing.splitlines():
        where, name, kind = line.replace(": ", " ", 1).split()[:3]
        module = re.search(r"\[(\w+)\.c\.o\]", where).group(1)
        if kind == "U":
            uses.setdefault(module, set()).add(name)
        elif kind.isupper():
            defines.setdefault(module, set()).add(name)
    return defines, uses


def check(order, defines, uses):
    """Every call from a module to one that is not before it in the order, as a text."""
    home = {name: module for module, names in defines.items() for name in names}
    place = {module: index for index, module in enumerate(order)}
    problems = [f"{module}.c: not in the order" for module in defines if module not in place]
    for module in sorted(uses, key=lambda name: place.get(name, -1)):
        for name in sorted(uses[module]):
            callee = home.get(name)
            if callee and place.get(callee, -1) >= place.get(module, len(place)):
                problems.append(f"{module}.c calls {name} of {callee}.c, which is above it")
    return problems


if __name__ == "__main__":
    archive, room = sys.argv[1], pathlib.Path(sys.argv[2])
    stated = stated_order((room / "CMakeLists.txt").read_text(encoding="utf-8"))
    found = check(stated, *symbols(archive))
    readme = room / "README.md"
    if readme.exists() and listed(readme.read_text(encoding="utf-8")) != stated:
        found.append(f"{readme}: the table has other modules, or in another order")
    tree.verdict("calls", len(stated), found)
