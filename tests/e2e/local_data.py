"""Jobs whose training data never leave their devices: each agent with --data is a group."""

import gzip
import json
import pathlib
import socket
import struct
import subprocess
import threading

from gossip import check_log, groups_of, gossip_job, log_of, mixes_of, of_kind
from paceline import BIN, Fleet, batches_of, data_files, must
from runner import run

SIDE = 28
CLASSES = 10


def read_idx(path):
    """(shape, bytes) of an IDX file."""
    data = gzip.decompress(pathlib.Path(path).read_bytes())
    rank = data[3]
    shape = struct.unpack(f">{rank}I", data[4 : 4 + 4 * rank])
    return shape, data[4 + 4 * rank :]


def fashion(part):
    """[(image, label)] of fashion-mini."""
    files = data_files("fashion-mini", part)
    images, labels = sorted(files, key=lambda path: "labels" in str(path))
    (count, *_), pixels = read_idx(images)
    _, numbers = read_idx(labels)
    size = SIDE * SIDE
    return [(pixels[i * size : (i + 1) * size], numbers[i]) for i in range(count)]


def put_folder(place, samples):
    """A folder with an IDX pair of these samples."""
    place.mkdir(parents=True, exist_ok=True)
    head = struct.pack(">4B3I", 0, 0, 8, 3, len(samples), SIDE, SIDE)
    (place / "images").write_bytes(head + b"".join(image for image, _ in samples))
    head = struct.pack(">4BI", 0, 0, 8, 1, len(samples))
    (place / "labels").write_bytes(head + bytes(label for _, label in samples))
    return place


