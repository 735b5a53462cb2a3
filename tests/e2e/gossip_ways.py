"""Ways in which groups mix, and jobs of gossip that are interrupted."""

from gossip import (
    GROUPS,
    check_begun_again,
    check_log,
    check_replay,
    gossip_fleet,
    gossip_job,
    groups_of,
    mixes_of,
    of_kind,
    submit_until_average,
)
from paceline import must
from runner import run


def test_pairs_move_by_the_accuracy_of_their_groups():
    options = {"weights": "accuracy", "split": "by_class", "classes_per_shard": 4}
    with gossip_fleet() as fleet:
        spec = gossip_job(options=options, epochs=8)
        job = fleet.submit(spec)
        fleet.wait(job, "succeeded")
        records = mixes_of(fleet, job)
        shares = {record["alpha"] for record in of_kind(records, "pair")}
        must(len(shares - {0.5}) > 2, f"pairs move by {shares}")
        check_replay(fleet, job, spec)


def test_slow_groups_train_the_samples_of_the_largest_losses_more_often():
    options = {"critical": 0.5, "average_every": 1}
    with gossip_fleet() as fleet:
        spec = gossip_job(options=options, model="resnet8", epochs=2)
        job = fleet.submit(spec)
        fleet.wait(job, "succeeded")
        shards = [
            fleet.get(f"/v1/jobs/{job['id']}/groups/{group['group']}/spec")["view"]["shard"]
            for group in groups_of(fleet, job)["groups"]
        ]
        chosen = [shard for shard in shards if "window" in shard]
        must(chosen, f"all groups train all of their samples between two averages: {shards}")
        must({shard["critical"] for shard in chosen} == {0.5}, f"{chosen}")
        check_replay(fleet, job, spec)


def test_an_average_in_every_round_is_federated_averaging():
    options = {"schedule": "rounds", "average_every": 1}
    with gossip_fleet() as fleet:
        spec = gossip_job(options=options, epochs=6)
        job = fleet.submit(spec)
        fleet.wait(job, "succeeded")
        records = mixes_of(fleet, job)
        must(of_kind(records, "adopt") and not of_kind(records, "pair"), f"{records}")
        check_replay(fleet, job, spec)


def test_a_job_is_paused_and_resumed():
    with gossip_fleet() as fleet:
        spec = gossip_job(epochs=16)
        job = submit_until_average(fleet, spec)
        fleet.verb(job, "pause")
        fleet.wait(job, "paused")
        fleet.verb(job, "resume")
        fleet.wait(job, "succeeded")
        records = mixes_of(fleet, job)
        check_log(records, GROUPS)
        starts = of_kind(records, "start")
        resumed = [r for r in starts if r["peers"] and r["xid"]["counter"] == 0]
        must(len(resumed) == GROUPS, f"{of_kind(records, 'start')}")
        check_replay(fleet, job, spec)


def test_a_restarted_coordinator_goes_on_with_matches_of_a_new_life():
    with gossip_fleet() as fleet:
        spec = gossip_job(epochs=24)
        job = submit_until_average(fleet, spec)
        fleet.coordinator.kill()
        fleet.restart_coordinator()
        fleet.wait(job, "succeeded")
        records = mixes_of(fleet, job)
        check_log(records, GROUPS)
        lives = {record["xid"]["life"] for record in of_kind(records, "pair")}
        must(len(lives) == 2, f"lives {lives}")
        check_replay(fleet, job, spec)


def test_a_group_whose_device_is_lost_begins_again_with_the_newest_average():
    with gossip_fleet(GROUPS + 1, lease_ms=2000) as fleet:
        spec = gossip_job(epochs=24)
        job = submit_until_average(fleet, spec, 2)
        part = groups_of(fleet, job)["groups"][0]["part"]["job"]
        fleet.agent_of({"id": part}, 0).kill()
        fleet.wait(job, "succeeded")
        check_begun_again(mixes_of(fleet, job), GROUPS, [0])
        check_replay(fleet, job, spec)


if __name__ == "__main__":
    run(globals())
