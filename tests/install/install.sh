#!/bin/sh
# The steps of a C user (docs/guide/install.md): install, find libproton with pkg-config, build the
# example, run it; in a DESTDIR. TAP output. Usage: install.sh MESON BUILD CC PREFIX LIBDIR BINDIR
set -eu
meson=$1 build=$2 cc=$3 prefix=$4 libdir=$5 bindir=$6
source=$(cd "$(dirname "$0")/../.." && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
number=0
failed=0

# check NAME COMMAND...: a test that passes if the command does.
check() {
    name=$1
    shift
    number=$((number + 1))
    if "$@" >"$root/said" 2>&1; then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        sed 's/^/# /' "$root/said"
        failed=1
    fi
}

has_files() {
    for file in "$libdir/libproton.so" "$libdir/libproton.so.0" "$libdir/pkgconfig/libproton.pc" \
        "$libdir/proton/libproton_inject.so" "$libdir/proton/libproton_rocprofiler.so" \
        "$libdir/proton/libproton_hsa.so" \
        "$bindir/proton" "$bindir/proton-viewer" \
        include/libproton/proton.h include/libproton/status.h include/libproton/status.def; do
        [ -e "$root$prefix/$file" ] || { echo "$prefix/$file is missing"; return 1; }
    done
}

# Every target of a plain build is below src/ or python/.
builds_product_alone() {
    "$meson" introspect --targets "$build" | tr '{' '\n' |
        grep '"build_by_default": true' | grep -o '"defined_in": "[^"]*"' | sort -u >"$root/made"
    grep -q '/src/meson.build"' "$root/made" || { echo "no target is built"; return 1; }
    ! grep -v -E '/(src|python)/meson\.build"' "$root/made"
}

build_examples() {
    for program in "$source"/examples/c/*.c; do
        # shellcheck disable=SC2046
        "$cc" -std=c11 -Wall -Wextra -Werror -pedantic "$program" \
            -o "$root/run/$(basename "$program" .c)" $(pkg-config --cflags --libs libproton)
    done
}

run_examples() {
    for program in "$source"/examples/c/*.c; do
        "$root/run/$(basename "$program" .c)"
    done
    ls "$root"/run/*.hatchet
}

view_profiles() {
    for profile in "$root"/run/*.hatchet; do
        "$root$prefix/$bindir/proton-viewer" -l "$profile"
    done
}

export PKG_CONFIG_SYSROOT_DIR="$root"
export PKG_CONFIG_LIBDIR="$root$prefix/$libdir/pkgconfig"
export LD_LIBRARY_PATH="$root$prefix/$libdir"

check "meson install works" "$meson" install -C "$build" --no-rebuild --quiet --destdir "$root"
check "everything is installed" has_files
check "a plain build makes no program of tests" builds_product_alone
check "the commands start" "$root$prefix/$bindir/proton" --version
check "the viewer starts" "$root$prefix/$bindir/proton-viewer" --version
if command -v pkg-config >/dev/null; then
    mkdir "$root/run"
    cd "$root/run"
    check "the library is found by pkg-config" pkg-config --exists --print-errors libproton
    check "the example builds without a warning" build_examples
    check "the example runs and writes its profile" run_examples
    check "the viewer reads it" view_profiles
else
    number=$((number + 1))
    echo "ok $number - the library is found by pkg-config # SKIP no pkg-config here"
fi
echo "1..$number"
exit $failed
