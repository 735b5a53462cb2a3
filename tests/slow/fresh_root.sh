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

QUICKSTART_SECONDS=1800
TESTS_SECONDS=5400

. tests/slow/roots.sh

# ---- the phases ----

phase() { # NAME ROOT SECONDS COMMAND
    local began=$SECONDS status=0 log=$work/$1.log
    run_inside "$2" "$3" "cd /paceline && exec $4" >"$log" 2>&1 || status=$?
    echo
    echo "== $1: $4: $((SECONDS - began)) s, exit $status"
    tail -n $LAST_LINES "$log" | sed 's/^/   /'
    [ -z "${FRESH_ROOT_LOGS:-}" ] ||
        { mkdir -p "$FRESH_ROOT_LOGS" && cp "$log" "$FRESH_ROOT_LOGS/"; }
    [ $status -ne 124 ] || echo "   (more than $3 s)"
    count $status
}

run_case() { # quickstart|tests|both
    local root=$work/$1
    if ! { new_root "$root" "$work/base.tar" && mkdir "$root/paceline" &&
        tar -xf "$work/tree.tar" -C "$root/paceline"; }; then
        echo "== $1: the root cannot be unpacked"
        count 1
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

check_machine git
make_work
make_base "$work/base.tar"
pack_tree "$work/tree.tar" "$worktree"
# A port that is taken on this machine is taken in the root too: both see the same network.
if [ -z "${QUICKSTART_PORT:-}" ] && (: </dev/tcp/127.0.0.1/7410) 2>/dev/null; then
    QUICKSTART_PORT=17410
fi
for name in "${cases[@]}"; do
    run_case "$name"
done
finish
