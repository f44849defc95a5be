/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - see request.h. */
#include "cli/client/request.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/client/input.h"
#include "cli/fmt.h"
#include "io/file.h"
#include "wire/job/job_request.h"

enum { OPTS_MAX = 160, TRIES = 6 };

extern char **environ;

const struct opt *request_opts(void)
{
    static struct opt opts[OPTS_MAX];
    const struct job_flag *flags;
    const char *group = NULL;
    size_t count;

    if (opts[0].name)
        return opts;
    flags = job_flags(&count);
    for (size_t i = 0; i < count && i < OPTS_MAX - 1; i++) {
        bool starts = flags[i].group && flags[i].group != group;

        opts[i] = (struct opt){ flags[i].name, flags[i].letter < 256 ? flags[i].letter : 0, flags[i].value,
                                flags[i].help, starts ? flags[i].group : NULL };
        group = flags[i].group ? flags[i].group : group;
    }
    return opts;
}

/* What makes a command found and work as it does here. */
static bool exported_by_default(const char *name, size_t length)
{
    static const char *const names[] = { "PATH",        "LD_LIBRARY_PATH", "PYTHONPATH",
                                         "VIRTUAL_ENV", "CONDA_PREFIX",    "CONDA_DEFAULT_ENV",
                                         "LANG",        "MUSTER_URL",      "MUSTER_CONTEXT" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
            return true;
    return false;
}

static bool is_plain_name(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789", name[i]))
            return false;
    return length > 0 && !(name[0] >= '0' && name[0] <= '9');
}

static void env_set(json_t *env, const char *name, size_t length, const char *value)
{
    char key[256];

    (void)snprintf(key, sizeof(key), "%.*s", (int)length, name);
    if (length < sizeof(key) && !json_object_get(env, key))
        (void)json_object_set_new(env, key, json_string(value)); /* what is no text stays here */
}

/* ALL, NONE, or a list of NAME and NAME=VALUE. --env goes before it. */
static void env_export(struct job_request *request, const char *list)
{
    json_t *env = json_object_get(request->tree, "env");
    bool all = list && strcmp(list, "ALL") == 0;

    if (!env) {
        env = json_object();
        (void)json_object_set_new(request->tree, "env", env);
    }
    for (char **e = environ; *e && (all || !list); e++) {
        size_t length = strcspn(*e, "=");

        if (is_plain_name(*e, length) && (all ? strncmp(*e, "MUSTER_", 7) != 0 : exported_by_default(*e, length)))
            env_set(env, *e, length, *e + length + 1);
    }
    for (const char *at = list; at && !all && strcmp(list, "NONE") != 0;
         at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t length = strcspn(at, ","), name = strcspn(at, "=,");
        char value[4096], key[256];

        (void)snprintf(key, sizeof(key), "%.*s", (int)name, at);
        if (name < length) {
            (void)snprintf(value, sizeof(value), "%.*s", (int)(length - name - 1), at + name + 1);
            env_set(env, key, name, value);
        } else if (getenv(key)) {                 /* NOLINT(concurrency-mt-unsafe): one thread */
            env_set(env, key, name, getenv(key)); /* NOLINT(concurrency-mt-unsafe) */
        }
    }
    if (json_object_size(env) == 0)
        (void)json_object_del(request->tree, "env");
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

static int args_put(struct job_request *request, char *const *words, int count, struct error *err)
{
    json_t *list = json_array();

    for (int i = 0; i < count; i++)
        if (json_array_append_new(list, json_string(words[i])) < 0) {
            json_decref(list);
            return error_set(err, -EINVAL, "argument %d is not UTF-8 text", i + 1);
        }
    return json_object_set_new(request->tree, "args", list) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
}

static bool ends_with(const char *path, const char *end)
{
    size_t length = strlen(path), tail = strlen(end);

    return length > tail && strcmp(path + length - tail, end) == 0;
}

/* What has no first line that names who runs it is run by a shell, which makes nothing of these. */
static int shell_can(const char *path, const struct bytes *bytes, struct error *err)
{
    if (bytes->size > 2 && bytes->data[0] == '#' && bytes->data[1] == '!')
        return 0;
    if (ends_with(path, ".py"))
        return error_set(
            err, -EINVAL,
            "%s: its first line is no #! line, so that a shell would run it; for Python: --wrap 'python3 %s'", path,
            path);
    if (ends_with(path, ".yaml") || ends_with(path, ".yml"))
        return error_set(err, -EINVAL, "%s: is no script; a job file is given with -f %s", path, path);
    return 0;
}

/* Flags that stand after the script are its arguments: whoever meant them for the job is told. */
static void trailing_flags_warn(const struct command_args *args)
{
    for (int i = 1; i < args->word_count && args->dashes < 0; i++) {
        const char *word = args->words[i];
        bool known = word[0] == '-' && word[1] == '-'
                         ? word[2] && command_opt(args->command, word + 2, strcspn(word + 2, "="), 0)
                         : word[0] == '-' && word[1] && command_opt(args->command, NULL, 0, (unsigned char)word[1]);

        if (known) {
            (void)fprintf(
                stderr,
                "%s: '%.60s' comes after the script and is an argument of it; flags of the job come before it\n",
                args->full, word);
            return;
        }
    }
}

static int script_take(const struct command_args *args, struct job_request *request, struct error *err)
{
    const char *path = args->word_count ? args->words[0] : "-";
    CLEANUP_BYTES struct bytes bytes = { 0 };
    int r;

    if (args->word_count == 0 && isatty(STDIN_FILENO))
        return error_set(err, -EINVAL, "nothing to run: give a script, -f JOB.yaml, or --wrap 'COMMAND'");
    r = file_read(path, SUBMISSION_BYTES_MAX, &bytes, err);
    if (r == -ENOENT && (args->word_count > 1 || !strchr(path, '.'))) /* it looks more like a command */
        return error_set(err, r, "%s: there is no such script; a command goes to 'muster run', or into --wrap", path);
    if (r == 0)
        r = shell_can(path, &bytes, err);
    if (r == 0)
        r = job_request_script(request, file_label(path), bytes.data, bytes.size, err);
    if (args->word_count > 1 && !cli_json)
        trailing_flags_warn(args);
    if (r == 0 && args->word_count > 1)
        r = args_put(request, args->words + 1, args->word_count - 1, err);
    if (r == 0 && strcmp(path, "-") != 0)
        r = job_request_default(request, "name", base_name(path), err);
    return r;
}

static int base_take(const struct command_args *args, enum request_form form, struct job_request *request,
                     struct error *err)
{
    const char *file = args_value(args, "file"), *wrap = args_value(args, "wrap");
    CLEANUP_BYTES struct bytes bytes = { 0 };
    int r = 0;

    if (file) {
        if (wrap || args->word_count)
            return error_set(err, -EINVAL, "give either -f, a script, or --wrap");
        r = file_read(file, SUBMISSION_BYTES_MAX, &bytes, err);
        return r < 0 ? r : job_request_file(request, file_label(file), bytes.data, bytes.size, err);
    }
    if (form != REQUEST_SCRIPT) {
        r = args_put(request, args->words, args->word_count, err);
        if (r == 0)
            r = job_request_default(request, "launch", "node", err);
        return r < 0 ? r : job_request_default(request, "name", base_name(args->words[0]), err);
    }
    if (wrap) {
        if (args->word_count)
            return error_set(err, -EINVAL, "give either a script or --wrap");
        (void)json_object_set_new(request->tree, "run", json_string(wrap));
        return job_request_default(request, "name", "wrap", err);
    }
    return script_take(args, request, err);
}

/* Whether the word is a job that only the controller can find: an element of an array, or a name. What stands before a
 * colon is a kind; whether there is such a kind is not judged here. */
static bool after_named(const char *word, size_t length)
{
    static const char *const kinds[] = { "ok", "any", "notok", "afterok", "afterany", "afternotok", "singleton" };

    if (memchr(word, '_', length))
        return true;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        if (strlen(kinds[k]) == length && strncmp(kinds[k], word, length) == 0)
            return false;
    return length && word[length] != ':' && strspn(word, "0123456789") < length;
}

static bool after_names(const char *value)
{
    for (const char *at = value; at && *at; at += strcspn(at, ":,"), at += *at != '\0')
        if (after_named(at, strcspn(at, ":,")))
            return true;
    return false;
}

/* "afterok:12_3,prepare": elements of arrays and names become the numbers of jobs, which the controller knows. */
static int after_resolve(const struct command_args *args, const char *value, struct buf *out, struct error *err)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct problem problem;

    for (const char *at = value; *at;) {
        size_t length = strcspn(at, ":,");
        char word[256];
        struct job_ref_text ref;

        if (after_named(at, length) && length < sizeof(word)) {
            (void)snprintf(word, sizeof(word), "%.*s", (int)length, at);
            if ((!client && client_new(args, &client, &problem)) || client_job(client, word, &ref, &problem))
                return error_set(err, -EINVAL, "--after: %s", problem.text);
            buf_printf(out, "%lld", (long long)ref.id);
        } else {
            buf_put(out, at, length);
        }
        at += length;
        if (*at)
            buf_char(out, *at++);
    }
    buf_char(out, '\0');
    return out->error ? error_set(err, -ENOMEM, "out of memory") : 0;
}

/* `asks`: of the controller, where a flag needs it. */
static int flags_take(const struct command_args *args, struct job_request *request, bool asks, struct error *err)
{
    for (size_t i = 0; i < args->given_count; i++) {
        const char *name = args->given[i].opt->name;
        const struct job_flag *flag = job_flag_find(name, strlen(name));
        int r;

        /* A verb's own flag goes before one of the same name. */
        if (!flag || args->given[i].opt < request_opts() || args->given[i].opt >= request_opts() + OPTS_MAX)
            continue;
        if ((strncmp(name, "after", 5) == 0 || strcmp(name, "dependency") == 0) && after_names(args->given[i].value)) {
            CLEANUP_BUF struct buf value = BUF_INIT(65536);

            if (!asks)
                continue;
            r = after_resolve(args, args->given[i].value, &value, err);
            if (r == 0)
                r = job_request_flag(request, flag, value.data, "", err);
        } else {
            r = job_request_flag(request, flag, args->given[i].value, "", err);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

static int defaults_take(const struct command_args *args, enum request_form form, struct job_request *request,
                         struct error *err)
{
    const char *vc = getenv("MUSTER_VC"); /* NOLINT(concurrency-mt-unsafe): one thread */
    char here[4096];
    int r = 0;

    if (form != REQUEST_SCRIPT &&
        (json_object_get(request->tree, "tasks") || json_object_get(request->tree, "tasks_per_node")))
        (void)json_object_set_new(request->tree, "launch", json_string("task"));
    if (form == REQUEST_RUN && *input_mode(args))
        r = job_request_default(request, "input", input_mode(args), err);
    if (r == 0 && !json_object_get(request->tree, "image") && getcwd(here, sizeof(here)))
        r = job_request_default(request, "dir", here, err);
    if (r == 0 && vc && *vc)
        r = job_request_default(request, "vc", vc, err);
    if (r == 0 && (args_has(args, "export") || !json_object_get(request->tree, "image")))
        env_export(request, args_value(args, "export"));
    return r;
}

/* --dependency=singleton: after all jobs of this name that the user has now. */
static int singleton_resolve(const struct command_args *args, struct job_request *request, struct error *err)
{
    CLEANUP(client_free) struct client *client = NULL;
    CLEANUP_ANSWER struct answer who = { 0 };
    const char *name = json_string_value(json_object_get(request->tree, "name"));
    CLEANUP(mem_free) char *quoted = client_quote(name ? name : "");
    json_t *after = json_object_get(request->tree, "after"), *any, *items = NULL, *job;
    struct problem problem;
    char path[1024];
    size_t i;

    if (!quoted || strlen(quoted) > 700)
        return error_set(err, -EINVAL, "--dependency=singleton: needs a name, by --job-name");
    if (client_new(args, &client, &problem) || client_call(client, "GET", "/whoami", NULL, &who, &problem))
        return error_set(err, -EINVAL, "--dependency=singleton: %s", problem.text);
    (void)snprintf(path, sizeof(path), "/jobs?limit=10000&name=%s&user=%s", quoted, fmt_text(who.json, "user"));
    if (client_list(client, path, &items, &problem))
        return error_set(err, -EINVAL, "--dependency=singleton: %s", problem.text);
    if (!after && json_object_set_new(request->tree, "after", after = json_object()) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    any = json_object_get(after, "any");
    if (!any && json_object_set_new(after, "any", any = json_array()) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    json_array_foreach(items, i, job)(void) json_array_append_new(any, json_integer(fmt_i64(job, "id")));
    if (json_array_size(any) == 0)
        (void)json_object_del(after, "any");
    if (json_object_size(after) == 0)
        (void)json_object_del(request->tree, "after");
    json_decref(items);
    return 0;
}

/* Flags that were taken and change nothing: one line each, on standard error. */
static void notes_show(const struct command_args *args, const struct job_request *request)
{
    const json_t *note;
    size_t i;

    json_array_foreach(request->notes, i, note)(void) fprintf(stderr, "%s: %s\n", args->full, json_string_value(note));
}

static usec_t zone_now(usec_t now)
{
    time_t at = now / USEC_SEC;
    struct tm tm;

    return localtime_r(&at, &tm) ? tm.tm_gmtoff * USEC_SEC : 0;
}

/* A script that cannot be read is told only when nothing is wrong with the flags beside it. */
static int flags_first(const struct command_args *args, int code, struct error *err)
{
    struct job_request request;
    struct submission s;
    struct error wrong = { 0 };
    int r = job_request_init(&request, fmt_now(), zone_now, &wrong);

    if (r < 0)
        return code;
    r = flags_take(args, &request, false, &wrong);
    (void)json_object_set_new(request.tree, "run", json_string("true"));
    if (r == 0) {
        r = job_request_finish(&request, &s, &wrong);
        if (r == 0)
            submission_done(&s);
    }
    job_request_done(&request);
    if (r == 0)
        return code;
    *err = wrong;
    return r;
}

int request_make(const struct command_args *args, enum request_form form, char **ret_json)
{
    CLEANUP_BUF struct buf out = BUF_INIT(2 * SUBMISSION_BYTES_MAX);
    struct job_request request;
    struct submission s;
    struct error err = { 0 };
    struct bytes bytes;
    int r = job_request_init(&request, fmt_now(), zone_now, &err);

    if (r == 0) {
        r = base_take(args, form, &request, &err);
        if (r == 0)
            r = flags_take(args, &request, true, &err);
        else
            r = flags_first(args, r, &err);
        if (r == 0)
            r = defaults_take(args, form, &request, &err);
        if (r == 0 && request.singleton)
            r = singleton_resolve(args, &request, &err);
        if (r == 0)
            r = job_request_finish(&request, &s, &err);
        if (r == 0 && !cli_json)
            notes_show(args, &request);
        job_request_done(&request);
    }
    if (r == 0) {
        r = submission_to_json(&s, &out, &err);
        submission_done(&s);
    }
    if (r == 0)
        r = buf_take(&out, &bytes, &err);
    if (r < 0) {
        char hint[128];

        (void)snprintf(hint, sizeof(hint), "%s --help lists the flags; muster-job(5) the keys of a file", args->full);
        return cli_fail_hint(r, &err, hint);
    }
    *ret_json = bytes.data;
    return 0;
}

int request_post(struct client *client, const char *path, const char *json, struct answer *ret, struct problem *problem)
{
    unsigned char random[16] = { 0 };
    char key[80] = "Idempotency-Key: ";
    const char *const headers[] = { key, NULL };
    struct client_request request = { "POST", path, "application/json", json, headers };
    int r = 0, ms = 200;

    if (getrandom(random, sizeof(random), 0) < 0)
        return problem_set(problem, CODE_FAILED, "", "the system has no random numbers");
    for (size_t i = 0; i < sizeof(random); i++)
        (void)snprintf(key + strlen(key), sizeof(key) - strlen(key), "%02x", random[i]);
    for (int i = 0; i < TRIES; i++) {
        r = client_send(client, &request, ret, problem);
        if (r == 0 || (problem->status != 429 && problem->status != 503))
            return r;
        (void)poll(NULL, 0, ms);
        ms *= 2;
    }
    return r;
}
