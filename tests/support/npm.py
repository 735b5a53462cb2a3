"""Packages of the npm registry for tests, from a committed lock file."""

import hashlib
import pathlib
import shutil
import subprocess

FILES = ("package.json", "package-lock.json")
INSTALL_SECONDS = 600


class NotInstalled(Exception):
    """Why there are no packages, for the sentence of a skipped test."""


def install(package, target):
    """Install what `package`, a directory with FILES, names into the directory `target`, without
    package scripts. It stays there; a second call with the same files does nothing. Returns
    `target`."""
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            raise NotInstalled(f"no {tool} (apt-get install nodejs npm)")
    package, target = pathlib.Path(package), pathlib.Path(target)
    wanted = hashlib.sha256(b"".join((package / name).read_bytes() for name in FILES)).hexdigest()
    stamp = target / "installed"
    if stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
        return target
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in FILES:
        shutil.copy(package / name, target)
    try:
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=target,
            timeout=INSTALL_SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm took longer than {INSTALL_SECONDS} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or [""]
        raise NotInstalled(f"npm cannot install {package.name}: {lines[0]} ({done.returncode})")
    stamp.write_text(wanted, encoding="ascii")
    return target
