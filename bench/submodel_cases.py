"""Data sets, models and jobs of the benchmark of sub-models."""

import collections
import copy
import itertools
import json
import pathlib

from paceline import ROOT, Failure, data_files, tar_of
from sound import archives

Case = collections.namedtuple("Case", "data model epochs timed_epochs rate full")

FULL_TEST = pathlib.Path("/usr/share/datasets/fashion-mnist")
BATCH = 32
RECIPE = {
    "batch": BATCH,
    "optimizer": {"type": "sgd", "momentum": 0.9, "weight_decay": 0.0005},
    "replication": {"neighbor_every": 0, "center_every": 0},
    "replan": {"first": 0, "every": 0},
}
WARMUP_STEPS = 20
CLASSES = 10
# Mean and deviation of the logarithmic bands of the spoken digits, without which nets without
# batch-norm diverge.
BANDS = {"type": "normalise", "mean": [-9.6], "std": [5.4]}
# Data sets of the recordings, as the names of their files: a class is what precedes the first `_`.
RECORDINGS = {
    "spoken-digits": lambda path: path.name,
    "digits-by-speaker": lambda path: path.name.replace("_", "-", 1),  # 60 classes
}
JOINT_RATE = 0.1  # of the learning rate, as in the joint phase of a job
JOINTS = {"off": ("head", 0), "head": ("head", 1), "all": ("all", 1)}  # units and epochs


def conv(filters, pool):
    ops = [{"type": "conv2d", "filters": filters, "kernel": 3, "padding": 1}, {"type": "relu"}]
    return ops + ([{"type": "max_pool", "kernel": 2}] if pool else [])


PLAIN = {
    "name": "plain",
    "units": [
        {"name": "conv1", "ops": conv(32, True)},
        {"name": "conv2", "ops": conv(64, True)},
        {"name": "conv3", "ops": conv(64, False)},
        {"name": "conv4", "ops": conv(128, True)},
        {"name": "head", "ops": [{"type": "flatten"}, {"type": "linear", "units": 10}]},
    ],
    "loss": {"type": "softmax_cross_entropy"},
}

Variant = collections.namedtuple(
    "Variant", "name groups negatives stem replicas passes", defaults=(1, 1, 1)
)
ALL_NEGATIVES = 100
MAIN = (Variant("negatives 2", 5, 2), Variant("negatives 1", 5, 1))
UNEVEN = (
    Variant("2, 2 and 6 classes", (2, 2, 6), 2),
    Variant("2, 2 and 6 classes, negatives 1", (2, 2, 6), 1),
)
VARIANTS = (
    *MAIN,
    Variant("negatives all", 5, ALL_NEGATIVES),
    Variant("no negatives", 5, 0),
    Variant("4 groups", 4, 2),
    *UNEVEN,
    Variant("replicas 2", 5, 2, replicas=2),
    Variant("stem 2", 5, 2, stem=2),
    Variant("3 groups", 3, 2),
    Variant("2 groups", 2, 2),
    Variant("epochs x2", 5, 2, passes=2),
)

# full: every variant, otherwise the main ones; epochs 0: times only. Times are measured over fewer
# epochs where a whole training takes too long.
DIGITS = Case("digits", "plain", 24, 24, 0.05, True)
DEFAULT = (
    Case("fashion-mini", "plain", 24, 6, 0.05, True),
    DIGITS,
    Case("fashion-mini", "alexnet-cifar", 24, 3, 0.02, False),
)
RECORDED = (
    Case("spoken-digits", "alexnet-cifar", 24, 6, 0.01, False),
    Case("spoken-digits", "vgg11-bn", 24, 6, 0.01, False),
    Case("digits-by-speaker", "alexnet-cifar", 0, 12, 0.01, False),
)
SLOW = (Case("cifar10", "vgg11-bn", 12, 0, 0.01, False),)


def description_of(model):
    if model == "plain":
        return PLAIN
    return json.loads((ROOT / "libtrain/zoo" / f"{model}.json").read_text())


def scaled(description, scale, name):
    """The description with this share of all filters."""
    out = copy.deepcopy(description)
    out["name"] = name
    for unit in out["units"]:
        for op in unit["ops"]:
            if "filters" in op:
                op["filters"] = max(4, round(op["filters"] * scale))
    return out


