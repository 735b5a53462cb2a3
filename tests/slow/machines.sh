# shellcheck shell=bash
# machines.sh: what packages.sh does with installed packages; sourced by it.

# What packages.sh defines before:
: "${work?}" "${packages?}" "${NAMES?}" "${VERSION?}" "${NATIVE?}" "${APT?}"

OLD_VERSION=0.0.9
LONG_JOB_SECONDS=1200
DATA=/usr/share/doc/paceline/examples/data/fashion-mini
URL=https://10.99.0.1:7410

# Like `on`, with the network of this machine: apt needs it.
online() { # NAME COMMAND...
    local leader=leader_$1 variables=() name
    shift
    for name in http_proxy https_proxy no_proxy; do
        [ -z "${!name:-}" ] || variables+=("$name=${!name}")
    done
    nsenter --target "${!leader% }" --mount --pid --uts --ipc --cgroup --root --wdns=/ \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "${variables[@]}" "$@"
}

wait_until() { # SECONDS COMMAND...
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $deadline ] || {
            echo "it is still not so: $*"
            return 1
        }
        sleep 0.3
    done
}

# ---- packages ----

# The version before, for an upgrade: the same files under a lower number.
make_old() {
    local name directory
    mkdir -p "$work/old"
    for name in "${NAMES[@]}"; do
        directory=$work/old/$name
        dpkg-deb -R "$packages/${name}_${VERSION}_$NATIVE.deb" "$directory" &&
            sed -i "s/^Version: .*/Version: $OLD_VERSION/" "$directory/DEBIAN/control" &&
            dpkg-deb -b "$directory" "$work/old/${name}_${OLD_VERSION}_$NATIVE.deb" &&
            rm -r "$directory" || return 1
    done
}

# A machine as a user finds it: Debian with systemd, curl and the downloaded packages.
make_machine() { # NAME
    local root=$work/$1
    new_root "$root" "$work/base.tar" &&
        run_inside "$root" "$INSTALL_SECONDS" "export DEBIAN_FRONTEND=noninteractive &&
            apt-get -qq update && $APT install systemd-sysv dbus curl ca-certificates python3 \
                >/dev/null" || return 1
    rm "$root/usr/sbin/policy-rc.d" # from here on packages start their services
    echo "$1" >"$root/etc/hostname"
    mkdir -p "$root/root/old" "$root/root/new"
    cp deploy/install-agent.sh "$root/root/" &&
        cp "$work/old/"*.deb "$root/root/old/" && cp "$packages/"*"_$NATIVE.deb" "$root/root/new/"
}

install_on() { # MACHINE old|new PACKAGE...
    local machine=$1 age=$2 files=() name
    shift 2
    for name in "$@"; do
        files+=("$(cd "$work/$machine/root/$age" && echo "./${name}_"*.deb)")
    done
    online "$machine" sh -c "cd /root/$age && $APT install ${files[*]}"
}

is() { # EXPECTED COMMAND...
    local expected=$1 said
    shift
    said=$("$@" 2>&1)
    [ "$said" = "$expected" ] || {
        echo "$*: '$said', not '$expected'"
        return 1
    }
}

states_after_install() {
    is disabled on coordinator systemctl is-enabled paceline-coordinator &&
        is inactive on coordinator systemctl is-active paceline-coordinator &&
        is enabled on board systemctl is-enabled paceline-agent &&
        is active on board systemctl is-active paceline-agent.path &&
        is inactive on board systemctl is-active paceline-agent &&
        is "700 paceline-agent" on board stat -c '%a %U' /var/lib/paceline-agent
}

# ---- a new user ----

init_coordinator() {
    on coordinator paceline-coordinator init --name 10.99.0.1 >"$work/init.txt" || return 1
    token=$(sed -n 's/^token: //p' "$work/init.txt")
    ca_sha256=$(sed -n 's/^ca_sha256: //p' "$work/init.txt")
    join_line=$(sed -n 's/^ *\(paceline-agent join .*\)/\1/p' "$work/init.txt")
    if [ -z "$token" ] || [ -z "$ca_sha256" ] || [ -z "$join_line" ]; then
        sed 's/pl_.*/pl_.../' "$work/init.txt"
        return 1
    fi
    is paceline-coordinator on coordinator stat -c %U /var/lib/paceline-coordinator/tls/ca.key &&
        on coordinator systemctl enable --now paceline-coordinator &&
        is active on coordinator systemctl is-active paceline-coordinator
}

has_enrolled() { # MACHINE
    [[ $(on "$1" systemctl show -P StatusText paceline-agent) == "enrolled as "* ]]
}

