#!/bin/bash
# install-agent.sh URL TOKEN [--package FILE] [--check]: make this machine train for a coordinator.
#
# Checks the machine, installs the package paceline-agent, joins the coordinator at URL with a join
# token (`paceline token create --join`) and waits for the first heartbeat. Run it as root on a
# Debian system with systemd. Repeat it after a failure: what is done stays done. TOKEN may be "-":
# it is then read from standard input, and no other user sees it in the list of processes.
#
#   --package FILE   the package; default: paceline-agent_*.deb for this machine in the present
#                    directory, else the one that apt knows
#   --check          only check the machine
set -euo pipefail

STATE_DIR=/var/lib/paceline-agent
OPTIONS=/etc/paceline/agent.conf
PEER_PORT=7411         # unless OPTIONS names another
MEMORY_LEAST_MIB=128   # an agent with a small stage
MEMORY_WANTED_MIB=512
DISK_LEAST_MIB=256     # identity, some pieces of data
DISK_WANTED_MIB=2048
DISK_PROBE_MIB=32
DISK_WANTED_MBS=5
CLOCK_SECONDS=60
HEARTBEAT_SECONDS=60

failures=0
probe=
trap '[ -z "$probe" ] || rm -f "$probe"' EXIT

usage() {
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    exit "$1"
}

fail() {
    echo "install-agent: $*" >&2
    exit 1
}

# One line of the report. What fails keeps the machine from training; a warning does not.
report() { # ok|warn|fail CHECK TEXT
    printf '%-5s %-13s %s\n' "$1" "$2" "$3"
    [ "$1" != fail ] || failures=$((failures + 1))
}

# ---- checks ----

check_system() {
    local architecture missing=()
    [ "$(id -u)" -eq 0 ] || report fail user "run it as root (sudo)"
    for tool in apt-get dpkg systemctl; do
        command -v $tool >/dev/null || missing+=("$tool")
    done
    if [ ${#missing[@]} -gt 0 ]; then
        report fail system "no ${missing[*]}: not a Debian system with systemd"
        return
    fi
    architecture=$(dpkg --print-architecture)
    case $architecture in
    amd64 | arm64 | armhf) report ok system "$architecture, $(uname -r)" ;;
    *) report fail system "no package for $architecture: amd64, arm64 and armhf have one" ;;
    esac
    [ -d /run/systemd/system ] ||
        report fail systemd "it does not run here; in a container start paceline-agent itself"
}

has_feature() { # NAME
    grep -m1 -iE '^(flags|features)' /proc/cpuinfo | grep -qw "$1"
}

check_processor() {
    local wanted
    case $(uname -m) in
    x86_64) wanted=avx2 ;;
    aarch64) wanted=asimd ;;
    armv[678]*) wanted=vfpv3 ;;
    *)
        report warn processor "$(uname -m), $(nproc) processors"
        return
        ;;
    esac
    if has_feature $wanted; then
        report ok processor "$(nproc) processors, $wanted"
    elif [ $wanted = vfpv3 ]; then
        report fail processor "no $wanted: the package for armhf needs it"
    else
        report warn processor "$(nproc) processors without $wanted: training is slow"
    fi
}

check_memory() {
    local mib
    mib=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
    if [ "$mib" -lt $MEMORY_LEAST_MIB ]; then
        report fail memory "$mib MiB free: less than $MEMORY_LEAST_MIB MiB"
    elif [ "$mib" -lt $MEMORY_WANTED_MIB ]; then
        report warn memory "$mib MiB free: enough for small stages only"
    else
        report ok memory "$mib MiB free"
    fi
}

# The speed of writes that reach the disk: snapshots and data sets depend on it.
check_disk() {
    local directory=/var/lib mib began ended speed
    mib=$(($(stat -f -c '%a * %S' $directory) / 1048576))
    if [ "$mib" -lt $DISK_LEAST_MIB ]; then
        report fail disk "$mib MiB free in $directory: less than $DISK_LEAST_MIB MiB"
        return
    fi
    probe=$(mktemp $directory/.paceline-probe-XXXXXX) || {
        report fail disk "$directory cannot be written"
        return
    }
    began=$(date +%s%N)
    dd if=/dev/zero of="$probe" bs=1M count=$DISK_PROBE_MIB conv=fsync status=none 2>/dev/null || {
        report fail disk "$directory cannot be written"
        return
    }
    ended=$(date +%s%N)
    rm -f "$probe"
    probe=
    speed=$((DISK_PROBE_MIB * 1048576 * 1000 / (ended - began + 1)))
    if [ "$mib" -lt $DISK_WANTED_MIB ]; then
        report warn disk "$mib MiB free in $directory, $speed MB/s: small data sets only"
    elif [ "$speed" -lt $DISK_WANTED_MBS ]; then
        report warn disk "$mib MiB free in $directory, $speed MB/s: data sets take long"
    else
        report ok disk "$mib MiB free in $directory, $speed MB/s"
    fi
}

