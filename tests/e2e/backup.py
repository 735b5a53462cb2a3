"""Backups of a coordinator at work: a job goes on after the restore, full disks, versions."""

import os
import pathlib
import shutil
import sqlite3
import subprocess

from paceline import BIN, FASHION, Fleet, fashion_job, must, small_disk, train
from runner import run

STEPS = 120
OPTIONS = ("--heartbeat-ms", 100, "--lease-ms", 2000)


def command(*arguments, status=0):
    """A command of the coordinator, which ends by itself: its last line."""
    done = subprocess.run(
        [BIN / "paceline-coordinator", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = (done.stdout + done.stderr).splitlines()
    must(done.returncode == status, f"{arguments}: {done.returncode}, not {status}: {lines}")
    return lines[-1] if lines else ""


def backup(fleet, file, status=0, min_free="0"):
    return command(
        "backup", "--state-dir", fleet.path / "coordinator", "--min-free", min_free, file,
        status=status,
    )


def restore(file, directory, status=0):
    return command("restore", "--state-dir", directory, "--min-free", "0", file, status=status)


def test_a_job_goes_on_after_a_restore_elsewhere_and_ends_with_the_same_weights():
    with Fleet() as fleet:
        fleet.init("--name", "127.0.0.1")
        fleet.start_coordinator(*OPTIONS)
        fleet.upload("fashion-train", "fashion-mini", "train")
        fleet.start_agents(2, "--slowdown", 8)
        spec = fashion_job(
            steps=STEPS,
            devices={"min": 2, "max": 2},
            replication={"neighbor_every": 2, "center_every": 2},
        )
        job = fleet.submit(spec)
        fleet.wait_for_step(job, 5)
        file = fleet.path / "backup"
        for _ in range(2):  # the second replaces the first; rounds to the center go on meanwhile
            said = backup(fleet, file)
            must("blobs" in said, said)
        seen = fleet.job(job)
        must(seen["state"] == "running", f"{seen}")
        command("check", file)
        command("check", "--state-dir", fleet.path / "coordinator")
        fleet.wait_for_step(job, min(seen["progress"]["step"] + 5, STEPS))

        # The machine is lost; agents are ahead of the backup.
        fleet.coordinator.kill()
        shutil.move(fleet.path / "coordinator", fleet.path / "lost")
        restore(file, fleet.path / "coordinator")
        fleet.restart_coordinator(*OPTIONS)
        done = fleet.wait(job, "succeeded")
        must(done["progress"]["step"] == STEPS, f"{done}")
        expected, _ = train(spec, FASHION)
        must(fleet.checkpoint_sha256(job) == expected, "other weights than of one device")
        must("blob_missing" not in fleet.coordinator.log_text(), fleet.coordinator.log_text())


def test_a_disk_that_is_full_at_any_point_costs_the_backup_and_nothing_else():
    with Fleet() as fleet, small_disk(fleet.path / "small", "3m") as small:
        coordinator = fleet.start_coordinator(*OPTIONS)
        fleet.upload("fashion-train", "fashion-mini", "train")
        fleet.upload("fashion-test", "fashion-mini", "test")
        whole = fleet.path / "whole"
        backup(fleet, whole)
        size = whole.stat().st_size
        must(size > 1 << 20, f"{size} bytes do not fill the disk")
        foreign = small / "foreign"
        for left in (0, 4096, size // 8, size // 2, size - 65536):
            free = os.statvfs(small)
            with open(foreign, "wb") as file:
                file.write(bytes(max(0, free.f_bavail * free.f_frsize - left)))
            said = backup(fleet, small / "backup", status=1)
            must("needed" in said and "free" in said, said)
            said = restore(whole, small / "state", status=1)
            must("needed" in said and "free" in said, said)
            must(os.listdir(small) in (["foreign"], ["state", "foreign"], ["foreign", "state"]),
                 f"{os.listdir(small)}")
            foreign.unlink()
        must(coordinator.running(), "the coordinator has ended")
        fleet.get("/v1/datasets/fashion-train")


def test_writes_that_find_the_disk_full_leave_no_file():
    """The look at the free space passes; a quota or another program takes the space meanwhile."""
    with Fleet() as fleet:
        fleet.start_coordinator(*OPTIONS)
        fleet.upload("fashion-train", "fashion-mini", "train")
        whole = fleet.path / "whole"
        backup(fleet, whole)
        place = fleet.path / "place"
        place.mkdir()
        for kilobytes in (1, 64, 128, 512, whole.stat().st_size // 2048):
            for words in (
                f"backup --min-free 0 --state-dir {fleet.path}/coordinator {place}/backup",
                f"restore --min-free 0 --state-dir {place}/state {whole}",
            ):
                done = subprocess.run(
                    [
                        "bash",
                        "-c",
                        f"trap '' XFSZ; ulimit -f {kilobytes};"
                        f" exec {BIN}/paceline-coordinator {words}",
                    ],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                must(done.returncode == 1, f"{words}: {done.returncode} {done.stderr}")
                left = {path.name for path in place.rglob("*")}
                must(left <= {"state", "state.lock"}, f"{kilobytes} {words}: {left} {done.stderr}")
        command("check", "--state-dir", fleet.path / "coordinator")


def test_blobs_whose_rows_are_lost_stay_however_often_it_is_started():
    with Fleet() as fleet:
        fleet.start_coordinator()
        fleet.upload("fashion-train", "fashion-mini", "train")
        must(fleet.coordinator.stop() == 0, "exit status")
        state = fleet.path / "coordinator"
        rows = fleet.path / "rows"
        rows.mkdir()
        for path in list(state.glob("state.db*")):
            path.rename(rows / path.name)
        for _ in range(2):  # as a service manager would
            said = command("--state-dir", state, "--listen", "127.0.0.1:0", status=1)
            must("state.db is new, but checkpoints.db holds 1 blobs" in said, said)
        for path in list(state.glob("state.db*")):
            path.unlink()
        for path in list(rows.iterdir()):
            path.rename(state / path.name)
        fleet.restart_coordinator()
        must(fleet.get("/v1/datasets/fashion-train")["samples"] > 0, "the rows")
        must("blob_missing" not in fleet.coordinator.log_text(), fleet.coordinator.log_text())


def test_state_of_a_newer_version_is_refused_with_a_sentence():
    with Fleet() as fleet:
        fleet.start_coordinator()
        file = fleet.path / "backup"
        backup(fleet, file)
        must(fleet.coordinator.stop() == 0, "exit status")
        state = fleet.path / "coordinator"
        for path, statement in (
            (state / "state.db", "PRAGMA user_version = 99"),
            (file, "UPDATE facts SET schema = 99, version = '9.9'"),
        ):
            database = sqlite3.connect(path)
            database.execute(statement)
            database.commit()
            database.close()
        said = command("--state-dir", state, "--listen", "127.0.0.1:0", status=1)
        must("newer version" in said and "restore a backup" in said, said)
        said = restore(file, pathlib.Path(fleet.path / "new"), status=1)
        must("version 9.9" in said and "newer" in said, said)
        said = backup(fleet, fleet.path / "again", status=1)
        must("newer version" in said, said)


if __name__ == "__main__":
    run(globals())
