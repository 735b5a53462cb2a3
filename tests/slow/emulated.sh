# shellcheck shell=bash
# emulated.sh: the packages for ARM in roots that qemu-user emulates; sourced by packages.sh.

# What packages.sh defines before:
: "${work?}" "${packages?}" "${VERSION?}" "${NATIVE?}" "${APT?}" "${INSTALL_SECONDS?}"

BINFMT=/proc/sys/fs/binfmt_misc
# The first 20 bytes of a program's file as the kernel reads them: its class at CLASS, its processor
# at MACHINE; the kernel's own escapes, which nothing here may replace.
ELF='\x7f\x45\x4c\x46CLASS\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00MACHINE\x00'
ELF_MASK='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
ELF_BYTES='^(\\x[0-9a-f]{2}){20}$'
EMULATED_SECONDS=1800
EMULATED_DATA=/usr/share/doc/paceline/examples/data/digits

registered=()
mounted_binfmt=no

end_emulation() {
    local name
    for name in "${registered[@]}"; do
        echo -1 >"$BINFMT/$name"
    done
    [ $mounted_binfmt = no ] || umount $BINFMT
}

# The kernel runs programs of these architectures by qemu, until the test ends. "F": qemu is opened
# here, so that a root needs none of its own.
register() { # QEMU CLASS MACHINE
    local name=paceline-$$-$1 magic=$ELF
    magic=${magic/CLASS/"\\x$2"}
    magic=${magic/MACHINE/"\\x$3"}
    # A shorter pattern would match the programs of this machine too, and stop it.
    [[ $magic =~ $ELF_BYTES && $ELF_MASK =~ $ELF_BYTES ]] || return 1
    printf '%s\n' ":$name:M::$magic:$ELF_MASK:/usr/bin/qemu-$1-static:OCF" >"$BINFMT/register" &&
        registered+=("$name")
}

emulate() {
    if ! command -v qemu-aarch64-static qemu-arm-static >/dev/null; then
        skip "no qemu-user-static"
    fi
    cleanups+=(end_emulation)
    if [ ! -e $BINFMT/register ]; then
        mount -t binfmt_misc binfmt_misc $BINFMT || skip "no binfmt_misc"
        mounted_binfmt=yes
    fi
    [ -e $BINFMT/qemu-aarch64 ] || register aarch64 02 b7 || skip "binfmt_misc takes no program"
    [ -e $BINFMT/qemu-arm ] || register arm 01 28 || skip "binfmt_misc takes no program"
}

# A root with installed packages.
make_installed() { # NAME BASE_TAR ARCHITECTURE PACKAGE...
    local root=$work/$1 base=$2 architecture=$3 files=() name
    shift 3
    new_root "$root" "$base" || return 1
    for name in "$@"; do
        cp "$packages/${name}_${VERSION}_$architecture.deb" "$root/root/" || return 1
        files+=("/root/${name}_${VERSION}_$architecture.deb")
    done
    run_inside "$root" $EMULATED_SECONDS "export DEBIAN_FRONTEND=noninteractive &&
        apt-get -qq update && $APT install systemd-standalone-sysusers ${files[*]}"
}

address_in() { # LOG
    local deadline=$((SECONDS + 120))
    until sed -n 's/.* event=listening address=\([^ ]*\).*/\1/p' "$1" | grep .; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.3
    done
}

start_coordinator() {
    start_inside "$work/native" "exec paceline-coordinator --listen 127.0.0.1:0 \
        --lease-ms 30000" "$work/coordinator.log"
    coordinator=$(address_in "$work/coordinator.log")
}

start_agent() { # NAME
    start_inside "$work/$1" "exec paceline-agent --coordinator http://$coordinator \
        --listen 127.0.0.1:0 --name $1 --threads 1" "$work/$1.log"
    address_in "$work/$1.log"
}

# Emulated time is slow; two stages need both devices.
train_together() {
    run_inside "$work/native" $EMULATED_SECONDS "export PACELINE_URL=http://$coordinator &&
        paceline job submit --model mlp --epochs 2 --set devices.min=2 --train $EMULATED_DATA \
            --test $EMULATED_DATA --get /root/model.safetensors && ls -l /root/model.safetensors"
}

# Devices of other numeric classes train together, and the job says that it is not exact.
classes_are_kept_apart() {
    python3 - "$coordinator" <<'END'
import json
import sys
import urllib.request


def get(path):
    with urllib.request.urlopen(f"http://{sys.argv[1]}/v1/{path}", timeout=30) as answer:
        return json.load(answer)


devices = {device["id"]: device for device in get("devices")["items"]}
job = get("jobs")["items"][0]
plans = get(f"jobs/{job['id']}/plans")["items"]
used = [devices[stage["device"]] for stage in plans[0]["stages"]]
classes = {device["name"]: device["numeric_class"] for device in used}
print(job["state"], job["exact"], classes)
assert job["state"] == "succeeded" and job["exact"] is False
assert len(classes) == 2 and len(set(classes.values())) == 2
END
}

program_runs() { # NAME
    run_inside "$work/$1" $EMULATED_SECONDS "paceline-agent --version &&
        test \$(stat -c %U /var/lib/paceline-agent) = paceline-agent"
}

purged() { # NAME
    run_inside "$work/$1" $EMULATED_SECONDS "$APT purge paceline-agent >/dev/null &&
        test ! -e /var/lib/paceline-agent && test ! -e /etc/paceline &&
        ! grep paceline /etc/passwd"
}

phase_arm() {
    [ -e "$packages/paceline-agent_${VERSION}_arm64.deb" ] || skip "no packages: run build cross"
    [ "$NATIVE" = amd64 ] || skip "this machine is not amd64"
    emulate
    check "a root of this machine" make_installed native "$work/base.tar" amd64 \
        paceline-coordinator paceline-agent paceline || return
    check "an emulated base for arm64" make_base "$work/arm64.tar" --architectures=arm64 || return
    check "install for arm64" make_installed arm64 "$work/arm64.tar" arm64 paceline-agent || return
    check "a coordinator" start_coordinator || return
    check "an agent of this machine" start_agent native || return
    check "an emulated agent" start_agent arm64 || return
    check "a job across both" train_together
    check "numeric classes are kept apart" classes_are_kept_apart
    end_children
    check "purge for arm64" purged arm64
    rm -rf --one-file-system "$work/arm64" "$work/arm64.tar"
    check "an emulated base for armhf" make_base "$work/armhf.tar" --architectures=armhf || return
    check "install for armhf" make_installed armhf "$work/armhf.tar" armhf paceline-agent || return
    check "the program runs on armhf" program_runs armhf
    check "purge for armhf" purged armhf
}
