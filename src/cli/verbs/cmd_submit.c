/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_submit.c - muster submit, run, plan, sweep: jobs into the queue. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/client/follow.h"
#include "cli/client/guard.h"
#include "cli/client/input.h"
#include "cli/client/request.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/verbs/live.h"
#include "cli/verbs/why.h"
#include "io/file.h"
#include "wire/job/submission.h"
#include "wire/text/json_read.h"

/* What is asked for of the answer: a person, or a script that wants its number, needs little of it. */
#define SUBMIT_FIELDS "/jobs?fields=id,array,state,reason,eta,promise"
#define RUN_FIELDS "/jobs?fields=id,array,state,reason,attempt,placement"

const struct opt submit_opts[] = {
    { "file", 'f', "JOB.yaml", "a job file (muster-job(5)), or one of OpenPAI, version 2", "Mechanics" },
    { "wrap", 0, "CMD", "a shell command instead of a script", NULL },
    { "export", 0, "LIST", "variables of here: ALL, NONE, or NAME,NAME=VALUE; PATH and the like unless told", NULL },
    { "dry-run", 0, NULL, "what would happen; as muster plan", NULL },
    { "test-only", 0, NULL, NULL, NULL },
    { "parsable", 0, NULL, "print the number alone", NULL },
    { "wait", 'W', NULL, "until it is over; exit as it did", NULL },
    { "convert", 0, "FILE", "print a job file in our form, submit nothing", NULL },
    OPTS_COMMON,
    OPTS_END,
};
const struct opt run_opts[] = {
    OPTS_RUN,
    { "input", 'i', "TASKS", "who reads standard input: all (unless told), none, or the number of a task", NULL },
    OPTS_COMMON,
    OPTS_END,
};

/* "starts ~14:20 (Fragmented); muster why 4127", on standard error. */
static void forecast(json_t *job)
{
    json_t *reason = json_object_get(job, "reason"), *eta = json_object_get(job, "eta");
    usec_t at = fmt_time(eta, "at");
    char when[FMT_MAX], id[FMT_MAX];

    if (cli_json)
        return;
    if (json_is_object(json_object_get(job, "promise")))
        (void)fprintf(stderr, "deadline %s\n", fmt_promise(json_object_get(job, "promise"), when));
    if (strcmp(fmt_text(job, "state"), "PENDING") != 0 || !json_is_object(reason))
        return;
    if (at)
        (void)fprintf(stderr, "starts ~%s (%s); muster why %s\n", fmt_clock(at, fmt_now(), when),
                      fmt_text(reason, "code"), fmt_id(job, id));
    else if (strcmp(fmt_text(reason, "code"), "Scheduling") != 0)
        (void)fprintf(stderr, "waits (%s); muster why %s\n", fmt_text(reason, "code"), fmt_id(job, id));
}

static int submitted(const struct command_args *args, const struct answer *answer)
{
    int64_t id = fmt_i64(answer->json, "id"), size = fmt_i64(answer->json, "size");

    if (show_object(args, answer->json))
        return CODE_DONE;
    if (args_has(args, "parsable"))
        (void)printf("%lld\n", (long long)id);
    else if (strcmp(args->full, "sbatch") == 0) /* scripts read the fourth word */
        (void)printf("Submitted batch job %lld\n", (long long)id);
    else if (strcmp(fmt_text(answer->json, "kind"), "Array") == 0)
        (void)printf("Submitted job %lld (array of %lld)\n", (long long)id, (long long)size);
    else
        (void)printf("Submitted job %lld\n", (long long)id);
    (void)fflush(stdout);
    forecast(answer->json);
    return CODE_DONE;
}

/* The highest code of all its jobs. */
static int wait_all(struct client *client, json_t *answer, struct problem *problem)
{
    json_t *jobs = json_object_get(answer, "jobs"), *item;
    int worst = 0;
    size_t i;

    if (!jobs)
        return wait_one(client, fmt_i64(answer, "id"), NULL, &worst, problem) ? problem_print(problem) : worst;
    json_array_foreach(jobs, i, item)
    {
        int code = 0;

        if (wait_one(client, json_integer_value(item), NULL, &code, problem))
            return problem_print(problem);
        worst = code > worst ? code : worst;
    }
    return worst;
}

static int plan_post(const struct command_args *args, const char *json)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    struct problem problem;
    struct client_request request = { "POST", "/jobs:plan", "application/json", json, NULL };
    int r = client_new(args, &client, &problem);

    if (r == 0)
        r = client_send(client, &request, &answer, &problem);
    if (r)
        return problem_print(&problem);
    if (!show_object(args, answer.json))
        plan_show(answer.json);
    return json_is_false(json_object_get(answer.json, "feasible")) ? CODE_REFUSED : CODE_DONE;
}

