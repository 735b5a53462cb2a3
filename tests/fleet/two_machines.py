"""Run each block of the guide docs/two-machines.md on the device that it names (77 if the machine
cannot have devices).
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

from namespaces import TOOL, run_on
from paceline import BIN, ROOT, must
from runner import run

DEVICES = "board0\nboard1\n"
HOSTS = {"10.0.0.5": "coord", "10.0.0.6": "board0", "10.0.0.7": "board1"}
BLOCKS = re.findall(
    r"```sh\n# (?:on|from) (\S+)\n(.*?)```",
    (ROOT / "docs/two-machines.md").read_text(encoding="utf-8"),
    re.S,
)
SECONDS = 60


def addresses():
    """The guide's addresses -> those of this fleet."""
    return {
        guide: subprocess.run(
            [str(TOOL), "ip", name], check=True, capture_output=True, text=True
        ).stdout.strip()
        for guide, name in HOSTS.items()
    }


def here(script):
    for guide, address in addresses().items():
        script = script.replace(guide, address)
    return script


def environment(directory):
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "XDG_STATE_HOME": directory}


def ask(directory, script):
    """Run a block of the guide on the coordinator's machine; returns its output."""
    done = subprocess.run(
        ["bash", "-ec", here(script)],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(directory),
    )
    return done.stdout


def start(host, script, directory):
    own = os.path.join(directory, host)
    return subprocess.Popen(
        [str(TOOL), "exec", HOSTS[host], "--", "bash", "-c", f"exec {here(script).strip()}"],
        env=environment(own),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_until(condition, what):
    deadline = time.monotonic() + SECONDS
    while not condition():
        must(time.monotonic() < deadline, f"{what} within {SECONDS} s")
        time.sleep(0.2)


def test_the_commands_of_the_guide_train_a_job_on_two_machines():
    questions = [script for host, script in BLOCKS if host == "anywhere"]
    must(
        len(BLOCKS) == 5 and len(questions) == 2,
        f"the guide has {len(BLOCKS)} blocks, {len(questions)} of them questions",
    )
    api = here("http://10.0.0.5:7410/v1")
    processes = []
    with tempfile.TemporaryDirectory(prefix="paceline-guide-") as directory:

        def get(path):
            answer = subprocess.run(
                ["curl", "-s", f"{api}/{path}"], check=False, capture_output=True, text=True
            ).stdout
            return json.loads(answer)["items"] if answer else []

        try:
            for host, script in BLOCKS:
                if host in HOSTS:
                    processes.append(start(host, script, directory))
            wait_until(
                lambda: sum(device["state"] == "online" for device in get("devices")) == 2,
                "two devices are online",
            )
            devices = json.loads(ask(directory, questions[0]))["items"]
            must(
                {device["address"] for device in devices}
                == {here(f"http://{host}:7411") for host in ("10.0.0.6", "10.0.0.7")},
                f"{devices}",
            )
            ask(directory, questions[1])
            wait_until(lambda: get("jobs")[0]["state"] == "succeeded", "the job has succeeded")
            plan = json.loads(
                subprocess.run(
                    ["curl", "-s", f"{api}/jobs/{get('jobs')[0]['id']}/plans/1"],
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
            )
            must(len(plan["stages"]) == 2, f"{plan}")
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(30)


if __name__ == "__main__":
    if "FLEET_NAME" not in os.environ:
        sys.exit(run_on(DEVICES, [sys.executable, __file__, *sys.argv[1:]]))
    run(globals())
