"""The command line against a real coordinator: every command as table, JSON and curl."""

import json
import os
import re
import select
import shutil
import signal
import subprocess

from paceline import BIN, ROOT, Fleet, data_files, must, tar_of
from runner import run

JOB = {
    "name": "digits",
    "model": {"name": "mlp"},
    "dataset": {"train": "digits-train", "test": "digits-test"},
    "batch": 16,
    "micro_batches": 2,
    "steps": 8,
    "devices": {"max": 1},
    "kernels": {},
    "replan": {"first": 0, "every": 0},  # plans change by requests only
}
UNKNOWN_JOB = "job_01JD6Z0A4B6C8D0E2F4G6H8J0K"
OK, FAILED, USAGE, NOT_SUCCEEDED, NOT_FOUND, REFUSED, UNREACHABLE = range(7)
NOWHERE = {"PACELINE_URL": ""}  # the address is that of the context
INTERRUPTED = 130
# Members that change between two answers about the same thing.
CHANGING = {
    "revision",
    "last_seen_at",
    "resident_bytes",
    "free_memory_bytes",
    "busy_share",
    "probe",
    "eta_seconds",
    "message",
    "state",
    "state_reason",
    "drained",
    "transfers",
}


def command(fleet, *words, status=OK, stdin="", cwd=None, **environment):
    """The finished process `paceline WORD...`; variables of the environment may be added."""
    done = subprocess.run(
        [str(BIN / "paceline"), *map(str, words)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd or fleet.path,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(fleet.path),
            "PACELINE_URL": f"http://{fleet.coordinator.address}",
            **environment,
        },
    )
    must(done.returncode == status, f"{words}: {done.returncode}: {done.stderr}{done.stdout}")
    return done


def words_of(fleet):
    """Every command of --help, its first words and the number of its arguments."""
    text = command(fleet, "--help").stdout
    commands = re.search(r"Commands:\n(.*?)\n\n", text, re.DOTALL).group(1)
    found = re.findall(r"^  ([a-z]+(?: [a-z]+)*)", commands, re.MULTILINE)
    must(len(found) > 40, f"the list of commands was not read: {found}")
    return set(found)


def still(value):
    """An answer without the members that change."""
    if isinstance(value, dict):
        return {name: still(item) for name, item in value.items() if name not in CHANGING}
    return [still(item) for item in value] if isinstance(value, list) else value


