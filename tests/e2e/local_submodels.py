"""Sub-models whose training data never leave their devices: each group trains on what its device
has, and the groups become one model."""

import pathlib
import tempfile

from local_data import (
    LocalFleet,
    Tap,
    forms_of,
    free_address,
    put_folder,
    stored,
    wait_for_message,
)
from paceline import FASHION, fashion_job, must, tar_of, train
from runner import run
from submodels import content_of, groups_of, model_of

BATCH = 32
# The classes of which each device has many samples; of the others it has few.
MANY = [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]


class SubmodelFleet(LocalFleet):
    """Agents with data of their own, an uploaded set that all may see, and a stem trained on it."""

    def __init__(self):
        super().__init__()
        self.public = self.samples[:600]
        self.upload_samples("public", self.public)
        job = {**fashion_job("resnet8", epochs=1, batch=BATCH), "dataset": {"train": "public"}}
        self.start_agent("helper")
        self.wait_for_devices(1)
        self.stem = self.wait(self.submit(job), "succeeded")["checkpoint"]

    def upload_samples(self, name, samples):
        folder = put_folder(self.path / f"set-{name}", samples)
        self.request(
            "PUT",
            f"/v1/datasets/{name}",
            tar_of(folder / "images", folder / "labels"),
            {"Content-Type": "application/x-tar"},
            expect=201,
        )

    def part(self, number):
        """The samples of one device: many of some classes, every tenth of the others."""
        rest = self.samples[600:]
        many = [s for i, s in enumerate(rest) if s[1] in MANY[number] and i % 3 != 0]
        few = [s for i, s in enumerate(rest) if s[1] not in MANY[number] and i % 10 == number]
        return many + few

    def own_parts(self, *arguments):
        """The agents, by number."""
        own = [self.own(f"own{n}", self.part(n), *arguments, wait=False) for n in range(3)]
        self.wait_for_agents()
        return own

    def job(self, joint=True, **submodel):
        options = {
            "stem": 1,
            "stem_epochs": 0,
            "joint": {"epochs": 1, "dataset": "public"} if joint else {"epochs": 0},
            **submodel,
        }
        return fashion_job(
            "resnet8",
            strategy="submodel",
            submodel=options,
            batch=BATCH,
            epochs=2,
            dataset={"train": {"local": "photos"}, "test": "fashion-test"},
            init={"checkpoint": self.stem},
        )

    def device(self, name):
        return next(d["id"] for d in self.get("/v1/devices")["items"] if d["name"] == name)

    def bound(self, job):
        """By the name of the device: (group, its spec)."""
        names = {d["id"]: d["name"] for d in self.get("/v1/devices")["items"]}
        out = {}
        for group in groups_of(self, job)["groups"]:
            spec = self.get(f"/v1/jobs/{job['id']}/groups/{group['group']}/spec")
            out[names[spec["dataset"]["train"]["device"]]] = (group, spec)
        return out


def check_law(fleet, job, name):
    """`paceline-agent train` of a group's spec on the data of its device gives the group's file."""
    group, spec = fleet.bound(job)[name]
    with tempfile.TemporaryDirectory(prefix="paceline-stem-") as directory:
        stem = pathlib.Path(directory) / "stem.safetensors"
        stem.write_bytes(content_of(fleet, spec["init"]["checkpoint"]))
        places = {**FASHION, "photos": [fleet.path / f"data-{name}"]}
        own = train(spec, places, 1, ["--checkpoint", stem])[0]
    trained = model_of(fleet, group["part"]["checkpoint"])
    must(own == trained, f"{own}, the group has {trained}")


def tapped(fleet, canary):
    """Agents whose connections are copied, with the canary in every 50th sample."""
    taps = [Tap(fleet.coordinator.address)]
    for number in range(3):
        samples = [
            (image[:300] + canary + image[364:], label) if place % 50 == 0 else (image, label)
            for place, (image, label) in enumerate(fleet.part(number))
        ]
        taps.append(Tap(free_address()))
        urls = [f"http://{tap.address}" for tap in (taps[0], taps[-1])]
        arguments = ["--coordinator", urls[0], "--listen", taps[-1].target, "--advertise", urls[1]]
        fleet.own(f"own{number}", samples, *arguments, wait=False)
    fleet.wait_for_agents()
    return taps