class Data:
    """A data set as files of this machine. parts: {"train": [paths], "test": [paths]}."""

    def __init__(self, name, parts, reading=None):
        self.name, self.parts, self.reading = name, parts, reading

    def words(self):
        """Options of the commands that work without a coordinator."""
        return ["--as", self.reading] if self.reading else []

    def upload(self, fleet, names=None):
        """names: {part: its name on the coordinator}. Default: all parts, by their own names."""
        query = f"?{self.reading.replace(',', '&')}" if self.reading else ""
        for part, name in (names or {part: part for part in self.parts}).items():
            paths = self.parts[part]
            content = tar_of(*paths) if len(paths) > 1 else paths[0].read_bytes()
            fleet.request(
                "PUT",
                f"/v1/datasets/{name}{query}",
                content,
                {"Content-Type": "application/octet-stream"},
                expect=201,
                timeout=600,
            )


def shipped(name):
    """A data set of examples/data. Models of fashion-mini are evaluated on all images of its
    source, so that the standard error of an accuracy is 0.3 points in place of 1.
    """
    data = Data(name, {part: data_files(name, part) for part in ("train", "test")})
    if name == "fashion-mini":
        data.parts["test"] = [FULL_TEST / path.name for path in data.parts["test"]]
        if not all(path.exists() for path in data.parts["test"]):
            raise Failure(f"{FULL_TEST} is missing: install Debian's dataset-fashion-mnist")
    return data


def recorded(name, recordings, directory):
    """The recordings CLASS_SPEAKER_NUMBER.wav as spectrograms of 49 x 40."""
    parts = {}
    for part, content in archives(recordings, RECORDINGS[name]).items():
        parts[part] = [directory / f"{part}.tar"]
        parts[part][0].write_bytes(content)
    return Data(name, parts, "sound=8000,mels=40,label=prefix")


def job_of(case, seed, epochs, description=None):
    """The target as an ordinary job, evaluated at its end."""
    return {
        **copy.deepcopy(RECIPE),
        "name": "submodel",
        "model": {"description": description or description_of(case.model)},
        "dataset": {"train": "train", "test": "test"},
        "epochs": epochs,
        "init": {"seed": seed},
        "evaluate": {"every_epochs": epochs},
        "learning_rate": {"type": "cosine", "value": case.rate, "warmup_steps": WARMUP_STEPS},
        "augment": [BANDS] if case.data in RECORDINGS else [],
    }


def joint_of(case, seed, joint, checkpoint):
    """The joint phase as an ordinary job."""
    units, epochs = JOINTS[joint]
    job = job_of(case, seed, epochs)
    job["learning_rate"]["value"] *= JOINT_RATE
    job["init"]["checkpoint"] = checkpoint
    if units == "head":
        job["freeze"] = [unit["name"] for unit in description_of(case.model)["units"][:-1]]
    return job


def groups_of(variant):
    """The classes of each group, in their order, and equal widths."""
    sizes = variant.groups
    if isinstance(sizes, int):
        sizes = [CLASSES // sizes + (group < CLASSES % sizes) for group in range(sizes)]
    ends = list(itertools.accumulate(sizes))
    groups = []
    for replica in range(variant.replicas):  # other partners in the second set
        groups += [
            [(c + replica) % CLASSES for c in range(end - size, end)]
            for end, size in zip(ends, sizes)
        ]
    width = round(1 / len(groups), 6)
    return [{"classes": classes, "width": width} for classes in groups]


def sliced_job(case, variant, seed, epochs, joint_epochs):
    """The job of sub-models. The test set takes no part in it."""
    job = job_of(case, seed, epochs * variant.passes)
    del job["dataset"]["test"]
    job["strategy"] = "submodel"
    job["submodel"] = {
        "stem": variant.stem,
        "groups": groups_of(variant),
        "negatives": variant.negatives,
        "allow_no_negatives": variant.negatives == 0,
        "replicas": variant.replicas,
        "joint": {"epochs": joint_epochs},
    }
    return job
