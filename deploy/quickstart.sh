#!/bin/bash
# deploy/quickstart.sh: from a fresh Debian machine to a trained model.
#
# Installs the missing Debian packages, builds, starts a coordinator and three agents of unequal speed on loopback, uploads a real data set
# (fashion-mini, in examples/data), submits a job with curl, shows its progress, and says how accurate the model is and where it
# lies. The curl commands are printed, so that you can repeat them. What it started, it stops.
#
#   QUICKSTART_DIR   where state, logs and the model go; an earlier quickstart's is emptied first (default: build/quickstart)
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
processes=()

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '  $ %s\n' "$*"; }
fail() {
    printf 'quickstart: %s\n' "$*" >&2
    exit 1
}

stop_all() {
    local process
    for process in "${processes[@]}"; do
        kill "$process" 2>/dev/null || true
    done
    for process in "${processes[@]}"; do
        wait "$process" 2>/dev/null || true
    done
}
trap stop_all EXIT

# The value of a JSON member, from standard input.
member() { python3 -c 'import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    value = value[int(key)] if isinstance(value, list) else value[key]
print("" if value is None else value)' "$1"; }

[ $# -eq 0 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
[ -r "$job_file" ] || fail "no job file '$job_file' (QUICKSTART_JOB)"
[ -e "$directory/quickstart" ] || [ -z "$(ls -A "$directory" 2>/dev/null)" ] ||
    fail "$directory is not empty and not an earlier quickstart's: name another QUICKSTART_DIR"

say "Packages and build"
deploy/install-packages.sh build run
mkdir -p build
cmake --preset release >build/quickstart-build.log 2>&1 &&
    cmake --build build/release -j "$(nproc)" --target paceline-coordinator paceline-agent paceline >>build/quickstart-build.log 2>&1 ||
    { tail -n 30 build/quickstart-build.log; fail "the build failed (build/quickstart-build.log)"; }

say "A coordinator and three agents on loopback, at speeds 1, 1/2 and 1/4 (programs: $bin)"
rm -rf "$directory"
mkdir -p "$directory"
touch "$directory/quickstart" # this directory may be emptied by the next one
show "paceline-coordinator --listen 127.0.0.1:$port --state-dir $directory/coordinator"
"$bin/paceline-coordinator" --listen "127.0.0.1:$port" --state-dir "$directory/coordinator" 2>"$directory/coordinator.log" &
processes+=($!)
until grep -q event=listening "$directory/coordinator.log"; do
    kill -0 "${processes[0]}" 2>/dev/null ||
        { tail -n 3 "$directory/coordinator.log"; fail "the coordinator does not run; is port $port taken? QUICKSTART_PORT chooses another"; }
    sleep 0.1
done
for index in "${!slowdowns[@]}"; do
    show "paceline-agent --coordinator $server --listen 127.0.0.1:0 --state-dir $directory/board$index \\"
    show "    --name board$index --slowdown ${slowdowns[index]} --threads 1"
    "$bin/paceline-agent" --coordinator "$server" --listen 127.0.0.1:0 --state-dir "$directory/board$index" \
        --name "board$index" --slowdown "${slowdowns[index]}" --threads 1 2>"$directory/board$index.log" &
    processes+=($!)
done

say "The data set: 3,000 training and 1,000 test images of clothes"
data=examples/data/fashion-mini
for part in train:train test:t10k; do
    name=fashion-${part%%:*} prefix=${part##*:}
    show "tar -cf - -C $data $prefix-images-idx3-ubyte.gz $prefix-labels-idx1-ubyte.gz | curl -T - -H 'Content-Type: application/x-tar' $server/v1/datasets/$name"
    tar -cf - -C "$data" "$prefix-images-idx3-ubyte.gz" "$prefix-labels-idx1-ubyte.gz" |
        curl -sS --fail-with-body -T - -H 'Content-Type: application/x-tar' "$server/v1/datasets/$name" >"$directory/$name.json" ||
        fail "$(cat "$directory/$name.json")"
    echo "  $(member samples <"$directory/$name.json") samples, sha256 $(member sha256 <"$directory/$name.json")"
done

say "The job"
show "curl -H 'Content-Type: application/json' -d @$job_file $server/v1/jobs"
curl -sS --fail-with-body -H 'Content-Type: application/json' -d "@$job_file" "$server/v1/jobs" >"$directory/job.json" ||
    fail "$job_file: $(member detail <"$directory/job.json")"
job=$(member id <"$directory/job.json")
show "curl '$server/v1/jobs/$job?after=REVISION&wait=30'    # what the line below is made of"
"$bin/paceline" --server "$server" job watch "$job" || fail "the job did not succeed; see $directory/*.log"

say "The model"
curl -sS --fail "$server/v1/jobs/$job" >"$directory/job.json"
checkpoint=$(member checkpoint <"$directory/job.json")
model=$directory/model.safetensors
show "curl -o $model $server/v1/checkpoints/$checkpoint/content"
curl -sS --fail -o "$model" "$server/v1/checkpoints/$checkpoint/content"
stated=$(curl -sS --fail "$server/v1/checkpoints/$checkpoint" | member sha256)
received=$(sha256sum "$model" | cut -d' ' -f1)
[ "$stated" = "$received" ] || fail "the model's sha256 is $received, not $stated"
echo "  test accuracy  $(member progress.accuracy <"$directory/job.json")"
echo "  model          $model ($(stat -c %s "$model") bytes)"
echo "  sha256         $received"
