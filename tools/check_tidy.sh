#!/bin/sh
# clang-tidy over every C source of the build directory's compile commands. Usage: check_tidy.sh BUILD
set -eu
cd "$(dirname "$0")/.."
build=$1
if ! command -v clang-tidy >/dev/null; then
    echo "check_tidy: skipped, clang-tidy is not installed"
    exit 0
fi
# gcc's own flags in the compile commands are not clang's concern.
git ls-files 'src/*.c' |
    xargs -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet \
        --extra-arg=-Wno-unknown-warning-option 2>/dev/null
