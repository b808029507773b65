#!/bin/sh
# See that the unit tests' harness reports each kind of failure as one. Usage: harness.sh FIXTURE
set -eu
fixture=$1
if [ -n "${MESON_EXE_WRAPPER-}" ]; then
    echo '1..0 # SKIP the harness itself is tested without an emulator'
    exit 0
fi
number=0
failed=0

# expect NAME PATTERN: the fixture's output has a line that matches.
expect() {
    number=$((number + 1))
    if printf '%s\n' "$said" | grep -q -E "$2"; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        printf '%s\n' "$said" | sed 's/^/# /'
        failed=1
    fi
}

status=0
said=$("$fixture" --timeout 1) || status=$?
said="$said
status $status"
expect "a passing test is ok" '^ok 1 - passes$'
expect "a failed number is not ok" '^not ok 2 - fails_by_number$'
expect "a failure shows both values" '^# .*fixture.c:[0-9]+: 1 \+ 1 is 2, 3 is 3'
expect "an order is one of signed numbers" '^not ok 3 - fails_by_order$'
expect "a failed text is one line" '^# .*"two\|lines"'
expect "bytes say where they differ" '^# .*differ at byte 2: 63, 64'
expect "a failure in a thread counts" '^not ok 6 - fails_in_a_thread$'
expect "a crash is a failure" '^not ok 7 - crashes$'
expect "a crash names its signal" '^# ended by signal 11'
expect "a hang is a failure" '^not ok 8 - hangs$'
expect "a hang is ended" '^# still running after 1 s$'
expect "an exit code is a failure" '^not ok 9 - exits_with_an_error$'
expect "a descriptor left open is a failure" '^not ok 10 - leaves_a_descriptor$'
expect "a descriptor left open is named" '^# .*leaves descriptor [0-9]+ open: '
expect "a skipped test is neither" '^ok 11 - skips # SKIP there is no reason$'
expect "what comes after still runs" '^ok 12 - passes_after_all_that$'
expect "the plan is whole" '^1\.\.14$'
expect "the exit status tells" '^status 1$'

status=0
said=$("$fixture" --no-fork passes fails_by skips) || status=$?
said="$said
status $status"
expect "without fork a failed test ends too" '^not ok 3 - fails_by_order$'
expect "without fork the rest runs" '^ok 6 - skips # SKIP'
expect "words choose tests" '^1\.\.7$'
expect "without fork the exit status tells" '^status 1$'

said=$("$fixture" passes && echo "status 0")
expect "passing tests alone are a success" '^status 0$'

said=$("$fixture" finds_its no_other_test) || true
expect "a chosen test finds its program" '^ok 1 - finds_its_program$'

# As under nohup, and where what starts the tests does not wait for its children.
for options in "" --no-fork; do
    said=$(trap '' HUP INT TERM PIPE USR1 CHLD; "$fixture" $options has_default) || true
    expect "ignored signals have their defaults in a test $options" '^ok 1 - has_default_signals$'
done
said=$(trap '' CHLD; "$fixture" fails_by_number crashes) || true
expect "a failure is seen where children are not waited for" '^not ok 1 - fails_by_number$'
expect "a crash is seen there too" '^not ok 2 - crashes$'

# However a program ends, children of its running test end too: the pipe is closed then.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkfifo "$folder/output"
for signal in TERM KILL; do
    "$fixture" hangs >"$folder/output" &
    exec 3<"$folder/output"
    timeout 60 grep -q -m 1 'has a child' <&3 || true
    kill -s $signal $!
    said=$(timeout 60 cat <&3 >"$folder/rest" && echo ended || echo "somebody still writes")
    expect "children end with a program that is ended by $signal" '^ended$'
    exec 3<&-
done

echo "1..$number"
exit $failed
