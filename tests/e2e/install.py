"""cmake --install: the installed files, that the installed programs run, and the services."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from paceline import BIN, must
from runner import Skip, run

PROGRAMS = ("paceline", "paceline-agent", "paceline-coordinator")
DOCUMENTS = (
    "README.md",
    "LICENSE",
    "openapi.yaml",
    "docs/jobs.md",
    "examples/jobs/fashion.json",
    "examples/data/digits/train-images-idx3-ubyte.gz",
)
PAGES = (
    "man/man1/paceline.1",
    "man/man1/paceline-agent.1",
    "man/man1/paceline-coordinator.1",
    "bash-completion/completions/paceline",
    "zsh/site-functions/_paceline",
    "fish/vendor_completions.d/paceline.fish",
)
TOOLS = ("check_export.py", "from_torch.py", "export_onnx.py")


UNITS = ("paceline-agent.path", "paceline-agent.service", "paceline-coordinator.service")
EXPOSURE = 20  # tenths, of systemd-analyze security: 2.0
EXAMPLE = re.compile(r"^#([a-z-]+ = .*)$", re.MULTILINE)


def install(prefix):
    subprocess.run(
        ["cmake", "--install", BIN.parent, "--prefix", prefix],
        check=True,
        stdout=subprocess.DEVNULL,
    )


@contextlib.contextmanager
def installed():
    with tempfile.TemporaryDirectory(prefix="paceline-install-") as name:
        install(name)
        yield pathlib.Path(name)


def analyze(*arguments):
    if not shutil.which("systemd-analyze"):
        raise Skip("there is no systemd-analyze (Debian: systemd)")
    done = subprocess.run(
        ["systemd-analyze", "--no-pager", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_programs_documents_and_tools_are_installed():
    with installed() as prefix:
        for program in PROGRAMS:
            said = subprocess.run(
                [prefix / "bin" / program, "--version"], check=True, capture_output=True, text=True
            )
            must(said.stdout.startswith(f"{program} "), f"{program} --version: {said.stdout!r}")
        must(
            sorted(os.listdir(prefix / "bin")) == sorted(PROGRAMS),
            f"bin holds {os.listdir(prefix / 'bin')}",
        )
        for document in DOCUMENTS:
            must(
                (prefix / "share/doc/paceline" / document).is_file(), f"{document} is not installed"
            )
        for page in PAGES:
            must((prefix / "share" / page).is_file(), f"{page} is not installed")
        for tool in TOOLS:
            must(
                os.access(prefix / "share/paceline/tools" / tool, os.X_OK),
                f"{tool} is not installed as a program",
            )


def test_units_start_the_installed_programs():
    with installed() as prefix:
        units = prefix / "lib/systemd/system"
        must(sorted(os.listdir(units)) == sorted(UNITS), f"units: {os.listdir(units)}")
        for service in ("coordinator", "agent"):
            text = (units / f"paceline-{service}.service").read_text("utf-8")
            words = re.search(r"^ExecStart=((?:.*\\\n)*.*)$", text, re.MULTILINE).group(1)
            program, option, path = words.replace("\\\n", "").split()
            must(program == str(prefix / f"bin/paceline-{service}"), program)
            must(option == "--config" and pathlib.Path(path).is_file(), f"{option} {path}")
            user = (prefix / f"lib/sysusers.d/paceline-{service}.conf").read_text("utf-8").split()
            must(f"\nUser={user[1]}\n" in text, f"{user[1]} is not the user of {service}")


def test_units_are_valid_and_confined():
    with installed() as prefix:
        units = [prefix / "lib/systemd/system" / unit for unit in UNITS]
        status, said = analyze("verify", "--man=no", *units)
        must(status == 0 and str(prefix) not in said, said)
        for unit in units:
            if unit.suffix == ".service":
                status, said = analyze(
                    "security", "--offline=true", f"--threshold={EXPOSURE}", unit
                )
                must(status == 0, said)


def test_every_example_of_the_options_is_accepted():
    with installed() as prefix:
        for service in ("coordinator", "agent"):
            path = prefix / f"etc/paceline/{service}.conf"
            text = path.read_text("utf-8")
            must(len(EXAMPLE.findall(text)) >= 5, f"few examples in {path}")
            path.write_text(EXAMPLE.sub(r"\1", text), "utf-8")
            words = ["--config", path, "--listen", "nowhere"]
            words += ["--coordinator", "https://localhost:1"] * (service == "agent")
            done = subprocess.run(
                [prefix / f"bin/paceline-{service}", *words],
                capture_output=True,
                text=True,
                env={**os.environ, "STATE_DIRECTORY": str(prefix / "state")},
                timeout=30,
                check=False,
            )
            # The wrong address is the last of the options to be checked.
            must(done.returncode == 2 and "'nowhere'" in done.stderr, done.stderr)


def test_changed_options_survive_another_installation():
    with installed() as prefix:
        path = prefix / "etc/paceline/agent.conf"
        path.write_text("threads = 1\n", "utf-8")
        install(prefix)
        must(path.read_text("utf-8") == "threads = 1\n", path.read_text("utf-8"))


if __name__ == "__main__":
    run(globals())
