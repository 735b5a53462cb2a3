"""Write the manual pages of the coordinator and the agent from their --help.

    man_pages.py [--check] BIN ROOT

BIN holds the programs, ROOT is the tree: the pages are deploy/man/PROGRAM.1. With --check nothing
is written; the exit status is 1 if a page is stale.
"""

import pathlib
import re
import subprocess
import sys

HELP_COLUMN = 30  # of base/conf.c

# What --help does not say.
PROGRAMS = {
    "paceline-coordinator": {
        "purpose": "plan and supervise training across unequal machines",
        "files": [
            ("/etc/paceline/coordinator.conf", "Options of the service, as NAME = VALUE lines."),
            ("/var/lib/paceline-coordinator", "State directory of the service."),
        ],
        "notes": [
            "SIGTERM, SIGINT and SIGHUP end the coordinator in order: it answers open requests "
            "and stores its state. Devices continue to train without it.",
            "Started by root with a state directory of another user, the program becomes that "
            "user: what it makes there belongs to the service.",
        ],
        "also": ["paceline", "paceline-agent"],
    },
    "paceline-agent": {
        "purpose": "train on this machine for a Paceline coordinator",
        "files": [
            ("/etc/paceline/agent.conf", "Options of the service, as NAME = VALUE lines."),
            ("/var/lib/paceline-agent", "State directory of the service."),
        ],
        "notes": [
            "SIGTERM, SIGINT and SIGHUP end the agent in order: other devices take its work "
            "first, at most for --leave-seconds. A second signal ends it at once.",
            "Started by root with a state directory of another user, the program becomes that "
            "user: what it makes there belongs to the service.",
        ],
        "also": ["paceline", "paceline-coordinator"],
    },
}


def escaped(text):
    """The text of a paragraph; a line of it must not begin like a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(^|\s)([.'])", r"\1\\&\2", text)


def help_of(bin_directory, words):
    """The text of --help, without the trailing line feed."""
    said = subprocess.run(
        [bin_directory / words[0], *words[1:], "--help"], capture_output=True, text=True, check=True
    )
    return said.stdout.rstrip("\n")


def parts(text):
    """Usage lines, the summary, and (option, description) pairs of a --help text."""
    head, _, tail = text.partition("\n\nOptions:\n")
    usage, _, summary = head.partition("\n\n")
    lines = [re.sub(r"^(Usage:|\s+)\s*", "", line) for line in usage.split("\n")]
    options = []
    for line in tail.split("\n"):
        if line.startswith("  -"):
            name, about = line[:HELP_COLUMN], line[HELP_COLUMN:]
            if not line[HELP_COLUMN - 1 : HELP_COLUMN].isspace():
                name, about = line, ""
            options.append([name.strip(), about.strip()])
        elif options:
            options[-1][1] = f"{options[-1][1]} {line.strip()}".strip()
    return lines, summary, options


def option_lines(options):
    for name, about in options:
        yield ".TP"
        yield f".B {escaped(name)}"
        yield escaped(about)


def command_of(program, usage):
    """The words after the program's name in a usage line that belong to commands."""
    rest = usage.removeprefix(program).strip()
    return [word.split()[0] for word in rest.split(" | ") if word[:1].islower()]


def page(bin_directory, program, version):
    about = PROGRAMS[program]
    usages, summary, options = parts(help_of(bin_directory, [program]))
    commands = [word for usage in usages for word in command_of(program, usage)]
    lines = [
        '.\\" Made from --help by deploy/man_pages.py.',
        f'.TH {program.upper()} 1 "" "Paceline {version}"',
        ".SH NAME",
        f"{escaped(program)} \\- {escaped(about['purpose'])}",
        ".SH SYNOPSIS",
        f".B {escaped(program)}",
        ".RI [ OPTION ...]",
    ]
    for word in commands:
        lines += [".br", f".B {escaped(program)} {escaped(word)}", ".RI [ OPTION ...]", "..."]
        lines[-1] = ".RI [ ARGUMENT ...]"
    lines += [".SH DESCRIPTION", escaped(summary), ".SH OPTIONS", *option_lines(options)]
    if commands:
        lines.append(".SH COMMANDS")
    for word in commands:
        usages, summary, options = parts(help_of(bin_directory, [program, word]))
        lines += [f".SS {escaped(usages[0])}", escaped(summary), *option_lines(options)]
    lines.append(".SH NOTES")
    for index, note in enumerate(about["notes"]):
        lines += [".PP"] * bool(index) + [escaped(note)]
    lines.append(".SH FILES")
    for path, purpose in about["files"]:
        lines += [".TP", f".I {escaped(path)}", escaped(purpose)]
    lines.append(".SH SEE ALSO")
    lines.append(",\n".join(f".BR {escaped(other)} (1)" for other in about["also"]))
    return "\n".join(wrapped(line) for line in lines) + "\n"


def wrapped(line, columns=98):
    """The line in pieces: a request stays on one line, a paragraph needs not."""
    if line.startswith(".") or len(line) <= columns:
        return line
    pieces, piece = [], ""
    for word in line.split(" "):
        if piece and len(piece) + 1 + len(word) > columns:
            pieces.append(piece)
            piece = word
        else:
            piece = f"{piece} {word}" if piece else word
    return "\n".join([*pieces, piece])


def main(arguments):
    check = "--check" in arguments
    bin_directory, root = (pathlib.Path(word).resolve() for word in arguments if word != "--check")
    stale = []
    for program in PROGRAMS:
        version = subprocess.run(
            [bin_directory / program, "--version"], capture_output=True, text=True, check=True
        ).stdout.split()[1]
        path = root / "deploy/man" / f"{program}.1"
        text = page(bin_directory, program, version)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.relative_to(root))
        if not check:
            path.write_text(text, encoding="utf-8")
    if check:
        for path in stale:
            print(f"{path} is stale: run python3 deploy/man_pages.py build/dev/bin .")
        print(f"man_pages: {len(PROGRAMS)} checked, {len(stale)} problems")
    return 1 if check and stale else 0


if __name__ == "__main__":
    if len([word for word in sys.argv[1:] if word != "--check"]) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
