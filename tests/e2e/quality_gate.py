"""The quality gate of sub-models: a group whose narrow layers are dead from the start recognises
nothing of its hold-out, and is trained again with the next seed.
"""

import contextlib
import http.client
import json

from paceline import Fleet, must
from runner import run

LAYERS = 6  # of 4 units in the narrow group: with some seeds one of them passes nothing on
CHANNELS = 16
GROUPS = [
    {"classes": [0, 1], "width": 0.25},
    {"classes": [2, 3, 4, 5, 6, 7, 8, 9], "width": 0.75},
]
GATE = 1 / 3 + 0.1  # of two classes
SEED = 13  # with it the narrow group is dead, with the next one it is not


def narrow_model():
    hidden = [
        {"name": f"hidden{i}", "ops": [{"type": "linear", "units": CHANNELS}, {"type": "relu"}]}
        for i in range(LAYERS)
    ]
    stem = {"name": "stem", "ops": [{"type": "flatten"}, {"type": "linear", "units": 32}]}
    head = {"name": "head", "ops": [{"type": "linear", "units": "classes"}]}
    return {
        "name": "narrow",
        "units": [stem, *hidden, head],
        "loss": {"type": "softmax_cross_entropy"},
    }


def narrow_job(seed):
    return {
        "name": "narrow",
        "model": {"description": narrow_model()},
        "dataset": {"train": "digits-train"},
        "batch": 16,
        "epochs": 6,
        "init": {"seed": seed},
        "evaluate": {"every_epochs": 6},
        "learning_rate": {"type": "constant", "value": 0.05},
        "strategy": "submodel",
        "submodel": {"stem": 1, "groups": GROUPS, "negatives": 2, "joint": {"epochs": 0}},
    }


def next_event(response, name):
    """The next event of this type: its data."""
    while True:
        line = response.readline()
        must(line.endswith(b"\n"), f"the stream ended before {name}")
        if line == f"event: {name}\n".encode():
            break
    while not line.startswith(b"data: "):
        line = response.readline()
    return json.loads(line[len(b"data: ") :])


def test_a_group_with_dead_layers_is_found_on_its_hold_out_and_trained_again():
    with Fleet() as fleet:
        fleet.start_coordinator("--heartbeat-ms", 100)
        fleet.upload("digits-train", "digits", "train")
        fleet.start_agents(2)
        connection = http.client.HTTPConnection(fleet.coordinator.address, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", "/v1/events")
            events = connection.getresponse()
            job = fleet.submit(narrow_job(SEED))
            done = fleet.wait(job, "succeeded")
            refused = next_event(events, "group_refused")
        must("group 0" in refused["message"] and " 0 %" in refused["message"], f"{refused}")
        parts = fleet.get(f"/v1/jobs/{done['id']}/groups")
        narrow, wide = (group["part"] for group in parts["groups"])
        must((narrow["attempts"], wide["attempts"]) == (2, 1), f"{parts}")
        must(parts["missing_classes"] == [] and done["state_reason"] is None, f"{done}")
        again = fleet.get(f"/v1/jobs/{narrow['job']}")
        must(again["spec"]["init"]["seed"] == SEED + 1, f"{again['spec']['init']}")
        must(again["progress"]["recall"] >= GATE, f"{again['progress']}")


if __name__ == "__main__":
    run(globals())
