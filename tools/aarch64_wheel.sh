#!/usr/bin/env bash
# Build a wheel for aarch64 with Debian's cross compiler and a Python under an emulator.
# Usage: aarch64_wheel.sh ROOT SOURCE OUT; ROOT is aarch64_python.sh's folder. pip, meson-python,
# Meson and ninja must be those of the python3 in PATH.
set -euo pipefail
tools=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Debian's pyconfig.h includes the one of the processor, from below usr/include.
cat >"$scratch/python.ini" <<END
[binaries]
python = '$root/usr/bin/python-aarch64'

[built-in options]
c_args = ['-idirafter', '$root/usr/include']
END
export QEMU_CPU=max,pauth-impdef=on
PYTHONPATH=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
export PYTHONPATH
"$root/usr/bin/python-aarch64" -m pip wheel --quiet --disable-pip-version-check \
    --no-build-isolation --no-deps -w "$3" -Csetup-args=--cross-file="$tools/aarch64.ini" \
    -Csetup-args=--cross-file="$scratch/python.ini" "$2"
