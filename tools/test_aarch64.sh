#!/usr/bin/env bash
# Build for aarch64 with Debian's cross compiler, warnings as errors, and run the C tests and the
# golden tests under an emulator; with ROOT, of aarch64_python.sh, tests of the package too.
# Installs nothing: it names the packages that are missing.
# Usage: test_aarch64.sh BUILD [ROOT]; Meson and ninja must be in PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1

missing=()
command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu)
[ -e /usr/aarch64-linux-gnu/include/stdio.h ] || missing+=(libc6-dev-arm64-cross)
command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
if [ ${#missing[@]} -gt 0 ]; then
    echo "test_aarch64: missing; as root: apt-get install ${missing[*]}"
    exit 1
fi

# Pointer authentication with the real cipher takes nine tenths of the emulator's time.
export QEMU_CPU=max,pauth-impdef=on
# Meson names the emulator to programs, but not to scripts that run programs.
export MESON_EXE_WRAPPER='qemu-aarch64 -L /usr/aarch64-linux-gnu'

[ -e "$build/build.ninja" ] ||
    meson setup "$build" --cross-file tools/aarch64.ini -Dwerror=true -Dmpi=disabled >/dev/null
ninja --quiet -C "$build" all meson-test-prereq
status=0
python tools/run_tests.py "$build" --suite unit --suite record --suite fuzz --suite golden ||
    status=1
# Pages of 64 KB: tests of memory maps.
for name in test_map test_region test_region_low test_profile_file test_reuse; do
    ${MESON_EXE_WRAPPER/qemu-aarch64/qemu-aarch64 -p 65536} "$build/tests/unit/$name" || status=1
done
python tools/check_hardening.py "$build"/src/libproton.so "$build"/src/libproton_inject.so \
    "$build"/src/proton "$build"/src/proton-viewer || status=1

if [ -z "${2-}" ]; then
    echo "test_aarch64: no tests of the Python package: AARCH64_PYTHON names no folder of" \
        "tools/aarch64_python.sh"
    exit $status
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tools/aarch64_wheel.sh "$2" . "$scratch"
python -m zipfile -e "$scratch"/*.whl "$scratch/package"
packages=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# Left out: tests that need Triton, torch or hypothesis, which have no build for aarch64 here, and
# those that compile a program for the library.
PYTHONPATH="$scratch/package:$packages" PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 \
    "$2/usr/bin/python-aarch64" -m pytest -q -p no:cacheprovider -c /dev/null --rootdir . \
    -k "not installed_triton and not other_libraries and not lazy_metadata and not never_seen" \
    tests/python/test_{api_data,api_hooks,api_scopes,api_sessions,lib,python_context}.py || status=1
exit $status
