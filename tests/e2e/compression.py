"""Jobs whose tensors travel coded between three real agents."""


from paceline import fashion_fleet, fashion_job, must, on_devices
from runner import run

STEPS = 120
MEAN = 20  # losses of single steps of few samples scatter


def losses(fleet, job):
    items = fleet.get(f"/v1/jobs/{job['id']}/metrics?name=loss")["items"]
    must([item["step"] for item in items] == list(range(1, STEPS + 1)), f"{len(items)} losses")
    values = [item["value"] for item in items]
    return sum(values[:MEAN]) / MEAN, sum(values[-MEAN:]) / MEAN


def trained(fleet, **fields):
    rate = {"type": "constant", "value": 0.01}
    job = fleet.submit(
        fashion_job(
            steps=STEPS, batch=32, learning_rate=rate, cuts=[1, 2], **on_devices(3, 3), **fields
        )
    )
    done = fleet.wait(job, "succeeded")
    stages = fleet.get(f"/v1/jobs/{job['id']}/plans/{done['generation']}")["stages"]
    return done, [stage["codec"] for stage in stages], *losses(fleet, job)


def test_coded_jobs_learn_as_plain_ones_and_are_not_exact():
    with fashion_fleet(3) as fleet:
        plain, codecs, plain_first, plain_last = trained(fleet)
        must(plain["exact"] and codecs == ["none"] * 3, f"{plain['exact']} {codecs}")
        must(plain_last < 0.6 * plain_first, f"{plain_first} {plain_last}")
        has_zstd = all(d["inventory"]["zstd"] for d in fleet.get("/v1/devices")["items"])
        for wanted in ["q8", "q4+zstd" if has_zstd else "q4"]:
            done, codecs, _, last = trained(fleet, compression=wanted)
            must(not done["exact"], f"{wanted}: exact")
            must(codecs == [wanted, wanted, "none"], f"{wanted}: {codecs}")
            must(
                fleet.checkpoint_sha256(done) != fleet.checkpoint_sha256(plain),
                f"{wanted}: the weights are those without a codec",
            )
            must(abs(last - plain_last) < 0.15 * plain_first, f"{wanted}: {last}, {plain_last}")


def test_a_coded_job_of_one_device_is_exact():
    with fashion_fleet(1) as fleet:
        job = fleet.submit(fashion_job(steps=STEPS, compression="q2", **on_devices(1, 1)))
        done = fleet.wait(job, "succeeded")
        must(done["exact"], f"{done}")


if __name__ == "__main__":
    run(globals())