def check_canary(fleet, taps, canary):
    must(taps[0].size() > 1 << 18, f"{taps[0].size()} bytes")
    for name, form in forms_of(canary).items():
        must(not any(tap.holds(form) for tap in taps), f"the canary was sent as {name}")
        must(not any(form in data for data in stored(fleet)), f"it is stored as {name}")
    for tap in taps:
        tap.close()


def test_each_group_trains_on_what_its_device_has_and_no_sample_leaves_it():
    canary = bytes((53 * i * i + 17 * i + 5) % 249 for i in range(64))
    with SubmodelFleet() as fleet:
        taps = tapped(fleet, canary)
        spec = fleet.job()
        dry = fleet.request("POST", "/v1/jobs?dry_run=true", spec, expect=200).json
        planned = {g["name"]: g["classes"] for g in dry["submodel"]["groups"]}
        must(planned == {f"own{n}": MANY[n] for n in range(3)}, f"{planned}")
        must(dry["submodel"]["pipeline_seconds"] is None, f"{dry['submodel']}")
        must(dry["submodel"]["fastest"] == "submodel" and dry["starts"] == "now", f"{dry}")
        job = fleet.submit(spec)
        seen = fleet.wait(job, "succeeded")
        must(seen["state_reason"] is None and seen["exact"], f"{seen}")
        must(seen["data"]["train_sha256"] is None, f"{seen['data']}")
        for name, (group, own) in fleet.bound(job).items():
            must(group["classes"] == MANY[int(name[-1])], f"{group}")
            must(own["view"]["classes"] == group["classes"], f"{own['view']}")
        joint = fleet.get(f"/v1/jobs/{groups_of(fleet, job)['joint']['job']}")
        must(joint["spec"]["dataset"]["train"] == "public", f"{joint['spec']['dataset']}")
        must(joint["progress"]["accuracy"] > 0.5, f"{joint['progress']}")
        check_law(fleet, job, "own1")
        check_canary(fleet, taps, canary)


def test_a_group_waits_for_its_device_and_is_missing_after_the_deadline():
    with SubmodelFleet() as fleet:
        gone = fleet.own_parts("--slowdown", 4)[2]
        job = fleet.submit(fleet.job(joint=False, deadline_seconds=9))
        fleet.wait_until(job, lambda seen: seen["state"] == "running", "running")
        gone.kill()
        wait_for_message(fleet, job, "'own2' is away, and its group waits")
        seen = fleet.wait(job, "succeeded")
        must(seen["state_reason"] == "degraded", f"{seen['state_reason']}")
        view = groups_of(fleet, job)
        must(view["missing_classes"] == MANY[2], f"{view['missing_classes']}")
        must(seen["checkpoint"] == view["harvest"], f"{view}")


def test_a_group_begins_again_when_its_device_comes_back_with_other_data():
    with SubmodelFleet() as fleet:
        changed = fleet.own_parts("--slowdown", 4)[1]
        job = fleet.submit(fleet.job())
        fleet.wait_until(job, lambda seen: seen["state"] == "running", "running")
        changed.kill()
        put_folder(fleet.path / "data-own1", [s for s in fleet.part(1) if s[1] not in (5, 6)])
        again = fleet.again(changed, "--data", f"photos={fleet.path / 'data-own1'}")
        wait_for_message(fleet, job, "offers other classes or samples now, and its group waits")
        must(groups_of(fleet, job)["phase"] == "groups", "the job went on")
        again.kill()
        put_folder(fleet.path / "data-own1", fleet.part(1)[::-1])
        fleet.again(again, "--data", f"photos={fleet.path / 'data-own1'}")
        seen = fleet.wait(job, "succeeded")
        must(seen["state_reason"] is None and seen["exact"], f"{seen}")
        check_law(fleet, job, "own1")


if __name__ == "__main__":
    run(globals())
