#!/bin/bash
# deploy/quickstart.sh: from a fresh Debian machine to a trained model.
#
# Installs missing Debian packages, builds, starts a coordinator and three agents of unequal speed
# on loopback, uploads a real data set (fashion-mini, in examples/data), submits a job with curl and
# shows its progress. During the job it kills one agent and restarts it later; the job continues. At
# the end it prints the accuracy and the path of the model, and checks that the model equals, bit
# for bit, the one of a single undisturbed process. It prints the curl commands, so that you can
# repeat them, and stops every process that it started.
#
#   QUICKSTART_DIR   where state, logs and the model go (default: build/quickstart); the directory
#                    of an earlier quickstart is emptied first
#   QUICKSTART_PORT  of the coordinator (default: 7410)
#   QUICKSTART_JOB   the job to submit (default: examples/jobs/fashion.json)
set -euo pipefail
cd "$(dirname "$0")/.."

directory=${QUICKSTART_DIR:-build/quickstart}
job_file=${QUICKSTART_JOB:-examples/jobs/fashion.json}
port=${QUICKSTART_PORT:-7410}
server=http://127.0.0.1:$port
slowdowns=(1 2 4) # of the three agents: the second computes at half speed, the third at a quarter
bin=build/release/bin
coordinator= # its pid
watch=       # pid of the progress line
agents=()    # pids, by index
victim=1     # the agent that is killed in the middle; another one if the plan has no work for it

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '  $ %s\n' "$*"; }
fail() {
    printf 'quickstart: %s\n' "$*" >&2
    exit 1
}

# Check that the port is free, before deleting an earlier result.
try_port() {
    if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
        fail "port $port is taken; QUICKSTART_PORT chooses another"
    fi
}

stop_all() {
    local process
    for process in $watch "${agents[@]}" $coordinator; do
        kill "$process" 2>/dev/null || true
    done
    for process in $watch "${agents[@]}" $coordinator; do
        wait "$process" 2>/dev/null || true
    done
}
trap stop_all EXIT

start_agent() { # INDEX
    "$bin/paceline-agent" --coordinator "$server" --listen 127.0.0.1:0 \
        --state-dir "$directory/board$1" \
        --name "board$1" --slowdown "${slowdowns[$1]}" --threads 1 2>>"$directory/board$1.log" &
    agents[$1]=$!
}

