/* SPDX-License-Identifier: Apache-2.0 */
/* squeue.c - squeue: jobs that are not over, in Slurm's formats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/alloc.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/slurm/slurm.h"
#include "cli/verbs/live.h"

/* Letters of -o, their headers, and names of -O. */
static const struct {
    char letter;
    const char *header, *name;
} letters[] = {
    { 'i', "JOBID", "jobarrayid" },
    { 'P', "PARTITION", "partition" },
    { 'j', "NAME", "name" },
    { 'u', "USER", "username" },
    { 't', "ST", "statecompact" },
    { 'T', "STATE", "state" },
    { 'M', "TIME", "timeused" },
    { 'l', "TIME_LIMIT", "timelimit" },
    { 'L', "TIME_LEFT", "timeleft" },
    { 'D', "NODES", "numnodes" },
    { 'R', "NODELIST(REASON)", "reasonlist" },
    { 'N', "NODELIST", "nodelist" },
    { 'C', "CPUS", "numcpus" },
    { 'b', "TRES_PER_NODE", "tres-per-node" },
    { 'V', "SUBMIT_TIME", "submittime" },
    { 'S', "START_TIME", "starttime" },
    { 'e', "END_TIME", "endtime" },
    { 'Q', "PRIORITY", "prioritylong" },
    { 'p', "PRIORITY", "priority" },
    { 'A', "JOBID", "jobid" },
    { 'F', "ARRAY_JOB_ID", "arrayjobid" },
    { 'K', "ARRAY_TASK_ID", "arraytaskid" },
    { 'r', "REASON", "reason" },
    { 'a', "ACCOUNT", "account" },
    { 'Y', "SCHEDNODES", "schednodes" },
    { 'Z', "WORK_DIR", "workdir" },
    { 'o', "COMMAND", "command" },
    { 'E', "DEPENDENCY", "dependency" },
    { 'q', "QOS", "qos" },
    { 'B', "EXEC_HOST", "batchhost" },
    { 'm', "MIN_MEMORY", "minmemory" },
    { 'c', "MIN_CPUS", "mincpus" },
    { 'f', "FEATURES", "feature" },
    { 'h', "OVER_SUBSCRIBE", "oversubscribe" },
    { 'U', "UID", "userid" },
    { 'g', "GROUP", "groupname" },
    { 'G', "GROUP", "groupid" },
    { 'k', "COMMENT", "comment" },
    { 'n', "REQ_NODES", "reqnodes" },
    { 'x', "EXC_NODES", "exc_nodes" },
    { 'v', "RESERVATION", "reservation" },
    { 'w', "WCKEY", "wckey" },
    { 'W', "LICENSES", "licenses" },
    { 'y', "NICE", "nice" },
};

static const char *squeue_header(char letter)
{
    for (size_t i = 0; letter && i < sizeof(letters) / sizeof(letters[0]); i++)
        if (letters[i].letter == letter)
            return letters[i].header;
    return NULL;
}

static const char *or_null(const char *text)
{
    return *text ? text : "(null)";
}

static const char *job_where(json_t *job, char *text, size_t size)
{
    if (!json_is_object(json_object_get(job, "reason")))
        return fmt_text(job, "nodelist");
    (void)snprintf(text, size, "(%s)", slurm_job_reason(job));
    return text;
}

/* Letters that tell when. */
static const char *time_letter(json_t *job, char letter, char *text, size_t size)
{
    switch (letter) {
    case 'M':
        return slurm_span(fmt_i64(job, "elapsed_seconds"), text, size);
    case 'l':
        return fmt_i64(job, "limit_seconds") ? slurm_span(fmt_i64(job, "limit_seconds"), text, size) : "UNLIMITED";
    case 'L':
        return slurm_job_left(job) < 0 ? "UNLIMITED" : slurm_span(slurm_job_left(job), text, size);
    case 'V':
        return slurm_stamp(job, "submit_time", "N/A", text, size);
    case 'S': /* or when it is expected to */
        return fmt_time(job, "start_time") ? slurm_stamp(job, "start_time", "N/A", text, size)
                                           : slurm_stamp(json_object_get(job, "eta"), "at", "N/A", text, size);
    case 'e':
        return slurm_stamp(job, "end_time", "N/A", text, size);
    default:
        return NULL;
    }
}

/* Letters that tell what was asked for. */
static const char *spec_letter(json_t *job, char letter, char *text, size_t size)
{
    json_t *spec = json_object_get(job, "spec");

    switch (letter) {
    case 'a':
        return fmt_text(spec, "account");
    case 'Z':
        return fmt_text(spec, "dir");
    case 'o':
    case 'w':
    case 'q':
    case 'Y': /* which nodes it will be is decided then */
        return "(null)";
    case 'E':
        return slurm_job_dependency(job, text, size);
    case 'm':
    case 'y':
        return "0";
    case 'c':
        return "1";
    case 'f':
        return or_null(fmt_text(spec, "constraint"));
    case 'h':
        return json_is_true(json_object_get(spec, "exclusive")) ? "NO" : "OK";
    case 'k':
        return or_null(fmt_text(spec, "comment"));
    case 'n':
        return or_null(fmt_text(spec, "nodelist"));
    case 'x':
        return or_null(fmt_text(spec, "exclude"));
    case 'v':
        return or_null(fmt_text(spec, "reservation"));
    case 'W':
        return or_null(fmt_text(spec, "licenses"));
    default:
        return NULL;
    }
}

