#!/bin/sh
# Run every fuzz target for some seconds, starting from its corpus; new inputs stay in the build
# directory. Usage: run_fuzz.sh DIRECTORY-OF-TARGETS SECONDS
set -eu
cd "$(dirname "$0")/.."
for target in "$1"/fuzz_*; do
    [ -f "$target" ] && [ -x "$target" ] || continue
    reader=$(basename "$target" | sed 's/^fuzz_//')
    mkdir -p "$target.found"
    echo "fuzz: $reader for $2 s"
    "$target" -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -verbosity=0 \
        -artifact_prefix="$target.found/" "$target.found" "tests/fuzz/corpus/$reader"
done