# The value of a JSON member, from standard input.
member() { python3 -c 'import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    value = value[int(key)] if isinstance(value, list) else value[key]
print("" if value is None else value)' "$1"; }

ended() { [[ $(member state <"$directory/watched.json") =~ ^(succeeded|failed|cancelled)$ ]]; }

# Wait until the Python expression holds for the job, `value`, or the job has ended; ten minutes.
wait_until() { # EXPRESSION
    local revision=0 deadline=$((SECONDS + 600))
    while [ $SECONDS -lt $deadline ]; do
        curl -sS --fail "$server/v1/jobs/$job?after=$revision&wait=5" >"$directory/watched.json" ||
            fail "the coordinator does not answer"
        revision=$(member revision <"$directory/watched.json")
        if python3 -c 'import json, sys
value = json.load(sys.stdin)
ended = value["state"] in ("succeeded", "failed", "cancelled")
sys.exit(not (eval(sys.argv[1]) or ended))' "$1" <"$directory/watched.json"; then
            return
        fi
    done
    fail "waited ten minutes for: $1"
}

[ $# -eq 0 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
[ -r "$job_file" ] || fail "no job file '$job_file' (QUICKSTART_JOB)"
[ -e "$directory/quickstart" ] || [ -z "$(ls -A "$directory" 2>/dev/null)" ] ||
    fail "$directory is not empty and not an earlier quickstart's: name another QUICKSTART_DIR"
try_port

say "Packages and build"
deploy/install-packages.sh build run
mkdir -p build
echo "  (about a minute on two cores; build/quickstart-build.log shows the progress)"
build() {
    cmake --preset release &&
        cmake --build build/release -j "$(nproc)" \
            --target paceline-coordinator paceline-agent paceline
}
if ! build >build/quickstart-build.log 2>&1; then
    tail -n 30 build/quickstart-build.log
    fail "the build failed (build/quickstart-build.log)"
fi

say "A coordinator and three agents on loopback, at speeds 1, 1/2 and 1/4 (programs: $bin)"
try_port
rm -rf "$directory"
mkdir -p "$directory"
touch "$directory/quickstart" # this directory may be emptied by the next one
show "paceline-coordinator --listen 127.0.0.1:$port --state-dir $directory/coordinator"
"$bin/paceline-coordinator" --listen "127.0.0.1:$port" --state-dir "$directory/coordinator" \
    2>"$directory/coordinator.log" &
coordinator=$!
until grep -q event=listening "$directory/coordinator.log"; do
    kill -0 "$coordinator" 2>/dev/null ||
        {
            tail -n 3 "$directory/coordinator.log"
            fail "the coordinator does not run (port $port; QUICKSTART_PORT chooses another)"
        }
    sleep 0.1
done
for index in "${!slowdowns[@]}"; do
    show "paceline-agent --coordinator $server --listen 127.0.0.1:0" \
        "--state-dir $directory/board$index \\"
    show "    --name board$index --slowdown ${slowdowns[index]} --threads 1"
    start_agent "$index"
done
online() { curl -sS --fail "$server/v1/devices" | python3 -c 'import json, sys
print(sum(device["state"] == "online" for device in json.load(sys.stdin)["items"]))'; }
# Wait until every agent is online; at most a minute.
wait_for_agents() {
    local deadline=$((SECONDS + 60))
    until [ "$(online)" -eq ${#slowdowns[@]} ]; do
        [ $SECONDS -lt $deadline ] || fail "the agents do not enrol; see $directory/board*.log"
        sleep 0.2
    done
}
wait_for_agents

say "The data set: 3,000 training and 1,000 test images of clothes"
data=examples/data/fashion-mini
for part in train:train test:t10k; do
    name=fashion-${part%%:*} prefix=${part##*:}
    show "tar -cf - -C $data $prefix-images-idx3-ubyte.gz $prefix-labels-idx1-ubyte.gz |" \
        "curl -T - -H 'Content-Type: application/x-tar' $server/v1/datasets/$name"
    tar -cf - -C "$data" "$prefix-images-idx3-ubyte.gz" "$prefix-labels-idx1-ubyte.gz" |
        curl -sS --fail-with-body -T - -H 'Content-Type: application/x-tar' \
            "$server/v1/datasets/$name" >"$directory/$name.json" ||
        fail "$(cat "$directory/$name.json")"
    echo "  $(member samples <"$directory/$name.json") samples," \
        "sha256 $(member sha256 <"$directory/$name.json")"
done

say "The job"
show "curl -H 'Content-Type: application/json' -d @$job_file $server/v1/jobs"
curl -sS --fail-with-body -H 'Content-Type: application/json' -d "@$job_file" \
    "$server/v1/jobs" >"$directory/job.json" ||
    fail "$job_file: $(member detail <"$directory/job.json")"
job=$(member id <"$directory/job.json")
show "curl '$server/v1/jobs/$job?after=REVISION&wait=30'    # the source of the line below"
# Plain lines: a view that is written over would erase what this script says.
TERM=dumb "$bin/paceline" --server "$server" job watch "$job" &
watch=$!
wait_until 'value["progress"]["fraction"] > 0.3'
curl -sS --fail "$server/v1/devices" >"$directory/devices.json"
curl -sS --fail "$server/v1/jobs/$job/plans" >"$directory/plans.json"
victim=$(python3 - "$directory" "$victim" <<'END'
# The preferred victim, if the newest plan has work for it; else the device of its last stage.
import json, sys
devices, plans = (
    json.load(open(f"{sys.argv[1]}/{name}.json"))["items"] for name in ("devices", "plans"))
names = {device["id"]: device["name"] for device in devices}
newest = max(plans, key=lambda plan: plan["generation"])
at_work = [names[stage["device"]] for stage in newest["stages"]]
wanted = f"board{sys.argv[2]}"
print((wanted if wanted in at_work else at_work[-1]).removeprefix("board"))
END
)
generation=$(member generation <"$directory/watched.json")
ended && fail "the job ended before an agent could be killed: give it more epochs"
say "During the job: kill -9 of board$victim"
kill -9 "${agents[victim]}"
wait "${agents[victim]}" 2>/dev/null || true
unset "agents[victim]"
wait_until "value['generation'] > $generation and value['state'] == 'running' and \
value['progress']['fraction'] > 0.5"
if ! ended; then
    say "The job continues without it. board$victim returns, and joins if that saves time"
    start_agent "$victim"
    wait_for_agents
fi
wait "$watch" || fail "the job did not succeed; see $directory/*.log"
watch=

say "The cost of the failure"
show "curl $server/v1/jobs/$job/incidents"
curl -sS --fail "$server/v1/jobs/$job/incidents" >"$directory/incidents.json"
curl -sS --fail "$server/v1/jobs/$job/plans" >"$directory/plans.json"
python3 - "$directory" "board$victim" "$generation" <<'END'
import json, sys
directory, name, generation = sys.argv[1], sys.argv[2], int(sys.argv[3])
devices, incidents, plans = (
    json.load(open(f"{directory}/{name}.json"))["items"]
    for name in ("devices", "incidents", "plans"))
for incident in sorted(incidents, key=lambda incident: incident["generation_before"]):
    seconds = incident["seconds"]
    print("  {} of {}: {:.3f} s: {}; {} steps retrained".format(
        incident["cause"], ", ".join(device["name"] for device in incident["devices"]) or "a link",
        sum(seconds.values()),
        ", ".join("%s %.3f s" % phase for phase in seconds.items()), incident["steps_redone"]))
print("  (detect: from its last sign of life; resume: to the first new step)" if incidents else
      "  nothing: the job no longer needed it")
victim = next(device["id"] for device in devices if device["name"] == name)
again = [plan for plan in plans
         if plan["generation"] > generation and plan["state"] == "done" and plan["started_at"]
         and victim in (stage["device"] for stage in plan["stages"])]
if again:
    first = min(again, key=lambda plan: plan["generation"])
    print(f"  {name} rejoined at step {first['resume_version']} (generation {first['generation']})")
else:
    print(f"  {name} was not taken in again: the job was over, or too near its end")
END

say "The model"
show "paceline-agent train $job_file --dataset ..." \
    "--output $directory/reference.safetensors    # the same job in one process"
echo "  (about 10 to 20 s)"
"$bin/paceline-agent" train "$job_file" --output "$directory/reference.safetensors" \
    --dataset "fashion-train=$data/train-images-idx3-ubyte.gz,$data/train-labels-idx1-ubyte.gz" \
    --dataset "fashion-test=$data/t10k-images-idx3-ubyte.gz,$data/t10k-labels-idx1-ubyte.gz" \
    >"$directory/reference.log" 2>&1 ||
    {
        tail -n 3 "$directory/reference.log"
        fail "the reference did not train"
    }
curl -sS --fail "$server/v1/jobs/$job" >"$directory/job.json"
checkpoint=$(member checkpoint <"$directory/job.json")
model=$directory/model.safetensors
show "curl -o $model $server/v1/checkpoints/$checkpoint/content"
curl -sS --fail -o "$model" "$server/v1/checkpoints/$checkpoint/content"
stated=$(curl -sS --fail "$server/v1/checkpoints/$checkpoint" | member sha256)
received=$(sha256sum "$model" | cut -d' ' -f1)
[ "$stated" = "$received" ] || fail "the model's sha256 is $received, not $stated"
reference=$(sha256sum "$directory/reference.safetensors" | cut -d' ' -f1)
[ "$reference" = "$received" ] ||
    fail "the model's sha256 is $received, one process alone gets $reference"
echo "  test accuracy  $(member progress.accuracy <"$directory/job.json")"
echo "  model          $model ($(stat -c %s "$model") bytes)"
echo "  sha256         $received, the same as of one undisturbed process"
