#!/bin/bash
# tests/slow/packages.sh [--worktree] [build|cross|machines|arm|images]...: the Debian packages.
#
#   build      builds them for this machine twice, elsewhere and in another environment, and
#              compares the bytes; lintian; the units
#   cross      builds them for arm64 and armhf; lintian
#   machines   two machines (fresh roots that boot systemd, each in a network namespace) do what
#              docs/install.md says: install, init, join, a job, an upgrade in mid-job, purge
#   arm        a job across an agent of this machine and one in an emulated arm64 root; install and
#              purge in an armhf root
#   images     builds the container images (buildah, from a root in place of a registry); an agent's
#              container joins a coordinator's
# Without a name: all. machines and arm need what build and cross make. The tree is the committed
# one; --worktree takes the files as they lie. Roots: see roots.sh.
#
#   PACKAGES_DIR   where the packages are kept (default: removed); machines and arm take those
#                  that are there
#
# Ends with "N passed, N failed"; exit 77 with the reason where it cannot run.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

BUILD_SECONDS=1800
INSTALL_SECONDS=600
HEARTBEAT_SECONDS=60
JOB_SECONDS=300
VERSION=$(sed -n 's/^paceline (\(.*\)) .*/\1/p;q' debian/changelog)
NATIVE=$(dpkg --print-architecture)
NAMES=(paceline-coordinator paceline-agent paceline)

. tests/slow/roots.sh

# A check of one line: its name, then a command.
check() { # NAME COMMAND...
    local name=$1 status=0 began=$SECONDS
    shift
    "$@" >"$work/check.log" 2>&1 || status=$?
    if [ $status -eq 0 ]; then
        echo "ok      $name ($((SECONDS - began)) s)"
    else
        echo "FAILED  $name ($((SECONDS - began)) s)"
        tail -n $LAST_LINES "$work/check.log" | sed 's/^/   /'
    fi
    count $status
    return $status
}

# ---- build ----

APT="apt-get -qq -y -o Dpkg::Use-Pty=0 --no-install-recommends"

make_build_root() {
    new_root "$work/build" "$work/base.tar" &&
        mkdir -p "$work/build/one/paceline" "$work/build/another/place/tree" &&
        tar -xf "$work/tree.tar" -C "$work/build/one/paceline" &&
        tar -xf "$work/tree.tar" -C "$work/build/another/place/tree" &&
        run_inside "$work/build" $INSTALL_SECONDS "export DEBIAN_FRONTEND=noninteractive &&
            apt-get -qq update && $APT install build-essential lintian systemd man-db >/dev/null &&
            cd /one/paceline && $APT build-dep ./ >/dev/null"
}

build_once() {
    run_inside "$work/build" $BUILD_SECONDS \
        "cd /one/paceline && dpkg-buildpackage -b -us -uc"
}

build_again() {
    run_inside "$work/build" $BUILD_SECONDS "umask 0077 && export TZ=Asia/Tokyo LC_ALL=C USER=x &&
        cd /another/place/tree && dpkg-buildpackage -b -us -uc -j1"
}

packages_of() { # ARCHITECTURE
    printf "%s_${VERSION}_$1.deb\n" "${NAMES[@]}"
}

same_bytes() {
    local name
    for name in $(packages_of "$NATIVE"); do
        cmp "$work/build/one/$name" "$work/build/another/place/$name" || return 1
        sha256sum "$work/build/one/$name"
    done
}

run_lintian() { # ARCHITECTURE
    run_inside "$work/build" $INSTALL_SECONDS "cd /one && lintian --allow-root --info \
        --fail-on error,warning,info --tag-display-limit 0 paceline_${VERSION}_$1.changes"
}

verify_units() {
    run_inside "$work/build" $INSTALL_SECONDS "export DEBIAN_FRONTEND=noninteractive && cd /one &&
        $APT install $(packages_of "$NATIVE" | sed 's#^#./#' | tr '\n' ' ') >/dev/null &&
        systemd-analyze verify --man=yes /lib/systemd/system/paceline-*.service \
            /lib/systemd/system/paceline-agent.path &&
        for unit in coordinator agent; do
            systemd-analyze security --offline=true --threshold=20 --no-pager \
                /lib/systemd/system/paceline-\$unit.service | tail -n 1 || exit 1
        done"
}

keep_packages() {
    mkdir -p "$packages" && cp "$work/build/one/"*.deb "$packages/"
}

phase_build() {
    check "a root to build in" make_build_root || return
    check "build" build_once || return
    check "build again, elsewhere" build_again && check "the bytes are the same" same_bytes
    check "lintian" run_lintian "$NATIVE"
    check "units" verify_units
    keep_packages
}

# ---- cross ----

cross_build() { # ARCHITECTURE
    run_inside "$work/build" $BUILD_SECONDS "export DEBIAN_FRONTEND=noninteractive &&
        dpkg --add-architecture $1 && apt-get -qq update &&
        $APT install crossbuild-essential-$1 >/dev/null && cd /one/paceline &&
        $APT build-dep -a $1 ./ >/dev/null &&
        dpkg-buildpackage -a $1 -b -us -uc -Pcross"
}

phase_cross() {
    local architecture
    [ -d "$work/build" ] || check "a root to build in" make_build_root || return
    for architecture in arm64 armhf; do
        check "build for $architecture" cross_build $architecture &&
            check "lintian for $architecture" run_lintian $architecture
    done
    keep_packages
}

# ---- main ----

worktree=no
phases=()
for word in "$@"; do
    case $word in
    --worktree) worktree=yes ;;
    build | cross | machines | arm | images) phases+=("$word") ;;
    *)
        echo "packages: '$word' is not one of --worktree, build, cross, machines, arm," \
            "images" >&2
        exit 2
        ;;
    esac
done
[ ${#phases[@]} -gt 0 ] || phases=(build cross machines arm images)

check_machine git ip nsenter
make_work
packages=${PACKAGES_DIR:-$work/packages}
. tests/slow/machines.sh
. tests/slow/emulated.sh
. tests/slow/images.sh
make_base "$work/base.tar"
pack_tree "$work/tree.tar" "$worktree"
for name in "${phases[@]}"; do
    echo
    echo "== $name"
    "phase_$name"
done
finish
