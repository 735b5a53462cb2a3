"""Sub-models under failures in every phase: devices, all devices and the coordinator die, and the
model stays the same; so it does on any number of devices. A missed deadline and a lost replica cost
little accuracy. A pause or a cancel leaves no job at work and no blob without a row. Groups that
are divided again keep the law.
"""

import contextlib
import functools
import itertools
import json
import pathlib
import signal
import sqlite3
import tempfile
import threading
import time

from paceline import FASHION, fashion_fleet, must, on_devices
from predict import predict_json
from runner import run
from submodels import (
    LEASE_MS,
    SMALL,
    check_group,
    content_of,
    groups_of,
    model_of,
    submodel_job,
    undisturbed,
)
from submodels import SLOWDOWN as SMALL_SLOWDOWN
from views import labels_of

OPTIONS = ("--heartbeat-ms", 100, "--lease-ms", LEASE_MS)
PHASES = ("stem", "groups", "harvest", "joint")
AGENTS = 3
SLOWDOWN = 3
DEATHS = 25
LONG_EPOCHS = 40  # a division pays within its first steps
TRIES = 10  # to meet a harvest


def fleet_of(agents=AGENTS):
    return fashion_fleet(agents, "--slowdown", SLOWDOWN, lease_ms=LEASE_MS)


def wait_for_phase(fleet, job, phase):
    """The phase has begun. A harvest takes milliseconds: it may be over as soon as it is seen."""
    deadline = time.monotonic() + 120
    order = (*PHASES, "ended")
    while order.index(groups_of(fleet, job)["phase"]) < order.index(phase):
        must(time.monotonic() < deadline, f"no phase {phase}: {fleet.job(job)}")
        time.sleep(0.002)


def wait_for_parts(fleet, job, phase):
    """A part of the phase trains."""
    wait_for_phase(fleet, job, phase)
    if phase != "harvest":
        deadline = time.monotonic() + 60
        while not parts_at_work(fleet, job):
            must(time.monotonic() < deadline, f"nothing trains in the phase {phase}")
            time.sleep(0.01)


def parts_of(fleet, job):
    seen = groups_of(fleet, job)
    parts = [seen["stem"], *(group["part"] for group in seen["groups"]), seen["joint"]]
    return [part for part in parts if part["job"]]


def parts_at_work(fleet, job):
    return [
        part["job"]
        for part in parts_of(fleet, job)
        if part["state"] == "trains" and fleet.job({"id": part["job"]})["state"] == "running"
    ]


def restart(fleet):
    fleet.coordinator.kill()
    fleet.restart_coordinator(*OPTIONS)


# ---- what is left behind ----


def column(database, query):
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
        return [value for (value,) in opened.execute(query)]


def loose_ends(fleet):
    """(blobs that no row names, hashes of rows that no blob has)"""
    place = pathlib.Path(fleet.path) / "coordinator"
    documents = {
        table: column(place / "state.db", f"SELECT document FROM {table}")
        for table in ("checkpoints", "center_units", "datasets", "jobs")
    }
    named = "\n".join(itertools.chain.from_iterable(documents.values()))
    needed = {
        json.loads(document)["sha256"]
        for document in documents["checkpoints"] + documents["center_units"]
    }
    blobs = set(
        column(place / "checkpoints.db", "SELECT sha256 FROM blobs WHERE sha256 IS NOT NULL")
    )
    return {sha256 for sha256 in blobs if sha256 not in named}, needed - blobs


def check_nothing_is_left(fleet):
    """The store can be read while the coordinator is down."""
    devices = fleet.get("/v1/devices")["items"]
    must(all(device["job"] is None for device in devices), f"{devices}")
    time.sleep(1)  # blobs are deleted after the commit
    must(fleet.coordinator.stop() == 0, "the coordinator did not stop")
    loose, missing = loose_ends(fleet)
    fleet.restart_coordinator(*OPTIONS)
    must(not loose, f"blobs without a row: {loose}")
    must(not missing, f"rows without a blob: {missing}")


# ---- the same model ----


