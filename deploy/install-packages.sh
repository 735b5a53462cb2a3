#!/bin/bash
# install-packages.sh SECTION...: install missing packages of these sections of packages.txt.
# If none is missing, it does nothing; otherwise it prints their names, and uses sudo unless run by
# root. "package:arm64" is a package of another architecture, beside the machine's own (Debian's
# multi-arch): the script adds a new architecture and removes no installed package for it.
set -euo pipefail
cd "$(dirname "$0")"

wanted=()
for section in "$@"; do
    mapfile -t packages < <(awk -v section="[$section]" '
        /^\[/ { inside = ($0 == section); next }
        inside && NF && !/^#/ { print $1 }' packages.txt)
    if [ ${#packages[@]} -eq 0 ]; then
        echo "install-packages: packages.txt has no section [$section]" >&2
        exit 2
    fi
    wanted+=("${packages[@]}")
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "install-packages: not a Debian system; install by other means: ${wanted[*]}" >&2
    exit 0
fi

native=$(dpkg --print-architecture)
is_installed() { # PACKAGE[:ARCHITECTURE]
    local architecture=$native
    [[ $1 != *:* ]] || architecture=${1#*:}
    dpkg-query -W -f '${Architecture} ${Status}\n' "${1%:*}" 2>/dev/null |
        grep -qxE "($architecture|all) install ok installed"
}
# NodeSource's nodejs, for one, provides npm and conflicts with Debian's package of this name.
is_provided() { # PACKAGE
    dpkg-query -W -f '${Status}, ${Provides},\n' |
        grep -qE "^install ok installed,(.*,)? $1( \([^)]*\))?,"
}

missing=()
for package in "${wanted[@]}"; do
    is_installed "$package" || is_provided "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "Installing missing Debian packages: ${missing[*]}"
sudo=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "install-packages: needs root (there is no sudo): apt-get install ${missing[*]}" >&2
        exit 1
    fi
    echo "(with sudo: apt-get update, apt-get install)"
    sudo=(sudo)
fi
as_root() {
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive "$@"
}

options=(-qq -y --no-install-recommends -o DPkg::Lock::Timeout=300)
foreign=$(printf '%s\n' "${missing[@]}" | sed -n 's/.*://p' | sort -u)
if [ -n "$foreign" ]; then
    options+=(--no-remove)
    added=$(grep -vxF -f <(dpkg --print-foreign-architectures) <<<"$foreign" || true)
    forget() { # removes an architecture again if none of its packages was installed
        for architecture in $added; do
            as_root dpkg --remove-architecture "$architecture" || true
        done
    }
    trap forget EXIT
    for architecture in $added; do
        echo "(with dpkg --add-architecture $architecture)"
        as_root dpkg --add-architecture "$architecture"
    done
fi
as_root apt-get -qq update
as_root apt-get "${options[@]}" install "${missing[@]}" >/dev/null
trap - EXIT
