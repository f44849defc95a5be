#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/tap.sh"

tree=$scratch/tree
mkdir -p "$tree/src/core" "$tree/src/policy" "$tree/tests/golden" "$tree/docs/policies"
tidy() { "$root/tools/tidy" "$tree"; }
lines() { awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) print "    work();" }'; }
head='/* SPDX-License-Identifier: Apache-2.0 */'
bad=$tree/src/core/bad.c

{
    echo "$head"
    echo 'static const char *url = "http://host"; /* a // in a string or comment is fine */'
    echo 'int six(int a, int (*b)(int, int), int c, int d, int e,'
    echo '        int f)'
    echo '{'
    lines 70
    echo '}'
} >"$tree/src/core/good.c"
accepts 'a file at the limits' tidy

{ echo "$head"; echo 'void f(void)'; echo '{'; lines 71; echo '}'; } >"$bad"
refuses 'a function of 71 lines' 'bad.c:3: function of 71 lines' tidy
{ echo "$head"; echo 'void f(int a, int b, int c, int d,'; echo '       int e, int f, int g)'; echo '{'; echo '}'; } >"$bad"
refuses '7 parameters over two lines' '7 parameters' tidy
{ echo "$head"; echo 'int a; // note'; } >"$bad"
refuses 'a // comment' 'bad.c:2: // comment' tidy
echo 'int a;' >"$bad"
refuses 'no SPDX line' 'bad.c:1: first line is not the SPDX line' tidy
printf '%s\nint\ta;\n' "$head" >"$bad"
refuses 'a tab' 'bad.c:2: tab' tidy
printf '%s\nint a; \n' "$head" >"$bad"
refuses 'white space at the end' 'bad.c:2: white space' tidy
{ echo "$head"; echo 'void f(void)'; echo '{'; echo '                    if (a)'; echo '}'; } >"$bad"
refuses 'control flow nested 5 deep' 'bad.c:4: nested' tidy
{ echo "$head"; lines 1000; } >"$bad"
refuses 'a file of 1001 lines' 'file of 1001 lines' tidy
{ echo "$head"; lines 650; } >"$bad"
accepts 'a file of 651 lines is only a warning' tidy
rm "$bad"
{ echo "$head"; lines 200; } >"$tree/src/core/bad.h"
refuses 'a header of 201 lines' 'header of 201 lines' tidy
rm "$tree/src/core/bad.h"
mkdir -p "$tree/src/wide/room"
for i in $(seq 40); do echo "$head" >"$tree/src/wide/file$i.c"; done
echo "$head" >"$tree/src/wide/room/file.c"
accepts 'a folder of 40 files, and one more in a room' tidy
echo 'sources = []' >"$tree/src/wide/more.txt"
refuses 'a folder of 41 files, whatever they are' 'src/wide: 41 files in one folder' tidy
rm -r "$tree/src/wide"
printf '#!/bin/sh\necho\ntrue\n' >"$tree/x.sh"
refuses 'a script without SPDX line' 'x.sh:3: no SPDX line' tidy
rm "$tree/x.sh"

printf '%s\n#define POLICIES(X) \\\n    X("fifo", list, fifo) \\\n    X("backfill-easy", list, fifo)\n' "$head" \
    >"$tree/src/policy/list.h"
echo '# fifo' >"$tree/docs/policies/fifo.md"
echo 'cluster 1x1' >"$tree/tests/golden/order_fifo.txt"
refuses 'a policy without page' "'backfill-easy' has no page" tidy
echo '# EASY' >"$tree/docs/policies/backfill-easy.md"
refuses 'a policy without story' "'backfill-easy' has no story" tidy
echo 'cluster 1x1' >"$tree/tests/golden/backfill_easy_window.txt"
accepts 'policies with both' tidy
rm "$tree/tests/golden/order_fifo.txt"
echo 'cluster 1x1' >"$tree/tests/golden/fifo-skip.txt"
refuses 'the story of another policy does not count' "'fifo' has no story" tidy
finish
