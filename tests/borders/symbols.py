"""A pure archive uses only listed outside symbols: no clock, file, socket, thread, stream,
environment, JSON or SQL.

    symbols.py ARCHIVE [--with ARCHIVE[:MEMBER,...]]...

An undefined symbol of ARCHIVE must be in LIBC below or in an archive named by --with. With MEMBER
only these members count.
"""

import os
import re
import subprocess
import sys

import tree

# qsort may allocate: base/sort.h.
LIBC = set(
    """
    memcpy memmove memset memcmp memchr strlen strnlen strcmp strncmp strchr strrchr strspn
    strcspn strstr snprintf vsnprintf malloc calloc realloc free bsearch
    fabs floor ceil round trunc sqrt exp exp2 expm1 log log2 log10 log1p pow fmin fmax fmod ldexp
    frexp lround llround rint lrint hypot cbrt nan
    fabsf floorf ceilf roundf sqrtf expf logf fminf fmaxf
    strtol strtoll strtoul strtoull strtod
""".split()
)
# Added by the compiler; "name" stands for "__name_chk" too, which fortified builds call.
COMPILER = {"__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"}
FORTIFIED = re.compile(r"^__(\w+)_chk$")


def nm(archive, *arguments):
    """Rows (member, symbol, kind) of an archive."""
    result = subprocess.run(
        ["nm", "--format=posix", "-A", *arguments, archive],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = []
    for line in result.stdout.splitlines():
        place, symbol, kind = line.split()[:3]
        rows.append((place.rsplit("[", 1)[1].rstrip("]:"), symbol, kind))
    return rows


def provided(spec):
    archive, _, members = spec.partition(":")
    wanted = {member + ".c.o" for member in members.split(",")} if members else None
    return {
        symbol
        for member, symbol, _ in nm(archive, "--defined-only", "--extern-only")
        if wanted is None or member in wanted
    }


def check(archive, specs):
    allowed = {symbol for _, symbol, _ in nm(archive, "--defined-only")} | COMPILER
    for spec in specs:
        allowed |= provided(spec)
    asked = {(member, symbol) for member, symbol, _ in nm(archive, "--undefined-only")}
    problems = []
    for member, symbol in sorted(asked):
        fortified = FORTIFIED.match(symbol)
        plain = fortified.group(1) if fortified else symbol
        if plain not in LIBC and symbol not in allowed:
            problems.append(f"{os.path.basename(archive)}({member}): asks for {symbol}")
    return len(asked), problems


if __name__ == "__main__":
    archives = [a.partition(":")[0] for a in sys.argv[1:] if a != "--with"]
    missing = [a for a in archives if not os.path.exists(a)]
    if missing:
        tree.skip(f"{os.path.basename(missing[0])} does not exist")
    tree.verdict("symbols", *check(sys.argv[1], [a for a in sys.argv[2:] if a != "--with"]))
