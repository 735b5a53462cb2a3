"""Jobs on data that never leave their devices, whose devices or coordinator go away."""

from gossip import (
    check_begun_again,
    groups_of,
    mixes_of,
    of_kind,
    submit_until_average,
    wait_for_averages,
)
from local_data import (
    LocalFleet,
    check_replayed,
    folders_of,
    group_of,
    holding_job,
    local_job,
    put_folder,
    replayed,
    wait_for_message,
)
from paceline import must
from runner import run


def test_the_log_and_the_data_of_each_device_determine_the_result():
    with LocalFleet() as fleet:
        fleet.own_all(3)
        spec = local_job()
        job = fleet.submit(spec)
        fleet.wait(job, "succeeded")
        check_replayed(fleet, job, spec)
        folders = folders_of(fleet)
        devices = sorted(folders)
        folders[devices[0]], folders[devices[1]] = folders[devices[1]], folders[devices[0]]
        done = replayed(fleet, job, spec, folders)
        must(done.returncode == 1, "a replay on the data of others ends well")
        must("not the data that the group trained on" in done.stderr, done.stderr)


def test_a_group_waits_for_its_device_and_the_others_go_on():
    with LocalFleet(lease_ms=2000) as fleet:
        fleet.own_all(3)
        spec = local_job(epochs=120)
        job = submit_until_average(fleet, spec)
        number, _ = group_of(fleet, job, "own1")
        fleet.own("spare", fleet.share(1, 3))  # it is free, has the same data, and is no successor
        gone = fleet.agents[1]
        gone.kill()
        wait_for_message(fleet, job, "'own1' is away, and its group waits")
        before = groups_of(fleet, job)["averages_stored"]
        wait_for_averages(fleet, job, before + 1)
        again = fleet.again(gone, "--data", f"photos={fleet.path / 'data-own1'}")
        fleet.wait_until(
            job,
            lambda seen: len(
                [r for r in of_kind(mixes_of(fleet, job), "start") if r["own"]["group"] == number]
            )
            == 2,
            "a second start of the group",
        )
        fleet.wait(job, "succeeded")
        must(again.running(), "the agent has ended")
        check_begun_again(mixes_of(fleet, job), 3, [number])
        check_replayed(fleet, job, spec)


def test_a_restarted_coordinator_goes_on_with_local_data():
    with LocalFleet() as fleet:
        fleet.own_all(3)
        spec = local_job(epochs=12)
        job = submit_until_average(fleet, spec)
        before = [group_of(fleet, job, f"own{i}")[1]["dataset"] for i in range(3)]
        fleet.coordinator.kill()
        fleet.restart_coordinator("--heartbeat-ms", "1000", "--lease-ms", "8000")
        rows = fleet.get("/v1/datasets?local=true")["items"]
        must(len(rows) == 3, f"{rows}")
        fleet.wait(job, "succeeded")
        after = [group_of(fleet, job, f"own{i}")[1]["dataset"] for i in range(3)]
        must(before == after, f"{before} {after}")
        check_replayed(fleet, job, spec)


def test_a_job_ends_without_a_device_that_stays_away():
    with LocalFleet(lease_ms=2000) as fleet:
        fleet.own_all(3)
        job = submit_until_average(fleet, local_job(epochs=60))
        number, _ = group_of(fleet, job, "own2")
        fleet.agents[2].kill()
        seen = fleet.wait(job, "succeeded")
        must(seen["state_reason"] == "degraded", f"{seen['state_reason']}: {seen['message']}")
        must(f"not in the last average: group {number}" in seen["message"], seen["message"])