join_by_line() { # MACHINE
    local began=$SECONDS
    on "$1" sh -c "$join_line" && wait_until "$HEARTBEAT_SECONDS" has_enrolled "$1" &&
        echo "first heartbeat after $((SECONDS - began)) s"
}

# ---- install-agent.sh ----

# The script fails, names this, and changes nothing.
complains() { # MACHINE TEXT WORD...
    local machine=$1 text=$2 said
    shift 2
    said=$(on "$machine" /root/install-agent.sh "$@" 2>&1) && {
        echo "it did not fail: $said"
        return 1
    }
    [[ $said == *"$text"* && $said == *"nothing was changed"* ]] || {
        echo "no '$text': $said"
        return 1
    }
}

installer_finds_mistakes() {
    local status=0
    on coordinator systemd-run --quiet --unit=occupant python3 -c 'import socket, time
server = socket.create_server(("0.0.0.0", 7411))
time.sleep(600)' || return 1
    wait_until 10 on coordinator bash -c ': 2>/dev/null </dev/tcp/127.0.0.1/7411' &&
        complains coordinator "fail  coordinator" https://10.99.0.1:9 pl_x &&
        complains coordinator "port 7411" "$URL" pl_x || status=1
    # As the message says: another port in the options.
    on coordinator sh -c 'echo "listen = 0.0.0.0:17411" >>/etc/paceline/agent.conf' &&
        on coordinator /root/install-agent.sh "$URL" pl_x --check || status=1
    on coordinator sed -i '/^listen/d' /etc/paceline/agent.conf
    on coordinator systemctl stop occupant
    return $status
}

# The package is there already, so that no network beyond the wire is needed.
join_by_installer() { # MACHINE
    local line token=${join_line##* }
    line="/root/install-agent.sh --package \"\$(echo /root/old/paceline-agent_*.deb)\" $URL -"
    on "$1" sh -c "$line" <<<"$token" && has_enrolled "$1"
}

api() { # PATH CURL_WORDS...
    local path=$1
    shift
    on coordinator curl -sS --fail-with-body \
        --cacert /var/lib/paceline-coordinator/tls/ca.pem \
        -H "Authorization: Bearer $token" "$@" "$URL$path"
}

member() { # NAME
    python3 -c 'import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    value = value[int(key)] if isinstance(value, list) else value[key]
print("" if value is None else json.dumps(value) if isinstance(value, (bool, dict)) else value)' \
        "$1"
}

upload_by_curl() { # NAME PREFIX
    on coordinator sh -c "tar -cf - -C $DATA $2-images-idx3-ubyte.gz $2-labels-idx1-ubyte.gz |
        curl -sS --fail-with-body --cacert /var/lib/paceline-coordinator/tls/ca.pem -T - \
            -H 'Authorization: Bearer $token' -H 'Content-Type: application/x-tar' \
            $URL/v1/datasets/$1"
}

job_state() { # ID STATE
    [ "$(api "/v1/jobs/$1" | member state)" = "$2" ]
}

job_by_curls() {
    local job checkpoint
    upload_by_curl fashion-train train && upload_by_curl fashion-test t10k || return 1
    job=$(api /v1/jobs -H 'Content-Type: application/json' -d '{"model": {"name": "mlp"},
        "epochs": 2, "dataset": {"train": "fashion-train", "test": "fashion-test"}}' |
        member id) || return 1
    wait_until "$JOB_SECONDS" job_state "$job" succeeded || return 1
    checkpoint=$(api "/v1/jobs/$job" | member checkpoint) &&
        api "/v1/checkpoints/$checkpoint/content" -o /root/by_curl.safetensors &&
        on coordinator test -s /root/by_curl.safetensors
}

job_by_command_line() {
    on coordinator paceline login --ca-sha256 "$ca_sha256" "$URL" <<<"$token" &&
        on coordinator timeout "$JOB_SECONDS" paceline job submit --model mlp --epochs 2 \
            --train $DATA --test $DATA --get /root/model.safetensors &&
        on coordinator test -s /root/model.safetensors
}