static const char *squeue_letter(json_t *job, char letter, char *text, size_t size)
{
    char id[FMT_MAX];
    const char *found;

    if (!job)
        return squeue_header(letter);
    switch (letter) {
    case 'i':
        (void)snprintf(text, size, "%s", fmt_id(job, id));
        return text;
    case 'P':
        return fmt_text(job, "vc");
    case 'j':
        return fmt_text(job, "name");
    case 'u':
        return fmt_text(job, "user");
    case 't':
        return slurm_state_short(fmt_text(job, "state"));
    case 'T':
        return slurm_state(fmt_text(job, "state"));
    case 'D':
        return slurm_job_nodes(job, text, size);
    case 'R':
        return job_where(job, text, size);
    case 'N':
        return fmt_text(job, "nodelist");
    case 'C':
        return slurm_number(slurm_job_cpus(job), text, size);
    case 'b':
        return slurm_job_gres(job, text, size);
    case 'Q':
    case 'p':
        return slurm_number(fmt_i64(job, "priority"), text, size);
    case 'A':
        return slurm_number(fmt_i64(job, "id"), text, size);
    case 'F':
        return slurm_job_array(job, false, text, size);
    case 'K':
        return slurm_job_array(job, true, text, size);
    case 'r':
        return slurm_job_reason(job);
    case 'B':
        return *slurm_job_host(job) ? slurm_job_host(job) : "n/a";
    case 'U':
        return slurm_number(fmt_i64(job, "uid"), text, size);
    case 'g':
        return slurm_group(job, text, size);
    case 'G':
        return slurm_number(fmt_i64(job, "gid"), text, size);
    default:
        found = time_letter(job, letter, text, size);
        return found ? found : spec_letter(job, letter, text, size);
    }
}

/* -O "jobid,name:40": the same letters, each 20 wide unless told. */
static int long_format(const struct command_args *args, struct buf *out)
{
    char copy[1024], *save = NULL;

    (void)snprintf(copy, sizeof(copy), "%s", args_value(args, "Format"));
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        char *colon = strchr(word, ':');
        int width = colon ? atoi(colon + 1) : 20;
        size_t i = 0;

        if (colon)
            *colon = '\0';
        while (i < sizeof(letters) / sizeof(letters[0]) && strcasecmp(letters[i].name, word) != 0)
            i++;
        if (i == sizeof(letters) / sizeof(letters[0]))
            return args_wrong(args, "--Format: there is no field '%.40s' here; docs/slurm.md lists them", word);
        buf_printf(out, "%%%d%c", width > 0 && width < 1000 ? width : 20, letters[i].letter);
    }
    buf_char(out, '\0');
    return out->error ? CODE_FAILED : 0;
}

static const char *sort_by;

/* By the letters of --sort, each with + or -; numbers as numbers. Then by number of the job. */
static int jobs_order(const void *a, const void *b)
{
    json_t *const *x = a, *const *y = b;
    int sign = 1;

    for (const char *at = sort_by; *at; at++) {
        char one[1024], two[1024];
        const char *left, *right;
        int order;

        if (*at == '+' || *at == '-' || *at == ',') {
            sign = *at == '-' ? -1 : 1;
            continue;
        }
        left = squeue_letter(*x, *at, one, sizeof(one));
        right = squeue_letter(*y, *at, two, sizeof(two));
        if (!left || !right)
            continue;
        order = strspn(left, "0123456789") == strlen(left) && strspn(right, "0123456789") == strlen(right) && *left &&
                        *right
                    ? (atoll(left) > atoll(right)) - (atoll(left) < atoll(right))
                    : strcmp(left, right);
        if (order)
            return sign * order;
        sign = 1;
    }
    return (fmt_i64(*x, "id") > fmt_i64(*y, "id")) - (fmt_i64(*x, "id") < fmt_i64(*y, "id"));
}

/* The earliest first, those of whom nobody knows when at the end; then by number. */
static int starts_order(const void *a, const void *b)
{
    json_t *const *x = a, *const *y = b;
    usec_t at = fmt_time(json_object_get(*x, "eta"), "at"), other = fmt_time(json_object_get(*y, "eta"), "at");

    at = at ? at : USEC_NEVER;
    other = other ? other : USEC_NEVER;
    if (at != other)
        return at < other ? -1 : 1;
    return fmt_i64(*x, "id") < fmt_i64(*y, "id") ? -1 : 1;
}

