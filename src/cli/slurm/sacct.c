/* SPDX-License-Identifier: Apache-2.0 */
/* sacct.c - sacct: jobs that are over and jobs that are not, with Slurm's fields. Jobs have no steps here, so fields of
 * steps (MaxRSS and the like) are empty, as Slurm prints them for the job itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/slurm/slurm.h"
#include "cli/verbs/live.h"

enum { FIELDS_TEXT_MAX = 2048, VALUE_MAX = 1024 };

#define FIELDS_STANDARD "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
#define FIELDS_BRIEF "JobID,State,ExitCode"

static const char *exit_text(json_t *job, char *text, size_t size)
{
    int64_t by = fmt_i64(job, "signal"); /* with one there is no code: 128 more is what shells make of it */

    (void)snprintf(text, size, "%lld:%lld", (long long)(by ? 0 : fmt_i64(job, "exit_code")), (long long)by);
    return text;
}

static int64_t elapsed(json_t *job)
{
    int64_t start = fmt_time(job, "start_time"), end = fmt_time(job, "end_time");

    return !start ? 0 : end > start ? (end - start) / USEC_SEC : end ? 0 : fmt_i64(job, "elapsed_seconds");
}

static const char *limit_raw(json_t *job, char *text, size_t size)
{
    return fmt_i64(job, "limit_seconds") ? slurm_number(fmt_i64(job, "limit_seconds") / 60, text, size) : "UNLIMITED";
}

static const char *limit_text(json_t *job, char *text, size_t size)
{
    return fmt_i64(job, "limit_seconds") ? slurm_span_long(fmt_i64(job, "limit_seconds"), text, size) : "UNLIMITED";
}

static const char *id_text(json_t *job, char *text, size_t size)
{
    char id[FMT_MAX];

    (void)snprintf(text, size, "%s", fmt_id(job, id));
    return text;
}

static const char *id_raw(json_t *job, char *text, size_t size)
{
    return slurm_number(fmt_i64(job, "id"), text, size);
}

static const char *cpus_text(json_t *job, char *text, size_t size)
{
    return slurm_number(slurm_job_cpus(job), text, size);
}

static const char *submit_text(json_t *job, char *text, size_t size)
{
    return slurm_stamp(job, "submit_time", "Unknown", text, size);
}

static const char *eligible_text(json_t *job, char *text, size_t size)
{
    return slurm_stamp(job, "eligible_time", "Unknown", text, size);
}

static const char *start_text(json_t *job, char *text, size_t size)
{
    return slurm_stamp(job, "start_time", fmt_time(job, "end_time") ? "None" : "Unknown", text, size);
}

static const char *end_text(json_t *job, char *text, size_t size)
{
    return slurm_stamp(job, "end_time", "Unknown", text, size);
}

static const char *elapsed_text(json_t *job, char *text, size_t size)
{
    return slurm_span_long(elapsed(job), text, size);
}

static const char *elapsed_raw(json_t *job, char *text, size_t size)
{
    return slurm_number(elapsed(job), text, size);
}

static const char *state_text(json_t *job, char *text, size_t size)
{
    (void)text;
    (void)size;
    return slurm_state(fmt_text(job, "state"));
}

static const char *nodes_text(json_t *job, char *text, size_t size)
{
    (void)text;
    (void)size;
    return *fmt_text(job, "nodelist") ? fmt_text(job, "nodelist") : "None assigned";
}

static const char *account_text(json_t *job, char *text, size_t size)
{
    (void)text;
    (void)size;
    return fmt_text(json_object_get(job, "spec"), "account");
}

static const char *comment_text(json_t *job, char *text, size_t size)
{
    (void)text;
    (void)size;
    return fmt_text(json_object_get(job, "spec"), "comment");
}

static const char *dir_text(json_t *job, char *text, size_t size)
{
    (void)text;
    (void)size;
    return fmt_text(json_object_get(job, "spec"), "dir");
}

static const char *name_text(json_t *job, char *text, size_t size)
{
    (void)text;
    (void)size;
    return fmt_text(job, "name");
}

static const char *vc_text(json_t *job, char *text, size_t size)
{
    (void)text;
    (void)size;
    return fmt_text(job, "vc");
}

static const char *user_text(json_t *job, char *text, size_t size)
{
    (void)text;
    (void)size;
    return fmt_text(job, "user");
}

static const char *uid_text(json_t *job, char *text, size_t size)
{
    return slurm_number(fmt_i64(job, "uid"), text, size);
}

static const char *gid_text(json_t *job, char *text, size_t size)
{
    return slurm_number(fmt_i64(job, "gid"), text, size);
}