token_is_not_shown() {
    local machine secret=${token#pl_} join_secret=${join_line##*pl_}
    for machine in coordinator board; do
        if on "$machine" journalctl --no-pager -o cat | grep -qF -e "$secret" \
            -e "${join_secret%%_*}"; then
            echo "the journal of $machine holds a token"
            return 1
        fi
    done
}

# ---- an upgrade in mid-job ----

devices_online() { # COUNT
    [ "$(api /v1/devices | python3 -c 'import json, sys
print(sum(device["state"] == "online" for device in json.load(sys.stdin)["items"]))')" = "$1" ]
}

has_step() { # JOB STEP
    [ "$(api "/v1/jobs/$1" | member progress.step)" -ge "$2" ]
}

# The long job: slowed down, so that all packages are replaced before it ends.
start_long_job() {
    local machine
    for machine in coordinator board; do
        on $machine sh -c 'echo "slowdown = 8" >>/etc/paceline/agent.conf &&
            systemctl restart paceline-agent' &&
            wait_until "$HEARTBEAT_SECONDS" has_enrolled $machine || return 1
    done
    on coordinator sh -c 'cat >/root/job.json' <<'END'
{"name": "upgrade", "model": {"name": "lenet5"}, "batch": 32, "micro_batches": 4, "steps": 4000,
 "epochs": 100000, "learning_rate": {"type": "constant", "value": 0.02}, "kernels": {},
 "dataset": {"train": "fashion-train"}, "evaluate": {"every_epochs": 0}}
END
    long_job=$(api /v1/jobs -H 'Content-Type: application/json' -d @/root/job.json | member id) &&
        wait_until "$JOB_SECONDS" has_step "$long_job" 20
}

upgrade() { # MACHINE PACKAGE...
    local machine=$1
    shift
    install_on "$machine" new "$@" && wait_until 60 job_state "$long_job" running || return 1
    wait_until "$HEARTBEAT_SECONDS" devices_online 2
}

long_job_keeps_the_law() {
    local trained
    local images=$DATA/train-images-idx3-ubyte.gz labels=$DATA/train-labels-idx1-ubyte.gz
    wait_until "$LONG_JOB_SECONDS" job_state "$long_job" succeeded || return 1
    is 0 eval "api '/v1/jobs/$long_job/incidents' | python3 -c 'import json, sys
print(len(json.load(sys.stdin)[\"items\"]))'" || return 1
    trained=$(on coordinator paceline-agent train /root/job.json \
        --dataset "fashion-train=$images,$labels" \
        --output /root/alone.safetensors | sed -n 's/^sha256 //p')
    is "$trained" eval "api '/v1/checkpoints/$(api "/v1/jobs/$long_job" | member checkpoint)' |
        member sha256"
}

versions_are_new() {
    is "$VERSION" on coordinator dpkg-query -W -f "\${Version}" paceline-coordinator &&
        is "$VERSION" on board dpkg-query -W -f "\${Version}" paceline-agent &&
        devices_online 2
}

# ---- the end ----

purge() { # MACHINE
    local left
    online "$1" sh -c "$APT purge 'paceline*' && $APT autoremove" || return 1
    left=$(on "$1" sh -c "find / -xdev -name '*paceline*' -not -path '/root/*' \
        -not -path '/proc/*' -not -path '/var/log/*' -not -path '/var/cache/*'
        grep paceline /etc/passwd /etc/group
        systemctl list-unit-files --no-legend 'paceline*'")
    is "" echo "$left"
}

survives_a_reboot() {
    on board systemctl restart paceline-agent &&
        wait_until "$HEARTBEAT_SECONDS" has_enrolled board && devices_online 2
}

phase_machines() {
    [ -d "$packages" ] || skip "no packages: run the phase build"
    check "packages of the version before" make_old || return
    make_network coordinator board
    check "a machine for the coordinator" make_machine coordinator || return
    check "a board" make_machine board || return
    check "they boot" boot_both || return
    check "apt install on the coordinator" install_on coordinator old paceline-coordinator \
        paceline paceline-agent || return
    check "apt install on the board" install_on board old paceline-agent || return
    check "nothing runs before init and join" states_after_install
    check "init and start" init_coordinator || return
    check "the join line on the board" join_by_line board || return
    check "install-agent.sh finds mistakes" installer_finds_mistakes
    check "install-agent.sh on the coordinator's machine" join_by_installer coordinator || return
    check "a job by curl with a token" job_by_curls
    check "a job by one command" job_by_command_line
    check "a restart keeps the device" survives_a_reboot
    check "a long job runs" start_long_job || return
    check "upgrade of the board" upgrade board paceline-agent
    check "upgrade of the other agent" upgrade coordinator paceline-agent
    check "upgrade of the coordinator" upgrade coordinator paceline-coordinator paceline
    check "all is new" versions_are_new
    check "the job ends with the weights of one process" long_job_keeps_the_law
    check "no token is in the journals" token_is_not_shown
    check "purge on the board" purge board
    check "purge on the coordinator" purge coordinator
}

boot_both() {
    boot coordinator "$work/coordinator" && boot board "$work/board"
}
