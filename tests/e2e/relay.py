"""Devices that their peers cannot reach train through a relay: found by trying, with the weights of
one process; refused without a ticket; the relay comes back; agents of another coordinator are kept
out.
"""

import os
import random
import re
import shutil
import socket
import time

from gossip import check_log, check_replay, gossip_job, mixes_of, of_kind
from paceline import SLOW_LEASE_MS, Failure, Fleet, data_files, must, on_devices, train
from runner import Skip, run

NOWHERE = "127.0.0.1:1"  # nothing listens there
JOB = {
    "model": {"name": "mlp"},
    "dataset": {"train": "digits-train"},
    "batch": 16,
    "micro_batches": 4,
    "epochs": 1,
    "kernels": {},
    "replication": {"neighbor_every": 20, "center_every": 40},
    "replan": {"first": 0, "every": 0},
    **on_devices(3, 3),
}


def free_ports(count):
    """Consecutive free ports that the system gives to nobody: they lie below its own range."""
    for _ in range(100):
        first = random.randrange(10000, 32768 - count)
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
            return range(first, first + count)
        except OSError:
            continue
    raise Failure(f"no {count} free ports in a row")


def open_fleet(fleet, tls, *arguments, lease_ms=SLOW_LEASE_MS):
    if tls:
        fleet.init()
    fleet.start_coordinator("--heartbeat-ms", 100, "--lease-ms", lease_ms, *arguments)
    fleet.upload("digits-train", "digits", "train")


def start_hidden(fleet, name, *arguments):
    """An agent whose address leads nowhere."""
    return fleet.start_agent(name, "--advertise", f"{fleet.scheme}://{NOWHERE}", *arguments)


def relay_of(fleet):
    """Where the coordinator's relay listens."""
    text = fleet.coordinator.log_text()
    return re.findall(r"event=relay_listening address=(\S+)", text)[-1]


def relayed(fleet):
    """The pairs of names of which the first reaches the second through a relay only."""
    devices = fleet.get("/v1/devices")["items"]
    names = {device["id"]: device["name"] for device in devices}
    return {(device["name"], names[other]) for device in devices for other in device["relayed"]}


