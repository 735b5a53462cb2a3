# shellcheck shell=bash
# images.sh: the images of deploy/container, built and run by buildah; sourced by packages.sh.

# What packages.sh defines before:
: "${work?}" "${BUILD_SECONDS?}" "${HEARTBEAT_SECONDS?}"

IMAGE_PORT=27410
BASE_IMAGE=localhost/paceline-base

# Everything stays in the directory of the test.
store() { # BUILDAH_WORD...
    buildah --root "$work/images" --runroot "$work/images-run" --storage-driver vfs "$@"
}

make_base_image() {
    local container
    container=$(store from scratch) && store add --quiet "$container" "$work/base.tar" / &&
        store commit --quiet --rm "$container" $BASE_IMAGE
}

unpack_context() {
    mkdir -p "$work/context" && tar -xf "$work/tree.tar" -C "$work/context"
}

build_image() { # coordinator|agent
    run timeout --kill-after=20 "$BUILD_SECONDS" buildah --root "$work/images" \
        --runroot "$work/images-run" --storage-driver vfs build --layers --network host \
        --isolation chroot --build-arg BASE=$BASE_IMAGE --target "$1" --tag "paceline-$1" \
        --file "$work/context/deploy/container/Containerfile" "$work/context"
}

# Containers with a volume each, which belongs to the image's user.
make_containers() {
    local name user=7410
    for name in coordinator agent; do
        mkdir -p "$work/volume/$name" && chown $user:$user "$work/volume/$name" &&
            store from --name "$name" "localhost/paceline-$name" || return 1
        user=$((user + 1))
    done
}

words_in() { # coordinator|agent WORD...: sets $words
    local name=$1
    shift
    words=(buildah --root "$work/images" --runroot "$work/images-run" --storage-driver vfs
        run --isolation chroot --network host
        --volume "$work/volume/$name:/var/lib/paceline-$name" --volume "$work/token:/run/token:ro"
        --env PACELINE_JOIN_TOKEN_FILE=/run/token
        --env "PACELINE_COORDINATOR=https://127.0.0.1:$IMAGE_PORT" "$name" -- "$@")
}

start_in() { # coordinator|agent LOG WORD...
    local name=$1 log=$2 words
    shift 2
    words_in "$name" "$@"
    "${words[@]}" </dev/null >"$log" 2>&1 &
    children+=("$!")
}

coordinator_in_a_container() {
    local words
    : >"$work/token"
    words_in coordinator paceline-coordinator init --name 127.0.0.1
    "${words[@]}" >"$work/image-init.txt" || return 1
    start_in coordinator "$work/image-coordinator.log" paceline-coordinator \
        --config /etc/paceline/coordinator.conf --listen 127.0.0.1:$IMAGE_PORT
    wait_until 30 curl -sS --cacert "$work/volume/coordinator/tls/ca.pem" -o /dev/null \
        "https://127.0.0.1:$IMAGE_PORT/readyz"
}

# A token that the image's user cannot read is named, and nothing runs without one.
unreadable_token() {
    local words said
    chmod 0600 "$work/token"
    words_in agent agent-entrypoint --version
    said=$("${words[@]}" 2>&1) && {
        echo "it runs: $said"
        return 1
    }
    [[ $said == *"'/run/token' (PACELINE_JOIN_TOKEN_FILE) cannot be read by user 7411"* ]] || {
        echo "$said"
        return 1
    }
}

agent_in_a_container() {
    sed -n 's/^ *paceline-agent join [^ ]* \(.*\)/\1/p' "$work/image-init.txt" >"$work/token"
    chmod 0644 "$work/token"
    start_in agent "$work/image-agent.log" agent-entrypoint --config /etc/paceline/agent.conf \
        --listen 127.0.0.1:0 --threads 1
    wait_until "$HEARTBEAT_SECONDS" grep -q event=enrolled "$work/image-agent.log" || {
        cut -c1-200 "$work/image-agent.log"
        return 1
    }
    [ "$(stat -c '%u %a' "$work/volume/agent/identity")" = "7411 600" ]
}

phase_images() {
    command -v buildah >/dev/null || skip "no buildah (deploy/packages.txt)"
    check "a base image" make_base_image && unpack_context || return
    check "image of the coordinator" build_image coordinator || return
    check "image of the agent" build_image agent || return
    check "containers" make_containers || return
    check "a coordinator in a container" coordinator_in_a_container || return
    check "a token that cannot be read" unreadable_token
    check "an agent in a container joins" agent_in_a_container
    end_children
}
