#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What tools/mutants would change, in a small tree. That mutants are killed shows the tool itself when it is run.
. "$(dirname "$0")/tap.sh"

command -v python3 >/dev/null || { echo '1..0 # SKIP no python3' && exit 0; }
tree=$scratch/tree
mkdir -p "$tree/src/core" "$tree/tools"
cp "$root/tools/mutants" "$root/tools/files" "$tree/tools"
list() { MUTANTS_COUNT=100 "$tree/tools/mutants" --list src/core >"$scratch/list" && sed -n 's/.*  ->  //p' "$scratch/list" | LC_ALL=C sort; }
among() { list | grep -q -x -F -e "$1"; }
count() { list | grep -c .; }
body() { printf '%s\n' '/* a + b */' '#define N (1 + 2)' 'enum { M = 3 };' 'int f(struct s *a, int b)' '{' "    $1" '}' >"$tree/src/core/a.c"; }

body 'return a->x < b && b != 7;'
accepts 'an order' among 'return a->x <= b && b != 7;'
accepts 'a connective' among 'return a->x < b || b != 7;'
accepts 'an equality' among 'return a->x < b && b == 7;'
accepts 'a constant' among 'return a->x < b && b != 8;'
says 'each once, and nothing outside functions' 5 count # M = 3 is a value, too
body 'return -b - 1 + g(*a, &b, (int *)a);'
accepts 'a sign' among 'return b - 1 + g(*a, &b, (int *)a);'
accepts 'a difference' among 'return -b + 1 + g(*a, &b, (int *)a);'
accepts 'a sum' among 'return -b - 1 - g(*a, &b, (int *)a);'
accepts 'one becomes none' among 'return -b - 0 + g(*a, &b, (int *)a);'
says 'pointers and addresses stay' 5 count
body 'assert(b + 1 > 0); log_warn("a < b", "x", b + 1); (void)"1 + 1"; /* b > 1 */'
says 'assertions, log lines, texts and comments stay' 1 count
body 'for (int i = 0; i < b; i++) if (!a) continue;'
accepts 'a negation' among 'for (int i = 0; i < b; i++) if (a) continue;'
accepts 'the end of a loop' among 'for (int i = 0; i < b; i++) if (!a) break;'
first=$(MUTANTS_COUNT=3 MUTANTS_SEED=5 "$tree/tools/mutants" --list src/core)
accepts 'the same seed draws the same' [ "$first" = "$(MUTANTS_COUNT=3 MUTANTS_SEED=5 "$tree/tools/mutants" --list src/core)" ]
accepts 'another draws others' [ "$first" != "$(MUTANTS_COUNT=3 MUTANTS_SEED=6 "$tree/tools/mutants" --list src/core)" ]
finish
