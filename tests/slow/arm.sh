#!/bin/bash
# tests/slow/arm.sh arm64|armhf: build for ARM on this machine and run the unit, oracle and golden
# tests under qemu-user.
#
#   arm64   with Debian's packages for arm64 beside the machine's own; missing ones are installed
#   armhf   with a private root of its libraries in build/armhf-root; only the compiler and qemu are
#           installed. By hand
#
# What takes minutes under qemu is left out (it has the label slow in such a build: the zoo through
# the law, the faults of SQLite) or does less (fewer partitions in test_law, fewer seeds in
# test_core_walk). What cannot run there is not built: tests that start programs from Python. Times
# mean nothing there, and none is looked at.
#
# Ends with "N passed, N failed"; exit 77 with the reason where it cannot run.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

case ${1:-} in
arm64 | armhf) arch=$1 ;;
*)
    echo "usage: arm.sh arm64|armhf" >&2
    exit 2
    ;;
esac

skip() {
    echo "skip: $*"
    exit 77
}

[ "$(uname -m)" = x86_64 ] || skip "this machine is not x86-64: its own tests are the ones to run"
deploy/install-packages.sh "$arch" ||
    skip "the compiler or the libraries for $arch cannot be installed here"
if [ "$arch" = armhf ]; then
    deploy/armhf-root.sh build/armhf-root ||
        skip "the root with the libraries for armhf cannot be made here"
fi

log=build/$arch/build.log
report=build/$arch/results.xml
mkdir -p "build/$arch"
rm -f "$report"
if ! { cmake --preset "$arch" -DPACELINE_WERROR="${PACELINE_WERROR:-OFF}" &&
    cmake --build "build/$arch" -j "$(nproc)"; } \
    >"$log" 2>&1; then
    grep -vE '^\[[0-9]+/[0-9]+\]|^--' "$log" | head -n 60
    echo "the build for $arch failed (see $log)"
    exit 1
fi
unset OPENBLAS_CORETYPE
ctest --test-dir "build/$arch" -j "$(nproc)" -L '^(unit|golden)$' \
    --output-junit "$PWD/$report" --output-on-failure |
    grep -vE '^(Internal ctest|Test project|[[:space:]]*Start )'
counts=$(python3 tests/support/count.py "$arch" "$report" "build/$arch/notes.txt") || exit 1
cat "build/$arch/notes.txt"
read -r passed failed skipped <<<"$counts"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
