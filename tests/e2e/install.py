"""cmake --install: the installed files, and that the installed programs run."""

import os
import pathlib
import subprocess
import tempfile

from paceline import BIN, must
from runner import run

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
    "bash-completion/completions/paceline",
    "zsh/site-functions/_paceline",
    "fish/vendor_completions.d/paceline.fish",
)
TOOLS = ("check_export.py", "from_torch.py", "export_onnx.py")


def test_programs_documents_and_tools_are_installed():
    with tempfile.TemporaryDirectory(prefix="paceline-install-") as name:
        prefix = pathlib.Path(name)
        subprocess.run(
            ["cmake", "--install", BIN.parent, "--prefix", prefix],
            check=True,
            stdout=subprocess.DEVNULL,
        )
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


if __name__ == "__main__":
    run(globals())
