#!/bin/bash
# bench/run.sh NAME [ARGUMENT...]: build what the benchmark needs (preset release) and run it: a
# table for people and, as the last line, one JSON object {"bench": NAME, "rows": [...]}. Without
# NAME: list them. Exit 77 with the reason where the machine cannot.
#
#   PACELINE_BIN   take the programs from there and build nothing
set -euo pipefail
cd "$(dirname "$0")/.."

# A benchmark is a Python script with a first line that says what it shows, or a C program with such
# a comment.
list() {
    local file
    for file in bench/*.py; do
        grep -q '^if __name__ == "__main__":' "$file" || continue
        printf '  %-12s %s\n' "$(basename "$file" .py)" \
            "$(sed -n '1s/^"""\([^"]*\).*/\1/p' "$file")"
    done
    for file in bench/*.c; do
        [ -e "$file" ] || continue
        printf '  %-12s %s\n' "$(basename "$file" .c)" \
            "$(sed -n '1s,^/\* \([^*]*\).*,\1,p' "$file")"
    done
}

build() { # PRESET TARGET...
    local preset=$1 log=build/$1/bench.log
    shift
    mkdir -p "build/$preset"
    if ! { cmake --preset "$preset" &&
        cmake --build "build/$preset" -j "$(nproc)" --target "$@"; } >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        echo "bench: the build failed ($log)" >&2
        exit 1
    fi
}

if [ $# -eq 0 ]; then
    echo "bench/run.sh NAME, one of:"
    list
    exit 0
fi
name=$1
shift
if [[ $name =~ ^[a-z_]+$ && -e bench/$name.py ]] &&
    grep -q '^if __name__ == "__main__":' "bench/$name.py"; then
    if [ -z "${PACELINE_BIN:-}" ]; then
        preset=release
        if [[ " $* " == *" --onednn "* ]]; then
            preset=onednn
        fi
        build "$preset" paceline-coordinator paceline-agent alloc_count bench_crowd \
            bench_unit_times bench_unit_fit bench_segment_times
        PACELINE_BIN=$PWD/build/$preset/bin
    fi
    export PACELINE_BIN PYTHONPATH=$PWD/tests/support:$PWD/tests/fleet:$PWD/bench
    export PYTHONDONTWRITEBYTECODE=1
    exec python3 "bench/$name.py" "$@"
elif [[ $name =~ ^[a-z_]+$ && -e bench/$name.c ]]; then
    build release "bench_$name"
    exec "build/release/bench/$name" "$@"
fi
echo "bench: no benchmark '$name'; there are:" >&2
list >&2
exit 2
