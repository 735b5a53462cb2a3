"""The floods of flood.py in full: 20,000 disconnecting clients, 2,000 slow ones and 500 half-sent
bodies, against a coordinator with default options and an agent that trains. Also uploads of 1 GiB
by curl that the coordinator rejects.
"""

import subprocess
import tempfile

from flood import check_agent, check_coordinator, creep, stop_half_way, vanish
from paceline import Fleet, must
from runner import Skip, run


def test_20000_clients_that_disconnect():
    check_coordinator(vanish, 20000)


def test_2000_clients_that_send_byte_by_byte():
    check_coordinator(creep, 2000, 45)


def test_500_bodies_that_stop_half_way():
    check_coordinator(stop_half_way, 500, 20)


def test_an_agent_trains_on_during_all_floods():
    check_agent(1500, 20000, 2000, 500, 60)


def test_curl_shows_the_problem_of_a_wrong_upload_of_1_gib_ten_times_of_ten():
    try:
        subprocess.run(["curl", "--version"], capture_output=True, check=True)
    except FileNotFoundError:
        raise Skip("curl is not installed") from None
    with Fleet() as fleet, tempfile.NamedTemporaryFile(suffix=".pt") as file:
        fleet.start_coordinator()
        file.write(b"PK\x03\x04")
        file.truncate(1 << 30)
        file.flush()
        for number in range(10):
            for expect in ([], ["-H", "Expect:"]):
                done = subprocess.run(
                    [
                        "curl",
                        "-sS",
                        "-X",
                        "POST",
                        *expect,
                        "-T",
                        file.name,
                        f"http://{fleet.coordinator.address}/v1/checkpoints",
                    ],
                    capture_output=True,
                    text=True,
                    timeout=120,
                    check=False,
                )
                must(
                    done.returncode == 0 and "tools/from_torch.py" in done.stdout,
                    f"{number} {expect}: {done}",
                )


if __name__ == "__main__":
    run(globals())
