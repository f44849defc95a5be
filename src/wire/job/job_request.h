/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* job_request.h - a submission put together from a file or script and from flags.
 *
 * Flags, `#MUSTER` and `#SBATCH` lines of a script and the keys of a file all end in one tree with the keys of
 * muster-job(5); what comes later wins. Where each value came from is remembered, so that an error names the flag, or
 * the file, line and flag.
 */
#include <jansson.h>
#include <string.h>

#include "wire/job/submission.h"

/* One flag that asks for something; `muster submit --help` and muster-submit(1) list them. */
struct job_flag {
    const char *name;     /* "time" of --time */
    int letter;           /* 't', or a number above 255 for flags without one */
    const char *value;    /* what it takes: "TIME"; NULL = nothing */
    const char *help;     /* one line */
    const char *group;    /* heading in --help */
    const char *key;      /* dotted key it sets; NULL: `take` does all */
    const char *refused;  /* why it cannot be had; NULL: it can */
    int kind;             /* how the value is put there; job_flags.c */
    const char *alias_of; /* another name of that flag */
};

/* Whether the flag may stand without its value, as in --nice or --nice=5: then the next word is not its value. */
static inline bool job_flag_optional(const char *value)
{
    return value && value[0] == '[' && value[strlen(value) - 1] == ']';
}

struct job_request {
    json_t *tree;     /* keys of muster-job(5) */
    json_t *origin;   /* dotted key -> who said it */
    json_t *notes;    /* texts for people: flags that were taken and have no effect */
    json_t *slurm;    /* values of flags that only Slurm has, until job_request_finish() */
    bool abbreviates; /* the line that is read is Slurm's: unique beginnings of long flags are taken */
    bool singleton;   /* to start after all jobs of this name and user: whoever submits it knows which these are */
    usec_t now;       /* for times such as now+1h and 18:30 */
    usec_t (*zone)(
        usec_t now); /* what local clocks are ahead of UTC; asked when a time needs it: a file is read for it */
};

int job_request_init(struct job_request *request, usec_t now, usec_t (*zone)(usec_t now), struct error *err);
void job_request_done(struct job_request *request);

const struct job_flag *job_flags(size_t *ret_count);
const struct job_flag *job_flag_find(const char *name, size_t length);  /* whole long name; NULL */
const struct job_flag *job_flag_begun(const char *name, size_t length); /* the one whose name begins so; NULL */
const struct job_flag *job_flag_letter(int letter);

/* Sets what the flag asks for. `where` goes before errors ("train.sh:3: " or ""). */
int job_request_flag(struct job_request *request, const struct job_flag *flag, const char *value, const char *where,
                     struct error *err);
/* A line for whoever submits the job. */
int job_request_note(struct job_request *request, struct error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A key unless somebody said it before. */
int job_request_default(struct job_request *request, const char *key, const char *value, struct error *err);

/* A job file, ours or OpenPAI's: what it says is said first, so read it before flags. */
int job_request_file(struct job_request *request, const char *file, const char *text, size_t size, struct error *err);

/* A script: its #MUSTER and #SBATCH lines before the first command, and the text as what is to be run. */
int job_request_script(struct job_request *request, const char *file, const char *text, size_t size, struct error *err);

/* Splits a line into words as a shell would: quotes and backslashes, nothing else. -EINVAL, -E2BIG. The words share
 * `line`, which is changed. Returns how many. */
int job_words(char *line, char **words, size_t max);

/* What all of it asks for. */
int job_request_finish(struct job_request *request, struct submission *ret, struct error *err);
