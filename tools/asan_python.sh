#!/usr/bin/env bash
# Python with the extension of a build with sanitizers (make sanitize), taken from where it was
# built. Its allocations are the C library's, which AddressSanitizer watches. Leaks are not looked
# for: Python itself leaks some at its end, and torch and Triton more.
# Usage: PROTON_TEST_BUILD=BUILD asan_python.sh ARGUMENT...
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
build=$PROTON_TEST_BUILD
package=$build/python/package/triton_proton
library=$build/src/libproton.so.0

mkdir -p "$package"
ln -sfn "$top"/python/triton_proton/* "$build"/python/_*.so "$package"

# The program itself is not sanitized, so what the library needs of it has to be there first.
asan=$(ldd "$library" | sed -n 's/.*libasan[^ ]* => \([^ ]*\) .*/\1/p')
[ -n "$asan" ] || { echo "asan_python: $library is linked with no shared libasan"; exit 1; }
cxx=$("${CC:-cc}" -print-file-name=libstdc++.so.6)
[ -e "$cxx" ] || cxx=

export LD_LIBRARY_PATH=$build/src PYTHONPATH=${package%/*} PYTHONMALLOC=malloc
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1
export UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1
LD_PRELOAD="$asan $cxx" exec python "$@"
