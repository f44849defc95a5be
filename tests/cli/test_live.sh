#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The live verbs against a real controller with emulated nodes: jobs are real processes, exit codes are theirs.
. "$(dirname "$0")/../tools/tap.sh"

bin=${MUSTER_BUILD:-$root/build}
muster=$bin/muster
export HOME="$scratch" TZ=UTC LC_ALL=C.UTF-8
unset MUSTER_URL MUSTER_TOKEN MUSTER_CONTEXT MUSTER_VC MUSTER_CONFIG XDG_CONFIG_HOME 2>/dev/null
mkdir "$scratch/work" && cd "$scratch/work" || exit 1
"$bin/musterd" --dev --fake 2x4:H100 --listen 127.0.0.1:0 --state "$scratch/state" >"$scratch/musterd.log" 2>&1 &
daemon=$!
trap 'kill $daemon 2>/dev/null; wait $daemon 2>/dev/null; rm -rf "$scratch"' EXIT
tries=100
until MUSTER_URL=$(sed -n 's/.*export MUSTER_URL=//p' "$scratch/musterd.log") && [ -n "$MUSTER_URL" ] &&
    [ "$("$muster" --version >/dev/null && "$muster" node ls --url "$MUSTER_URL" -o name 2>/dev/null | wc -l)" -eq 2 ]; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || { cat "$scratch/musterd.log" && exit 1; }
    sleep 0.1
done
export MUSTER_URL

# prints TEXT LINES COMMAND...: the standard output of the command is LINES.
prints() {
    text=$1
    lines=$2
    shift 2
    "$@" >"$scratch/out" 2>"$scratch/err"
    cat "$scratch/out" "$scratch/err" >"$scratch/output"
    [ "$(cat "$scratch/out")" = "$lines" ]
    result $? "$text"
}

# exits TEXT CODE COMMAND...
exits() {
    text=$1
    code=$2
    shift 2
    "$@" >"$scratch/output" 2>&1
    got=$?
    echo "exit $got" >>"$scratch/output"
    [ $got -eq "$code" ]
    result $? "$text"
}