static void jobs_sort(json_t *jobs, int (*order)(const void *, const void *))
{
    size_t count = json_array_size(jobs);
    json_t **list = mem_zalloc(count + 1, sizeof(json_t *)); /* NOLINT(bugprone-sizeof-expression): of pointers */

    for (size_t i = 0; list && i < count; i++)
        list[i] = json_incref(json_array_get(jobs, i));
    if (list)
        qsort(list, count, sizeof(json_t *), order); /* NOLINT(bugprone-sizeof-expression) */
    for (size_t i = 0; list && i < count; i++)
        (void)json_array_set_new(jobs, i, list[i]);
    mem_free(list);
}

/* What is asked of the controller. */
static void squeue_path(const struct command_args *args, struct buf *path)
{
    const char *states = args_value(args, "states");

    buf_text(path, "/jobs?limit=10000");
    slurm_query(path, args, "user", "user");
    slurm_query(path, args, "name", "name");
    slurm_query(path, args, "partition", "vc");
    slurm_query(path, args, "nodelist", "node");
    if (args_has(args, "start"))
        buf_text(path, "&state=PENDING");
    else if (states && strcasecmp(states, "all") == 0)
        buf_text(path, "&all=1");
    else
        slurm_query(path, args, "states", "state");
    if (args_has(args, "start") || (args_value(args, "format") && strchr(args_value(args, "format"), 'S')) ||
        (args_value(args, "Format") && strcasestr(args_value(args, "Format"), "starttime")))
        buf_text(path, "&eta=1");
    buf_text(path, "&fields=eta," SLURM_JOB_FIELDS);
}

static const char *squeue_format(const struct command_args *args)
{
    if (args_value(args, "format"))
        return args_value(args, "format");
    if (args_has(args, "only-job-state"))
        return "%.18i %T";
    if (args_has(args, "start"))
        return "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";
    return args_has(args, "long") ? "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
                                  : "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
}

/* -l tells when it was looked at, as Slurm does. */
static void date_show(void)
{
    time_t now = (time_t)(fmt_now() / USEC_SEC);
    struct tm tm;
    char text[64];

    if (localtime_r(&now, &tm) && strftime(text, sizeof(text), "%a %b %d %H:%M:%S %Y", &tm))
        (void)puts(text);
}

/* Slurm's tools ask for one job until it is gone: of an id that nobody knows they expect an error. */
static int none_known(const struct command_args *args, json_t *shown)
{
    const char *list = args_value(args, "jobs");
    struct problem problem;

    if (!list || json_array_size(shown) || strchr(list, ',') || args_has(args, "states"))
        return 0;
    (void)problem_set(&problem, CODE_FAILED, "", "slurm_load_jobs error: Invalid job id specified: %.40s", list);
    problem_hint(&problem, "sacct -j %.40s shows it when it is over", list);
    return problem_print(&problem);
}

static int jobs_show(const struct command_args *args, json_t *shown)
{
    CLEANUP_BUF struct buf format = BUF_INIT(4096);
    int r = args_value(args, "Format") ? long_format(args, &format) : 0;

    if (r)
        return r;
    if (args_has(args, "json"))
        return slurm_json_jobs(shown);
    if (args_has(args, "long") && !args_has(args, "noheader"))
        date_show();
    if (args_has(args, "start"))
        jobs_sort(shown, starts_order);
    sort_by = args_value(args, "sort");
    if (sort_by)
        jobs_sort(shown, jobs_order);
    return slurm_lines(args, format.size ? format.data : squeue_format(args), squeue_letter, shown);
}

int slurm_squeue(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer who = { 0 };
    CLEANUP_BUF struct buf path = BUF_INIT(8192);
    struct problem problem;
    json_t *items = NULL, *shown = json_array(), *job;
    size_t i;
    int r = live_client(args, &client);

    squeue_path(args, &path);
    if (r == 0 && args_has(args, "me")) {
        r = client_call(client, "GET", "/whoami", NULL, &who, &problem) ? problem_print(&problem) : 0;
        buf_printf(&path, "&user=%s", fmt_text(who.json, "user"));
    }
    buf_char(&path, '\0');
    if (r == 0 && (path.error || client_list(client, path.data, &items, &problem)))
        r = path.error ? CODE_FAILED : problem_print(&problem);
    json_array_foreach(items, i, job)
    {
        const char *account = fmt_text(json_object_get(job, "spec"), "account");

        if (slurm_job_wanted(args_value(args, "jobs"), job) &&
            (!args_value(args, "account") || strcmp(args_value(args, "account"), account) == 0))
            (void)json_array_append(shown, job);
    }
    if (r == 0)
        r = none_known(args, shown);
    if (r == 0)
        r = jobs_show(args, shown);
    json_decref(items);
    json_decref(shown);
    return r;
}