@functools.cache
def expected():
    with fashion_fleet(2) as fleet:
        job = fleet.submit(submodel_job())
        seen = fleet.wait(job, "succeeded")
        check_nothing_is_left(fleet)
        return model_of(fleet, seen["checkpoint"])


def check_model(fleet, job, seconds=300):
    model = model_of(fleet, fleet.wait(job, "succeeded", seconds)["checkpoint"])
    must(model == expected(), f"{model}, not {expected()}")
    check_nothing_is_left(fleet)


def test_the_model_is_the_same_on_one_three_and_six_devices():
    for agents in (1, 3, 6):
        with fashion_fleet(agents) as fleet:
            check_model(fleet, fleet.submit(submodel_job()))


def test_a_device_dies_in_each_phase_with_parts():
    for phase in ("stem", "groups", "joint"):
        with fleet_of() as fleet:
            job = fleet.submit(submodel_job())
            wait_for_parts(fleet, job, phase)
            part = parts_at_work(fleet, job)[0]
            fleet.agent_of({"id": part}, 0).kill()
            check_model(fleet, job)
            must(fleet.get(f"/v1/jobs/{part}/incidents")["items"], f"{phase}: no incident")


def test_all_devices_die_in_each_phase():
    for phase in PHASES:
        with fleet_of() as fleet:
            job = fleet.submit(submodel_job())
            wait_for_parts(fleet, job, phase)
            names = [agent.name for agent in fleet.agents]
            for agent in fleet.agents:
                agent.kill()
            for name in names:
                fleet.start_agent(name, "--slowdown", SLOWDOWN, wait=False)
            check_model(fleet, job)


def test_the_coordinator_dies_twice_in_each_phase():
    with fleet_of() as fleet:
        job = fleet.submit(submodel_job())
        for phase in PHASES:
            wait_for_phase(fleet, job, phase)
            restart(fleet)
            restart(fleet)
            must(fleet.job(job)["state"] != "failed", f"{fleet.job(job)}")
        check_model(fleet, job)


def damage_blob(fleet, sha256):
    """Overwrite its first chunk. The coordinator is down."""
    database = pathlib.Path(fleet.path) / "coordinator" / "checkpoints.db"
    with contextlib.closing(sqlite3.connect(database)) as store, store:
        ((blob,),) = store.execute("SELECT id FROM blobs WHERE sha256 = ?", (sha256,))
        store.execute("UPDATE chunks SET data = zeroblob(length(data)) WHERE id = ?", (blob << 20,))


def test_a_damaged_stem_is_trained_again_and_the_model_is_the_same():
    right = undisturbed(SMALL)
    with fashion_fleet(AGENTS, "--slowdown", SMALL_SLOWDOWN, lease_ms=LEASE_MS) as fleet:
        job = fleet.submit(submodel_job(SMALL))
        wait_for_parts(fleet, job, "groups")
        stem = groups_of(fleet, job)["stem"]
        model = model_of(fleet, stem["checkpoint"])
        fleet.coordinator.kill()
        damage_blob(fleet, model)
        fleet.restart_coordinator(*OPTIONS)
        seen = fleet.wait(job, "succeeded", 300)
        must(model_of(fleet, seen["checkpoint"]) == right, f"another model than {right}")
        again = groups_of(fleet, job)["stem"]
        must(again["job"] != stem["job"], f"the stem was not trained again: {again}")


def events_of(fleet):
    return sum("subject=job_" in line for line in fleet.coordinator.log_text().splitlines())


def test_the_coordinator_dies_right_after_commits_of_a_job():
    """Each change of a state is a commit, and its event is logged right after it."""
    with fleet_of() as fleet:
        job = fleet.submit(submodel_job())
        for death in range(DEATHS):
            while events_of(fleet) < 1 + death % 5 and fleet.job(job)["state"] != "succeeded":
                time.sleep(0.002)
            restart(fleet)
        check_model(fleet, job)


