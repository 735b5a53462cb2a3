# shellcheck shell=bash
# roots.sh: fresh Debian 12 roots for the tests beside it, which source it. A root is made by
# mmdebstrap from where the machine's own apt gets its packages (its sources of Debian 12, its
# proxy). What runs in a root sees its own processes and mounts, which end with it, also when the
# test is killed. The roots are removed on the way out.
#
#   FRESH_ROOT_DIR   where the roots are made (default: /var/tmp)
#
# The tests use: $work (their directory); skip, run, make_work, make_base, pack_tree, new_root,
# run_inside, count, finish.

SUITE=bookworm
ROOT_SECONDS=900
LAST_LINES=25

work=
children=() # what runs now, in the background so that a signal is not kept waiting
inits=()    # the same of what runs until the test ends: `unshare --fork` ignores other signals
passed=0
failed=0

skip() {
    echo "skip: $*"
    exit 77
}

# timeout passes the signal on, and unshare ends everything inside.
end_children() {
    local child
    for child in "${children[@]}"; do
        kill "$child" 2>/dev/null || true
    done
    for child in "${inits[@]}"; do
        kill -KILL "$child" 2>/dev/null || true
    done
    for child in "${children[@]}" "${inits[@]}"; do
        wait "$child" 2>/dev/null || true
    done
    children=() inits=()
}

cleanups=() # functions that undo what a test did to this machine

