#!/bin/bash
# armhf-root.sh DIRECTORY: make a private root with the libraries for 32-bit ARM (Debian's armhf),
# to compile and link against and to run under qemu-user. It changes no package of this machine and
# needs no root: apt resolves and fetches from the main suite of the machine's own sources, with a
# state of its own; the packages are unpacked, not installed. apt verifies them as usual. An earlier
# root in DIRECTORY stays if it has the same packages, and is replaced if it has others.
set -euo pipefail

SUITE=bookworm

fail() {
    echo "armhf-root: $*" >&2
    exit 1
}

[ $# -eq 1 ] || { echo "usage: armhf-root.sh DIRECTORY" >&2; exit 2; }
# The libraries are those of arm64.
mapfile -t packages < <(sed -n 's/:arm64$//p' "$(dirname "$0")/packages.txt")
[ ${#packages[@]} -gt 0 ] || fail "packages.txt names no libraries for arm64"
root=$(realpath -m "$1")
if [ "$(cat "$root/.packages" 2>/dev/null)" = "${packages[*]}" ]; then
    exit 0
fi
[ ! -e "$root" ] || [ -e "$root/.packages" ] || fail "$root exists and is not a root made here"
for tool in apt-get dpkg-deb; do
    command -v $tool >/dev/null || fail "no $tool: not a Debian system"
done

mkdir -p "$(dirname "$root")"
work=$(mktemp -d "$root.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/state/lists/partial "$work"/cache/archives/partial "$work"/root/usr/{bin,lib,sbin}
: >"$work/state/status"

# shellcheck disable=SC2016 # apt fills these in
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# shellcheck disable=SC2016 # apt-get fills in its own variables
apt-get indextargets --format "deb [signed-by=$keyring] "'$(REPO_URI) $(RELEASE) $(COMPONENT)' \
    'Created-By: Packages' 'Origin: Debian' |
    awk -v suite=$SUITE '$4 == suite && $5 == "main"' | sort -u >"$work/sources.list"
[ -s "$work/sources.list" ] || fail "apt has no source of Debian 12 here (apt-get update?)"
cat >"$work/apt.conf" <<END
APT::Architecture "armhf";
APT::Architectures { "armhf"; };
APT::Install-Recommends "false";
Dir::State "$work/state";
Dir::State::status "$work/state/status";
Dir::Cache "$work/cache";
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Sandbox::User "$(id -un)";
Debug::NoLocking "true";
END
export APT_CONFIG=$work/apt.conf
apt-get -qq update || fail "the packages of armhf cannot be listed"
apt-get -qq -y --download-only install "${packages[@]}" >/dev/null ||
    fail "the packages of armhf cannot be fetched"

# As on a Debian 12 system, where /lib and its like lead into /usr.
for directory in bin lib sbin; do
    ln -s "usr/$directory" "$work/root/$directory"
done
for package in "$work"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$work/root"
done
# Absolute links would lead out of the root.
find "$work/root" -type l -lname '/*' | while read -r link; do
    ln -sfnr "$work/root$(readlink "$link")" "$link"
done
echo "${packages[*]}" >"$work/root/.packages"
rm -rf "$root"
mv "$work/root" "$root"
