#!/bin/sh
# clang-tidy over the sources of all components, with the flags of a build directory.
# Usage: check_tidy.sh BUILD [BASE], or check_tidy.sh --version. The static analyzer takes 95 % of
# the time. With BASE, a commit that passed, it looks only at sources that differ from BASE or
# include a file that does; BUILD must be built then. The other checks look at all sources.
set -eu
cd "$(dirname "$0")/.."
build=$1
base=${2-}
if ! command -v clang-tidy >/dev/null; then
    echo "check_tidy: skipped, clang-tidy is not installed"
    exit 0
fi

if [ "$build" = --version ]; then # which decides what the analyzer finds
    clang-tidy --version | grep -o 'version [0-9.]*'
    exit
fi

# tidy OPTION...: the sources on standard input. clang ignores gcc's own flags in the compile
# commands; its count of suppressed warnings is dropped.
tidy() {
    xargs -r -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet \
        --extra-arg=-Wno-unknown-warning-option "$@" 2>/dev/null
}

changed=$(mktemp)
trap 'rm -f "$changed"' EXIT
[ -z "$base" ] || git diff --name-only "$base" >"$changed"
decides='^(\.clang-tidy|tools/check_tidy\.sh|(src/)?meson\.build)$'
if [ -z "$base" ] || grep -q -E "$decides" "$changed"; then
    git ls-files 'src/*.c' | tidy
    exit
fi
git ls-files 'src/*.c' | tidy --checks='-clang-analyzer-*'
# Blocks of lines: an object, then the source and the headers that it was made of.
ninja -C "$build" -t deps | awk '
    NR == FNR { changed[$0] = 1; next }
    /^[^ ]/ { source = "" }
    /^ / { sub(/^ *(\.\.\/)*/, ""); if (source == "") source = $0 }
    ($0 in changed) && source ~ /^src\/.*\.c$/ { print source }
' "$changed" - | sort -u | tidy
