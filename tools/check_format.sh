#!/bin/sh
# The C sources must be as clang-format would write them; prints the difference.
set -eu
cd "$(dirname "$0")/.."
if ! command -v clang-format >/dev/null; then
    echo "check_format: skipped, clang-format is not installed"
    exit 0
fi
status=0
for file in $(git ls-files '*.c' '*.h' '*.def'); do
    clang-format "$file" | diff -u --label "$file" --label "$file (formatted)" "$file" - || status=1
done
exit $status
