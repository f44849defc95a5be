#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/tap.sh"

mkdir -p "$scratch/b/src/agent"
# library NAME: an archive of one object, task_one.c.o, from the C text on standard input.
library() {
    cat >"$scratch/one.c"
    rm -f "$scratch/b/src/agent/lib$1.a"
    "${CC:-cc}" -O2 -U_FORTIFY_SOURCE -c "$scratch/one.c" -o "$scratch/task_one.c.o"
    ar rcs "$scratch/b/src/agent/lib$1.a" "$scratch/task_one.c.o"
}
beneath() { "$root/tools/beneath" "$scratch/b" "$scratch/table"; }

library shepherd <<'END'
int beneath_unlink(int dir, const char *name);
int fstat(int fd, void *st);
int end(int fd, void *st) { return fstat(fd, st) + beneath_unlink(fd, "x"); }
END
library agent <<'END'
int agent_x;
END
echo 'pairs: 0' >"$scratch/table"
accepts 'helpers, and calls that take descriptors' beneath
for call in open openat unlink unlinkat rename mkdir chmod fchmodat chown mount symlink stat lstat access opendir rmdir __open_2 __openat64_2 \
    fopen64 __realpath_chk syscall; do
    library shepherd <<END
int $call(const char *); int end(const char *path) { return $call(path); }
END
    refuses "an object that calls $call" "task_one.c calls" beneath
done
library shepherd <<'END'
int unlink(const char *); int end(const char *path) { return unlink(path); }
END
printf 'pairs: 1\ntask_one.c: unlink - /proc only\n' >"$scratch/table"
accepts 'a call with a reason' beneath
printf 'pairs: 1\ntask_one.c: unlink\n' >"$scratch/table"
refuses 'a call without one' 'no reason' beneath
printf 'pairs: 1\ntask_one.c: unlink mkdir - /proc only\n' >"$scratch/table"
refuses 'more pairs than the first line says' '2 pairs, and no more than 1' beneath
printf 'pairs: 2\ntask_one.c: unlink mkdir - /proc only\n' >"$scratch/table"
refuses 'a pair that is not needed' 'not needed any more: task_one.c mkdir' beneath
printf 'pairs: 2\ntask_one.c: unlink - /proc only\n' >"$scratch/table"
refuses 'a first line that leaves room' 'still says 2' beneath
rm "$scratch/b/src/agent/libagent.a"
refuses 'a library that is missing' 'libagent.a is not there' beneath
finish