def test_each_group_is_an_ordinary_job_that_three_devices_can_train():
    with fleet_of() as fleet:
        job = fleet.submit(submodel_job())
        fleet.wait(job, "succeeded")
        for group in groups_of(fleet, job)["groups"]:
            spec = fleet.get(f"/v1/jobs/{job['id']}/groups/{group['group']}/spec")
            alone = fleet.submit({**spec, "cuts": [2, 4], **on_devices(AGENTS, AGENTS)})
            model = model_of(fleet, fleet.wait(alone, "succeeded")["checkpoint"])
            trained = model_of(fleet, group["part"]["checkpoint"])
            must(model == trained, f"group {group['group']}: {model}, not {trained}")


# ---- groups that are divided again ----


@contextlib.contextmanager
def throttled(agent):
    """The agent runs for a sixth of the time, in slices, as a board that is too hot does."""
    over = threading.Event()

    def throttle():
        while not over.is_set():
            agent.signal(signal.SIGSTOP)
            time.sleep(0.1)
            agent.signal(signal.SIGCONT)
            over.wait(0.02)

    thread = threading.Thread(target=throttle)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def wait_for_division(fleet, job):
    deadline = time.monotonic() + 120
    while (seen := groups_of(fleet, job))["divisions"] < 2:
        must(seen["phase"] in ("stem", "groups"), f"the groups were not divided again: {seen}")
        must(time.monotonic() < deadline, f"the groups are not divided again: {seen}")
        time.sleep(0.05)
    return seen


def width_of(parts, device):
    return next(group["width"] for group in parts["groups"] if group["device"] == device)


def test_a_device_that_slows_down_gets_fewer_channels_and_the_law_holds():
    spec = submodel_job(groups=None, group_count=AGENTS, joint={"epochs": 0})
    with fleet_of() as fleet:
        job = fleet.submit({**spec, "epochs": LONG_EPOCHS})
        wait_for_parts(fleet, job, "groups")
        first = groups_of(fleet, job)
        device = first["groups"][0]["device"]
        name = fleet.get(f"/v1/devices/{device}")["name"]
        with throttled(next(agent for agent in fleet.agents if agent.name == name)):
            again = wait_for_division(fleet, job)
        narrow, wide = width_of(again, device), width_of(first, device)
        must(narrow < wide, f"the width of {name} was {wide} and is {narrow}")
        restart(fleet)
        fleet.wait(job, "succeeded", 600)
        parts = groups_of(fleet, job)
        must(parts["divisions"] in (2, 3), f"{parts}")
        print(f"    widths {wide} and {narrow}, {parts['divisions']} divisions")
        check_group(fleet, job, parts)
        check_nothing_is_left(fleet)


# ---- verbs ----


def test_a_pause_in_each_phase_frees_the_devices_and_changes_no_bit():
    for phase in ("stem", "groups", "joint"):
        with fleet_of() as fleet:
            job = fleet.submit(submodel_job())
            wait_for_parts(fleet, job, phase)
            fleet.verb(job, "pause")
            paused = fleet.wait(job, "paused")
            must(paused["message"] == f"paused in the phase {phase}", f"{paused}")
            must(not parts_at_work(fleet, job), "a part still trains")
            check_nothing_is_left(fleet)
            restart(fleet)
            must(fleet.job(job)["state"] == "paused", f"{fleet.job(job)}")
            fleet.verb(job, "resume")
            check_model(fleet, job)


def test_a_resume_that_follows_a_pause_at_once_resumes_every_part():
    with fleet_of() as fleet:
        job = fleet.submit(submodel_job())
        for phase in ("stem", "groups", "joint"):
            wait_for_parts(fleet, job, phase)
            for _ in range(3):
                fleet.verb(job, "pause")
                fleet.verb(job, "resume")
        check_model(fleet, job)


def cancel_in(phase):
    """Returns whether the phase was not over when the job was cancelled."""
    with fleet_of() as fleet:
        job = fleet.submit(submodel_job())
        wait_for_parts(fleet, job, phase)
        fleet.verb(job, "cancel")
        ended = fleet.wait(job, "cancelled")
        must(ended["checkpoint"] is None, f"{ended}")
        states = [fleet.job({"id": part["job"]})["state"] for part in parts_of(fleet, job)]
        must(all(state in ("succeeded", "cancelled") for state in states), f"{states}")
        check_nothing_is_left(fleet)
        return phase != "harvest" or groups_of(fleet, job)["harvest"] is None


