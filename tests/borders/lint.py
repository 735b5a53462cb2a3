"""The linters of Debian find nothing: flake8 in Python, shellcheck in shell, yamllint in YAML.

    lint.py ROOT flake8|shellcheck|yamllint

Their settings are .flake8, .yamllint and directives in the shell scripts.
"""

import shutil
import subprocess
import sys

import tree

# Tool: its arguments and the endings of its files.
TOOLS = {
    "flake8": ([], (".py",)),
    "shellcheck": (["--format=gcc"], (".sh",)),
    "yamllint": (["--strict", "--format=parsable"], (".yaml", ".yml")),
}


def check(root, tool):
    arguments, endings = TOOLS[tool]
    paths = tree.files(root, *endings)
    if tool == "shellcheck":
        paths += tree.hidden_scripts(root)
    if not paths:
        return 0, []
    result = subprocess.run(
        [tool, *arguments, *paths], cwd=root, capture_output=True, text=True, check=False
    )
    problems = [line.removeprefix("./") for line in result.stdout.splitlines()]
    if result.returncode and not problems:
        problems = [f"{tool}: exit status {result.returncode}: {result.stderr.strip()}"]
    return len(paths), problems


if __name__ == "__main__":
    if not shutil.which(sys.argv[2]):
        tree.skip(f"{sys.argv[2]} is not installed")
    tree.verdict(sys.argv[2], *check(sys.argv[1], sys.argv[2]))
