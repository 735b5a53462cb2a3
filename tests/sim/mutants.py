"""Remove rules of jobs, one at a time, from a copy of the source tree, and
require that the simulator detects each within 2,000 seeds. Prints the first seed and its violation.

    python3 tests/sim/mutants.py [WORD...]    # only mutants whose rule has one of these words
    python3 tests/sim/mutants.py --check      # only look whether each rule is where it was
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUBMODEL = "coordinator/core/submodel/submodel.c"
GROUPS = "coordinator/core/parts/groups.c"
SEEDS, AT_ONCE = 2000, 100

# (rule, file, code, code without the rule)
GROUP_MUTANTS = (  # of jobs that consist of groups
    (
        "harvest only final checkpoints: of groups that pass the gate",
        SUBMODEL,
        "job->job.state == JOB_SUCCEEDED && !passes_gate(&job->job)",
        "job->job.state == JOB_SUCCEEDED && false && !passes_gate(&job->job)",
    ),
    (
        "harvest only final checkpoints: of groups that have ended",
        SUBMODEL,
        'groups_cancel(core, part, "deadline", "not trained by the deadline of the groups");\n'
        "            part->state = PART_MISSING;",
        'groups_cancel(core, part, "deadline", "not trained by the deadline of the groups");\n'
        "            part->state = PART_TRAINED;",
    ),
    (
        "harvest only checkpoints of this parent: the joint job starts from its harvest",
        SUBMODEL,
        "parent->parent.harvest = core->checkpoint.id;",
        "parent->parent.harvest = parent->parent.stem.checkpoint;",
    ),
    (
        "harvest only checkpoints of this parent: a part has that of its own job",
        SUBMODEL,
        "part->checkpoint = job->checkpoint;",
        "static struct checkpoint_id other;\n"
        "    part->checkpoint = other.text[0] ? other : job->checkpoint;\n"
        "    other = job->checkpoint;",
    ),
    (
        "no group outlives its parent",
        GROUPS,
        'groups_cancel(core, part, "", "its parent has ended");',
        "",
    ),
    (
        "each class is served as often as it should be",
        "coordinator/core/submodel/class_groups.c",
        "for (int64_t c = one->class_count / 2; c < one->class_count; c++) {",
        "for (int64_t c = one->class_count / 2 + 1; c < one->class_count; c++) {",
    ),
    (
        "classes that are not served are listed",
        SUBMODEL,
        'JOB_SUCCEEDED, missing > 0 ? "degraded" : "", message',
        'JOB_SUCCEEDED, "", message',
    ),
    (
        "classes that are not served are listed: those of a group that is refused too often",
        SUBMODEL,
        "part->state = again ? PART_WAITING : PART_MISSING;\n    part->reseeded++;",
        "part->state = again ? PART_WAITING : PART_TRAINED;\n    part->reseeded++;",
    ),
    (
        "a live parent keeps the models of its parts",
        "coordinator/core/jobs/deletions.c",
        "if (parent_uses(core, parent, deletion)) {",
        "if (job_uses(&parent->job, deletion)) {",
    ),
    (
        "one phase at a time: the harvest follows the last group",
        SUBMODEL,
        "} else if (groups_count(row, PART_TRAINS) == 0) {",
        "} else if (groups_count(row, PART_TRAINED) > 0) {",
    ),
    (
        "one phase at a time: groups follow the stem",
        SUBMODEL,
        "    case PART_TRAINED: begin_groups(core, parent); break;\n    case PART_TRAINS:\n",
        "    case PART_TRAINED:\n    case PART_TRAINS: begin_groups(core, parent); break;\n",
    ),
)

JOB_MUTANTS = (
    (
        "a job ends with the version whose evaluation meets its rule",
        "coordinator/core/generation/early_stops.c",
        "    early_stops_init(job);\n    if (",
        "    if (",
    ),
    (
        "no more checkpoints stay than the job asks for",
        "coordinator/core/copies/kept.c",
        "(size_t)policy->count + (open ? 1 : 0)",
        "(size_t)policy->count + 1",
    ),
    (
        "what a user deletes is gone",
        "coordinator/core/jobs/deletions.c",
        "    act_forget(core, kind->object, deletion->id, 0);\n",
        "",
    ),
    (
        "a deleted checkpoint is no longer listed",
        "coordinator/core/jobs/deletions.c",
        "        kept_deleted(core, deletion->id);\n",
        "",
    ),
)
EXCHANGE_MUTANTS = (  # of jobs with workers and servers
    (
        "a job ends with its last evaluation",
        "coordinator/core/state/states.c",
        "return version == job->total_steps && !job->plan.unevaluated;",
        "return version == job->total_steps;",
    ),
    (
        "a worker is done when everything else of its step is acknowledged",
        "agent/core/exchange_worker.c",
        "return worker->pushes_open == open;",
        "return worker->pushes_open >= 0 * open;",
    ),
    (
        "no server updates without the total of the squares",
        "agent/core/exchange_server.c",
        "    if (!number_is_here(server, EXCHANGE_NORM_TOTAL)) {\n        return false;",
        "    if (!number_is_here(server, EXCHANGE_NORM_TOTAL)) {\n        return true;",
    ),
    (
        "a stop keeps one version",
        "agent/core/exchange_server.c",
        "course->stop_version = message->step;",
        "course->stop_version = course->version;",
    ),
    (
        "commit only when all are done",
        "agent/core/exchange_lead.c",
        "        !holds && all_are_done(lead, server)) {",
        "        !holds && (all_are_done(lead, server) || true)) {",
    ),
    (
        "sums have the order of the tree",
        "agent/core/exchange_server.c",
        "        if (server->covers[add->left] == add->added.first &&\n"
        "            server->covers[add->right] == add->added.end) {",
        "        if (server->covers[add->right] == add->added.end) {",
    ),
    (
        "the newest claim of a buffer counts",
        "agent/core/exchange_arrivals.c",
        "if (arrivals->part[i] != claim) {\n            return false;",
        "if (arrivals->part[i] != claim) {\n            return true;",
    ),
    (
        "one buffer per block and step",
        "agent/core/exchange_server.c",
        "struct exchange_parts parts = parts_of_block(server, message->block);",
        "struct exchange_parts parts = parts_of_block(server, 0);",
    ),
    (
        "a step whose last sum is sent may be the last one",
        "agent/core/exchange_worker.c",
        "return handed ? worker->step : worker->step - 1;",
        "return handed ? worker->step - 1 : worker->step - 1;",
    ),
    (
        "an evaluation has all of its results",
        "agent/core/exchange_lead.c",
        "lead->results == lead->plan->config.evaluation_batches;",
        "lead->results + 1 >= lead->plan->config.evaluation_batches;",
    ),
)
MIXING = "agent/core/mixing.c"
GOSSIP = "coordinator/core/gossip/gossip_inside.h"
MIX_MUTANTS = (  # of jobs whose groups mix
    (
        "once per xid",
        MIXING,
        "    if (!mix_xid_after(match->xid, mixing->newest[place]) &&",
        "    if (false && !mix_xid_after(match->xid, mixing->newest[place]) &&",
    ),
    (
        "a group with few samples slows down",
        MIXING,
        "return waited < MIXING_SLOW_FOR_MS ? mixing",
        "return waited < 0 ? mixing",
    ),
    (
        "no copies from an ended incarnation",
        "coordinator/core/gossip/gossip_duty.c",
        "match->own.generation != duty->generation ||",
        "",
    ),
    (
        "records travel with copies",
        MIXING,
        "    carry(mixing, record, records);\n    set_copy",
        "    carry(mixing, record, 0 * records);\n    set_copy",
    ),
    (
        "averages never decrease",
        "coordinator/core/gossip/gossip_result.c",
        "    if (newest && mix_xid_is(newest->xid, stored->average.xid)) {",
        "    if (false && newest && mix_xid_is(newest->xid, stored->average.xid)) {",
    ),
    (
        "one open match per group",
        GOSSIP,
        "return group->present && group->heard && !gossip_is_open(group);",
        "return group->present && group->heard;",
    ),
    (
        "no xid spans the tag of an adopted average",
        MIXING,
        "        end(&mixing->slot[MIXING_PAIRS], MIXING_EXPIRED);\n    }\n}",
        "    }\n}",
    ),
    (
        "no match before the first heartbeat",
        GOSSIP,
        "return group->present && group->heard && !gossip_is_open(group);",
        "return group->present && !gossip_is_open(group);",
    ),
    (
        "a record is acknowledged after its row",
        "agent/core/current_run.c",
        "run->active && run->mixes && reply->revision == revision",
        "run->active && run->mixes",
    ),
    (
        "an average is sent after its records are stored",
        MIXING,
        "    return mixing->average_records == 0;",
        "    return true;",
    ),
    (
        "a group resumes the state of the incarnation that computed it",
        "coordinator/core/gossip/gossip_groups.c",
        "start->generation < job->plan.generation && start->first < job->plan.resume_version",
        "false && start->generation < job->plan.generation",
    ),
)
LOG_MUTANTS = (  # of the same jobs
    (
        "averages do without a copy that two groups could not get",
        "coordinator/core/gossip/gossip_average.c",
        "group->lacked = lacks == gossip->averager ? GOSSIP_LACKED_MAX : group->lacked + 1;",
        "group->lacked = 0;",
    ),
    (
        "no match is named twice, whatever is restored",
        "coordinator/core/gossip/gossip_job.c",
        "return core->wall_ms > last ? core->wall_ms : gossip_life_after(core->seed, last);",
        "return last + 1;",
    ),
    (
        "the log names the author of the average that was stored",
        "coordinator/core/gossip/gossip_result.c",
        "    gossip_record(core, parent, &record);\n",
        "    (void)record;\n",
    ),
)
HELD_OUT_MUTANTS = (  # of jobs whose devices hold out samples
    (
        "held out: the mean weighs by samples",
        "coordinator/core/gossip/gossip_result.c",
        "            accuracy += tests->accuracy * (double)tests->samples;",
        "            accuracy += tests->accuracy * samples;",
    ),
)
PAIRS = "coordinator/core/gossip/gossip_pairs.c"
ROUND_MUTANTS = (  # of jobs whose groups mix in rounds
    (
        "a round: a group holds until it has mixed",
        MIXING,
        "return pace == MIXING_HOLDS ? due : MIXING_NEVER;",
        "return pace == MIXING_HOLDS ? MIXING_NEVER : MIXING_NEVER;",
    ),
    (
        "a round: a group that passes goes on",
        MIXING,
        "    return (passed ? mixing->passed : mixing->applied_step) + every;",
        "    return (passed ? mixing->applied_step : mixing->applied_step) + every;",
    ),
    (
        "a round: a group goes on after a step of its own incarnation",
        "coordinator/core/gossip/gossip_groups.c",
        "work->passed = 0;",
        "",
    ),
    (
        "a round: whoever has no partner passes",
        PAIRS,
        "            pass(&gossip->group[g]);\n",
        "            (void)pass;\n",
    ),
    (
        "a round: a lost device is not waited for",
        PAIRS,
        "        present += gossip->group[g].present;\n",
        "        present++;\n",
    ),
    (
        "a round: it is closed when all wait, or others are late",
        PAIRS,
        "return waiting > 0 && (late == 0 || now_ms >= gossip_late_ms(gossip));",
        "return waiting > 0 && (late == 0 || now_ms > 0);",
    ),
    (
        "a round: a group is in each one once",
        "coordinator/core/gossip/gossip.c",
        "report->wants && (group->passed == 0 || report->step > group->passed);",
        "report->wants;",
    ),
    (
        "a round: it has pairs or an average",
        PAIRS,
        "    if (waiting > 1 && gossip_round_averages(gossip)) {\n        return;",
        "    if (waiting > 1 && gossip_round_averages(gossip)) {",
    ),
)
LOCAL_MUTANTS = (  # of jobs on data that stay on devices
    (
        "own data: a group trains on the data of its device",
        "coordinator/core/placement/matching.c",
        "(local->device.text[0] != '\\0' && !id_equal(local->device.text, device->id.text)) ||\n"
        "        (local->sha256[0] != '\\0' && !offer_has(offer, local->sha256))) {",
        "false) {",
    ),
    (
        "own data: the log has those that a generation begins with",
        "coordinator/core/gossip/gossip_groups.c",
        "        memcpy(record.sha256, job->job.spec.train_local.sha256, SHA256_SIZE);\n",
        "",
    ),
)
# With the first seed that simulates such jobs.
MUTANTS = [
    *((*mutant, 1000001) for mutant in GROUP_MUTANTS),
    *((*mutant, 2000001) for mutant in EXCHANGE_MUTANTS),
    *((*mutant, 3000001) for mutant in MIX_MUTANTS),
    *((*mutant, 3000001) for mutant in LOG_MUTANTS),
    *((*mutant, 3000001) for mutant in HELD_OUT_MUTANTS),
    *((*mutant, 3000001) for mutant in ROUND_MUTANTS),
    *((*mutant, 3000001) for mutant in LOCAL_MUTANTS),
    *((*mutant, 1) for mutant in JOB_MUTANTS),
]


def copy_tree(place):
    shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns("build", ".git"))
    subprocess.run(
        ["cmake", "-S", place, "-B", place / "build", "-G", "Ninja"],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def first_violation(place, begin):
    """The line of the first seed from `begin` on that fails; None."""
    subprocess.run(
        ["cmake", "--build", place / "build", "--target", "sim"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    program = next((place / "build").glob("**/bin/sim"))
    for first in range(begin, begin + SEEDS, AT_ONCE):
        done = subprocess.run(
            [program, "--seeds", f"{first}..{first + AT_ONCE - 1}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return done.stdout.splitlines()[0]
    return None


def code_without(place, rule, name, code, without):
    """The path of the file that has the rule, its text, and its text without the rule."""
    path = place / name
    text = path.read_text(encoding="utf-8")
    if text.count(code) != 1:
        raise SystemExit(f"{rule}: {name} has {text.count(code)} places '{code}'")
    return path, text, text.replace(code, without)


def check():
    for *mutant, _ in MUTANTS:
        code_without(ROOT, *mutant)
    print(f"{len(MUTANTS)} rules are where they were")


def main():
    undetected = 0
    with tempfile.TemporaryDirectory(prefix="paceline-mutants-") as directory:
        place = pathlib.Path(directory) / "tree"
        copy_tree(place)
        for *mutant, begin in MUTANTS:
            rule = mutant[0]
            if sys.argv[1:] and not any(word in rule for word in sys.argv[1:]):
                continue
            path, text, changed = code_without(place, *mutant)
            path.write_text(changed, encoding="utf-8")
            seen = first_violation(place, begin)
            path.write_text(text, encoding="utf-8")
            undetected += seen is None
            print(f"{rule}: {seen or f'not detected by {SEEDS} seeds'}", flush=True)
    print(f"{undetected} undetected")
    return 1 if undetected else 0


if __name__ == "__main__":
    sys.exit(check() if sys.argv[1:] == ["--check"] else main())