def test_a_cancel_in_each_phase_leaves_nothing_behind():
    for phase in ("stem", "groups", "joint"):
        cancel_in(phase)
    must(any(cancel_in("harvest") for _ in range(TRIES)), "no harvest was met")


def test_the_harvested_model_is_kept_when_the_joint_phase_is_cancelled():
    with fleet_of() as fleet:
        job = fleet.submit(submodel_job())
        wait_for_parts(fleet, job, "joint")
        harvest = groups_of(fleet, job)["harvest"]
        fleet.request("POST", f"/v1/jobs/{job['id']}/cancel?keep=true", expect=202)
        must(fleet.wait(job, "cancelled")["checkpoint"] == harvest, "another model is kept")
        check_nothing_is_left(fleet)


# ---- what missing groups cost ----

NOBODY = {"labels": {"room": "none"}}
PAIRS = [{"classes": [2 * n, 2 * n + 1], "width": 0.2} for n in range(5)]
SHIFTED = [{"classes": [2 * n + 1, (2 * n + 2) % 10], "width": 0.1} for n in range(5)]
TWICE = [{**group, "width": 0.1} for group in PAIRS] + SHIFTED


def predictions(fleet, checkpoint):
    """The classes that a model predicts of the test set."""
    images, labels = FASHION["fashion-test"]
    with tempfile.TemporaryDirectory(prefix="paceline-missing-") as place:
        path = pathlib.Path(place) / "model.safetensors"
        path.write_bytes(content_of(fleet, checkpoint))
        samples = predict_json(path, f"{images},{labels}", "--top", 1)[0]
    return [sample["top"][0]["class"] for sample in samples]


def accuracy(predicted, leave_out=()):
    """In points, of the samples of all classes but these."""
    classes = labels_of(FASHION["fashion-test"][1])
    right = [p == c for p, c in zip(predicted, classes) if c not in leave_out]
    return 100 * sum(right) / len(right)


def train_groups(fleet, groups, **submodel):
    job = fleet.submit(
        {
            **submodel_job(groups=groups, negatives=2, **submodel),
            "model": {"name": "mlp"},
            "epochs": 6,
        }
    )
    seen = fleet.wait(job, "succeeded", 600)
    return seen, groups_of(fleet, job)


def test_a_missed_deadline_costs_the_missing_classes_alone():
    with fashion_fleet(3) as fleet:
        whole, parts = train_groups(fleet, PAIRS)
        must(parts["missing_classes"] == [] and whole["state_reason"] is None, f"{parts}")
        late = [*PAIRS[:2], {**PAIRS[2], **NOBODY}, *PAIRS[3:]]
        lame, parts = train_groups(fleet, late, deadline_seconds=20)
        must(parts["missing_classes"] == [4, 5], f"{parts}")
        must(lame["state_reason"] == "degraded", f"{lame}")
        without = predictions(fleet, lame["checkpoint"])
        must(not {4, 5} & set(without), "a missing class is predicted")
        before = accuracy(predictions(fleet, whole["checkpoint"]), (4, 5))
        after = accuracy(without, (4, 5))
        print(f"    other classes: {before:.1f} % with all groups, {after:.1f} % without one")
        must(after >= before - 0.5, f"{after} %, {before} % with all groups")


def test_a_lost_replica_costs_half_a_point_at_most():
    with fashion_fleet(3) as fleet:
        whole, _ = train_groups(fleet, TWICE, replicas=2)
        late = [*TWICE[:6], {**TWICE[6], **NOBODY}, *TWICE[7:]]
        lame, parts = train_groups(fleet, late, replicas=2, deadline_seconds=30)
        must(parts["missing_classes"] == [], f"{parts}")
        must(lame["state_reason"] == "degraded", f"{lame}")
        before = accuracy(predictions(fleet, whole["checkpoint"]))
        after = accuracy(predictions(fleet, lame["checkpoint"]))
        print(f"    {before:.1f} % with all groups, {after:.1f} % without one")
        must(after >= before - 0.5, f"{after} %, {before} % with all groups")


if __name__ == "__main__":
    run(globals())
