#!/usr/bin/env bash
# Run every fuzz target for some seconds, one per processor at a time, starting from its corpus.
# New inputs stay in the build directory (fuzz_NAME.found). The log of a target that fails is
# printed, with the input in base64. The last line is "N passed, N failed", counting targets.
# Usage: run_fuzz.sh DIRECTORY-OF-TARGETS SECONDS
set -eu
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}
cd "$(dirname "$0")/.."

if [ "$1" = --one ]; then
    target=$2 seconds=$3
    reader=${target##*/fuzz_}
    mkdir -p "$target.found"
    touch "$target.started"
    if "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
        -verbosity=0 -print_final_stats=1 -artifact_prefix="$target.found/failed-" \
        "$target.found" "tests/fuzz/corpus/$reader" >"$target.log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$target.log")
        echo "fuzz: $reader: ${runs:-no} runs in $seconds s"
        exit 0
    fi
    echo "fuzz: $reader: FAILED"
    tail -n 100 "$target.log"
    for input in "$target.found"/failed-*; do
        [ "$input" -nt "$target.started" ] || continue
        echo "fuzz: base64 of $input:"
        head -c 65536 "$input" | base64
    done
    exit 1
fi

targets=()
for target in "$1"/fuzz_*; do
    [ -f "$target" ] && [ -x "$target" ] && targets+=("$target")
done
# xargs ends with 123 when a target failed.
printf '%s\0' "${targets[@]}" | xargs -0 -P "$(nproc)" -I{} sh -c \
    '"$0" --one "$1" "$2" >"$1.said" 2>&1; echo $? >"$1.status"; cat "$1.said"' "$0" {} "$2"
passed=0
for target in "${targets[@]}"; do
    [ "$(cat "$target.status")" != 0 ] || passed=$((passed + 1))
done
failed=$((${#targets[@]} - passed))
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
