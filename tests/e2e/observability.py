"""Metrics and logs of the real programs."""

import json
import re
import signal
import time

from paceline import Failure, Fleet, fashion_job, must, on_devices, request
from runner import run

TOKEN = "0123456789abcdef-metrics"


def samples(text):
    """{name{labels}: value}"""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


def metrics_of(process, headers=None):
    answer = request(process.address, "GET", "/metrics", headers=headers)
    must(answer.status == 200, f"{process.name}: {answer.status} {answer.body!r}")
    return samples(answer.body.decode())


def wait_for(condition, what, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise Failure(what)


def address_of_peers(agent):
    """An agent's `address=` is a URL."""
    agent.address = agent.address.split("//")[-1]
    return agent


def log_lines(process):
    """The lines of a log in JSON. The last one may be incomplete."""
    return [json.loads(line) for line in process.log_text().split("\n")[:-1]]


def shown_training(own):
    """The metrics of an agent, once its latest heartbeat stood at step 40: the coordinator may have
    heard of that step from the other agent.
    """
    trained = own["paceline_agent_step"] >= 40 and own['paceline_agent_stage_seconds{part="step"}']
    return own if trained else None


def test_coordinator_and_agents_show_the_same_training():
    with Fleet() as fleet:
        fleet.start_coordinator("--log-format", "json", "--heartbeat-ms", "200")
        token = fleet.path / "token"
        token.write_text(TOKEN + "\n", encoding="utf-8")
        fleet.start_agents(2, "--log-format", "json", "--metrics-token", token)
        agents = [address_of_peers(agent) for agent in fleet.agents]
        fleet.upload("fashion-train", "fashion-mini", "train")
        job = fleet.submit(fashion_job("mlp", name="watched", **on_devices(2, 2)))
        fleet.wait_for_step(job, 40)
        devices = {device["name"]: device["id"] for device in fleet.get("/v1/devices")["items"]}

        labels = f'{{job_id="{job["id"]}",job_name="watched"}}'

        def measured():
            now = metrics_of(fleet.coordinator)
            wanted = [f"paceline_job_loss{labels}"] + [
                f'paceline_device_busy_ratio{{device_id="{devices[agent.name]}",'
                f'device_name="{agent.name}"}}'
                for agent in agents
            ]
            links = [name for name in now if name.startswith("paceline_link_bytes_per_second")]
            return now if all(now.get(name, 0) > 0 for name in wanted) and links else None

        central = wait_for(measured, "the coordinator shows no loss, load or link")
        must(central[f"paceline_job_step{labels}"] >= 40, "the step")
        must(
            all(
                0 < value <= 1
                for name, value in central.items()
                if name.startswith("paceline_device_busy_ratio")
            ),
            "a busy share is no share",
        )
        must(
            any(
                'from_name="agent0"' in name and 'to_name="agent1"' in name and value > 1e4
                for name, value in central.items()
                if name.startswith("paceline_link_bytes_per_second")
            ),
            "the link between the agents",
        )
        for agent in agents:
            own = wait_for(
                lambda agent=agent: shown_training(metrics_of(agent)),
                f"{agent.name} shows no step",
            )
            must(
                f'paceline_agent_info{{device_id="{devices[agent.name]}",'
                f'device_name="{agent.name}"}}' in own,
                f"{own}",
            )
            must(f'paceline_agent_phase{{phase="run",job_id="{job["id"]}"}}' in own, f"{own}")
            must(own["paceline_agent_coordinator_silent_seconds"] < 30, "silence")
            must(own["process_resident_memory_bytes"] > 1e6, "memory")
            must(
                any(
                    name.startswith("paceline_agent_transfer_bytes_total") and value > 0
                    for name, value in own.items()
                ),
                "no transfers",
            )
            check_readers(agent)
        fleet.verb(job, "cancel")
        for process in [fleet.coordinator, *agents]:
            check_levels(process)


def check_readers(agent):
    """A foreign Host is a foreign page; with the token anybody reads."""
    foreign = {"Host": "evil.example"}
    for headers in (
        foreign,
        {**foreign, "Authorization": "Bearer wrong"},
        {**foreign, "Authorization": f"Basic {TOKEN}"},
        {**foreign, "Authorization": f"Bearer {TOKEN}x"},
    ):
        answer = request(agent.address, "GET", "/metrics", headers=headers)
        must(answer.status == 401 and answer.code == "token_missing", f"{answer.body!r}")
        must("paceline_agent" not in answer.body.decode(), "the answer shows metrics")
    metrics_of(agent, {**foreign, "Authorization": f"Bearer {TOKEN}"})
    must(request(agent.address, "POST", "/metrics", b"x").status == 405, "POST /metrics")


def check_levels(process):
    """SIGUSR1 shows events of the level debug, SIGUSR2 ends that; no line is anything but JSON."""

    def debug():
        return [line for line in log_lines(process) if line["level"] == "debug"]

    def quiet():
        before = len(log_lines(process))
        stimulate(process)
        return not [line for line in log_lines(process)[before:] if line["level"] == "debug"]

    must(not debug(), f"{process.name}: debug lines at the level info")
    process.signal(signal.SIGUSR1)
    if process.program == "paceline-coordinator":
        wait_for(lambda: stimulate(process) and debug(), f"{process.name}: no debug line")
        must(
            all(isinstance(line["status"], int) for line in debug() if line["event"] == "request"),
            "a status is no number",
        )
        process.signal(signal.SIGUSR2)
        wait_for(quiet, f"{process.name}: debug lines after SIGUSR2")
    must(process.running(), f"{process.name} ended on a signal about its log")
    for line in log_lines(process):
        must(re.fullmatch(r"20.*Z", line["time"]) and line["event"], f"{line}")


def stimulate(process):
    request(process.address, "GET", "/healthz")
    return True


if __name__ == "__main__":
    run(globals())