accepts 'doctor finds nothing wrong' "$muster" doctor
accepts 'nor in the state of the controller' "$muster" doctor --deep
prints 'run shows the output' 'hello 0,1' "$muster" run -G 2 -- sh -c 'echo hello $CUDA_VISIBLE_DEVICES'
exits 'run exits as the command did' 7 "$muster" run -- sh -c 'exit 7'
exits 'and as a shell does for a signal' 143 "$muster" run -- sh -c 'kill -TERM $$'
exits 'a command that is not there' 127 "$muster" run -- no-such-command
prints 'a command runs on every node' '0: rank 0
1: rank 1' "$muster" run -N 2 --gpus-per-node=4 -- sh -c 'echo rank $MUSTER_NODE_RANK'
printf '#!/bin/sh\n#SBATCH -J one -t 5\necho "$1 $MUSTER_JOB_NAME"\n' >one.sh
prints 'submit says the number' 'Submitted job 6' "$muster" submit one.sh word
exits 'wait' 0 "$muster" wait 6
prints 'logs' 'word one' "$muster" logs 6
prints 'logs by name' 'word one' "$muster" logs one
{ printf '#!/bin/sh\n' && head -c 1100000 /dev/zero | tr '\0' '#'; } >large.sh
accepts 'a flag after the script is its argument, and that is told' sh -c "'$muster' submit --dry-run one.sh -t 5 2>after.err >/dev/null && grep -q \"'-t' comes after the script and is an argument of it\" after.err"
accepts 'words that are no flags of ours are not' sh -c "'$muster' submit --dry-run one.sh --epochs 5 2>after.err >/dev/null && ! grep -q argument after.err"
refuses 'a port that is none' 'listen: 99999: expected a port from 0 to 65535' "$bin/musterd" --dev --listen 127.0.0.1:99999
printf 'import torch\n' >train.py
printf 'name: sweep\nrun: true\n' >given.yaml
refuses 'a job file is no script' 'given.yaml: is no script; a job file is given with -f given.yaml' "$muster" submit given.yaml
refuses 'Python without #! is no script for a shell' "train.py: its first line is no #! line, so that a shell would run it; for Python: --wrap 'python3 train.py'" "$muster" submit train.py
refuses 'a command is no script' "python3: there is no such script; a command goes to 'muster run'" "$muster" submit -G 1 -- python3 train.py
exits 'with the code of what is not there' 3 "$muster" submit nothere.sh
exits 'a script that is too large is a wrong one' 2 "$muster" submit large.sh
exits 'submit -W exits as the job did' 3 "$muster" submit -W --wrap 'exit 3'
accepts 'why of one that failed names its output' sh -c "'$muster' why 7 | grep -qx '  output   muster logs 7'"
exits 'a time limit' 124 "$muster" submit -W -t 1s --grace 1s --wrap 'sleep 60'
prints 'an array' 'Submitted job 9 (array of 4)' "$muster" submit -a 0-3%2 --wrap 'echo $MUSTER_ARRAY_ID/$MUSTER_ARRAY_INDEX'
exits 'all of it' 0 "$muster" wait 9
prints 'an element of it' '9/2' "$muster" logs 9_2
refuses 'output of the array is that of its elements' 'muster logs 9_0' "$muster" logs 9
accepts 'why of an array is that of an element' sh -c "'$muster' why 9 2>why.err | grep -q '^Job 9_0 ' && grep -q '9 is an array; of its element 9_0:' why.err"
accepts 'in JSON too' sh -c "'$muster' why 9 --json 2>why.err | grep -q Explanation && ! test -s why.err"
refuses 'why of no job is refused' 'no job 99' "$muster" why 99
cat >sweep.yaml <<'END'
name: sweep
gpus: 1
run: echo $lr/$seed
array: {values: {lr: [0.1, 0.2], seed: "0-1"}}
END
prints 'a sweep' '14' "$muster" sweep -f sweep.yaml --parsable
exits 'all of it too' 0 "$muster" wait 14
prints 'has its values' '0.2/0' "$muster" logs 14_2
prints 'parsable' '19' "$muster" submit --parsable -N 2 --gpus-per-node=4 -J holder --wrap 'sleep 600'
refuses 'what can never run is refused' 'Infeasible.NodeSize' "$muster" submit -N1 -G 8 --wrap true
exits 'with its code' 6 "$muster" submit -N1 -G 8 --wrap true
refuses 'more memory than there is, in units people use' 'no node has 99999G of memory; the largest has 512G' "$muster" submit --mem 99999G --wrap true
prints 'one more waits' '20' "$muster" submit --parsable -G 1 -J waiter --wrap true
accepts 'why says for what' sh -c "'$muster' why waiter | grep -q '^Reason   InsufficientGpus'"
accepts 'and who holds it' sh -c "'$muster' why waiter | grep -q 'held by  19'"
prints 'after it, by its name' '21' "$muster" submit --parsable --after=ok:waiter -J after --wrap true
accepts 'what was decided about it, by its name' sh -c "'$muster' sched trace waiter | grep -q wait"
accepts 'that is its number' sh -c "'$muster' show 21 --json | grep -A1 '\"ok\"' | grep -q 20"
refuses 'after a name that is no job' "after: you have no job 'nobody'" "$muster" submit --after=any:nobody --wrap true
refuses 'after a kind that is none' "after: expected ok, any or notok, got 'okay'" "$muster" submit --after=okay:20 --wrap true
refuses 'half a name of an element is no name' "you have no job '9_'" "$muster" show 9_
accepts 'the queue' sh -c "'$muster' queue --no-header --columns jobid,name,state,nodes/reason >q && diff - q <<'X'
19  holder  RUNNING  gpu[01-02]
20  waiter  PENDING  (InsufficientGpus)
21  after   PENDING  (Dependency)
X"
prints 'exec' 'in 19' sh -c "'$muster' exec holder -- sh -c 'echo in \$MUSTER_JOB_ID' </dev/null"
exits 'exits as its command did' 4 "$muster" exec holder -- sh -c 'exit 4'
prints 'and reads all of its input' '300000' sh -c "head -c 300000 /dev/zero | '$muster' exec holder -- wc -c"
# screen SIZE PATTERN LINE...: `muster top` on a terminal of that size has these lines, as patterns, once PATTERN is there.
screen() {
    size=$1
    pattern=$2
    shift 2
    # shellcheck disable=SC2086
    python3 "$root/tests/cli/screen.py" $size "$pattern" "$muster" top >"$scratch/screen" || { cat "$scratch/screen" && return 1; }
    for line in "$@"; do
        grep -q -x -e "$line" "$scratch/screen" || { echo "no line '$line'" && cat "$scratch/screen" && return 1; }
    done
}
accepts 'top on 80 columns' screen '24 80' '  InsufficientGpus' 'H100     \[#*\] 8 of 8 used, 0 free, 0 down; largest node 0' \
    'gpu01          alloc     4/4 .* █' 'JOBID     NAME           USER     STATE     GPUS     ELAPSED   NODES/REASON' \
    '19        holder         [^ ]* *RUNNING   8 H100   00:..:..  gpu\[01-02\]' '20        waiter  .*  PENDING   .*  InsufficientGpus'
