/* SPDX-License-Identifier: Apache-2.0 */
/* sim_args.c - see sim_args.h. */
#include "cli/sim/sim_args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/output/output_text.h"
#include "wire/text/decimal.h"

static void push(const char **list, size_t *count, const char *arg, const char *option, struct argp_state *state)
{
    if (*count == SIM_LIST_MAX)
        argp_error(state, "--%s: at most %d of them", option, SIM_LIST_MAX);
    list[(*count)++] = arg;
}

static void push_setting(struct sim_args *args, char *arg, struct argp_state *state)
{
    char *equals = strchr(arg, '=');

    if (!equals || equals == arg) {
        argp_error(state, "--set: expected KEY=VALUE, got '%s'", arg);
        return;
    }
    if (args->setting_count == SIM_LIST_MAX)
        argp_error(state, "--set: at most %d of them", SIM_LIST_MAX);
    *equals = '\0';
    args->settings[args->setting_count++] = (struct setting){ arg, equals + 1 };
}

/* "7" or "1-5". */
static void push_seeds(struct sim_args *args, const char *arg, struct argp_state *state)
{
    const char *dash = strchr(arg, '-');
    size_t first_length = dash ? (size_t)(dash - arg) : strlen(arg);
    int64_t first, last;
    bool bad = decimal_parse_i64(arg, first_length, &first) < 0 || first < 0;

    last = first;
    if (!bad && dash)
        bad = decimal_parse_i64(dash + 1, strlen(dash + 1), &last) < 0 || last < first;
    if (bad)
        argp_error(state, "--seed: expected a number or a range such as 1-5, got '%s'", arg);
    if (last - first >= SIM_LIST_MAX - (int64_t)args->seed_count)
        argp_error(state, "--seed: at most %d of them", SIM_LIST_MAX);
    for (int64_t seed = first; seed <= last; seed++)
        args->seeds[args->seed_count++] = (uint64_t)seed;
}

void sim_args_one(const struct sim_args *args, struct argp_state *state, const char *more)
{
    const struct {
        const char *name;
        size_t count;
    } needed[] = { { "--cluster", (size_t)args->cluster_count },
                   { "--trace", (size_t)args->trace_count },
                   { "--policy", (size_t)args->policy_count } };

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (needed[i].count != 1)
            argp_error(state, "%s %s: one --cluster, one --trace and one --policy are needed%s", needed[i].name,
                       needed[i].count ? "is there more than once" : "is missing", more);
}

error_t sim_args_parse(struct sim_args *args, int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case SIM_KEY_JSON:
        args->json = true;
        return 0;
    case SIM_KEY_REPORT:
        args->report = arg;
        return 0;
    case SIM_KEY_SERIES:
        args->series = strtoul(arg, NULL, 10);
        if (args->series < 1 || args->series > TIMEBINS)
            argp_error(state, "--series: expected 1 to %d, got '%s'", TIMEBINS, arg);
        return 0;
    case 'c':
        push(args->clusters, &args->cluster_count, arg, "cluster", state);
        return 0;
    case 't':
        push(args->traces, &args->trace_count, arg, "trace", state);
        return 0;
    case 'P':
        for (char *save, *name = strtok_r(arg, ",", &save); name; name = strtok_r(NULL, ",", &save))
            push(args->policies, &args->policy_count, name, "policy", state);
        return 0;
    case 's':
        push_setting(args, arg, state);
        return 0;
    case 'p':
        if (args->setting_count == SIM_LIST_MAX)
            argp_error(state, "--vc: at most %d of them", SIM_LIST_MAX);
        args->settings[args->setting_count++] = (struct setting){ "vc", arg };
        return 0;
    case 'S':
        push_seeds(args, arg, state);
        return 0;
    case ARGP_KEY_ARG:
        /* More settings may follow one --set. */
        if (args->setting_count && strchr(arg, '=')) {
            push_setting(args, arg, state);
            return 0;
        }
        argp_error(state, "unexpected argument '%s'", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void sim_args_label(const struct sim_args *args, size_t cluster, size_t trace, size_t policy, struct run_result *result)
{
    size_t at = 0;

    (void)snprintf(result->policy, sizeof(result->policy), "%s", args->policies[policy]);
    (void)snprintf(result->cluster_name, sizeof(result->cluster_name), "%s", args->clusters[cluster]);
    (void)snprintf(result->trace_name, sizeof(result->trace_name), "%s", args->traces[trace]);
    for (size_t i = 0; i < args->setting_count && at < sizeof(result->settings); i++)
        at += (size_t)snprintf(result->settings + at, sizeof(result->settings) - at, "%s%s=%s", i ? " " : "",
                               args->settings[i].key, args->settings[i].value);
}

bool sim_args_colour(void)
{
    const char *no = getenv("NO_COLOR");

    return isatty(STDOUT_FILENO) && !(no && *no);
}

void sim_args_log(void *arg, const struct core *core, const struct decision *decision, const uint32_t *gpus)
{
    CLEANUP_BUF struct buf line = BUF_INIT((size_t)1 << 24);

    core_tell(core, decision, gpus, &line);
    if (!line.error)
        (void)fwrite(line.data, 1, line.size, arg);
}
