"""Samples that are appended to local data while a job trains on them."""

from gossip import check_log, groups_of, mixes_of, of_kind, submit_until_average
from gossip import wait_for_averages
from local_data import LocalFleet, folders_of, group_of, holding_job, put_folder, replayed
from paceline import must
from runner import run

LOOKS = ("--data-seconds", "1", "--slowdown", "4")  # a replay has few steps to repeat
FIRST = 300  # samples of each device


class GrowingFleet(LocalFleet):
    """Devices that have the first samples of their shares."""

    def begin(self, count):
        self.all = [self.share(index, count) for index in range(count)]
        for index, samples in enumerate(self.all):
            self.own(f"own{index}", samples[:FIRST], *LOOKS, wait=False)
        return self.wait_for_agents()

    def train(self, spec):
        """A job on two devices that has stored an average: the job, and the group of the device
        own1 with its spec.
        """
        self.begin(2)
        job = submit_until_average(self, spec)
        return job, *group_of(self, job, "own1")

    def append(self, index, count):
        """Let the device have so many samples in all."""
        put_folder(self.path / f"data-own{index}", self.all[index][:count])

    def offer(self, name):
        rows = self.get("/v1/datasets?local=true")["items"]
        return next(row for row in rows if row["device_name"] == name)


def starts_of(fleet, job, group):
    starts = of_kind(mixes_of(fleet, job), "start")
    return [start for start in starts if start["own"]["group"] == group]


def wait_for_samples(fleet, job, group, samples):
    """Until an incarnation of the group has begun with so many."""
    fleet.wait_until(
        job,
        lambda seen: any(s["samples"] == samples for s in starts_of(fleet, job, group)),
        f"{samples} samples in group {group}",
    )


def check_continued(starts, before, after):
    """One incarnation continues the state of the other, with more samples."""
    old = next(start for start in starts if start["samples"] == before)
    new = next(start for start in starts if start["samples"] == after)
    must(new["own"]["version"] > 0, f"{new} begins anew")
    must(new["peers"][0]["generation"] == old["own"]["generation"], f"{new} does not follow {old}")
    must(new["steps"] == old["steps"], f"{new}: the steps of the job have changed from {old}")
    attempts = {start["own"]["generation"] >> 20 for start in (old, new)}
    must(len(attempts) == 1, f"{old}, {new}: another job of the group")


def check_kept(fleet, job, spec):
    """The average that a cancelled job keeps is one of the replay."""
    place = fleet.path / "averages"
    place.mkdir()
    folders = folders_of(fleet)
    # What the agent has converted is as good as the files.
    own = next(device for device, folder in folders.items() if folder.name == "data-own1")
    folders[own] = fleet.path / "own1" / "data" / "photos.data"
    done = replayed(fleet, job, spec, folders, "--averages", place)
    must(done.returncode == 0, f"replay: {done.stderr}")
    expected = fleet.checkpoint_sha256(job)
    must(f"sha256 {expected}" in done.stdout, f"replayed {done.stdout}, not {expected}")


def test_a_group_goes_on_with_samples_that_are_appended():
    with GrowingFleet() as fleet:
        spec = holding_job(2, epochs=2000)
        job, number, before = fleet.train(spec)
        fleet.append(1, 420)
        # An agent that starts again finds them as well. Its group has lost its state.
        fleet.agents[0].kill()
        fleet.append(0, 333)
        fleet.again(fleet.agents[0], "--data", f"photos={fleet.path / 'data-own0'}", *LOOKS)
        wait_for_samples(fleet, job, 1 - number, 333)
        must(fleet.offer("own0")["extends"][0]["samples"] == FIRST, f"{fleet.offer('own0')}")
        wait_for_samples(fleet, job, number, 420)
        check_continued(starts_of(fleet, job, number), FIRST, 420)
        offer = fleet.offer("own1")
        must(offer["samples"] == 420, f"{offer}")
        part = {"sha256": before["dataset"]["train"]["sha256"], "samples": FIRST}
        must(offer["extends"] == [part], f"{offer}")
        group = groups_of(fleet, job)["groups"][number]
        must(group["mixes"]["samples"] > 0.7 * 420, f"{group}")
        after = group_of(fleet, job, "own1")[1]
        must(after["dataset"]["train"]["sha256"] == offer["sha256"], f"{after['dataset']}")
        wait_for_averages(fleet, job, groups_of(fleet, job)["averages_stored"] + 1)
        fleet.append(1, 480)  # those that come too late do no harm to a replay
        fleet.request("POST", f"/v1/jobs/{job['id']}/cancel?keep=true", expect=202)
        fleet.wait(job, "cancelled")
        records = mixes_of(fleet, job)
        check_log(records, 2)
        peers = of_kind(records, "average")[-1]["peers"]
        weights = {peer["group"]: peer["weight"] for peer in peers}
        must(weights[number] > 0.52, f"{weights}")  # 420 to 333
        check_kept(fleet, job, spec)


if __name__ == "__main__":
    run(globals())
