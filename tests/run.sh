#!/bin/bash
# tests/run.sh [LABEL...]: install what is missing, build, test, and end with one line summed over
# all runners: "N passed, N failed, N skipped". The exit code is 0 only when something ran and
# nothing failed.
#
#   preset   what runs without a label                budget on 2 cores
#   dev      every label but slow                     8 min
#   asan     labels unit golden contract sim fuzz e2e 10 min (not border: it looks at sources);
#            with the label slow also sanitized: what other tests cover there
#   tsan     label threads                            2 min
#   fuzz     every fuzz target, $FUZZ_SECONDS s in all       75 s
#   onednn   what computes, with the kernels of oneDNN, with the label slow only
#   clang, cov, clang-tidy                            with the label slow only
#
# With labels: those of the dev preset only. The label slow adds the presets clang, onednn and cov,
# clang-tidy and the slow tests. PACELINE_WERROR=ON turns warnings into errors (CI). What the
# presets are: CMakePresets.json.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 2
# The kernels that users of this machine get; tests of other cores set it themselves.
unset OPENBLAS_CORETYPE

ASAN_LABELS='^(unit|golden|contract|sim|fuzz|e2e)$'
ONEDNN_TESTS='^(law|test_(onednn|conv2d|stage|memory|law|law_zoo|threads|tune|golden_(nets|ops)))$'
FUZZ_SECONDS=${FUZZ_SECONDS:-60}
JOBS=$(nproc)
TESTS=$((JOBS + 1)) # at once: those of whole programs wait for more than half of their time

passed=0
failed=0
skipped=0
notes=()
started=$SECONDS

add() { # PASSED FAILED SKIPPED
    passed=$((passed + $1))
    failed=$((failed + $2))
    skipped=$((skipped + $3))
}

