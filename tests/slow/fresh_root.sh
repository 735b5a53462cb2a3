#!/bin/bash
# tests/slow/fresh_root.sh [--worktree] [quickstart|tests|both]...: do the two commands of the
# README work on a fresh machine?
#
# Makes a minimal Debian 12 root (mmdebstrap: the essential packages and apt, nothing else), puts
# the tree into it and runs there, as root:
#   both         deploy/quickstart.sh, then tests/run.sh in the same root
#   quickstart   deploy/quickstart.sh alone, in a root of its own
#   tests        tests/run.sh alone, in a root of its own
# Without a name: all three. The tree is the committed one; --worktree takes the files as they lie,
# for a try before a commit. Packages come from where the machine's own apt gets them (its sources
# of Debian 12, its proxy). What runs in the root sees its own processes and mounts, which end with
# it, also when this script is killed; the root itself is removed on the way out.
#
#   FRESH_ROOT_DIR   where the roots are made (default: /var/tmp; about 2 GB)
#   FRESH_ROOT_LOGS  where the whole output is kept (default: removed with the root)
#
# Ends with "N passed, N failed"; exit 77 with the reason where it cannot run.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

SUITE=bookworm
ROOT_SECONDS=900
QUICKSTART_SECONDS=1800
TESTS_SECONDS=5400
LAST_LINES=25

work=
child= # what runs now, in the background so that a signal is not kept waiting
passed=0
failed=0

skip() {
    echo "skip: $*"
    exit 77
}

clean_up() {
    trap '' INT TERM HUP
    if [ -n "$child" ]; then
        # timeout passes the signal on, and unshare ends everything inside.
        kill "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    [ -z "$work" ] || rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

run() { # COMMAND...
    local status=0
    "$@" &
    child=$!
    wait "$child" || status=$?
    child=
    return $status
}

# ---- can it run here? ----

check_machine() {
    local tool
    [ "$(id -u)" -eq 0 ] || skip "must be root"
    for tool in mmdebstrap apt-get unshare chroot git tar; do
        command -v $tool >/dev/null ||
            skip "no $tool (Debian packages: mmdebstrap apt util-linux coreutils git tar)"
    done
    git rev-parse --verify -q HEAD >/dev/null || skip "the tree is not a git repository"
    unshare --mount --pid --fork --kill-child true 2>/dev/null || skip "no mount and PID namespaces"
}

# The machine's own sources of the suite, as one-line entries.
write_sources() {
    # shellcheck disable=SC2016 # apt fills these in
    apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
        'Created-By: Packages' 'Origin: Debian' |
        awk -v suite=$SUITE '$3 == suite || index($3, suite "-updates") == 1 ||
            index($3, suite "-security") == 1' |
        sort -u >"$work/sources.list"
    grep -q " $SUITE " "$work/sources.list" ||
        skip "apt has no source of Debian 12 here (apt-get update?)"
}

# How the machine's apt reaches its sources: a proxy, a certificate, a fixed mirror.
write_apt_options() {
    apt-config dump --format '%F "%v";%n' Acquire |
        grep -E -e '^Acquire::(http|https)(::[A-Za-z0-9.-]+)?::(Proxy|CaInfo|Timeout) ' \
            -e '^Acquire::(Check-Valid-Until|Check-Date|Retries|ForceIPv4) ' \
            >"$work/apt.conf"
}

# ---- the root ----

make_base() {
    local began=$SECONDS
    write_sources
    write_apt_options
    run timeout --kill-after=10 $ROOT_SECONDS mmdebstrap --quiet --mode=root --variant=apt \
        --format=tar --aptopt="$work/apt.conf" $SUITE "$work/base.tar" "$work/sources.list" \
        >"$work/mmdebstrap.log" 2>&1 || {
        tail -n $LAST_LINES "$work/mmdebstrap.log"
        skip "mmdebstrap cannot make a root here"
    }
    if [ "$worktree" = yes ]; then
        git ls-files -z --cached --others --exclude-standard |
            tar --create --null --no-recursion --files-from=- --file="$work/tree.tar" \
            --ignore-failed-read || skip "the tree cannot be packed"
    else
        git archive --output="$work/tree.tar" HEAD || skip "the tree cannot be packed"
    fi
    echo "root: $((SECONDS - began)) s, $(($(stat -c %s "$work/base.tar") >> 20)) MiB," \
        "$(git rev-parse --short HEAD)$([ "$worktree" = no ] || echo " and uncommitted changes")"
}

new_root() { # DIRECTORY
    mkdir -p "$1" && tar -xf "$work/base.tar" -C "$1" && mkdir -p "$1/paceline" &&
        tar -xf "$work/tree.tar" -C "$1/paceline" || return 1
    cp /etc/resolv.conf "$1/etc/resolv.conf"
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d" # no package may start a service
    chmod 755 "$1/usr/sbin/policy-rc.d"
}

# Runs in namespaces of its own: proc of the new processes, sys to read, a /dev with the harmless
# devices only.
inside() {
    cat <<'END'
set -eu
root=$1
shift
# "/" becomes a mount point, as on a machine: tests make mount namespaces of their own.
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys" 2>/dev/null ||
    { mount --rbind /sys "$root/sys" && mount -o remount,bind,ro "$root/sys"; }
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
for link in fd:fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do
    ln -s "/proc/self/${link#*:}" "$root/dev/${link%%:*}"
done
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$root/dev/pts" &&
    ln -s pts/ptmx "$root/dev/ptmx"
exec chroot "$root" "$@"
END
}

run_inside() { # ROOT SECONDS COMMAND
    local variables=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb) name
    for name in http_proxy https_proxy no_proxy QUICKSTART_PORT; do
        [ -z "${!name:-}" ] || variables+=("$name=${!name}")
    done
    run timeout --kill-after=20 "$2" unshare --mount --pid --fork --kill-child \
        --propagation private env -i "${variables[@]}" sh -c "$(inside)" \
        sh "$1" sh -c "cd /paceline && exec $3" </dev/null
}

