#!/bin/bash
# Build the wheel as pip does for a user, in a new environment, install it and check it:
# no compiler warning, the right files, nothing needed but libc, the commands start.
# Usage: check_wheel.sh [PYTHON [FOLDER]]; the wheel is left in FOLDER.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "check_wheel: $*"
    exit 1
}

"$python" -m venv "$folder/venv"
if ! "$folder/venv/bin/pip" wheel -v --no-deps -w "$folder" . >"$folder/log" 2>&1; then
    tail -50 "$folder/log"
    fail "pip cannot build the wheel"
fi
if grep -n -E 'warning:' "$folder/log"; then
    fail "the compiler warned"
fi
"$folder/venv/bin/pip" install --quiet --no-deps "$folder"/*.whl

wheel=$(echo "$folder"/*.whl)
names=$("$folder/venv/bin/python" -m zipfile -l "$wheel" | awk '{print $1}')
for wanted in '^triton_proton/libproton\.so\.0$' '^triton_proton/libproton_inject\.so$' \
    '^triton_proton/libproton_rocprofiler\.so$' '^triton_proton/libproton_hsa\.so$' \
    '^triton_proton/_libproton\..*\.so$' '^triton_proton/_reader\..*\.so$' \
    '^triton_proton/__init__\.py$' '^triton_proton_pytest\.py$' \
    '^triton_proton/bin/proton$' '^triton_proton/bin/proton-viewer$' \
    '/scripts/proton$' '/scripts/proton-viewer$' '/scripts/proton-merge$' \
    '\.data/data/share/man/man1/proton\.1$' '\.data/data/share/man/man1/proton-viewer\.1$' \
    '/scripts/triton-proton$' '/scripts/triton-proton-viewer$' '/licenses/LICENSE$'; do
    grep -q -E "$wanted" <<<"$names" || fail "nothing in the wheel is called $wanted"
done
if grep -E '\.(c|h|o|a|pyc)$|meson\.build|tests/' <<<"$names"; then
    fail "these have no place in a wheel"
fi

# The tag that the release would give it; nothing but libc and libm is missing, so nothing is added.
"$folder/venv/bin/pip" install --quiet auditwheel
tag=$("$folder/venv/bin/python" -m auditwheel show "$wheel" | tr '\n' ' ' |
    sed -n 's/.*following platform tag: *"\(manylinux_[0-9_a-z]*\)".*/\1/p')
[ -n "$tag" ] || fail "auditwheel gives the wheel no manylinux tag"

package=$("$folder/venv/bin/python" -c \
    'import importlib.util as u; print(u.find_spec("triton_proton").submodule_search_locations[0])')
for file in "$package"/*.so* "$package"/bin/* "$folder"/venv/bin/{,triton-}proton{,-viewer}; do
    [ ! -L "$file" ] || fail "$file is a symbolic link"
    for needed in $(readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
        case $needed in
        libc.so.* | libpthread.so.* | libdl.so.* | libm.so.* | ld-linux*) ;;
        libproton.so.0) [ "${file%.so*}" != "$file" ] || fail "$file needs $needed" ;;
        *) fail "$(basename "$file") needs $needed" ;;
        esac
    done
    for path in $(readelf -dW "$file" | sed -n 's/.*\(RUNPATH\|RPATH\).*\[\(.*\)\]/\2/p'); do
        [ "$path" = '$ORIGIN' ] || fail "$(basename "$file") looks for libraries in $path"
    done
done

"$python" tools/check_hardening.py "$package"/*.so* "$package"/bin/* \
    "$folder"/venv/bin/{,triton-}proton{,-viewer} || fail "these are not hardened"

cd "$folder"
version=$(venv/bin/python -c 'import triton_proton; print(triton_proton.__version__)')
for file in venv/bin/{,triton-}proton{,-viewer} "$package"/bin/proton{,-viewer}; do
    command=${file#"$folder"/}
    [ -x "$file" ] || fail "$command cannot be executed"
    said=$("$file" --version) || fail "$command --version fails"
    grep -q -F "$version" <<<"$said" || fail "$command says '$said', the package $version"
done
# Without the names that Triton's wheel installs and its uninstallation removes.
rm venv/bin/proton venv/bin/proton-viewer
echo 'import triton_proton; triton_proton.scope("a", {"n": 1}).__enter__()' >scopes.py
for command in venv/bin/triton-proton "$package/bin/proton" "venv/bin/python -m triton_proton"; do
    rm -f proton.hatchet
    said=$($command -b host scopes.py 2>&1) || fail "$command cannot run a script: $said"
    venv/bin/python -m triton_proton.viewer -m n proton.hatchet >/dev/null ||
        fail "no profile from $command"
done
# One recorder in a process, whether it is injected or imported: the same file.
venv/bin/python -c '
import triton_proton
maps = {line.split()[-1] for line in open("/proc/self/maps") if "libproton.so" in line}
assert len(maps) == 1, maps'
[ $# -lt 2 ] || cp "$wheel" "$2"
echo "check_wheel: $(basename "$wheel") is good, $tag"
