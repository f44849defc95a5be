/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* child.h - another program, run aside: within limits, its output kept, its end told.
 *
 * For work that is too large for the loop and must not harm it. What it prints is kept up to a bound; a child that
 * prints more, or takes longer than it may, is killed with all it has started. The limits are set right after it was
 * started.
 */
#include <stddef.h>

#include "io/loop.h"

struct child;

enum { CHILD_IN_MAX = 4096 };

struct child_limits {
    size_t memory; /* bytes of address space; 0 = not limited. Not in force where a sanitizer needs the space */
    unsigned cpu;  /* seconds; 0 = not limited */
    usec_t wall;   /* 0 = not limited */
    int nice;      /* added to ours */
    size_t out_max;
};

struct child_end {
    int code;        /* exit status, where it exited */
    int signal;      /* that ended it, or 0 */
    const char *why; /* we ended it: "took too long", "printed too much"; NULL */
    const char *out; /* all it printed, '\0' behind it */
    size_t out_size;
    const char *err; /* the beginning of what it said to standard error, '\0' behind it */
};

/* On the loop, once; the child is gone after it returns. */
typedef void (*child_done_fn)(void *arg, const struct child_end *end);

struct child_spec {
    const char *const *argv; /* argv[0] is the file */
    const char *folder;      /* where it runs; NULL = here */
    const char *in;          /* what it reads from standard input, at most CHILD_IN_MAX bytes; NULL: nothing */
    size_t in_size;
    struct child_limits limits;
    child_done_fn done;
    void *arg;
};

int child_start(struct loop *loop, const struct child_spec *spec, struct child **ret_child, struct error *err);

/* Ends it at once; done() is still called, later. */
void child_kill(struct child *child);

/* The same without a word: for the end of the loop. */
void child_abandon(struct child *child);