def relay_counts(fleet):
    text = fleet.request("GET", "/metrics", expect=200).body.decode()
    samples = re.findall(r"^paceline_relay_(\w+) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in samples}


def neighbours(fleet, job):
    """The pairs of names that exchange tensors."""
    names = {device["id"]: device["name"] for device in fleet.get("/v1/devices")["items"]}
    order = [names[stage["device"]] for stage in fleet.stages(fleet.job(job))]
    return {pair for a, b in zip(order, order[1:]) for pair in ((a, b), (b, a))}


def test_hidden_devices_train_with_the_weights_of_one_process():
    expected = train(JOB, {"digits-train": data_files("digits", "train")})[0]
    with Fleet() as fleet:
        open_fleet(fleet, True)
        fleet.start_agent("open")
        start_hidden(fleet, "hidden0")
        start_hidden(fleet, "hidden1")
        fleet.wait_for_devices(3)
        job = fleet.submit(JOB)
        done = fleet.wait(job, "succeeded")
        must(fleet.checkpoint_sha256(job) == expected, "other weights")
        must(done["generation"] == 1, f"{done['generation']} generations")
        pairs = {pair for pair in neighbours(fleet, job) if pair[1].startswith("hidden")}
        must(pairs <= relayed(fleet), f"{pairs} is not in {relayed(fleet)}")
        must(all(to != "open" for _, to in relayed(fleet)), f"{relayed(fleet)}")
        counts = relay_counts(fleet)
        must(counts["bytes_total"] > 1 << 20 and counts["streams_total"] >= len(pairs), counts)
        must(counts["refused_total"] == 0, counts)
        incidents = fleet.get(f"/v1/jobs/{job['id']}/incidents")["items"]
        must(incidents == [], incidents)


def test_groups_of_hidden_devices_mix_through_the_relay():
    """A gossip job over TLS, in which each pair has a device that the other calls by the relay."""
    with Fleet() as fleet:
        open_fleet(fleet, True)
        fleet.upload("fashion-train", "fashion-mini", "train")
        fleet.upload("fashion-test", "fashion-mini", "test")
        fleet.start_agent("open")
        start_hidden(fleet, "hidden0")
        start_hidden(fleet, "hidden1")
        fleet.wait_for_devices(3)
        spec = gossip_job(epochs=2)
        job = fleet.submit(spec)
        fleet.wait(job, "succeeded")
        records = mixes_of(fleet, job)
        must(of_kind(records, "pair"), "no pair has mixed")
        check_log(records, 3)
        check_replay(fleet, job, spec)
        must(relay_counts(fleet)["bytes_total"] > 1 << 20, f"{relay_counts(fleet)}")


def test_a_relay_with_two_addresses_is_found():
    """The name of the coordinator has two addresses. Its relay listens on that which the system
    sorts behind the other: the source of a call to both is 127.0.0.1.
    """
    if os.geteuid() != 0 or not shutil.which("unshare"):
        raise Skip("another /etc/hosts needs root and unshare")
    with Fleet() as fleet:
        fleet.init("--name", "coordinator.test", "--name", "127.0.0.2")
        options = ("--heartbeat-ms", 100, "--allow-host", "coordinator.test")
        fleet.start_coordinator(*options, listen="127.0.0.2:0")
        fleet.upload("digits-train", "digits", "train")
        hosts = fleet.path / "hosts"
        hosts.write_text("127.0.0.2 coordinator.test\n127.0.0.1 coordinator.test\n", "ascii")
        mount = f"mount --bind {hosts} /etc/hosts && exec \"$@\""
        port = fleet.coordinator.address.split(":")[1]
        named = ("--coordinator", f"https://coordinator.test:{port}")
        hidden = ("--advertise", f"https://{NOWHERE}")
        for name in ("hidden0", "hidden1"):
            fleet.join_once(name, ())
            prefix = ("unshare", "-m", "sh", "-c", mount, "sh")
            fleet.start_agent(name, *named, *hidden, prefix=prefix, wait=False)
        fleet.wait_for_devices(2)
        job = fleet.submit({**JOB, **on_devices(2, 2)})
        fleet.wait_for_step(job, 1)
        must("relay_unavailable" not in fleet.agents[0].log_text(), fleet.agents[0].log_text())
        fleet.verb(job, "cancel")


def test_without_a_relay_hidden_devices_cannot_work_together():
    with Fleet() as fleet:
        open_fleet(fleet, False, "--relay", "off", lease_ms=2000)
        first = start_hidden(fleet, "hidden0")
        start_hidden(fleet, "hidden1")
        fleet.wait_for_devices(2)
        job = fleet.submit({**JOB, **on_devices(2, 2)})
        fleet.wait_until(
            job, lambda seen: "do not reach each other" in str(seen), "an unreachable pair"
        )
        must("peer_way" not in first.log_text(), first.log_text()[-2000:])
        must("event=relay_listening" not in fleet.coordinator.log_text(), "a relay listens")


def test_a_relay_that_was_killed_recovers():
    """The relay dies with its coordinator. The devices wait, and go on when both are back."""
    job = {**JOB, "epochs": 2, **on_devices(2, 2)}
    expected, _ = train(job, {"digits-train": data_files("digits", "train")})
    with Fleet() as fleet:
        open_fleet(fleet, False, "--relay", f"127.0.0.1:{free_ports(1)[0]}", lease_ms=4000)
        for name in ("hidden0", "hidden1"):
            start_hidden(fleet, name, "--slowdown", 20)
        fleet.wait_for_devices(2)
        job = fleet.submit(job)
        fleet.wait_for_step(job, 10)
        relay = relay_of(fleet)
        fleet.coordinator.kill()
        time.sleep(0.5)  # the streams have broken
        fleet.restart_coordinator("--relay", relay)
        done = fleet.wait(job, "succeeded")
        must(fleet.checkpoint_sha256(job) == expected, "other weights")
        must(done["generation"] <= 2, f"{done['generation']} generations")


def ask(address, text):
    """The first line of the relay's answer."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(text.encode())
        return connection.recv(200).decode().split("\r\n")[0]


def test_strangers_are_refused():
    with Fleet() as fleet:
        open_fleet(fleet, True)
        relay = relay_of(fleet)
        ticket = f"Proxy-Authorization: Bearer {'0' * 64}\r\n"
        answer = ask(relay, f"CONNECT dev_1.plan_1:1 HTTP/1.1\r\n{ticket}\r\n")
        must(answer == "HTTP/1.1 403 Forbidden", answer)
        answer = ask(relay, f"PARK dev_1.plan_1 HTTP/1.1\r\n{ticket}\r\n")
        must(answer == "HTTP/1.1 403 Forbidden", answer)
        answer = ask(relay, "CONNECT example.com:443 HTTP/1.1\r\n\r\n")
        must(answer == "HTTP/1.1 400 Bad Request", answer)
        refused = re.findall(r"event=relay_refused .*reason=.*", fleet.coordinator.log_text())
        must(len(refused) == 3, refused)
        must("0" * 64 not in fleet.coordinator.log_text(), "a ticket is in the log")


def test_a_taken_port_costs_the_relay_alone():
    port, _, of_relay = free_ports(3)
    with Fleet() as fleet, socket.create_server(("127.0.0.1", of_relay)):
        fleet.start_coordinator(listen=f"127.0.0.1:{port}")
        must(fleet.get("/healthz") == {"status": "ok"}, "not healthy")
        must("event=relay_off" in fleet.coordinator.log_text(), fleet.coordinator.log_text())


if __name__ == "__main__":
    run(globals())
