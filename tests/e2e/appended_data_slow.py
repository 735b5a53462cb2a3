"""Samples that are appended to local data at bad moments."""

import time

from appended_data import FIRST, GrowingFleet, check_continued, starts_of, wait_for_samples
from gossip import check_log, groups_of, mixes_of, wait_for_averages
from local_data import check_replayed, group_of, holding_job, local_job
from paceline import must
from runner import run


def wait_for_offer(fleet, name, condition):
    deadline = time.monotonic() + 30
    while not condition(fleet.offer(name)):
        must(time.monotonic() < deadline, f"no other offer of {name}: {fleet.offer(name)}")
        time.sleep(0.1)


def test_a_paused_group_takes_two_appendings_when_it_is_resumed():
    """The coordinator is restarted between them."""
    with GrowingFleet() as fleet:
        spec = holding_job(2, epochs=50)
        job, number, _ = fleet.train(spec)
        fleet.verb(job, "pause")
        fleet.wait(job, "paused")
        fleet.append(1, 420)
        wait_for_offer(fleet, "own1", lambda offer: offer["samples"] == 420)
        fleet.coordinator.kill()
        fleet.restart_coordinator("--heartbeat-ms", "1000", "--lease-ms", "8000")
        fleet.append(1, 500)
        wait_for_offer(fleet, "own1", lambda offer: offer["samples"] == 500)
        sizes = [part["samples"] for part in fleet.offer("own1")["extends"]]
        must(sizes == [FIRST, 420], f"{sizes}")
        must(len(starts_of(fleet, job, number)) == 1, "a paused group has begun")
        fleet.verb(job, "resume")
        fleet.wait(job, "succeeded")
        starts = starts_of(fleet, job, number)
        must([start["samples"] for start in starts] == [FIRST, 500], f"{starts}")
        check_continued(starts, FIRST, 500)
        check_log(mixes_of(fleet, job), 2)
        check_replayed(fleet, job, spec)


def test_files_that_cannot_be_read_leave_the_earlier_samples():
    with GrowingFleet() as fleet:
        spec = local_job(2, epochs=90)
        job, number, before = fleet.train(spec)
        images = fleet.path / "data-own1" / "images"
        fleet.append(1, 420)
        whole = images.read_bytes()
        images.write_bytes(whole[:-1000])
        wait_for_offer(fleet, "own1", lambda offer: offer.get("stale"))
        offer = fleet.offer("own1")
        must(offer["samples"] == FIRST, f"{offer}")
        must("data_not_read" in fleet.agents[1].log_text(), "the log does not say why")
        stored = groups_of(fleet, job)["averages_stored"]
        wait_for_averages(fleet, job, stored + 2)
        must(group_of(fleet, job, "own1")[1] == before, "the group has other data")
        images.write_bytes(whole)
        wait_for_samples(fleet, job, number, 420)
        must("stale" not in fleet.offer("own1"), f"{fleet.offer('own1')}")
        check_continued(starts_of(fleet, job, number), FIRST, 420)
        fleet.wait(job, "succeeded")
        check_replayed(fleet, job, spec)


def test_samples_that_take_the_place_of_others_begin_the_group_again():
    with GrowingFleet() as fleet:
        job, number, _ = fleet.train(local_job(2, epochs=60))
        fleet.all[1] = fleet.all[1][::-1]
        fleet.append(1, 420)
        wait_for_samples(fleet, job, number, 420)
        must("extends" not in fleet.offer("own1"), f"{fleet.offer('own1')}")
        first, second = starts_of(fleet, job, number)
        anew = second["own"].get("version", 0) == 0 and second["xid"]["counter"] > 0
        must(anew, f"{first}, {second}")
        fleet.wait(job, "succeeded")


if __name__ == "__main__":
    run(globals())
