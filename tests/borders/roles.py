"""A route of the coordinator without a role does not compile, and its table has no other rows.

    roles.py ROOT COMPILER
"""

import re
import subprocess
import sys

import tree

TABLE = "coordinator/http/routes.c"
ROUTE = 'ROUTE({}"GET", "/x", serve_health, 0)'
UPLOAD = 'UPLOAD_ROUTE({}"PUT", "/x", blob_sink)'
WITH_A_ROLE = ["READ, ", "OPEN, ", "ADMIN, "]
WITHOUT = ["", "0, ", "WRITE, ", '"READ", ']


def compiles(root, compiler, row):
    text = (
        '#include "coordinator/http/routes.h"\n'
        f"extern const struct http_route row;\nconst struct http_route row = {row};\n"
    )
    command = [compiler, "-std=gnu17", "-fsyntax-only", "-D_GNU_SOURCE", f"-I{root}", "-xc", "-"]
    return (
        subprocess.run(command, input=text, capture_output=True, text=True, check=False).returncode
        == 0
    )


def check(root, compiler):
    rows = [
        (form.format(role), role in WITH_A_ROLE)
        for form in (ROUTE, UPLOAD)
        for role in WITH_A_ROLE + WITHOUT
    ]
    problems = [
        f"{row}: {'does not compile' if good else 'compiles'}"
        for row, good in rows
        if compiles(root, compiler, row) != good
    ]
    table = re.search(r"routes\[\] = \{\n(.*?)\n\};", tree.read(root, TABLE), re.DOTALL).group(1)
    stated = re.findall(r"^    (\S.*)", table, re.MULTILINE)
    problems += [
        f"{TABLE}: '{row}' is no ROUTE or UPLOAD_ROUTE"
        for row in stated
        if not re.match(r"(UPLOAD_)?ROUTE\(", row)
    ]
    return len(rows) + len(stated), problems


if __name__ == "__main__":
    tree.verdict("roles", *check(sys.argv[1], sys.argv[2]))
