"""The coordinator is killed at every single commit of a job, from its start to its end, and begins
again. Each time the job ends with the weights of one process, or with those that its log gives.
"""

import itertools

from commits import run_job
from gossip import check_log, check_replay, gossip_fleet, gossip_job, mixes_of
from paceline import FASHION, fashion_fleet, fashion_job, must, on_devices, train
from runner import run
from submodels import SMALL, model_of, submodel_job, undisturbed

AGENTS = 3
LEASE_MS = 2000
OPTIONS = ("--heartbeat-ms", 50, "--lease-ms", LEASE_MS)
COMMITS_MIN = 20  # of a job


def die_at_every_commit(fleet, spec, check):
    for number in itertools.count(1):
        if not run_job(fleet, spec, AGENTS, number, check, *OPTIONS):
            break
    print(f"{number - 1} commits", flush=True)
    must(number > COMMITS_MIN, f"{number - 1} commits only")


def check_the_law(**fields):
    spec = fashion_job(
        "lenet5",
        **{
            "steps": 40,
            "replication": {"neighbor_every": 5, "center_every": 15},
            "evaluate": {"every_epochs": 1},
            **on_devices(AGENTS, AGENTS),
            **fields,
        },
    )
    wanted = train(spec, FASHION)[0]
    with fashion_fleet(AGENTS, lease_ms=LEASE_MS) as fleet:

        def check(job):
            sha256 = fleet.checkpoint_sha256(job)
            must(sha256 == wanted, f"{sha256}, not {wanted}")

        die_at_every_commit(fleet, spec, check)


def test_a_pipeline():
    check_the_law(cuts=[2, 4])


def test_servers_and_workers():
    check_the_law(strategy="parameter_server", parameter_server={"servers": 2})


def test_groups_that_mix():
    spec = gossip_job(AGENTS, {"average_every": 2}, epochs=2)
    with gossip_fleet(AGENTS, lease_ms=LEASE_MS) as fleet:

        def check(job):
            check_log(mixes_of(fleet, job), AGENTS)
            check_replay(fleet, job, spec)

        die_at_every_commit(fleet, spec, check)


def test_sub_models():
    wanted = undisturbed(SMALL)
    with fashion_fleet(AGENTS, lease_ms=LEASE_MS) as fleet:

        def check(job):
            model = model_of(fleet, job["checkpoint"])
            must(model == wanted, f"{model}, not {wanted}")

        die_at_every_commit(fleet, submodel_job(SMALL), check)


if __name__ == "__main__":
    run(globals())
