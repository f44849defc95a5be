#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/tap.sh"

# library LAYER [OBJECT]: an archive of one object from the C text on standard input, or that object into the archive.
library() {
    mkdir -p "$scratch/b/src/$1"
    cat >"$scratch/$1.c"
    [ $# -gt 1 ] || rm -f "$scratch/b/src/$1/lib$1.a"
    "${CC:-cc}" -O1 -fno-builtin -c "$scratch/$1.c" -o "$scratch/b/src/$1/${2:-$1}.o"
    ar rcs "$scratch/b/src/$1/lib$1.a" "$scratch/b/src/$1/${2:-$1}.o"
}
purity() { "$root/tools/purity" "$scratch/b"; }
good_core() {
    library core <<'END'
#include <string.h>
int names_find(const char *text);
int core_step(char *to, const char *from) { memcpy(to, from, 8); return names_find(to); }
END
}

library base <<'END'
int names_find(const char *text) { return text[0]; }
END
library model <<'END'
int model_x;
END
library cell <<'END'
int cell_x;
END
library coord <<'END'
int coord_x;
END
library solve <<'END'
double exp(double); double fit(double x) { return exp(x); }
END
good_policy() {
    library policy <<'END'
int core_step(char *, const char *); double fit(double);
int rank(char *a) { return core_step(a, a) + (int)fit(1); }
END
}
good_policy
library wire <<'END'
int word_find(const char *text) { return text[0]; }
END
library work <<'END'
int work_run(void) { return 0; }
END
library ctl state_node <<'END'
int word_find(const char *); int work_run(void); int snprintf(char *, unsigned long, const char *, ...);
int node_apply(char *a) { return word_find(a) + work_run() + snprintf(a, 2, "x"); }
END
library ctl log_batcher <<'END'
int node_apply(char *); int open(const char *, int);
int batch_write(char *a) { return node_apply(a) + open(a, 0); }
END
good_core
accepts 'memcpy, libm in solve, our own symbols' purity

for call in 'malloc(8)' 'time(0)' 'rand()' 'getenv("HOME")' 'printf("x")' 'clock_gettime(0, &ts)' 'qsort(0, 0, 0, 0)' \
    'pthread_exit(0)' 'open("f", 0)'; do
    library core <<END
#include <stdlib.h>
#include <stdio.h>
#include <time.h>
#include <fcntl.h>
#include <pthread.h>
struct timespec ts;
void core_step(void) { (void)$call; }
END
    refuses "core calling $call" "core: core.o wants ${call%%(*}" purity
done
library core <<'END'
double log(double); int core_step(int a) { return (int)log(a); }
END
refuses 'libm in the core' 'core: core.o wants log' purity
good_core
library policy <<'END'
void *malloc(unsigned long); void *rank(void) { return malloc(1); }
END
refuses 'malloc in a policy' 'policy: policy.o wants malloc' purity
good_policy
for call in 'time(0)' 'open("f", 0)' 'rand()' 'malloc(8)' 'batch_write("x")'; do
    library ctl state_job <<END
#include <stdlib.h>
#include <time.h>
#include <fcntl.h>
int batch_write(const char *text);
void job_apply(void) { (void)$call; }
END
    refuses "the state calling $call" "ctl: state_job.o wants ${call%%(*}" purity
done
rm "$scratch/b/src/solve/libsolve.a"
refuses 'a library that is missing' 'libsolve.a is not there' purity
finish