accepts 'on 200' screen '50 200' 'InsufficientGpus' '19           holder  .* default    RUNNING   8 H100 .* gpu\[01-02\]'
accepts 'on 40: nothing runs over' screen '12 40' '^19' '.\{40\}' 'JOBID     NAME           USER     STATE' 'gpu01          alloc     4/4'
LC_ALL=C
accepts 'in plain letters where there are no others' screen '24 80' '  InsufficientGpus' 'gpu01          alloc     4/4 .* #'
LC_ALL=C.UTF-8
prints 'hold' 'Held job 20' "$muster" hold 20
prints 'release' 'Released job waiter' "$muster" release waiter
prints 'set' 'Changed job 20' "$muster" set 20 priority=high time=2h
accepts 'it shows' sh -c "'$muster' queue --no-header --columns jobid,prio,limit | grep -q -x '20  high    02:00:00'"
for span in 10 90s 2h 1d 1-02:03:04; do
    "$muster" set 20 time=$span >/dev/null
    before=$("$muster" show 20 --json | grep -o "limit_seconds[^,]*")
    limit=$("$muster" queue --no-header --columns limit --name waiter)
    "$muster" set 20 time="$limit" >"$scratch/output" 2>&1
    [ -n "$limit" ] && [ "$("$muster" show 20 --json | grep -o "limit_seconds[^,]*")" = "$before" ]
    result $? "a limit of $span is shown as it is read back: $limit"
done
for verb in cancel hold requeue wait show why prio; do
    exits "$verb: a task or an attempt is not its job" 2 "$muster" $verb 19.0
    exits "$verb: nor is an attempt" 2 "$muster" $verb 19@0
done
accepts 'which is still there' sh -c "'$muster' queue --no-header --columns state --name holder | grep -q RUNNING"
prints 'a number that is none is told as it was written' 'muster: error: no job 99999999999999999999 [NotFound]' \
    sh -c "'$muster' show 99999999999999999999 2>&1"