clean_up() {
    local cleanup
    trap '' INT TERM HUP
    end_children
    for cleanup in "${cleanups[@]}"; do
        $cleanup
    done
    [ -z "$work" ] || rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

run() { # COMMAND...
    local status=0 child index
    "$@" &
    child=$!
    children+=("$child")
    wait "$child" || status=$?
    for index in "${!children[@]}"; do
        [ "${children[index]}" != "$child" ] || unset "children[index]"
    done
    return $status
}

count() { # STATUS
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
}

finish() {
    echo
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

# ---- can it run here? ----

check_machine() { # MORE TOOLS...
    local tool
    [ "$(id -u)" -eq 0 ] || skip "must be root"
    for tool in mmdebstrap apt-get unshare chroot tar "$@"; do
        command -v "$tool" >/dev/null || skip "no $tool (deploy/packages.txt names its package)"
    done
    git rev-parse --verify -q HEAD >/dev/null || skip "the tree is not a git repository"
    unshare --mount --pid --fork --kill-child true 2>/dev/null || skip "no mount and PID namespaces"
}

make_work() {
    work=$(mktemp -d "${FRESH_ROOT_DIR:-/var/tmp}/paceline-root-XXXXXX") ||
        skip "no directory for the root"
    chmod 755 "$work" # apt's own user works in it
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

# ---- roots ----

# A minimal root as a tar: the essential packages and apt, nothing else.
make_base() { # TAR MMDEBSTRAP_OPTION...
    local began=$SECONDS tar=$1
    shift
    write_sources
    write_apt_options
    run timeout --kill-after=10 $ROOT_SECONDS mmdebstrap --quiet --mode=root --variant=apt \
        --format=tar --aptopt="$work/apt.conf" "$@" $SUITE "$tar" "$work/sources.list" \
        >"$work/mmdebstrap.log" 2>&1 || {
        tail -n $LAST_LINES "$work/mmdebstrap.log"
        skip "mmdebstrap cannot make a root here"
    }
    echo "root: $((SECONDS - began)) s, $(($(stat -c %s "$tar") >> 20)) MiB"
}

# The committed tree, or its files as they lie.
pack_tree() { # TAR yes|no
    if [ "$2" = yes ]; then
        git ls-files -z --cached --others --exclude-standard |
            tar --create --null --no-recursion --files-from=- --file="$1" \
            --ignore-failed-read || skip "the tree cannot be packed"
    else
        git archive --output="$1" HEAD || skip "the tree cannot be packed"
    fi
    echo "tree: $(git rev-parse --short HEAD)$([ "$2" = no ] || echo " and uncommitted changes")"
}

new_root() { # DIRECTORY BASE_TAR
    mkdir -p "$1" && tar -xf "$2" -C "$1" || return 1
    cp /etc/resolv.conf "$1/etc/resolv.conf"
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d" # no package may start a service
    chmod 755 "$1/usr/sbin/policy-rc.d"
}

# Runs in namespaces of its own: proc of the new processes, sys to read, a /dev with the harmless
# devices only. With boot=yes it is a machine of its own: a service manager finds its cgroups.
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
if [ "${boot:-no}" = yes ]; then
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mkdir -p "$root/run/lock"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
fi
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
[ "${boot:-no}" = yes ] || exec chroot "$root" "$@"
# Services get user namespaces, which the kernel refuses in a chroot.
mkdir -p "$root/.outside"
cd "$root"
pivot_root . .outside
exec sh -c 'cd / && umount -l /.outside && rmdir /.outside && exec "$@"' sh "$@"
END
}

# $words: what runs a command in a root, in the network of this machine.
words_inside() { # ROOT COMMAND
    local variables=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb) name
    for name in http_proxy https_proxy no_proxy QUICKSTART_PORT; do
        [ -z "${!name:-}" ] || variables+=("$name=${!name}")
    done
    words=(unshare --mount --pid --fork --kill-child --propagation private
        env -i "${variables[@]}" sh -c "$(inside)" sh "$1" sh -c "$2")
}

run_inside() { # ROOT SECONDS COMMAND
    local words
    words_inside "$1" "$3"
    run timeout --kill-after=20 "$2" "${words[@]}" </dev/null
}

# In the background, until the test ends.
start_inside() { # ROOT COMMAND LOG
    local words
    words_inside "$1" "$2"
    "${words[@]}" </dev/null >"$3" 2>&1 &
    inits+=("$!")
}

# ---- machines: roots that boot ----

cgroups= # where the cgroups of the machines are

remove_network() {
    local name
    for name in $(ip netns list 2>/dev/null | awk -v mark="paceline-$$-" 'index($1, mark) == 1 {
            print $1 }'); do
        ip netns delete "$name" || true
    done
    find "$cgroups/paceline-$$" -depth -type d -exec rmdir {} + 2>/dev/null
    umount -l "$cgroups"
    rmdir "$cgroups"
}

# Two machines, NAME and NAME, on a wire of their own, as 10.99.0.1 and 10.99.0.2.
make_network() { # NAME NAME
    local name index=0
    cgroups=$(mktemp -d /var/tmp/paceline-cgroups-XXXXXX)
    cleanups+=(remove_network)
    mount -t cgroup2 cgroup2 "$cgroups" || skip "no cgroup2"
    mkdir -p "$cgroups/paceline-$$" || skip "no cgroups can be made"
    ip link add "pl$$a" type veth peer name "pl$$b" 2>/dev/null || skip "no network devices"
    for name in "$@"; do
        index=$((index + 1))
        ip netns add "paceline-$$-$name" || skip "no network namespaces"
        ip link set "pl$$$([ $index -eq 1 ] && echo a || echo b)" netns "paceline-$$-$name" \
            name eth0
        ip -n "paceline-$$-$name" addr add "10.99.0.$index/24" dev eth0
        ip -n "paceline-$$-$name" link set eth0 up
        ip -n "paceline-$$-$name" link set lo up
    done
}

# Boot a root with systemd; it ends with the test.
boot() { # NAME ROOT
    local child deadline=$((SECONDS + 60)) state
    mkdir -p "$cgroups/paceline-$$/$1"
    (
        echo "$BASHPID" >"$cgroups/paceline-$$/$1/cgroup.procs"
        exec ip netns exec "paceline-$$-$1" unshare --mount --pid --fork --kill-child --cgroup \
            --uts --ipc --propagation private env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            LANG=C.UTF-8 container=other boot=yes \
            sh -c "$(inside)" sh "$2" /sbin/init
    ) </dev/null >"$work/$1.boot" 2>&1 &
    child=$!
    inits+=("$child")
    while [ $SECONDS -lt $deadline ]; do
        read -r "leader_$1" <"/proc/$child/task/$child/children" || true
        state=$(on "$1" systemctl is-system-running 2>/dev/null)
        case $state in
        running | degraded) return 0 ;;
        esac
        sleep 0.5
    done
    echo "$1 does not boot: $state"
    tail -n $LAST_LINES "$work/$1.boot"
    return 1
}

# Run a command on a machine as its root.
on() { # NAME COMMAND...
    local leader=leader_$1
    shift
    nsenter --target "${!leader% }" --mount --pid --net --uts --ipc --cgroup --root --wdns=/ \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb "$@"
}
