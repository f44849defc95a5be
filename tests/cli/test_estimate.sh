#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# muster estimate, as a user meets it: outputs, words and exit codes.
. "$(dirname "$0")/../tools/tap.sh"

muster=${MUSTER_BUILD:-$root/build}/muster
cd "$scratch"

# exits TEXT CODE COMMAND...: the command ends with this exit code.
exits() {
    text=$1
    code=$2
    shift 2
    "$@" >"$scratch/output" 2>&1
    [ $? -eq "$code" ]
    result $? "$text"
}

# prints TEXT PATTERN COMMAND...: the command succeeds and prints something that matches.
prints() {
    text=$1
    pattern=$2
    shift 2
    "$@" >"$scratch/output" 2>&1 && grep -q -e "$pattern" "$scratch/output"
    result $? "$text"
}

awk 'BEGIN {
    print "model,batch,memory,time"
    for (i = 0; i < 120; i++) { b = 8 * 2 ^ (i % 4); m = i % 3; printf "%s,%d,%d,%d\n", "m" m, b, 1000 + 500 * m + 10 * b, 60 + b * (m + 1) }
}' >jobs.csv

accepts 'train' "$muster" estimate train --data jobs.csv --targets memory,time -o a.model
accepts 'train again with one thread' "$muster" estimate train --data jobs.csv --targets memory,time --threads 1 -o b.model
accepts 'the same bytes' cmp a.model b.model
prints 'show' 'feature batch (number)' "$muster" estimate show a.model
prints 'predict a job' '^0,memory,1[56][0-9]' "$muster" estimate predict --model a.model model=m1 batch=8
accepts 'predict a file' "$muster" estimate predict --model a.model --data jobs.csv
accepts 'an unknown program is answered' "$muster" estimate predict --model a.model model=new batch=8
prints 'eval' 'memory  *120  *[0-9.]*%  *[0-9.]*%' "$muster" estimate eval --data jobs.csv --targets memory --user model --request memory=16384

refuses 'a feature is missing' "the model wants 2 features: no column 'batch'" "$muster" estimate predict -m a.model model=m1
refuses 'a value is missing' 'batch: expected a value' "$muster" estimate predict -m a.model model=m1 batch=
refuses 'a text for a number' 'the model wants numbers' "$muster" estimate predict -m a.model model=m1 batch=many
head -c 500 a.model >short.model
refuses 'a model that is cut short' 'cut short' "$muster" estimate show short.model
exits 'its exit code' 2 "$muster" estimate show short.model
{ head -c 8 a.model; printf '\000\000\000\000'; tail -c +13 a.model; } >old.model
refuses 'an older model' 'version 0; this program reads version 1' "$muster" estimate show old.model
exits 'no model' 2 "$muster" estimate predict model=m1
exits 'no such file' 3 "$muster" estimate predict --model none.model model=m1
exits 'no targets' 2 "$muster" estimate train --data jobs.csv -o x.model
exits 'no such column' 3 "$muster" estimate train --data jobs.csv --targets colour -o x.model
exits 'no output' 2 "$muster" estimate train --data jobs.csv --targets memory
exits 'a bad number' 2 "$muster" estimate train --data jobs.csv --targets memory --trees 0 -o x.model
exits 'unknown verb' 2 "$muster" estimate guess
accepts 'nothing was written by an error' test ! -e x.model
accepts 'help' "$muster" estimate eval --help
finish
