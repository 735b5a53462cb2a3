"""Jobs of strategy gossip: groups that train apart, mix in pairs and end with an average."""

import hashlib
import json
import pathlib
import subprocess
import tempfile

from leaving import ended_by_itself, start
from paceline import BIN, FASHION, SLOW_LEASE_MS, fashion_fleet, fashion_job, must, places
from runner import run

GROUPS = 3
BATCH = 32


def gossip_job(devices=GROUPS, options=None, model="lenet5", **fields):
    return fashion_job(
        model,
        **{
            "strategy": "gossip",
            "gossip": {"average_every": 4, **(options or {})},
            "batch": BATCH,
            "micro_batches": 1,
            "epochs": 4,
            "devices": {"min": devices, "max": devices},
            "dataset": {"train": "fashion-train", "test": "fashion-test"},
            **fields,
        },
    )


def gossip_fleet(agents=GROUPS, lease_ms=SLOW_LEASE_MS):
    fleet = fashion_fleet(agents, lease_ms=lease_ms)
    fleet.upload("fashion-test", "fashion-mini", "test")
    return fleet


def groups_of(fleet, job):
    return fleet.get(f"/v1/jobs/{job['id']}/groups")


def log_of(fleet, job):
    """The pages of the log."""
    pages, cursor = [], ""
    while True:
        pages.append(fleet.get(f"/v1/jobs/{job['id']}/mixes?limit=100{cursor}"))
        if not pages[-1]["next_cursor"]:
            return pages
        cursor = f"&cursor={pages[-1]['next_cursor']}"


def mixes_of(fleet, job):
    return [item["record"] for page in log_of(fleet, job) for item in page["items"]]


def sha256_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def try_replay(fleet, job, spec, pages):
    """(the ended process, the folder of what it wrote)"""
    groups = [
        fleet.get(f"/v1/jobs/{job['id']}/groups/{group['group']}/spec")
        for group in groups_of(fleet, job)["groups"]
    ]
    place = pathlib.Path(tempfile.mkdtemp(prefix="replay-", dir=fleet.path))
    averages = place / "averages"
    averages.mkdir()
    for name, value in (("job", spec), ("mixes", pages), ("groups", groups)):
        (place / f"{name}.json").write_text(json.dumps(value))
    arguments = ["replay", place / "job.json", "--mixes", place / "mixes.json"]
    arguments += ["--groups", place / "groups.json", "--output", place / "model.safetensors"]
    arguments += ["--averages", averages]
    arguments += places({"fashion-train": FASHION["fashion-train"]})
    done = subprocess.run(
        [BIN / "paceline-agent", *arguments], capture_output=True, text=True, timeout=300
    )
    return done, place


def replay(fleet, job, spec, pages):
    """The hashes of the model that the job's spec and its log determine, and of its averages."""
    done, place = try_replay(fleet, job, spec, pages)
    must(done.returncode == 0, f"replay: {done.stderr}")
    averages = set(map(sha256_of, (place / "averages").iterdir()))
    return sha256_of(place / "model.safetensors"), averages


def check_replay(fleet, job, spec):
    """Of the result, and of the averages that were kept."""
    expected = fleet.checkpoint_sha256(job)
    model, averages = replay(fleet, job, spec, log_of(fleet, job))
    must(model == expected, f"replayed {model}, not {expected}")
    for kept in groups_of(fleet, job)["averages"]:
        sha256 = fleet.get(f"/v1/checkpoints/{kept['checkpoint']}")["sha256"]
        must(sha256 in {model, *averages}, f"{kept} is not in the replay")


def remove(items, place):
    del items[place]


def duplicate(items, place):
    items.insert(place, items[place])


def change(items, place):
    items[place]["record"]["alpha"] /= 2


def check_damaged_logs(fleet, job, spec):
    """A log in which one move of a pair is damaged does not give the result."""
    expected = fleet.checkpoint_sha256(job)
    for damage in (remove, duplicate, change):
        pages = log_of(fleet, job)
        items = next(
            page["items"]
            for page in pages
            if any(item["record"]["kind"] == "pair" for item in page["items"])
        )
        pairs = [n for n, item in enumerate(items) if item["record"]["kind"] == "pair"]
        damage(items, pairs[0])
        done, place = try_replay(fleet, job, spec, pages)
        model = place / "model.safetensors"
        must(
            done.returncode != 0 or sha256_of(model) != expected,
            f"{damage.__name__}: the replay of a damaged log gives the result",
        )


def of_kind(records, kind):
    return [record for record in records if record["kind"] == kind]


