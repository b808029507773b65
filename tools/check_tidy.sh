#!/bin/sh
# clang-tidy over the sources of all components, with the flags of a build directory.
# Usage: check_tidy.sh BUILD
set -eu
cd "$(dirname "$0")/.."
build=$1
if ! command -v clang-tidy >/dev/null; then
    echo "check_tidy: skipped, clang-tidy is not installed"
    exit 0
fi
# clang ignores gcc's own flags in the compile commands; its count of suppressed warnings is
# dropped.
git ls-files 'src/*.c' |
    xargs -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet \
        --extra-arg=-Wno-unknown-warning-option 2>/dev/null