def test_a_group_whose_data_have_changed_begins_again_on_them():
    with LocalFleet(lease_ms=2000) as fleet:
        fleet.own_all(3)
        job = submit_until_average(fleet, local_job(epochs=40))
        number, old = group_of(fleet, job, "own0")
        gone = fleet.agents[0]
        gone.kill()
        samples = fleet.share(0, 3)
        folder = put_folder(fleet.path / "data-own0", samples + samples[:50])
        fleet.again(gone, "--data", f"photos={folder}")
        fleet.wait_until(
            job,
            lambda seen: group_of(fleet, job, "own0")[1]["dataset"] != old["dataset"],
            "a group on other data",
        )
        _, new = group_of(fleet, job, "own0")
        row = next(
            row
            for row in fleet.get("/v1/datasets?local=true")["items"]
            if row["device_name"] == "own0"
        )
        must(row["samples"] == len(samples) + 50, f"{row}")
        must(new["dataset"]["train"]["sha256"] == row["sha256"], f"{new['dataset']}")
        fleet.wait(job, "succeeded")
        starts = of_kind(mixes_of(fleet, job), "start")
        must(len([r for r in starts if r["own"]["group"] == number]) == 2, f"{starts}")


def held_out(fleet, job):
    """By the number of the group."""
    groups = groups_of(fleet, job)["groups"]
    return {group["group"]: group["mixes"].get("held_out") for group in groups}


def test_a_job_that_holds_out_samples_is_replayed():
    with LocalFleet() as fleet:
        fleet.own_all(3)
        for options in ({"adopt": False}, {"schedule": "rounds"}, {}):
            spec = holding_job(epochs=16, gossip={"average_every": 3, **options})
            job = fleet.submit(spec)
            fleet.wait(job, "succeeded")
            last = groups_of(fleet, job)["averages"][-1]["step"]
            seen = held_out(fleet, job)
            must(all(part and part["step"] == last for part in seen.values()), f"{options} {seen}")
            check_replayed(fleet, job, spec)
            must(len(fleet.metric(job, "test_accuracy")) >= 2, f"{options}: one evaluation")


def test_held_out_samples_end_a_job_that_has_its_accuracy():
    with LocalFleet() as fleet:
        fleet.own_all(3)
        job = fleet.submit(holding_job(epochs=200, gossip={"target_accuracy": 0.4}))
        seen = fleet.wait(job, "succeeded")
        must(seen["state_reason"] == "stopped_early", f"{seen['state_reason']}")
        newest = list(fleet.metric(job, "test_accuracy").values())[-3:]
        must(len(newest) == 3 and min(newest) >= 0.4, f"{newest}")


def test_a_lost_device_is_not_in_the_mean():
    with LocalFleet(lease_ms=2000) as fleet:
        fleet.own_all(3)
        job = submit_until_average(fleet, holding_job(epochs=20))
        number, _ = group_of(fleet, job, "own2")
        fleet.wait_until(job, lambda seen: held_out(fleet, job)[number], "its figures")
        fleet.agents[2].kill()
        wait_for_message(fleet, job, "'own2' is away, and its group waits")
        seen = fleet.wait(job, "succeeded")
        must(seen["state_reason"] == "degraded", f"{seen['state_reason']}: {seen['message']}")
        parts, last = held_out(fleet, job), groups_of(fleet, job)["averages"][-1]
        must(parts.pop(number)["step"] < last["step"], f"{parts}")
        must(all(part["step"] == last["step"] for part in parts.values()), f"{parts}: {last}")
        count = sum(part["samples"] for part in parts.values())
        mean = sum(part["samples"] * part["test_accuracy"] for part in parts.values()) / count
        must(abs(last["accuracy"] - mean) < 1e-9, f"{last}: {parts}")


def test_a_restarted_coordinator_knows_what_was_held_out():
    with LocalFleet() as fleet:
        fleet.own_all(3)
        spec = holding_job(epochs=12)
        job = fleet.submit(spec)
        fleet.wait_until(job, lambda seen: seen["progress"]["accuracy"], "an evaluation")
        before = held_out(fleet, job)
        must(all(before.values()), f"{before}")
        fleet.coordinator.kill()
        fleet.restart_coordinator("--heartbeat-ms", "1000", "--lease-ms", "8000")
        after = held_out(fleet, job)
        must(all(after[group]["step"] >= before[group]["step"] for group in before), f"{after}")
        fleet.wait(job, "succeeded")
        last = groups_of(fleet, job)["averages"][-1]["step"]
        must({part["step"] for part in held_out(fleet, job).values()} == {last}, f"{last}")
        check_replayed(fleet, job, spec)


if __name__ == "__main__":
    run(globals())
