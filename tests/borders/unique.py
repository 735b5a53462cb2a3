"""No global symbol is defined in more than one of the archives, which one program links.

    unique.py ARCHIVE ARCHIVE...
"""

import pathlib
import sys

import calls
import tree


def check(archives):
    """How many symbols there are, and those that two modules define."""
    home, problems = {}, []
    for archive in archives:
        for module, names in calls.symbols(archive)[0].items():
            place = f"{pathlib.Path(archive).name}({module})"
            for name in sorted(names):
                if name in home:
                    problems.append(f"{name}: defined in {home[name]} and in {place}")
                home[name] = place
    return len(home), problems


if __name__ == "__main__":
    tree.verdict("unique", *check(sys.argv[1:]))
