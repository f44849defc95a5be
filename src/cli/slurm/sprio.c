/* SPDX-License-Identifier: Apache-2.0 */
/* sprio.c - sprio, sshare and sstat: what this scheduler has of what Slurm tells there. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/slurm/slurm.h"
#include "cli/verbs/live.h"

/* The priority of a waiting job is the one it was submitted with: there are no other factors. */
static const char *sprio_letter(json_t *job, char letter, char *text, size_t size)
{
    char id[FMT_MAX];

    switch (letter) {
    case 'i':
        if (!job)
            return "JOBID";
        (void)snprintf(text, size, "%s", fmt_id(job, id));
        return text;
    case 'r':
        return job ? fmt_text(job, "vc") : "PARTITION";
    case 'u':
        return job ? fmt_text(job, "user") : "USER";
    case 'Y':
        return job ? slurm_number(fmt_i64(job, "priority"), text, size) : "PRIORITY";
    case 'S':
        return job ? "0" : "SITE";
    default:
        return NULL;
    }
}

int slurm_sprio(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    json_t *items = NULL, *shown = json_array(), *job;
    struct problem problem;
    const char *format = args_value(args, "format");
    size_t i;
    int r = live_client(args, &client);

    if (r == 0 && client_list(client, "/jobs?limit=10000&state=PENDING", &items, &problem))
        r = problem_print(&problem);
    json_array_foreach(items, i, job) if (slurm_job_wanted(args_value(args, "jobs"), job) &&
                                          (!args_value(args, "user") ||
                                           strcmp(args_value(args, "user"), fmt_text(job, "user")) == 0))(void)
        json_array_append(shown, job);
    if (r == 0)
        r = slurm_lines(args,
                        format                   ? format
                        : args_has(args, "long") ? "%.15i %9r %.8u %.10Y %.10S"
                                                 : "%.15i %9r %.10Y %.10S",
                        sprio_letter, shown);
    json_decref(items);
    json_decref(shown);
    return r;
}

/* GPUs of all types. */
static int64_t guarantee(json_t *vc)
{
    json_t *quota = json_object_get(vc, "guarantee"), *value;
    int64_t sum = 0;
    const char *sku;

    json_object_foreach(quota, sku, value) sum += json_integer_value(value);
    return sum;
}

/* A virtual cluster is an account: its guarantee, and its share of the GPU time of the last week. There is no raw usage
 * and no fair share; their columns are empty. */
int slurm_sshare(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    json_t *vcs = NULL, *vc;
    struct problem problem;
    bool bars = args_has(args, "parsable2") || args_has(args, "parsable");
    int64_t total = 0;
    size_t i;
    int r = live_client(args, &client);

    if (r == 0 && client_list(client, "/vcs", &vcs, &problem))
        r = problem_print(&problem);
    if (r == 0 && !args_has(args, "noheader"))
        (void)printf(
            "%s",
            bars ? "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare\n"
                 : "Account                    User  RawShares  NormShares    RawUsage  EffectvUsage  FairShare\n"
                   "-------------------- ---------- ---------- ----------- ----------- ------------- ----------\n");
    json_array_foreach(vcs, i, vc) total += guarantee(vc);
    json_array_foreach(vcs, i, vc)(void)
        printf(bars ? "%s|%s|%lld|%.6f|%s|%.6f|%s\n" : "%-20s %10s %10lld %11.6f %11s %13.6f %10s\n",
               fmt_text(vc, "name"), "", (long long)guarantee(vc), total ? (double)guarantee(vc) / (double)total : 0.0,
               "", json_number_value(json_object_get(vc, "share_7d")), "");
    json_decref(vcs);
    return r;
}

/* Jobs have no steps here: the headers, so that who parses them finds none. */
int slurm_sstat(struct command_args *args)
{
    if (!args_has(args, "noheader"))
        (void)puts(args_value(args, "format") ? args_value(args, "format") : "JobID,MaxRSS,AveRSS,AveCPU,NTasks");
    (void)fprintf(stderr, "sstat: jobs have no steps here; 'muster show JOB' tells what a job uses\n");
    return CODE_DONE;
}
