#!/bin/bash
# install-packages.sh SECTION...: install what is missing of the given sections of packages.txt. Without anything missing
# it does nothing and asks for nothing; otherwise it says what it installs, and uses sudo when not run by root.
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
    echo "install-packages: not a Debian system; these must be there by other means: ${wanted[*]}" >&2
    exit 0
fi

missing=()
for package in "${wanted[@]}"; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "Installing missing Debian packages: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "install-packages: needs root (there is no sudo): apt-get install ${missing[*]}" >&2
        exit 1
    fi
    echo "(with sudo: apt-get update, apt-get install)"
    as_root=(sudo)
fi
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "${missing[@]}" >/dev/null
