"""The TypeScript client of examples/clients/typescript, made from the contract that a coordinator
serves: it compiles, its types find mistakes, and it follows a job and its events to the end.

npm installs the compiler and the two libraries from the committed lock file, without package
scripts (45 MB). Skipped where npm or its registry is missing.
"""

import os
import shutil
import signal
import subprocess
import tempfile

from paceline import ROOT, Fleet, must
from runner import Skip, run

CLIENT = ROOT / "examples/clients/typescript"
INSTALL_SECONDS = 300
TOOL_SECONDS = 600  # the compiler needs some 5 s of a processor

# Each line after a comment is a mistake: without one, the compiler complains about the comment.
MISTAKES = """
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";
const api = createClient<paths>({ baseUrl: "" });
type Event = components["schemas"]["event"];
type Job = components["schemas"]["job"];

// @ts-expect-error: no such route
await api.GET("/v1/job");
// @ts-expect-error: no such state
await api.GET("/v1/jobs", { params: { query: { state: ["finished"] } } });
// @ts-expect-error: states of devices are others than those of jobs
await api.GET("/v1/devices", { params: { query: { state: ["queued"] } } });
// @ts-expect-error: epochs is a number
await api.POST("/v1/jobs", { body: { model: {}, dataset: { train: "a" }, epochs: "5" } });
// @ts-expect-error: a body without a data set
await api.POST("/v1/jobs", { body: { model: { name: "mlp" } } });
// @ts-expect-error: a misspelled event
export const ended = (event: Event): boolean => event.type === "job_suceeded";
// @ts-expect-error: a job has its name in its spec
export const name = (job: Job): string => job.name;

await api.GET("/v1/jobs", { params: { query: { state: ["queued", "failed"], order: "desc" } } });
await api.GET("/v1/links", { params: { query: { limit: 10, cursor: "5" } } });
await api.POST("/v1/jobs", { body: { model: { name: "mlp" }, dataset: { train: "a" } } });
"""


def tool(directory, *words, seconds=TOOL_SECONDS, **environment):
    """Run a command in the client's directory; its finished process. At the end of the time its
    children end too: npm has some.
    """
    with subprocess.Popen(
        words,
        cwd=directory,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, complaints = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, complaints)


def install(directory):
    """A copy of the client with its libraries. The tree of the sources stays as it is."""
    if not shutil.which("npm") or not shutil.which("node"):
        raise Skip("node and npm are not installed (apt-get install nodejs npm)")
    shutil.copytree(CLIENT, directory, dirs_exist_ok=True)
    words = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    try:
        done = tool(directory, *words, seconds=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise Skip(f"npm did not install the libraries within {INSTALL_SECONDS} s") from None
    if done.returncode:
        must("EUSAGE" not in done.stderr, f"package-lock.json is stale: {done.stderr}")
        raise Skip(f"npm cannot install the libraries: {done.stderr.strip()[-300:]}")


def build(fleet, directory):
    """Make the types from the served contract and compile."""
    contract = os.path.join(directory, "openapi.json")
    with open(contract, "wb") as file:
        file.write(fleet.request("GET", "/openapi.json", expect=200).body)
    done = tool(directory, "npm", "run", "types", CONTRACT=contract)
    must(done.returncode == 0, f"{done.stdout}{done.stderr}")
    done = tool(directory, "npm", "run", "build")
    must(done.returncode == 0, f"{done.stdout}{done.stderr}")


def client(fleet, directory, *words):
    """Run the compiled client."""
    url = f"http://{fleet.coordinator.address}"
    return tool(directory, "node", "build/jobs.js", *words, PACELINE_URL=url)


def test_the_client_compiles_and_follows_a_job_to_its_end():
    with tempfile.TemporaryDirectory() as directory, Fleet() as fleet:
        install(directory)
        with open(os.path.join(directory, "mistakes.ts"), "w", encoding="utf-8") as file:
            file.write(MISTAKES)
        fleet.start_coordinator("--heartbeat-ms", "100")
        fleet.start_agents(1)
        fleet.upload("digits-train", "digits", "train")
        build(fleet, directory)
        done = client(fleet, directory, "mlp", "digits-train", "1")
        must(done.returncode == 0, f"{done.stdout}{done.stderr}")
        for words in ("event job_running", "event job_succeeded", " losses, from ", " 100%"):
            must(words in done.stdout, f"{done.stdout}{done.stderr}")
        refused = client(fleet, directory, "mlp", "nothing")
        must(
            refused.returncode == 1 and "no data set 'nothing'" in refused.stderr,
            f"{refused.stdout}{refused.stderr}",
        )
        must(client(fleet, directory).returncode == 2, "no arguments")


if __name__ == "__main__":
    run(globals())