finish() {
    local status=0
    echo
    [ ${#notes[@]} -eq 0 ] || printf '%s\n' "${notes[@]}"
    echo "$((SECONDS - started)) s in all"
    if [ "$failed" -gt 0 ]; then
        status=1
    elif [ "$passed" -eq 0 ]; then
        echo "nothing ran"
        status=1
    fi
    echo "$passed passed, $failed failed, $skipped skipped"
    exit $status
}

# A failed build makes the tests after it meaningless: name it and stop.
give_up() { # MESSAGE [LOG]
    [ $# -lt 2 ] || { grep -vE '^\[[0-9]+/[0-9]+\]|^ninja: (Entering|no work)' "$2" | head -n 60; }
    notes+=("FAILED  $1")
    add 0 1 0
    finish
}

configure() { # PRESET
    local log=build/$1/build.log
    mkdir -p "build/$1"
    cmake --preset "$1" -DPACELINE_WERROR="${PACELINE_WERROR:-OFF}" >"$log" 2>&1 ||
        give_up "$1: cmake (see $log)" "$log"
}

build() { # PRESET [TARGET...]
    local preset=$1 log=build/$1/build.log
    shift
    echo "== $preset: build"
    configure "$preset"
    cmake --build "build/$preset" -j "$JOBS" ${1:+--target "$@"} >"$log" 2>&1 ||
        give_up "$preset: build (see $log)" "$log"
}

run_ctest() { # PRESET CTEST_ARGUMENT...
    local preset=$1 begin=$SECONDS counts report
    shift
    report=build/$preset/results.xml
    rm -f "$report"
    echo "== $preset: test"
    ctest --test-dir "build/$preset" -j "$TESTS" --output-junit "$PWD/$report" --output-on-failure \
        --test-output-size-passed 4194304 --test-output-size-failed 4194304 "$@" |
        grep -vE '^(Internal ctest|Test project|[[:space:]]*Start )'
    counts=$(/usr/bin/env python3 tests/support/count.py "$preset" "$report" \
        build/"$preset"/notes.txt) ||
        give_up "$preset: the results cannot be read ($report)"
    mapfile -t -O ${#notes[@]} notes <build/"$preset"/notes.txt
    # shellcheck disable=SC2086 # three numbers
    add $counts
    notes+=("$preset: $((SECONDS - begin)) s of tests")
}

# Build only what carries the label: test programs are named like their tests.
run_threads() {
    local begin=$SECONDS targets
    configure tsan
    mapfile -t targets < <(ctest --test-dir build/tsan -N -L '^threads$' |
        sed -nE 's/^ *Test +#[0-9]+: //p')
    if [ ${#targets[@]} -eq 0 ]; then
        notes+=("skipped tsan: no test has the label threads")
        add 0 0 1
        return
    fi
    build tsan "${targets[@]}"
    run_ctest tsan -L '^threads$'
    notes+=("tsan: $((SECONDS - begin)) s with the build")
}

# One target for its share of the time, from the committed corpus; new inputs and findings stay
# below build/fuzz.
# shellcheck disable=SC2317 # xargs runs it
fuzz_one() { # NAME SECONDS
    local name=$1 work=build/fuzz/work/$1 corpus
    mkdir -p "$work"
    mapfile -t corpus <"build/fuzz/corpus/$name"
    build/fuzz/fuzz/"$name" -max_total_time="$2" -timeout=20 -rss_limit_mb=2048 \
        -malloc_limit_mb=512 -artifact_prefix="$work-" -print_final_stats=1 \
        "$work" "${corpus[@]}" >"$work.log" 2>&1
}
export -f fuzz_one

run_fuzzers() {
    local begin=$SECONDS names name share
    build fuzz fuzzers
    mapfile -t names < <(cd build/fuzz/fuzz && ls)
    share=$((FUZZ_SECONDS / ${#names[@]}))
    [ "$share" -gt 0 ] || share=1
    echo "== fuzz: ${#names[@]} targets, $share s each"
    rm -rf build/fuzz/work
    printf '%s\n' "${names[@]}" |
        xargs -P "$JOBS" -I{} bash -c 'fuzz_one {} '"$share"' && touch build/fuzz/work/{}.passed'
    for name in "${names[@]}"; do
        if [ -e "build/fuzz/work/$name.passed" ]; then
            add 1 0 0
            echo "   $name:" \
                "$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/work/$name.log")" \
                "inputs"
        else
            add 0 1 0
            tail -n 40 "build/fuzz/work/$name.log"
            notes+=("FAILED  fuzz/$name (see build/fuzz/work/$name.log)")
        fi
    done
    notes+=("fuzz: $((SECONDS - begin)) s with the build")
}

run_tidy() {
    echo "== clang-tidy"
    if ! command -v run-clang-tidy >/dev/null; then
        notes+=("skipped clang-tidy: it is not installed")
        add 0 0 1
    elif run-clang-tidy -quiet -p build/clang -j "$JOBS" \
        "^$PWD/(base|net|libtrain|schema|coordinator|agent|cli)/" \
        >build/clang/tidy.log 2>/dev/null; then
        add 1 0 0
    else
        grep -E 'warning:|error:' build/clang/tidy.log | sort -u | head -n 60
        notes+=("FAILED  clang-tidy (see build/clang/tidy.log)")
        add 0 1 0
    fi
}

run_coverage() {
    build cov
    find build/cov -name '*.gcda' -delete
    run_ctest cov -LE '^(slow|border)$'
    if command -v gcovr >/dev/null; then
        gcovr --root . --exclude 'tests/' --exclude 'bench/' build/cov | tail -n 4
    else
        notes+=("skipped coverage report: gcovr is not installed")
        add 0 0 1
    fi
}

# Only on x86-64: elsewhere Debian's oneDNN has no kernels worth the name.
run_onednn() {
    if [ "$(uname -m)" != x86_64 ]; then
        notes+=("skipped onednn: $(uname -m) is not x86_64")
        add 0 0 1
        return
    fi
    build onednn
    run_ctest onednn -L '^(unit|golden|e2e)$' -R "$ONEDNN_TESTS"
}

run_slow() {
    build clang
    run_ctest clang -LE '^(slow|border)$'
    build asan
    run_ctest asan -L '^sanitized$'
    run_onednn
    run_tidy
    run_coverage
}

sections=(build run test)
[[ " $* " != *" slow "* ]] || sections+=(slow)
deploy/install-packages.sh "${sections[@]}" || give_up "install the missing packages"
notes+=("install: $((SECONDS - started)) s")

build dev
if [ $# -gt 0 ]; then
    run_ctest dev -L "^($(IFS='|' && echo "$*"))$"
    [[ " $* " != *" slow "* ]] || run_slow
else
    run_ctest dev -LE '^slow$'
    build asan
    run_ctest asan -L "$ASAN_LABELS" -LE '^slow$'
    run_threads
    run_fuzzers
fi
finish
