#!/usr/bin/env bash
# Unpack Debian's Python for aarch64 into a new folder, for aarch64_wheel.sh. Nothing is installed,
# and root is not needed. Usage: aarch64_python.sh FOLDER
set -euo pipefail
mkdir "$1"
root=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial"
touch "$scratch/status"

apt() {
    apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= \
        -o Dir::State::lists="$scratch/lists" -o Dir::State::status="$scratch/status" \
        -o Dir::Cache="$scratch/cache" -o Debug::NoLocking=true "$@"
}

apt update >/dev/null
apt install -y --no-install-recommends --download-only python3 libpython3-dev >/dev/null
for package in "$scratch"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$root"
done

# Python takes the name that it was started with for the program to start again, and for its place.
cat >"$root/usr/bin/python-aarch64" <<END
#!/bin/sh
exec qemu-aarch64 -0 "\$0" -L "$root" "$root/usr/bin/python3" "\$@"
END
chmod +x "$root/usr/bin/python-aarch64"
