"""The accuracy of one job over three agents and in one process, and whether the models are the same, byte for byte."""

import json

from paceline import FASHION, ROOT, Fleet, on_devices, train
from report import finish, say, table

AGENTS = 3
SECONDS = 1800


def main():
    job = json.loads((ROOT / "examples/jobs/fashion.json").read_text())
    say(f"{job['model']['name']} on fashion-mini, batch {job['batch']}, {job['epochs']} epochs (examples/jobs/fashion.json)")
    sha256, output = train(job, FASHION)
    accuracy = float(next(line.split()[1] for line in output.splitlines() if line.startswith("accuracy ")))
    rows = [{"where": "paceline-agent train", "accuracy": accuracy, "sha256": sha256, "units_by_stage": None}]
    with Fleet() as fleet:
        fleet.start_coordinator()
        for name, part in (("fashion-train", "train"), ("fashion-test", "test")):
            fleet.upload(name, "fashion-mini", part)
        fleet.start_agents(AGENTS)
        submitted = fleet.submit({**job, **on_devices(AGENTS, AGENTS)})
        done = fleet.wait(submitted, "succeeded", SECONDS)
        stages = fleet.get(f"/v1/jobs/{done['id']}/plans/{done['generation']}")["stages"]
        rows.append({"where": f"{AGENTS} agents", "accuracy": done["progress"]["accuracy"],
                     "sha256": fleet.checkpoint_sha256(submitted),
                     "units_by_stage": [stage["end"] - stage["first"] for stage in stages]})
    table(["where", "test accuracy", "sha256", "units by stage"],
          [[row["where"], f"{row['accuracy']:.4f}", row["sha256"], " + ".join(map(str, row["units_by_stage"] or ["all"]))]
           for row in rows])
    same = rows[0]["sha256"] == rows[1]["sha256"]
    say("the models are identical" if same else "THE MODELS DIFFER")
    finish("accuracy", rows, identical=same)


if __name__ == "__main__":
    main()
