"""Debian's Prometheus reads a coordinator and an agent, and evaluates every rule of the alerts and
every query of the board.

Skipped where prometheus and promtool are not installed.
"""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request

import yaml

from paceline import ROOT, Failure, Fleet, fashion_job, must
from runner import Skip, run

GRAFANA = ROOT / "deploy/grafana"
INTERVAL = "1s"
# Grafana's own variables, and the values that it puts in for "All".
VARIABLES = {"$job": ".*", "$device": ".*", "$__rate_interval": "1m"}
# Queries without a sample in a healthy fleet of one device: there are no links, failures, other
# devices or webhook.
MAY_BE_EMPTY = re.compile(r"_link_|_incidents_|_recovery_|_transfer|_webhook_|_job_eta|_accuracy")


def tools():
    """Skip unless the programs are there."""
    for name in ("prometheus", "promtool"):
        if not shutil.which(name):
            raise Skip(f"{name} is not installed (apt-get install prometheus)")


def promtool(*words):
    """A check of promtool; its output is the explanation."""
    done = subprocess.run(
        ["promtool", *map(str, words)], capture_output=True, text=True, timeout=120, check=False
    )
    must(done.returncode == 0, f"promtool {words}: {done.stdout}{done.stderr}")
    return done.stdout


def board_queries():
    """(title of the panel, query) of the board, without variables."""
    board = json.loads((GRAFANA / "paceline.json").read_text(encoding="utf-8"))
    found = []
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"]
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            must("$" not in query, f"{panel['title']}: an unknown variable in {query}")
            found.append((panel["title"], query))
    must(len(found) > 30, f"{len(found)} queries")
    return found


def free_port():
    """A port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Prometheus:
    """A running Prometheus that scrapes these addresses with the alerts of deploy/grafana."""

    def __init__(self, directory, coordinator, agent):
        self.url = f"http://127.0.0.1:{free_port()}"
        config = yaml.safe_load((GRAFANA / "prometheus.yml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL}
        config["rule_files"] = [str(GRAFANA / "alerts.yml")]
        for scrape, address in zip(config["scrape_configs"], (coordinator, agent)):
            scrape["static_configs"] = [{"targets": [address]}]
        path = directory / "prometheus.yml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        promtool("check", "config", path)
        self.log = open(directory / "prometheus.log", "wb")
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={path}",
                f"--storage.tsdb.path={directory / 'tsdb'}",
                f"--web.listen-address={self.url.removeprefix('http://')}",
            ],
            stdout=self.log,
            stderr=self.log,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()

    def get(self, path, **query):
        """The data of an answer; None while Prometheus does not answer yet."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise Failure(f"{path} {query}: {error.read().decode()}") from error
        except OSError:
            return None

    def value(self, query):
        """The samples of a query now."""
        data = self.get("query", query=query)
        return data["result"] if data else []

    def wait_for(self, query, seconds=120):
        """Until the query has samples; they are returned."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = self.value(query)
            if found:
                return found
            must(self.process.poll() is None, "Prometheus has ended")
            time.sleep(0.2)
        raise Failure(f"no samples of {query}")


def test_promtool_accepts_the_alerts_and_the_configuration():
    tools()
    rules = promtool("check", "rules", GRAFANA / "alerts.yml")
    must("SUCCESS: 12 rules found" in rules, rules)
    promtool("check", "config", GRAFANA / "prometheus.yml")


def check_rules(prometheus):
    """Every rule was evaluated without an error, and no alert fires in a healthy fleet."""
    groups = prometheus.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    must(len(rules) == 12, f"{len(rules)} rules")
    for rule in rules:
        must(rule["health"] == "ok", f"{rule['name']}: {rule.get('lastError')}")
        must(rule["state"] == "inactive", f"{rule['name']} is {rule['state']}")


def test_prometheus_answers_every_query_of_the_board_and_notices_a_lost_device():
    tools()
    with Fleet() as fleet:
        fleet.start_coordinator("--heartbeat-ms", "200", "--lease-ms", "1500")
        fleet.start_agents(1)
        agent = fleet.agents[0]
        fleet.upload("fashion-train", "fashion-mini", "train")
        address = agent.address.split("//")[-1]
        with Prometheus(fleet.path, fleet.coordinator.address, address) as prometheus:
            job = fleet.submit(fashion_job("mlp", name="watched", epochs=10000))
            fleet.wait_for_step(job, 20)
            for query in ("paceline_job_loss", "paceline_agent_stage_seconds > 0", "up == 1"):
                prometheus.wait_for(query)
            fleet.verb(fleet.submit(fashion_job("mlp", name="other")), "cancel")
            prometheus.wait_for("increase(paceline_events_total[15m]) > 0")
            prometheus.wait_for("rate(paceline_http_requests_total[1m])")
            for title, query in board_queries():
                found = prometheus.value(query)
                must(found or MAY_BE_EMPTY.search(query), f"{title}: no samples of {query}")
            step = prometheus.value('paceline_job_step{job_name="watched"}')[0]
            must(step["metric"]["job"] == "paceline-coordinator", f"{step}")
            must("exported_job" not in step["metric"], f"{step}")
            check_rules(prometheus)
            agent.kill()
            for alert in ("PacelineDeviceAway", "PacelineCoordinatorDown"):
                if alert == "PacelineCoordinatorDown":
                    fleet.coordinator.kill()
                found = prometheus.wait_for(f'ALERTS{{alertname="{alert}"}}')
                must(found[0]["metric"]["alertstate"] in ("pending", "firing"), f"{found}")


if __name__ == "__main__":
    run(globals())
