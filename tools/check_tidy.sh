#!/bin/sh
# clang-tidy over the sources of all components, with the flags of a build directory.
# Usage: check_tidy.sh BUILD [--note]. The static analyzer takes 95 % of the time. It leaves out
# sources that it has passed: .ci/analyzed has the version of clang-tidy, and hashes of the contents
# of files, which tell more than a commit where a branch is merged as one commit. A source is looked
# at if it or a file that it includes has another hash; for the latter, BUILD must be built. --note
# looks three times as deep, for three times as long, and rewrites the file if nothing is found. The
# other checks look at all sources.
set -eu
cd "$(dirname "$0")/.."
build=$1
note=${2-}
analyzed=.ci/analyzed
if ! command -v clang-tidy >/dev/null; then
    echo "check_tidy: skipped, clang-tidy is not installed"
    exit 0
fi
version=$(clang-tidy --version | grep -o 'version [0-9.]*') # decides what the analyzer finds

depth=max-nodes=75000 # of states of a function
[ "$note" != --note ] || depth=max-nodes=225000

# The analyzer of clang 14 does not know the attribute `cleanup`: to it, what AUTO_FREE frees leaks.
# Status 1: other findings are left; 2: there was none to drop.
drop_freed() {
    awk '
        function is_freed(file, name,   line, found) {
            while ((getline line < file) > 0)
                found = found || line ~ ("AUTO_FREE .*[ *]" name "( |;|,|\\[)")
            close(file)
            return found
        }
        /^[^ ]+:[0-9]+:[0-9]+: (error|warning): / {
            file = name = $0
            sub(/:.*/, "", file)
            sub(/^.*\.\.\//, "", file)
            sub(/^.*pointed to by \047/, "", name)
            sub(/\047.*/, "", name)
            drops = /Potential leak of memory pointed to by/ && is_freed(file, name)
            if (drops)
                has_dropped = 1
            else
                has_left = 1
        }
        !drops { print }
        END { exit has_left ? 1 : has_dropped ? 0 : 2 }
    '
}

# tidy OPTION...: the sources on standard input. clang ignores gcc's own flags in the compile
# commands; its count of suppressed warnings is dropped.
tidy() {
    failed=0
    run_tidy "$@" >"$scratch/found" || failed=1
    left=0
    drop_freed <"$scratch/found" || left=$?
    [ "$left" -ne 1 ] && { [ "$failed" -eq 0 ] || [ "$left" -eq 0 ]; }
}

run_tidy() {
    xargs -r -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet \
        --extra-arg=-Wno-unknown-warning-option --extra-arg=-Xclang --extra-arg=-analyzer-config \
        --extra-arg=-Xclang "--extra-arg=$depth" "$@" 2>/dev/null
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
git ls-files src include meson.build .clang-tidy tools/check_tidy.sh >"$scratch/files"
git hash-object --stdin-paths <"$scratch/files" | cut -c 1-10 >"$scratch/hashes"
if [ "$(head -1 $analyzed 2>/dev/null)" = "$version" ]; then
    tail -n +2 $analyzed | tr ' ' '\n' >"$scratch/known"
fi
touch "$scratch/known"
paste -d ' ' "$scratch/hashes" "$scratch/files" |
    awk 'NR == FNR { known[$1] = 1; next } !($1 in known) { print $2 }' "$scratch/known" - \
        >"$scratch/changed"
if [ ! -s "$scratch/known" ] ||
    grep -q -E '^(\.clang-tidy|tools/check_tidy\.sh|(src/)?meson\.build)$' "$scratch/changed"; then
    git ls-files 'src/*.c' | tidy
else
    git ls-files 'src/*.c' | tidy --checks='-clang-analyzer-*'
    # Blocks of lines: an object, then the source and the headers that it was made of.
    ninja -C "$build" -t deps | awk '
        NR == FNR { changed[$0] = 1; next }
        /^[^ ]/ { source = "" }
        /^ / { sub(/^ *(\.\.\/)*/, ""); if (source == "") source = $0 }
        ($0 in changed) && source ~ /^src\/.*\.c$/ { print source }
    ' "$scratch/changed" - | sort -u | grep -xFf "$scratch/files" | tidy # not what was generated
fi
if [ "$note" = --note ]; then
    { echo "$version" && sort -u "$scratch/hashes" | paste -s -d '         \n'; } >$analyzed
fi