class LocalFleet(Fleet):
    """A coordinator with an uploaded test set; agents have data of their own."""

    def __init__(self, lease_ms=8000):
        super().__init__()
        self.start_coordinator("--heartbeat-ms", str(lease_ms // 8), "--lease-ms", str(lease_ms))
        self.upload("fashion-test", "fashion-mini", "test")
        self.samples = fashion("train")

    def share(self, index, count):
        """A part of the samples: some classes more than others."""
        chosen = [s for s in self.samples if (s[1] * 7 + index) % 3 != 0][index::count]
        return chosen[: 600 + 100 * index]

    def own(self, name, samples, *arguments, data="photos", wait=True):
        """Start an agent that offers these samples."""
        folder = put_folder(self.path / f"data-{name}", samples)
        return self.start_agent(name, "--data", f"{data}={folder}", *arguments, wait=wait)

    def own_all(self, count):
        for index in range(count):
            self.own(f"own{index}", self.share(index, count), wait=False)
        return self.wait_for_agents()

    def again(self, agent, *arguments):
        """Start an agent that has ended anew, with the same identity."""
        self.agents.remove(agent)
        return self.start_agent(agent.name, *arguments)


def local_job(devices=3, **fields):
    fields = {"dataset": {"train": {"local": "photos"}, "test": "fashion-test"}, **fields}
    return gossip_job(devices, **fields)


def replayed(fleet, job, spec, folders, *more):
    """A replay with the data of each device."""
    place = fleet.path / "replay"
    place.mkdir(exist_ok=True)
    groups = [
        fleet.get(f"/v1/jobs/{job['id']}/groups/{group['group']}/spec")
        for group in groups_of(fleet, job)["groups"]
    ]
    for name, value in (("job", spec), ("mixes", log_of(fleet, job)), ("groups", groups)):
        (place / f"{name}.json").write_text(json.dumps(value))
    arguments = ["replay", place / "job.json", "--mixes", place / "mixes.json"]
    arguments += ["--groups", place / "groups.json", "--output", place / "model.safetensors", *more]
    for number, group in enumerate(groups):
        folder = folders[group["dataset"]["train"]["device"]]
        arguments += ["--local", f"{number}={folder}"]
    done = subprocess.run(
        [BIN / "paceline-agent", *arguments], capture_output=True, text=True, timeout=300
    )
    return done


def folders_of(fleet):
    """By device."""
    return {
        device["id"]: fleet.path / f"data-{device['name']}"
        for device in fleet.get("/v1/devices")["items"]
    }


def test_devices_train_on_their_own_data_and_end_with_an_average():
    with LocalFleet() as fleet:
        fleet.own_all(3)
        rows = fleet.get("/v1/datasets?local=true")["items"]
        must([row["samples"] for row in rows] and len(rows) == 3, f"{rows}")
        spec = local_job()
        job = fleet.submit(spec)
        seen = fleet.wait(job, "succeeded")
        must(seen["progress"]["accuracy"] > 0.5, f"{seen['progress']}")
        must(seen["data"]["train_sha256"] is None, f"{seen['data']}")
        total = sum(row["samples"] for row in rows)
        must(seen["data"]["train_samples"] == total, f"{seen['data']}: {total} samples")
        view = groups_of(fleet, job)
        must(len(view["groups"]) == 3, f"{view}")
        records = mixes_of(fleet, job)
        check_log(records, 3)
        averages = of_kind(records, "average")
        weights = [peer["weight"] for peer in averages[-1]["peers"]]
        expected = sorted(row["samples"] / total for row in rows)
        near = all(abs(a - b) < 1e-9 for a, b in zip(sorted(weights), expected))
        must(near, f"weights {weights}, not {expected}")
        for number in range(3):
            group = fleet.get(f"/v1/jobs/{job['id']}/groups/{number}/spec")
            device = group["dataset"]["train"]["device"]
            row = next(row for row in rows if row["device"] == device)
            must(group["dataset"]["train"]["sha256"] == row["sha256"], f"{group['dataset']}")
            must(group["view"] is None, f"{group['view']}")


HELD = 0.2


def holding_job(devices=3, **fields):
    return local_job(
        devices, dataset={"train": {"local": "photos"}, "test": {"holdout": HELD}}, **fields
    )


def trained_on(fleet, spec):
    """The samples of a group's first epochs; the last partial batch of each is left out."""
    folder = folders_of(fleet)[spec["dataset"]["train"]["device"]]
    epochs = 6
    spec = {**spec, "epochs": epochs, "steps": None, "init": {**spec["init"], "checkpoint": None}}
    lines = batches_of(spec, {"photos": [folder]}).splitlines()
    return {sample for line in lines for sample in json.loads(line)["samples"]}


def check_held_out(fleet, job, group):
    """What the device says of the last average is what `predict` says of the samples that it does
    not train on."""
    spec = fleet.get(f"/v1/jobs/{job['id']}/groups/{group['group']}/spec")
    seen = group["mixes"]["held_out"]
    device = fleet.get(f"/v1/devices/{spec['dataset']['train']['device']}")
    samples = fleet.share(int(device["name"][-1]), 3)
    trained = trained_on(fleet, spec)
    held = [sample for index, sample in enumerate(samples) if index not in trained]
    must(len(held) == seen["samples"], f"{len(held)} samples are not trained on: {seen}")
    for number in range(CLASSES):
        here = sum(label == number for _, label in held)
        share = HELD * sum(label == number for _, label in samples)
        must(abs(here - share) <= 1, f"{here} of class {number} are held out, not {share}")
    model = fleet.path / "held.safetensors"
    model.write_bytes(fleet.checkpoint(job))
    folder = put_folder(fleet.path / f"held-{group['group']}", held)
    done = subprocess.run(
        [BIN / "paceline-agent", "predict", model, folder, "--top=0", "--json"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    must(done.returncode == 0, done.stderr)
    total = next(line for line in map(json.loads, done.stdout.splitlines()) if "samples" in line)
    must(total["accuracy"] == seen["test_accuracy"], f"{total}: {seen}")
    must(abs(total["loss"] - seen["test_loss"]) < 1e-5, f"{total}: {seen}")
    return seen


def test_each_device_evaluates_averages_on_the_samples_that_it_holds_out():
    with LocalFleet() as fleet:
        fleet.own_all(3)
        job = fleet.submit(holding_job(epochs=12, options={"average_every": 1}))
        seen = fleet.wait(job, "succeeded")
        view = groups_of(fleet, job)
        last = view["averages"][-1]
        must(last["checkpoint"] == seen["checkpoint"], f"{last}")
        parts = [check_held_out(fleet, job, group) for group in view["groups"]]
        must([part["step"] for part in parts] == [last["step"]] * 3, f"{parts}: {last}")
        data, count = seen["data"], sum(part["samples"] for part in parts)
        must(data["test_samples"] == count and data["test_sha256"] is None, f"{data}: {parts}")
        must(data["epoch_samples"] == data["train_samples"] - count, f"{data}")
        for name, known in (
            ("test_accuracy", (last["accuracy"], seen["progress"]["accuracy"])),
            ("test_loss", ()),
        ):
            mean = sum(part["samples"] * part[name] for part in parts) / count
            values = [fleet.metric(job, name)[last["step"]], *known]
            must(all(abs(value - mean) < 1e-9 for value in values), f"{name}: {values}, {mean}")
        must(last["accuracy"] > 0.5, f"{last}")
        must(len(fleet.metric(job, "test_accuracy")) >= 2, "only the last average is evaluated")


def check_replayed(fleet, job, spec):
    folders = folders_of(fleet)
    done = replayed(fleet, job, spec, folders)
    must(done.returncode == 0, f"replay: {done.stderr}")
    expected = fleet.checkpoint_sha256(job)
    must(f"sha256 {expected}" in done.stdout, f"replayed {done.stdout}, not {expected}")


def free_address():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


class Tap:
    """A relay of TCP connections that keeps all bytes of each direction."""

    def __init__(self, target):
        self.target, self.streams, self.lock = target, [], threading.Lock()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            try:
                host, port = self.target.rsplit(":", 1)
                far = socket.create_connection((host, int(port)), 10)
            except OSError:
                near.close()
                continue
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.copy, args=(one, other), daemon=True).start()

    def copy(self, source, sink):
        stream = bytearray()
        with self.lock:
            self.streams.append(stream)
        try:
            while data := source.recv(1 << 16):
                stream += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            sink.close()

    def holds(self, part):
        with self.lock:
            return any(part in bytes(stream) for stream in self.streams)

    def size(self):
        with self.lock:
            return sum(len(stream) for stream in self.streams)

    def close(self):
        self.server.close()


def forms_of(sample):
    """A sample's bytes as they lie in a file, and as float32 before and after a scaling."""
    floats = struct.pack(f"<{len(sample)}f", *sample)
    scaled = struct.pack(f"<{len(sample)}f", *(value / 255 for value in sample))
    return {"bytes": bytes(sample), "float32": floats, "scaled float32": scaled}


def stored(fleet):
    """The bytes of all files of the coordinator."""
    place = fleet.path / "coordinator"
    must(place.is_dir(), f"{list(fleet.path.iterdir())}")
    return [path.read_bytes() for path in place.rglob("*") if path.is_file()]


def test_no_sample_leaves_its_device():
    canary = bytes((37 * i * i + 91 * i + 13) % 251 for i in range(64))
    with LocalFleet() as fleet:
        center = Tap(fleet.coordinator.address)
        taps = [center]
        watched = []
        for index in range(3):
            samples = fleet.share(index, 3)
            for place in range(0, len(samples), 100):
                image, label = samples[place]
                samples[place] = (image[:300] + canary + image[364:], label)
            watched += [image[280:420] for image, _ in samples[1::60] if len(set(image)) > 40]
            tap = Tap(free_address())
            taps.append(tap)
            fleet.own(
                f"own{index}",
                samples,
                "--coordinator",
                f"http://{center.address}",
                "--listen",
                tap.target,
                "--advertise",
                f"http://{tap.address}",
            )
        fleet.wait_for_devices(3)
        job = fleet.submit(holding_job(options={"average_every": 1}))
        fleet.wait(job, "succeeded")
        peers = sum(tap.size() for tap in taps[1:])
        must(center.size() > 1 << 19 and peers > 1 << 20, f"{center.size()} and {peers} bytes")
        for name, form in forms_of(canary).items():
            for number, tap in enumerate(taps):
                must(not tap.holds(form), f"the canary went over connection {number} as {name}")
            must(not any(form in data for data in stored(fleet)), f"it is stored as {name}")
        must(len(watched) > 10, f"{len(watched)} samples are watched")
        files = stored(fleet)
        for name, form in ((n, f) for sample in watched for n, f in forms_of(sample).items()):
            must(not any(tap.holds(form) for tap in taps), f"a sample was sent as {name}")
            must(not any(form in data for data in files), f"a sample is stored as {name}")
        # What is searched for is found where it leaks.
        host, port = center.address.rsplit(":", 1)
        leak = b"".join(forms_of(canary).values())
        with socket.create_connection((host, int(port)), 10) as plain:
            plain.sendall(
                b"PUT /v1/datasets/leak HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-tar\r\n"
                b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(leak)
            )
            plain.sendall(leak)
            while plain.recv(1 << 16):
                pass
        (fleet.path / "coordinator" / "leak").write_bytes(leak)
        for name, form in forms_of(canary).items():
            must(center.holds(form), f"a leak as {name} is not found")
            must(any(form in data for data in stored(fleet)), f"a stored {name} is not found")
        for tap in taps:
            tap.close()


def group_of(fleet, job, name):
    """The number of the group on that device."""
    device = next(d["id"] for d in fleet.get("/v1/devices")["items"] if d["name"] == name)
    for group in groups_of(fleet, job)["groups"]:
        spec = fleet.get(f"/v1/jobs/{job['id']}/groups/{group['group']}/spec")
        if spec["dataset"]["train"]["device"] == device:
            return group["group"], spec
    raise AssertionError(f"no group on {name}")


def wait_for_message(fleet, job, words):
    return fleet.wait_until(job, lambda seen: words in seen["message"], f"'{words}'")


def test_devices_with_other_data_are_left_out_and_named():
    with LocalFleet() as fleet:
        fleet.own_all(2)
        small = [(image[: 14 * 28], label) for image, label in fleet.share(2, 3)]
        folder = put_folder(fleet.path / "data-odd", [(i + i, n) for i, n in small])
        head = struct.pack(">4B3I", 0, 0, 8, 3, 2 * len(small), 14, 28)
        (folder / "images").write_bytes(head + b"".join(i + i for i, _ in small))
        head = struct.pack(">4BI", 0, 0, 8, 1, 2 * len(small))
        (folder / "labels").write_bytes(head + bytes(n for _, n in small for _ in range(2)))
        fleet.start_agent("odd", "--data", f"photos={folder}")
        few = fleet.share(0, 3)[:20]
        fleet.own("few", few)
        fleet.wait_for_devices(4)
        spec = {**local_job(2, epochs=12), "devices": {"min": 2, "max": 4}}
        job = fleet.submit(spec)
        seen = wait_for_message(fleet, job, "is left out")
        must("'odd'" in seen["message"] and "'few'" in seen["message"], seen["message"])
        fleet.wait(job, "succeeded")
        must(len(groups_of(fleet, job)["groups"]) == 2, "a device with other data is a group")


def test_data_that_cannot_be_read_are_left_out_and_the_agent_stays():
    with LocalFleet() as fleet:
        empty = fleet.path / "empty"
        empty.mkdir()
        agent = fleet.start_agent("own0", "--data", f"photos={empty}")
        fleet.own("own1", fleet.share(1, 3), data="others")
        fleet.wait_for_devices(2)
        must("data_not_offered" in agent.log_text(), agent.log_text())
        must("has no files" in agent.log_text(), agent.log_text())
        names = [row["name"] for row in fleet.get("/v1/datasets?local=true")["items"]]
        must(names == ["others"], f"{names}")
        answer = fleet.request("POST", "/v1/jobs", local_job())
        must(answer.status == 422, f"{answer.status}")
        must("no device offers a data set 'photos'" in answer.body.decode(), f"{answer.body}")
        job = fleet.submit(local_job(dataset={"train": {"local": "others"}}))
        wait_for_message(fleet, job, "needs 3 devices that offer 'others'; 1 are free")
        fleet.verb(job, "cancel")


if __name__ == "__main__":
    run(globals())