def check_log(records, groups):
    """Each group begins once, and every move names copies of groups that have begun."""
    begun = [record["own"] for record in of_kind(records, "start")]
    starts = {(own["group"], own["generation"]) for own in begun}
    must({group for group, _ in starts} == set(range(groups)), f"started: {starts}")
    for record in records:
        members = [record["own"], *record.get("peers", [])]
        unknown = [m for m in members if (m["group"], m["generation"]) not in starts]
        must(not unknown, f"{record} names {unknown}, which did not start")


def check_begun_again(records, groups, expected):
    """The expected groups, and no others, have begun once more with an average."""
    check_log(records, groups)
    starts = of_kind(records, "start")
    again = [record["own"]["group"] for record in starts if record["xid"]["counter"] > 0]
    must(again == expected, f"{starts}")


def check_metrics(fleet, job, groups):
    """Of the job with each average, of its groups with each mix."""
    for name, most in (("mix_seconds", 10), ("distance", 10), ("period_cv", 1)):
        values = fleet.metric(job, name)
        must(values and all(0 <= value <= most for value in values.values()), f"{name}: {values}")
    for group in groups:
        values = fleet.metric({"id": group["part"]["job"]}, "mix_seconds")
        must(values, f"group {group['group']} has no mix_seconds")


def test_groups_train_apart_and_end_with_an_average():
    with gossip_fleet() as fleet:
        spec = gossip_job()
        job = fleet.submit(spec)
        seen = fleet.wait(job, "succeeded")
        view = groups_of(fleet, job)
        must(view["phase"] == "ended", f"{view}")
        must(len(view["groups"]) == GROUPS, f"{view}")
        must(view["averages"], f"no average: {view}")
        must(seen["checkpoint"] == view["averages"][-1]["checkpoint"], f"{seen}")
        must(seen["progress"]["accuracy"] > 0.5, f"{seen['progress']}")
        steps = sum(group["mixes"]["steps"] for group in view["groups"])
        must(steps == seen["progress"]["step"] >= seen["progress"]["steps"], f"{view}")
        check_metrics(fleet, job, view["groups"])
        records = mixes_of(fleet, job)
        check_log(records, GROUPS)
        must(of_kind(records, "pair"), "no pair has mixed")
        must(of_kind(records, "average"), "no average is recorded")
        must(fleet.checkpoint_sha256(job), "the result cannot be fetched")
        check_replay(fleet, job, spec)
        check_damaged_logs(fleet, job, spec)
        hidden = fleet.get("/v1/jobs")["items"]
        must([item["id"] for item in hidden] == [job["id"]], f"{hidden}")


def wait_for_averages(fleet, job, count):
    fleet.wait_until(
        job, lambda seen: groups_of(fleet, job).get("averages_stored", 0) >= count, "more averages"
    )


def submit_until_average(fleet, spec, count=1):
    """The job that has stored so many averages."""
    job = fleet.submit(spec)
    wait_for_averages(fleet, job, count)
    return job


def test_in_rounds_all_groups_make_one_pass_of_their_data_and_mix_at_once():
    options = {"schedule": "rounds", "level": False, "pairs": "uniform", "adopt": False}
    with gossip_fleet() as fleet:
        spec = gossip_job(options={**options, "average_every": 1}, epochs=6)
        job = fleet.submit(spec)
        fleet.wait(job, "succeeded")
        view = groups_of(fleet, job)
        steps = [group["mixes"]["steps"] for group in view["groups"]]
        per_pass = [round(group["mixes"]["samples"] / BATCH) for group in view["groups"]]
        must(max(steps) - min(steps) <= max(per_pass), f"steps {steps}, a pass {per_pass}")
        records = mixes_of(fleet, job)
        must(of_kind(records, "pair") and not of_kind(records, "adopt"), f"{records}")
        off = [r for r in of_kind(records, "pair") if r["applied_step"] % per_pass[0]]
        must(not off, f"mixes within a pass of {per_pass}: {off}")
        check_replay(fleet, job, spec)


def test_a_group_that_mixes_moves():
    with gossip_fleet(0) as fleet:
        for name in ("a", "b", "c", "d"):
            start(fleet, name)
        fleet.wait_for_agents()
        spec = gossip_job(epochs=6)
        job = fleet.submit(spec)
        wait_for_averages(fleet, job, 1)
        device = groups_of(fleet, job)["groups"][1]["mixes"]["device"]
        name = fleet.get(f"/v1/devices/{device}")["name"]
        ended_by_itself(next(agent for agent in fleet.agents if agent.name == name))
        seen = fleet.job(job)
        must(seen["state"] == "running" and seen["progress"]["step"] > 0, f"{seen}")
        fleet.wait(job, "succeeded")
        check_log(mixes_of(fleet, job), GROUPS)
        check_replay(fleet, job, spec)


if __name__ == "__main__":
    run(globals())