exits 'prio of one that does not wait' 5 "$muster" prio holder
exits 'or is not there' 3 "$muster" prio 999
exits 'GPUs for a virtual cluster that is none' 3 "$muster" gpus -p nix
exits 'a reservation of a node that is not there' 3 "$muster" resv create typo --nodes 'gpu[01-03]' --duration 1h
exits 'a folder is no script' 2 "$muster" submit .
printf 'words\n' >words.yaml
refuses 'a configuration without keys, and its file' 'words.yaml: expected keys' "$muster" config validate words.yaml
exits 'a plan' 0 "$muster" plan -G 1
prints 'cancel' 'Cancelled job holder' "$muster" cancel --now holder
exits 'cancelled' 122 "$muster" wait 19
code=$("$muster" history --no-header --columns jobid,exit | sed -n 's/^19 *//p')
accepts 'show and history tell one exit code' sh -c "[ -n '$code' ] && '$muster' show 19 | grep -q '^ *exit *$code: cancelled'"
exits 'those that waited ran' 0 "$muster" wait 20 21
exits 'no such job' 3 "$muster" show 999
exits 'over' 5 "$muster" hold 20
exits 'some of several' 8 "$muster" cancel 999 "$("$muster" submit --parsable --wrap 'sleep 60')"
prints 'drain' 'Draining gpu02' "$muster" node drain gpu02 --reason 'new fan'
accepts 'drained' sh -c "'$muster' nodes | grep -q '^gpu02  drain .*new fan'"
prints 'resume' 'Resumed gpu02' "$muster" node resume gpu02
accepts 'labels as json' sh -c "'$muster' node label gpu01 colour=red --json | grep -q '^{.*\"name\":\"gpu01\".*\"colour\":\"red\"'"
accepts 'a virtual cluster' "$muster" vc create small quota.H100=1 --json
prints 'and its end' '{"apiVersion":"v1","kind":"Vc","name":"small","closed":true}' "$muster" vc rm small --json
prints 'a limit of a user' 'User ana  GPUs 4, jobs no limit' "$muster" user limits ana max_gpus=4
prints 'is taken away by null' 'User ana  GPUs no limit, jobs no limit' "$muster" user limits ana max_gpus=null
"$muster" user limits ana max_gpus=4 >"$scratch/output"
prints 'and by none' 'User ana  GPUs no limit, jobs no limit' "$muster" user limits ana max_gpus=none
accepts 'a node without JSON' sh -c "'$muster' node show gpu01 >node.txt && ! grep -q '[][\"]' node.txt && grep -q '^  enforced   kill' node.txt"
prints 'one GPU' 'Draining gpu01:3' "$muster" gpu drain gpu01:3 --reason xid
prints 'back' 'Resumed gpu01:3' "$muster" gpu resume gpu01:3
prints 'json' '{"apiVersion":"v1","kind":"JobList","items":[],"next":null}' "$muster" queue --state PENDING --json
accepts 'pause' "$muster" sched pause
accepts 'paused' sh -c "'$muster' submit --wrap true 2>&1 | grep -q SchedulerPaused"
accepts 'go on' "$muster" sched resume
accepts 'another policy' "$muster" sched policy srsf
exits 'a shell in a new job' 5 sh -c "echo 'exit 5' | '$muster' shell -G 1"
# Filters that a listing offers are known to the controller.
filters() {
    "$muster" "$1" --help | sed -n 's/^.* --\([a-z]*\)=\(NAME\|TEXT\|K\[=V\]\|NODE\) .*/\1/p' | grep -vx context >filters
    grep -qx name filters && while read -r flag; do "$muster" "$1" --"$flag" x >/dev/null || return 1; done <filters
}
accepts 'queue takes the filters it offers' filters queue
accepts 'history takes the filters it offers' filters history
accepts 'a backup' "$muster" cluster backup "$scratch/backup"
accepts 'is restored' "$muster" cluster restore "$scratch/backup" --state "$scratch/second"
token=$("$muster" token new --expires 1h 2>/dev/null)
accepts 'login' sh -c "echo $token | '$muster' login $MUSTER_URL --name here"
prints 'whose context is used' '*  here  '"$MUSTER_URL"'  yes' "$muster" context --no-header
finish
