#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_tiresias.sh - every baseline of the Tiresias simulator for fifo, fjf, shortest, shortest-gpu, dlas and dlas-gpu: the
# same start, end and number of preemptions for every job. docs/parity.md has the rules and the one exception.
. "$(dirname "$0")/common.sh"

# At t=504 jobs 13 and 16 have the same remaining service, to the second. Ours goes by submission; the simulator sorts the
# order of the event before again, in which the one that falls more slowly stood first.
ties="13 16"

for file in "$traces"/baselines/tiresias-sim/*.csv.gz; do
    name=$(basename "$file" .csv.gz)
    place=${name##*--}
    rest=${name%--*}
    expect=
    more=
    case ${rest##*--} in
    fifo) policy=fifo ;;
    fjf) policy=fifo-skip ;;
    shortest) policy=srtf ;;
    shortest-gpu) policy=srsf ;;
    dlas) policy=las more='compat=tiresias-sim attained=time' ;;
    dlas-gpu) policy=las more='compat=tiresias-sim attained=service' ;;
    *) continue ;;
    esac
    case $rest in
    60_job--n2g8--shortest-gpu | 60_job--n4g4--shortest-gpu) expect=$ties ;;
    esac
    compare "$file" "$(input "${name%%--*}")" "$policy" "$expect" "place=$place" $more
done
[ "$tests" -ge 33 ] || echo "not ok $((tests = tests + 1)) - baselines are missing"
echo "1..$tests"