static const char *priority_text(json_t *job, char *text, size_t size)
{
    return slurm_number(fmt_i64(job, "priority"), text, size);
}

static const char *reason_text(json_t *job, char *text, size_t size)
{
    (void)text;
    (void)size;
    return slurm_job_reason(job);
}

static const char *restarts_text(json_t *job, char *text, size_t size)
{
    return slurm_number(fmt_i64(job, "attempt"), text, size);
}

static const char *cpu_time(json_t *job, char *text, size_t size)
{
    return slurm_span_long(elapsed(job) * slurm_job_cpus(job), text, size);
}

static const char *cpu_time_raw(json_t *job, char *text, size_t size)
{
    return slurm_number(elapsed(job) * slurm_job_cpus(job), text, size);
}

/* A field of the steps that Slurm has and we have not. */
static const char *empty_text(json_t *job, char *text, size_t size)
{
    (void)job;
    (void)text;
    (void)size;
    return "";
}

static const struct sacct_field {
    const char *name;
    const char *(*text)(json_t *job, char *text, size_t size);
} fields[] = {
    { "JobID", id_text },
    { "JobIDRaw", id_raw },
    { "JobName", name_text },
    { "Partition", vc_text },
    { "Account", account_text },
    { "User", user_text },
    { "UID", uid_text },
    { "GID", gid_text },
    { "Group", slurm_group },
    { "State", state_text },
    { "ExitCode", exit_text },
    { "DerivedExitCode", exit_text },
    { "AllocCPUS", cpus_text },
    { "NCPUS", cpus_text },
    { "ReqCPUS", cpus_text },
    { "AllocNodes", slurm_job_nodes },
    { "NNodes", slurm_job_nodes },
    { "ReqNodes", slurm_job_nodes },
    { "NodeList", nodes_text },
    { "Submit", submit_text },
    { "Eligible", eligible_text },
    { "Start", start_text },
    { "End", end_text },
    { "Elapsed", elapsed_text },
    { "ElapsedRaw", elapsed_raw },
    { "Timelimit", limit_text },
    { "TimelimitRaw", limit_raw },
    { "CPUTime", cpu_time },
    { "CPUTimeRAW", cpu_time_raw },
    { "AllocTRES", slurm_job_tres },
    { "ReqTRES", slurm_job_tres },
    { "Priority", priority_text },
    { "Comment", comment_text },
    { "WorkDir", dir_text },
    { "Reason", reason_text },
    { "Restarts", restarts_text },
    { "MaxRSS", empty_text },
    { "AveRSS", empty_text },
    { "MaxVMSize", empty_text },
    { "AveVMSize", empty_text },
    { "AveCPU", empty_text },
    { "TotalCPU", empty_text },
    { "UserCPU", empty_text },
    { "SystemCPU", empty_text },
    { "NTasks", empty_text },
    { "MaxDiskRead", empty_text },
    { "MaxDiskWrite", empty_text },
    { "ReqMem", empty_text },
    { "QOS", empty_text },
    { "Cluster", empty_text },
    { "WCKey", empty_text },
    { "AdminComment", empty_text },
    { "SystemComment", empty_text },
};

static const struct sacct_field *field_find(const char *name)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (strcasecmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

static const char *format_of(const struct command_args *args)
{
    const char *format = args_value(args, "format");

    return format ? format : args_has(args, "brief") ? FIELDS_BRIEF : FIELDS_STANDARD;
}

/* Whether all fields are there: before anything is printed. */
static int format_check(const struct command_args *args)
{
    char copy[FIELDS_TEXT_MAX], *save = NULL;

    (void)snprintf(copy, sizeof(copy), "%s", format_of(args));
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        word[strcspn(word, "%")] = '\0';
        if (!field_find(word))
            return args_wrong(args, "--format: there is no field '%.40s' here; docs/slurm.md lists them", word);
    }
    return 0;
}

/* One line of fields; job NULL: their names, or the dashes below them. */
static void line_print(const struct command_args *args, json_t *job, bool dashes)
{
    bool bars = args_has(args, "parsable2") || args_has(args, "parsable");
    const char *bar = args_value(args, "delimiter") ? args_value(args, "delimiter") : "|";
    char copy[FIELDS_TEXT_MAX], *save = NULL;
    bool first = true;

    (void)snprintf(copy, sizeof(copy), "%s", format_of(args));
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        char text[VALUE_MAX], *width = strchr(word, '%');
        const struct sacct_field *field;
        CLEANUP(mem_free) char *found = NULL;
        int wide = width ? atoi(width + 1) : 12;

        if (width)
            *width = '\0';
        field = field_find(word);
        found = text_harmless(dashes ? "--------------------------------"
                              : job  ? field->text(job, text, sizeof(text))
                                     : field->name);
        if (bars)
            (void)printf("%s%s", first ? "" : bar, found ? found : "");
        else
            (void)printf("%*.*s ", wide, abs(wide), found ? found : "");
        first = false;
    }
    (void)puts(args_has(args, "parsable") ? bar : "");
}