# Host and port of URL, for the check without curl.
split_url() {
    local rest=${url#*://}
    rest=${rest%%/*}
    port=7410
    host=$rest
    if [[ $rest =~ ^(\[.*\]|[^:]*):([0-9]+)$ ]]; then
        host=${BASH_REMATCH[1]} port=${BASH_REMATCH[2]}
    fi
    host=${host#[} host=${host%]}
}

check_clock() { # SECONDS OF THE COORDINATOR
    local difference=$(($(date +%s) - $1))
    if [ ${difference#-} -gt $CLOCK_SECONDS ]; then
        report warn clock "differs from the coordinator's by ${difference#-} s; only logs depend \
on it"
    else
        report ok clock "as the coordinator's"
    fi
}

# The coordinator's certificate is not verified here: nothing secret is sent, and the join verifies
# the authority by the token.
check_coordinator() {
    local said date
    split_url
    if ! command -v curl >/dev/null; then
        if timeout 10 bash -c "exec 3<>'/dev/tcp/$host/$port'" 2>/dev/null; then
            report ok coordinator "$host port $port is open"
            report warn clock "not compared: there is no curl"
        else
            report fail coordinator "$host port $port cannot be reached: address, firewall?"
        fi
        return
    fi
    if ! said=$(curl -sS -k -m 10 -D - -o /dev/null "$url/healthz" 2>&1); then
        report fail coordinator "$url: ${said##*$'\n'}"
        return
    fi
    if [[ $said != HTTP/*\ 200* ]]; then
        report fail coordinator "$url answers ${said%%$'\r'*}: not a coordinator"
        return
    fi
    report ok coordinator "$url answers"
    date=$(sed -n 's/^[Dd]ate: *\(.*\)\r$/\1/p' <<<"$said")
    if [ -n "$date" ]; then
        check_clock "$(date -d "$date" +%s)"
    fi
}

# The agent's port for other agents: that of the last "listen = HOST:PORT" in its options.
find_peer_port() {
    local named
    named=$(sed -n 's/^[[:space:]]*listen[[:space:]]*=.*:\([0-9]*\)[[:space:]]*$/\1/p' \
        $OPTIONS 2>/dev/null | tail -n 1) || true
    PEER_PORT=${named:-$PEER_PORT}
}

check_port() {
    find_peer_port
    if systemctl is-active -q paceline-agent 2>/dev/null; then
        report ok "port $PEER_PORT" "the agent runs already"
    elif (exec 3<>"/dev/tcp/127.0.0.1/$PEER_PORT") 2>/dev/null; then
        report fail "port $PEER_PORT" "another program uses it: name another in $OPTIONS, \
listen = 0.0.0.0:PORT"
    else
        report ok "port $PEER_PORT" "free; other agents must reach it"
    fi
}

# ---- installation ----

find_package() {
    local found
    if [ -n "$package" ]; then
        [ -r "$package" ] || fail "--package $package: cannot be read"
        package=$(realpath "$package")
        return
    fi
    found=$(find . -maxdepth 1 -name "paceline-agent_*_$(dpkg --print-architecture).deb" |
        sort -V | tail -n 1)
    package=paceline-agent
    [ -z "$found" ] || package=$(realpath "$found")
}

install_package() {
    if [ "$package" = paceline-agent ] && ! apt-cache show paceline-agent >/dev/null 2>&1; then
        fail "apt knows no package paceline-agent: name the file with --package"
    fi
    echo "Installing $package"
    # The second time with fresh lists: those of a new board name packages that are gone.
    apt_install || { apt-get update -qq && apt_install; } || fail "apt-get install $package failed"
}

# Options that somebody has written before stay.
apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confdef \
        -o Dpkg::Options::=--force-confold "$package" </dev/null >/dev/null
}

# The agent says in its status that the coordinator knows it.
wait_for_heartbeat() {
    local deadline=$((SECONDS + HEARTBEAT_SECONDS)) status
    while [ $SECONDS -lt $deadline ]; do
        status=$(systemctl show -P StatusText paceline-agent)
        if [[ $status == "enrolled as "* ]]; then
            echo "This machine is a device: $status"
            return
        fi
        sleep 0.5
    done
    journalctl -u paceline-agent -n 5 --no-pager -o cat 2>/dev/null || true
    fail "no heartbeat within $HEARTBEAT_SECONDS s (journalctl -u paceline-agent)"
}

# ---- main ----

words=()
package=
check_only=no
while [ $# -gt 0 ]; do
    case $1 in
    --package)
        [ $# -ge 2 ] || usage 2 >&2
        package=$2
        shift
        ;;
    --check) check_only=yes ;;
    -h | --help) usage 0 ;;
    -?*) usage 2 >&2 ;;
    *) words+=("$1") ;;
    esac
    shift
done
[ ${#words[@]} -eq 2 ] || usage 2 >&2
url=${words[0]%/} token=${words[1]}
if [ "$token" = - ]; then
    IFS= read -r token || [ -n "$token" ] || fail "no token in standard input"
fi
[[ $url =~ ^https?://[^/]+$ ]] || fail "'$url': expected an address such as https://10.0.0.5:7410"

check_system
check_processor
check_memory
check_disk
check_coordinator
check_port
[ $failures -eq 0 ] || fail "$failures of the checks failed; nothing was changed"
[ $check_only = no ] || exit 0

find_package
install_package
if [ -e $STATE_DIR/identity ]; then
    echo "This machine has an identity already: it stays the same device"
fi
systemctl stop paceline-agent # an agent that runs keeps the identity to itself
# Not as a word of the command: other users see the words of processes.
paceline-agent join "$url" <<<"$token"
systemctl restart paceline-agent
wait_for_heartbeat
