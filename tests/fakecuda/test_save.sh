#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_save.sh MUSTER LIBRARY JOB FAKE_DIR - a program is ended after it has saved itself; one that has not is ended by force alone, and
# what is lost is told. TAP on standard output.
muster=$1 library=$2 job=$3 fake=$4
. "$(dirname "$0")/lib.sh"
export FAKE_CUDA_MEMORY=256
python_begins
# saver [HOW] - pid is a program that makes steps, and notes in `file` what comes to it.
saver() {
    file="$dir/noted"
    rm -f "$file"
    "$muster" gpu run -- python3 -B "$here/saver.py" "$file" "$@" 2>/dev/null & pid=$!
    own $pid
    until_true 10 '[ "$(field $pid steps)" -gt 3 ]'
}
order() { "$muster" gpu checkpoint "$@" >"$dir/said" 2>&1; }
ended() { until_true 5 '! kill -0 $pid 2>/dev/null' && gone $pid; }

saver
check "a plain checkpoint ends nobody" 'order $pid && grep -q "between steps" "$file" && moves $pid'
kill -9 $pid; wait $pid 2>/dev/null
saver
check "--end: saved, told so, and ended" \
    'order --end $pid && grep -q "^ok $pid: saved by its own muster_on_checkpoint() in [0-9.]* s, and ended$" "$dir/said" && ended && grep -q "between steps" "$file"'
saver deaf
check "one that goes on after SIGTERM is killed when its time is over" \
    'order --grace 2 --end $pid && grep -q "and ended$" "$dir/said" && ended && [ "$(tr "\n" " " <"$file")" = "between steps term " ]'
saver
"$muster" gpu pause $pid >/dev/null
check "one that is paused is resumed first" 'order --end $pid && ended && grep -q "between steps" "$file"'
saver
order $pid
check "one whose checkpoint raises is not ended, and what would be lost is told" \
    '! order --end $pid && grep -q "$pid: not saved: its muster_on_checkpoint() raised an exception. It was not ended; lost would be the [0-9]* s since it saved itself. --force ends it all the same" "$dir/said" && moves $pid'
kill -9 $pid; wait $pid 2>/dev/null
saver none
check "nor one that defines none, and no signal is sent" \
    '! order --grace 3 --end $pid USR2 && grep -q "not saved: it defines no muster_on_checkpoint(). It was not ended; lost would be the [0-9]* s since its start" "$dir/said" && moves $pid && [ ! -e "$file" ]'
check "by force it is: told by the signal that it catches, then ended; what is lost is told" \
    'order --grace 2 --end --force $pid USR2 && grep -q "^ok $pid: ended unsaved: it defines no muster_on_checkpoint(). Lost is the [0-9]* s since its start" "$dir/said" && ended && grep -q signal "$file"'
"$muster" gpu run -- "$job" 16 1000000 4 >/dev/null 2>&1 & pid=$!
own $pid
until_true 10 '[ "$(field $pid steps)" -gt 3 ]'
check "one that is no Python program is not ended either" '! order --grace 2 --end $pid && grep -q "It was not ended; lost would be the" "$dir/said" && moves $pid'
check "by force it is" 'order --grace 2 --end --force $pid && grep -q "ended unsaved: .*Lost is the" "$dir/said" && ended'
check "and nobody is left" 'kill -0 $agent && [ "$("$muster" gpu ls | wc -l)" = 1 ]'
done_testing