def by_curl(fleet, *words, stdin=""):
    """What the printed curl command answers."""
    line = command(fleet, *words, "--curl", stdin=stdin).stdout
    must(line.startswith(("curl ", "tar ")) and line.count("\n") == 1, f"{words}: {line!r}")
    done = subprocess.run(
        ["bash", "-c", line],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=fleet.path,
    )
    must(done.returncode == 0, f"{line}: {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


def check(fleet, *words, stdin="", titles=()):
    """A command answers the same as JSON and by curl, and as a table with these titles."""
    answer = json.loads(command(fleet, *words, "--format", "json", stdin=stdin).stdout)
    same = json.loads(by_curl(fleet, *words, stdin=stdin))
    must(still(answer) == still(same), f"{words}: {answer} by json, {same} by curl")
    table = command(fleet, *words, "--format", "table", stdin=stdin).stdout
    wide = command(fleet, *words, "--format", "wide", stdin=stdin).stdout
    for title in titles:
        must(title in table and title in wide, f"{words}: no {title} in {table}")
    return answer


def fleet_of_one():
    """A coordinator with one device, its data and a job file in the fleet's directory."""
    fleet = Fleet()
    fleet.start_coordinator("--heartbeat-ms", "100")
    fleet.start_agents(1)
    for part in ("train", "test"):
        (fleet.path / f"{part}.tar").write_bytes(tar_of(*data_files("digits", part)))
    (fleet.path / "job.json").write_text(json.dumps(JOB))
    return fleet


def check_filters(fleet, job, same):
    """Options of lists choose and order the items."""
    device = fleet.get("/v1/devices")["items"][0]
    for words, expected in (
        (("job", "list", "--order", "desc"), [same, job]),
        (("job", "list", "--name", "dig*"), [job, same]),
        (("job", "list", "--name", "other"), []),
        (("job", "list", "--state", "failed,cancelled"), []),
        (("device", "list", "--state", "lost"), []),
        (("device", "list", "--label", "room=kitchen"), []),
        (("device", "list", "--name", device["name"], "--order", "desc"), [device["id"]]),
        (("dataset", "list", "--order", "desc"), ["digits-train", "digits-test"]),
        (("model", "list", "--name", "lenet*"), ["lenet5"]),
        (("incident", "list", "--state", "open,resolved", "--order", "desc"), []),
    ):
        must(command(fleet, *words, "-q").stdout.split() == expected, f"{words}")
        by_curl(fleet, *words)
    refused = command(fleet, "job", "list", "--state", "quened", status=REFUSED).stderr
    must("did you mean 'queued'" in refused, refused)
    command(fleet, "job", "list", "--order", "up", status=USAGE)
    command(fleet, "dataset", "list", "--state", "failed", status=USAGE)


def check_things(fleet, seen):
    """Data sets, models and devices."""

    def look(*words, **options):
        seen.add(" ".join(words[:2]))
        return check(fleet, *words, **options)

    for part in ("train", "test"):
        look("dataset", "put", f"digits-{part}", f"{part}.tar", titles=("SAMPLES", "SHA256"))
    look("dataset", "list", titles=("NAME", "SAMPLES"))
    look("dataset", "get", "digits-tr", titles=("NAME", "CLASSES"))
    command(fleet, "dataset", "get", "digits-train", "-o", "out.safetensors")
    whole = fleet.request("GET", "/v1/datasets/digits-train/content", expect=200).body
    must((fleet.path / "out.safetensors").read_bytes() == whole, "the download differs")
    by_curl(fleet, "dataset", "get", "digits-train", "-o", "curl.safetensors")
    must((fleet.path / "curl.safetensors").read_bytes() == whole, "curl's download differs")
    look("model", "list", titles=("NAME",))
    look("model", "get", "mlp", titles=("UNIT", "PARAMETERS"))
    look("model", "get", "mlp", "--dataset", "digits-train")
    description = fleet.get("/v1/models/mlp")["description"] | {"name": "mine"}
    (fleet.path / "model.json").write_text(json.dumps(description))
    look("model", "put", "model.json", titles=("NAME", "SHA256"))
    look("device", "list", titles=("ID", "NAME", "GFLOPS"))
    name = fleet.get("/v1/devices")["items"][0]["name"]
    look("device", "get", name, titles=("CORES", "CLASS"))
    for verb in ("accept", "cordon", "uncordon", "drain", "undrain"):
        look("device", verb, name, titles=("STATE",))


def check_job(fleet, seen):
    """A job from its file to its model."""

    def look(*words, **options):
        seen.add(" ".join(words[:2]))
        return check(fleet, *words, **options)

    look("job", "submit", "job.json", "--dry-run", titles=("STAGE", "DEVICE"))
    (fleet.path / "shared.json").write_text(json.dumps({**JOB, "strategy": "parameter_server"}))
    ways = ("PIPELINE_STEP", "SINGLE_STEP", "FASTEST")
    look("job", "submit", "shared.json", "--dry-run", titles=ways)
    mixed = {**JOB, "strategy": "gossip", "devices": {"min": 2}}
    (fleet.path / "mixed.json").write_text(json.dumps(mixed))
    look("job", "submit", "mixed.json", "--dry-run", titles=("GROUP", "WAITING_FOR", "FASTEST"))
    job = command(fleet, "job", "submit", "job.json", "-w").stdout.split()[0]
    same = json.loads(by_curl(fleet, "job", "submit", "-", stdin=json.dumps(JOB)))["id"]
    must(command(fleet, "job", "watch", same).stdout.count("succeeded: ") == 1, "no end")
    seen.update({"job submit", "job watch"})
    fleet.wait({"id": same}, "succeeded")
    look("job", "list", titles=("ID", "NAME", "STATE"))
    must(command(fleet, "job", "list", "-q").stdout.split() == [job, same], "ids")
    check_filters(fleet, job, same)
    look("job", "get", job, titles=("MODEL", "STATE"))
    look("job", "plans", job, titles=("GENERATION", "PREDICTED"))
    look("job", "plan", job, "1", titles=("DEVICE", "MEMORY"))
    look("job", "incidents", job, titles=("CAUSE",))
    look("job", "metrics", job, titles=("STEP", "VALUE"))
    losses = look("job", "metrics", job, "--metric", "loss", "--since", "4")["items"]
    must([item["step"] for item in losses] == [5, 6, 7, 8], f"losses {losses}")
    look("job", "mixes", job, titles=("KIND", "PEERS"))
    look("job", "kernels", job)
    look("job", "checkpoints", job, titles=("VERSION", "SIZE"))
    look("checkpoint", "list", titles=("VERSION", "SIZE"))
    checkpoint = fleet.job({"id": job})["checkpoint"]
    look("checkpoint", "get", checkpoint[:-2], titles=("SHA256",))
    must(
        subprocess.run(
            [str(BIN / "paceline"), "checkpoint", "get", checkpoint, "-o", "-"],
            capture_output=True,
            check=True,
            timeout=60,
            env={"PACELINE_URL": f"http://{fleet.coordinator.address}"},
        ).stdout
        == fleet.checkpoint({"id": job}),
        "the model differs",
    )
    command(fleet, "checkpoint", "get", checkpoint, "-o", "model.safetensors")
    look("checkpoint", "put", "model.safetensors", titles=("ID", "SHA256"))
    name = fleet.get("/v1/devices")["items"][0]["name"]
    look("device", "measurements", name, "--job", job, titles=("UNIT", "FORWARD"))
    look("device", "links", name, titles=("FROM", "TO"))
    look("incident", "list", titles=("CAUSE",))


def check_one_line(fleet):
    """A job by one line: data by its hash, waiting, the model."""
    data = ROOT / "examples/data/digits"
    line = ("job", "submit", "--model", "mlp", "--train", data, "--test", data, "--steps", "4")
    first = command(fleet, *line, "--get", "first.safetensors").stdout
    must("succeeded: " in first, first)
    sets = sorted(item["name"] for item in fleet.get("/v1/datasets")["items"])
    made = [name for name in sets if re.fullmatch(r"digits-(train|test)-[0-9a-f]{12}", name)]
    must(len(made) == 2, f"data sets {sets}")
    must(
        fleet.get(f"/v1/datasets/{made[1]}")["sha256"]
        == fleet.get("/v1/datasets/digits-train")["sha256"],
        "other content than by curl",
    )
    command(fleet, *line, "--wait", "--get", "second.safetensors")
    must(sorted(item["name"] for item in fleet.get("/v1/datasets")["items"]) == sets, "uploaded")
    models = [(fleet.path / f"{name}.safetensors").read_bytes() for name in ("first", "second")]
    must(models[0] == models[1] and len(models[0]) > 1000, "the models differ")
    command(fleet, "dataset", "put", "all", data, status=REFUSED)  # two sets in one archive
    photos = fleet.path / "train only"
    photos.mkdir()
    for path in data_files("digits", "train"):
        shutil.copy(path, photos)
    by_curl(fleet, "dataset", "put", "by-curl", photos)
    command(fleet, "dataset", "put", "by-command", photos)
    hashes = {fleet.get(f"/v1/datasets/by-{how}")["sha256"] for how in ("curl", "command")}
    must(len(hashes) == 1, f"a directory by curl and by command: {hashes}")


def check_running(fleet, seen):
    """The verbs of a job that runs until it is cancelled."""

    def look(*words, **options):
        seen.add(" ".join(words[:2]))
        return check(fleet, *words, **options)

    job = command(
        fleet, "job", "submit", "job.json", "--epochs", "100000", "--set=steps=null", "--name=long"
    ).stdout.strip()
    fleet.wait_for_step({"id": job}, 1)
    check_interrupt(fleet, job)
    must(command(fleet, "job", "get", "long", "-q").stdout.strip() == job, "the name is unknown")
    command(fleet, "job", "pause", job)
    fleet.wait({"id": job}, "paused")  # two answers about a running job differ
    look("job", "replicas", job, titles=("LOST", "STEPS_LOST"))
    look("job", "change", job, "--set", "replan.every=50", titles=("STATE",))
    must(fleet.job({"id": job})["spec"]["replan"]["every"] == 50, "not changed")
    must(look("plan", "--job", "long", titles=("DEVICE",))["plan"]["stages"], "no plan")
    seen.add("plan")
    seen.discard("plan --job")
    command(fleet, "job", "resume", job)
    fleet.wait({"id": job}, "running")
    seen.update({"job pause", "job resume"})
    by_curl(fleet, "job", "pause", job)
    fleet.wait({"id": job}, "paused")
    by_curl(fleet, "job", "resume", job)
    fleet.wait({"id": job}, "running")
    for ask in (command, by_curl):
        before = fleet.job({"id": job})["generation"]
        ask(fleet, "job", "replan", job)
        fleet.wait_until(
            {"id": job},
            lambda seen, before=before: seen["generation"] > before and seen["state"] == "running",
            "the new plan",
        )
    command(fleet, "job", "export", job)
    fleet.wait_until({"id": job}, lambda seen: seen["exported_version"], "the export")
    clone = command(fleet, "job", "clone", job, "--from", "last", "--epochs", "1").stdout.strip()
    must(fleet.job({"id": clone})["spec"]["init"]["checkpoint"], "the clone has no checkpoint")
    command(fleet, "job", "cancel", clone)
    command(fleet, "job", "clone", job, status=USAGE)
    seen.add("job clone")
    command(fleet, "job", "cancel", job, "--keep")
    seen.update({"job replan", "job export", "job cancel"})
    fleet.wait({"id": job}, "cancelled")
    must(
        "no such job" not in command(fleet, "job", "watch", job, status=NOT_SUCCEEDED).stderr,
        "watch",
    )
    refused = command(fleet, "job", "pause", job, status=REFUSED).stderr
    must(refused.startswith("paceline: ") and "(wrong_state)" in refused, refused)


def check_rest(fleet, seen):
    """Versions, events, groups, and the statuses of what is refused."""
    version = json.loads(command(fleet, "version", "--format", "json").stdout)["versions"]
    must([item["name"] for item in version] == ["paceline", "paceline-coordinator"], version)
    must(json.loads(by_curl(fleet, "version")) == version[1], "the version by curl")
    found = json.loads(command(fleet, "doctor", "--format", "json").stdout)["items"]
    must({item["result"] for item in found} == {"ok"}, found)
    seen.add("doctor")
    first = json.loads(command(fleet, "job", "list", "--format", "json").stdout)["items"][0]["id"]
    command(fleet, "job", "groups", first, status=REFUSED)
    command(fleet, "job", "get", UNKNOWN_JOB, status=NOT_FOUND)
    missing = command(
        fleet, "job", "submit", "--model", "mlp", "--train", "./nothing", status=NOT_FOUND
    )
    must("no file or directory './nothing'" in missing.stderr, missing.stderr)
    command(fleet, "job", "get", "nothing", status=NOT_FOUND)
    command(fleet, "job", "get", "digits", status=NOT_FOUND)  # two jobs have the name
    command(fleet, "incident", "get", "inc_01", status=NOT_FOUND)
    command(fleet, "job", "submit", "none.json", status=FAILED)
    fault = command(fleet, "job", "submit", "job.json", "--batch", "0", status=REFUSED).stderr
    must(fault.startswith("paceline: job.json: /batch: "), fault)
    command(fleet, "--server", "http://127.0.0.1:9", "job", "list", status=UNREACHABLE)
    seen.update({"version", "job groups", "incident get"})
    check_completion(fleet)
    seen.add("completion")
    with subprocess.Popen(
        [str(BIN / "paceline"), "events"],
        stdout=subprocess.PIPE,
        text=True,
        env={"PACELINE_URL": f"http://{fleet.coordinator.address}"},
    ) as follower:
        device = fleet.get("/v1/devices")["items"][0]["id"]
        # The stream starts with new events: repeat them until it has begun.
        for verb in 10 * ("cordon", "uncordon"):
            command(fleet, "device", verb, device)
            if select.select([follower.stdout], [], [], 0.5)[0]:
                break
        line = follower.stdout.readline()
        must(re.match(r"\S+Z  device_(un)?cordoned  .*", line), f"an event: {line!r}")
        follower.terminate()
    seen.add("events")
    agent = fleet.agents.pop()
    must(agent.stop() == 0, "the agent's end")
    device = fleet.wait_for_devices(1, "lost")[0]["id"]
    faults = command(fleet, "doctor", status=FAILED).stdout
    must(re.search("failed +devices +0 of 1 are online", faults), faults)
    command(fleet, "device", "remove", device)
    command(fleet, "device", "get", device, status=NOT_FOUND)
    seen.add("device remove")
    check_deletes(fleet, seen)


def check_deletes(fleet, seen):
    """What is stored is deleted by its name or id."""
    jobs = json.loads(command(fleet, "job", "list", "--format", "json").stdout)["items"]
    ended = next(job for job in jobs if job["state"] == "succeeded" and job["checkpoint"])
    for noun, name in (
        ("checkpoint", ended["checkpoint"]),
        ("job", ended["id"]),
        ("dataset", "by-curl"),
        ("model", "mine"),
    ):
        command(fleet, noun, "delete", name)
        command(fleet, noun, "get", name, status=NOT_FOUND)
        seen.add(f"{noun} delete")
    command(fleet, "incident", "delete", "inc_01", status=NOT_FOUND)
    seen.add("incident delete")


def check_completion(fleet):
    """bash completes words, options and ids of the coordinator."""
    script = command(fleet, "completion", "bash").stdout
    must(command(fleet, "completion", "csh", status=USAGE).stderr, "another shell")
    must(command(fleet, "completion", "bash", "--curl", status=USAGE).stderr, "a request")
    job = fleet.get("/v1/jobs")["items"][0]["id"]
    for words, expected in (
        ("''", "events"),
        ("job ca", "cancel"),
        ("job cancel --k", "--keep"),
        ("job list --format w", "wide"),
        ("job get job_", job),
        ("dataset get digits-tr", "digits-train"),
    ):
        count = len(words.split())
        done = subprocess.run(
            [
                "bash",
                "-c",
                f"{script}\nCOMP_WORDS=(paceline {words}) COMP_CWORD={count}\n"
                '_paceline && echo "${COMPREPLY[@]}"',
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env={
                "PATH": f"{BIN}:{os.environ['PATH']}",
                "PACELINE_URL": f"http://{fleet.coordinator.address}",
            },
        )
        must(expected in done.stdout.split(), f"{words}: {done.stdout} {done.stderr}")


def check_interrupt(fleet, job):
    """Ctrl-C ends the watch and not the job."""
    with subprocess.Popen(
        [str(BIN / "paceline"), "job", "watch", job],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PACELINE_URL": f"http://{fleet.coordinator.address}"},
    ) as watcher:
        watcher.stdout.readline()
        watcher.send_signal(signal.SIGINT)
        complaint = watcher.stderr.read()
        must(watcher.wait() == INTERRUPTED, f"status {watcher.returncode}")
    must(complaint.endswith(f"continues: paceline job watch {job}\n"), complaint)
    must(fleet.job({"id": job})["state"] == "running", "the job has stopped")


SEEN = set()  # commands that were tried


def test_commands_answer_as_table_json_and_curl():
    with fleet_of_one() as fleet:
        check_things(fleet, SEEN)
        check_job(fleet, SEEN)
        check_one_line(fleet)
        check_running(fleet, SEEN)
        check_rest(fleet, SEEN)


def initialised(*arguments):
    """A coordinator with tokens, and the admin's token. arguments: of init."""
    fleet = Fleet()
    words = fleet.init(*arguments)
    fleet.start_coordinator()
    return fleet, words["token"]


def test_tokens_are_stored_by_login_and_never_shown():
    fleet, admin = initialised("--no-tls")
    with fleet:
        url = f"http://{fleet.coordinator.address}"
        contexts = fleet.path / ".config/paceline/contexts.json"
        must(
            "(unauthorized)" in command(fleet, "job", "list", status=REFUSED).stderr,
            "no token is enough",
        )
        command(fleet, "login", url, stdin="pl_wrong\n", status=REFUSED)
        must(not contexts.exists(), "a wrong token was stored")
        done = command(fleet, "login", url, "--context", "home", stdin=admin + "\n")
        must(contexts.stat().st_mode & 0o777 == 0o600, f"mode {contexts.stat().st_mode:o}")
        command(fleet, "login", url, admin, "--context", "other")
        listed = command(fleet, "context", "list", "--format", "wide")
        must("home" in listed.stdout and url in listed.stdout, listed.stdout)
        line = command(fleet, "job", "list", "--curl", **NOWHERE).stdout
        must("$PACELINE_TOKEN" in line, line)
        for text in (done.stdout, done.stderr, listed.stdout, line):
            must(admin not in text, f"the token is shown: {text}")
        command(fleet, "context", "use", "home")
        command(fleet, "job", "list", **NOWHERE)
        command(fleet, "job", "list", "--context", "other")
        # The token of a context goes to its own address only.
        command(fleet, "--server", url, "job", "list", status=REFUSED)
        command(fleet, "job", "list", PACELINE_TOKEN=admin)
        command(fleet, "context", "remove", "home")
        command(fleet, "job", "list", "--context", "home", status=NOT_FOUND)
        contexts.chmod(0o644)
        must(
            "chmod 600" in command(fleet, "job", "list", status=FAILED, **NOWHERE).stderr,
            "a file that others can read is used",
        )
        SEEN.update({"login", "context list", "context use", "context remove"})


def test_tokens_are_made_listed_and_revoked():
    fleet, admin = initialised("--no-tls")
    with fleet:
        env = {"PACELINE_TOKEN": admin}
        made = json.loads(
            command(
                fleet,
                "token",
                "create",
                "ci",
                "--role=submit",
                "--expires=7d",
                "--max-bytes=1000000",
                "--max-jobs=5",
                "--format=json",
                **env,
            ).stdout
        )
        must(made["token"].startswith("pl_") and made["role"] == "submit", made)
        must(made["max_bytes"] == 1000000 and made["max_jobs"] == 5, made)
        machine = fleet.join("board", token=fleet.join_token())
        must(machine.returncode == 0, machine.stderr)
        renamed = command(fleet, "device", "rename", "board", "cellar", **env).stdout
        must("cellar" in renamed and "joined" in renamed, renamed)
        rekey = command(fleet, "device", "rekey", "cellar", "--format=table", **env).stdout
        must(re.search(r"TOKEN +pl_", rekey) and re.search(r"DEVICE +cellar", rekey), rekey)
        SEEN.update({"device rename", "device rekey"})
        command(fleet, "job", "list", PACELINE_TOKEN=made["token"])
        command(fleet, "token", "list", status=REFUSED, PACELINE_TOKEN=made["token"])
        for words in (("token", "list"), ("token", "get", "ci"), ("token", "revoke", "ci")):
            line = command(fleet, *words, "--curl", **env).stdout
            by_hand = subprocess.run(
                ["bash", "-c", line], env={**os.environ, **env}, capture_output=True, check=True
            ).stdout
            must(b"ci" in by_hand, f"{line}: {by_hand!r}")
            SEEN.add(" ".join(words[:2]))
        table = command(fleet, "token", "list", **env).stdout
        must(re.search(r"ci +submit +revoked", table), table)
        must(made["token"] not in table, "the secret is shown again")
        command(fleet, "job", "list", status=REFUSED, PACELINE_TOKEN=made["token"])
        audit = command(fleet, "audit", **env).stdout
        must("/v1/tokens" in audit and "STATUS" in audit, audit)
        command(fleet, "token", "revoke", "ci", status=REFUSED, PACELINE_TOKEN=made["token"])
        SEEN.update({"token create", "audit"})


def test_a_coordinator_with_tls_is_trusted_by_its_authority():
    fleet, admin = initialised("--name", "127.0.0.1")
    with fleet:
        url = f"https://{fleet.coordinator.address}"
        ca = fleet.path / "coordinator/tls/ca.pem"
        unknown = command(fleet, "login", url, stdin=admin + "\n", status=UNREACHABLE)
        must("certificate" in unknown.stderr, unknown.stderr)
        command(fleet, "login", url, "--ca", ca, stdin=admin + "\n")
        command(fleet, "job", "list", **NOWHERE)
        line = command(fleet, "token", "list", "--curl", **NOWHERE).stdout
        by_hand = subprocess.run(
            ["bash", "-c", line],
            env={**os.environ, "PACELINE_TOKEN": admin},
            capture_output=True,
            check=True,
        ).stdout
        must(b'"admin"' in by_hand, f"{line}: {by_hand!r}")
        plain = {"PACELINE_URL": f"http://{fleet.coordinator.address}"}
        must("https://" in command(fleet, "job", "list", status=REFUSED, **plain).stderr, "no hint")


def test_every_command_has_help():
    with Fleet() as fleet:
        fleet.start_coordinator()
        for words in words_of(fleet):
            text = command(fleet, *words.split(), "--help").stdout
            must(text.startswith(f"Usage: paceline {words}"), text)


def test_every_command_was_tried():
    with Fleet() as fleet:
        fleet.start_coordinator()
        known = words_of(fleet)
        must(SEEN == known, f"not tried: {known - SEEN}; unknown: {SEEN - known}")


if __name__ == "__main__":
    run(globals())