/* Whether --state names a state of jobs that are not over, or nothing is said. */
static bool live_wanted(const char *states)
{
    static const char *const words[] = { "PENDING",    "PD", "RUNNING",     "R",  "SUSPENDED", "S",
                                         "COMPLETING", "CG", "CONFIGURING", "CF", "REQUEUED",  "RQ" };
    char copy[256], *save = NULL;

    (void)snprintf(copy, sizeof(copy), "%s", states ? states : "RUNNING");
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save))
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
            if (strcasecmp(words[i], word) == 0)
                return true;
    return false;
}

static void filters_add(struct buf *path, const struct command_args *args, const char *me)
{
    slurm_query(path, args, "user", "user");
    slurm_query(path, args, "name", "name");
    slurm_query(path, args, "partition", "vc");
    slurm_query(path, args, "state", "state");
    if (*me)
        buf_printf(path, "&user=%s", me);
}

/* Slurm's own default is today; here all that is remembered, unless -S says from when. */
static int jobs_read(const struct command_args *args, struct client *client, const char *me, json_t *shown)
{
    CLEANUP_BUF struct buf past = BUF_INIT(8192), live = BUF_INIT(8192);
    json_t *items = NULL, *job;
    struct problem problem;
    size_t i;

    buf_text(&past, "/history?limit=1000");
    filters_add(&past, args, me);
    slurm_query(&past, args, "starttime", "since");
    slurm_query(&past, args, "endtime", "until");
    buf_char(&past, '\0');
    buf_text(&live, "/jobs?limit=10000&fields=" SLURM_JOB_FIELDS);
    filters_add(&live, args, me);
    buf_char(&live, '\0');
    if (client_list(client, past.data, &items, &problem))
        return problem_print(&problem);
    for (i = json_array_size(items); i-- > 0;) /* oldest first, as Slurm has them */
        (void)json_array_append(shown, json_array_get(items, i));
    json_decref(items);
    items = NULL;
    if (!live_wanted(args_value(args, "state")))
        return 0;
    if (client_list(client, live.data, &items, &problem))
        return problem_print(&problem);
    json_array_foreach(items, i, job)(void) json_array_append(shown, job);
    json_decref(items);
    return 0;
}

static bool account_wanted(const struct command_args *args, json_t *job)
{
    const char *account = args_value(args, "accounts"), *node = args_value(args, "nodelist");

    if (account && strcmp(account, fmt_text(json_object_get(job, "spec"), "account")) != 0)
        return false;
    return !node || strstr(fmt_text(job, "nodelist"), node);
}

/* --helpformat needs no controller. */
static int field_names_print(void)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        (void)puts(fields[i].name);
    return CODE_DONE;
}

static int jobs_print(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer who = { 0 };
    struct problem problem;
    json_t *items = json_array(), *shown = json_array(), *job;
    bool bars = args_has(args, "parsable2") || args_has(args, "parsable");
    size_t i;
    int r = live_client(args, &client);

    if (r == 0 && !args_has(args, "user") && !args_has(args, "allusers") && !args_has(args, "jobs"))
        r = client_call(client, "GET", "/whoami", NULL, &who, &problem) ? problem_print(&problem) : 0;
    if (r == 0)
        r = jobs_read(args, client, fmt_text(who.json, "user"), items);
    json_array_foreach(items, i, job) if (slurm_job_wanted(args_value(args, "jobs"), job) &&
                                          account_wanted(args, job))(void) json_array_append(shown, job);
    if (r == 0 && args_has(args, "json")) {
        r = slurm_json_jobs(shown);
    } else if (r == 0) {
        if (!args_has(args, "noheader"))
            line_print(args, NULL, false);
        if (!args_has(args, "noheader") && !bars)
            line_print(args, NULL, true);
        json_array_foreach(shown, i, job) line_print(args, job, false);
    }
    json_decref(items);
    json_decref(shown);
    return r;
}

int slurm_sacct(struct command_args *args)
{
    int r = format_check(args);

    if (r)
        return r;
    return args_has(args, "helpformat") ? field_names_print() : jobs_print(args);
}