/* An OpenPAI or any job file in our form. */
static int convert(const struct command_args *args, const char *file)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    CLEANUP_BUF struct buf out = BUF_INIT(4 << 20);
    struct submission s;
    struct error err = { 0 };
    json_t *tree = NULL;
    int r = file_read(file, SUBMISSION_BYTES_MAX, &bytes, &err);

    if (r == 0)
        r = submission_from_yaml(file_label(file), bytes.data, bytes.size, &s, &err);
    if (r == 0) {
        r = submission_to_json(&s, &out, &err);
        submission_done(&s);
    }
    if (r == 0)
        r = json_read(file, out.data, out.size, &tree, &err);
    if (r < 0)
        return cli_fail(r, &err);
    if (!show_object(args, tree))
        show_yaml(tree, 0);
    json_decref(tree);
    return CODE_DONE;
}

int cmd_submit(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    CLEANUP(mem_free) char *json = NULL;
    struct problem problem = { 0 };
    int r;

    if (args_has(args, "convert"))
        return convert(args, args_value(args, "convert"));
    r = request_make(args, REQUEST_SCRIPT, &json);
    if (r)
        return r;
    if (args_has(args, "dry-run") || args_has(args, "test-only"))
        return plan_post(args, json);
    r = client_new(args, &client, &problem);
    if (r == 0 && !args_has(args, "wait"))
        client_last(client);
    if (r == 0)
        r = request_post(client, object_wanted(args) ? "/jobs" : SUBMIT_FIELDS, json, &answer, &problem);
    if (r)
        return problem_print(&problem);
    r = submitted(args, &answer);
    return args_has(args, "wait") ? wait_all(client, answer.json, &problem) : r;
}

int cmd_plan(struct command_args *args)
{
    CLEANUP(mem_free) char *json = NULL;
    bool command = args->dashes == 0 && args->word_count;
    int r;

    if (args->word_count == 0 && !args_has(args, "file") && !args_has(args, "wrap")) {
        /* The question is about room, not about what is run. */
        static const struct opt wrap = { "wrap", 0, "CMD", NULL, NULL };

        args->given[args->given_count].opt = &wrap;
        args->given[args->given_count++].value = "true";
    }
    r = request_make(args, command ? REQUEST_COMMAND : REQUEST_SCRIPT, &json);
    return r ? r : plan_post(args, json);
}

int cmd_run(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer answer = { 0 };
    CLEANUP(mem_free) char *json = NULL;
    struct problem problem = { 0 };
    struct guard guard;
    pid_t input;
    int r;

    if (args_has(args, "pty") && args_has(args, "input"))
        return args_wrong(args, "--pty: a terminal is the input of the first task; leave out --input");
    if (args_has(args, "array") && args_has(args, "input"))
        return args_wrong(args, "--input: the elements of an array have none");
    if (args_has(args, "pty"))
        return run_pty(args);
    if (args->word_count == 0)
        return args_wrong(args, "which command? muster run [flags] -- COMMAND");
    if (step_inside())
        return run_step(args);
    r = request_make(args, REQUEST_RUN, &json);
    if (r)
        return r;
    r = client_new(args, &client, &problem);
    if (r == 0 && !args_has(args, "array") && !args_has(args, "nodes"))
        job_ahead(client);
    if (r == 0)
        r = request_post(client, RUN_FIELDS, json, &answer, &problem);
    if (r)
        return problem_print(&problem);
    if (json_object_get(answer.json, "jobs"))
        return wait_all(client, answer.json, &problem);
    if (json_array_size(json_object_get(answer.json, "placement")) > 1) {
        struct error err;
        json_t *spec = NULL;

        if (json_read("spec", json, strlen(json), &spec, &err) == 0)
            (void)json_object_set_new(answer.json, "spec", spec);
    }
    if (guard_start(args, fmt_i64(answer.json, "id"), &guard) < 0)
        (void)fprintf(stderr, "muster: the job is not cancelled when this program is killed\n");
    input = *input_mode(args) ? input_start(args, fmt_i64(answer.json, "id")) : 0;
    r = job_follow_to_end(client, answer.json, &problem);
    input_stop(input);
    guard_stop(&guard);
    return r;
}

int cmd_sweep(struct command_args *args)
{
    if (!args_has(args, "file"))
        return args_wrong(args, "which file? -f SWEEP.yaml, with array: {values: {lr: [0.1, 0.01], seed: \"0-3\"}}");
    return cmd_submit(args);
}