# ---- the phases ----

phase() { # NAME ROOT SECONDS COMMAND
    local began=$SECONDS status=0 log=$work/$1.log
    run_inside "$2" "$3" "$4" >"$log" 2>&1 || status=$?
    echo
    echo "== $1: $4: $((SECONDS - began)) s, exit $status"
    tail -n $LAST_LINES "$log" | sed 's/^/   /'
    [ -z "${FRESH_ROOT_LOGS:-}" ] ||
        { mkdir -p "$FRESH_ROOT_LOGS" && cp "$log" "$FRESH_ROOT_LOGS/"; }
    if [ $status -eq 0 ]; then
        passed=$((passed + 1))
    else
        [ $status -ne 124 ] || echo "   (more than $3 s)"
        failed=$((failed + 1))
    fi
}

run_case() { # quickstart|tests|both
    local root=$work/$1
    if ! new_root "$root"; then
        echo "== $1: the root cannot be unpacked"
        failed=$((failed + 1))
        return
    fi
    case $1 in
    quickstart) phase quickstart-alone "$root" $QUICKSTART_SECONDS deploy/quickstart.sh ;;
    tests) phase tests-alone "$root" $TESTS_SECONDS tests/run.sh ;;
    both)
        phase quickstart-first "$root" $QUICKSTART_SECONDS deploy/quickstart.sh
        phase tests-second "$root" $TESTS_SECONDS tests/run.sh
        ;;
    esac
    rm -rf --one-file-system "$root"
}

# ---- main ----

worktree=no
cases=()
for word in "$@"; do
    case $word in
    --worktree) worktree=yes ;;
    quickstart | tests | both) cases+=("$word") ;;
    *)
        echo "fresh_root: '$word' is not one of --worktree, quickstart, tests, both" >&2
        exit 2
        ;;
    esac
done
[ ${#cases[@]} -gt 0 ] || cases=(both quickstart tests)

check_machine
work=$(mktemp -d "${FRESH_ROOT_DIR:-/var/tmp}/paceline-root-XXXXXX") ||
    skip "no directory for the root"
chmod 755 "$work" # apt's own user works in it
make_base
# A port that is taken on this machine is taken in the root too: both see the same network.
if [ -z "${QUICKSTART_PORT:-}" ] && (: </dev/tcp/127.0.0.1/7410) 2>/dev/null; then
    QUICKSTART_PORT=17410
fi
for name in "${cases[@]}"; do
    run_case "$name"
done
echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
