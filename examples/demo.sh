#!/bin/sh
# Profiles examples/triton_kernels.py twice and prints what was recorded. `make demo` calls it with
# everything set up; by hand: examples/demo.sh [directory of a virtual environment].
set -eu
if [ $# -gt 0 ]; then
	PATH=$(cd "$1" && pwd)/bin:$PATH
fi
cd "$(dirname "$0")/.."
out=demo-output
script=examples/triton_kernels.py

# Shows a command as one would type it, then runs it.
run() {
	printf '\n$ %s\n' "$*"
	"$@"
}

mkdir -p "$out"
rm -f "$out"/block.hatchet "$out"/block.proton "$out"/lines.hatchet "$out"/lines.proton

# No GPU that PyTorch can use: Triton interprets its kernels on the CPU.
if ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
	export TRITON_INTERPRET=1
	echo "No GPU here: the kernels run in Triton's interpreter on the CPU."
fi

echo
echo "1. Scopes: what ran, below the scopes of the program, and what the kernels say of themselves."
run proton -n "$out/block" -k triton "$script"
run proton-viewer -m time/ms,time/%,gflop16/s,gbyte/s "$out/block.hatchet"

echo
echo "2. Lines: the same kernels below the Python lines that launched them; who calls softmax?"
run proton -n "$out/lines" -c python "$script" --steps 1
run proton-viewer -m time/ms,count -f file_function_line -i softmax_kernel "$out/lines.hatchet"

echo
echo "Files written:"
for file in "$out"/block.hatchet "$out"/lines.hatchet; do
	test -s "$file"
	echo "  $file ($(wc -c < "$file") bytes)"
done
echo "Look at them again with: proton-viewer -m time/ms FILE"
