/* SPDX-License-Identifier: Apache-2.0 */
/* sinfo.c - sinfo: our nodes in Slurm's formats.
 *
 * A virtual cluster is a partition of all nodes. As in Slurm, nodes whose fields are the same share a line.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/slurm/slurm.h"
#include "cli/verbs/live.h"
#include "wire/text/hostlist.h"

/* Letters, their headers, and whether they are sums over the nodes of a line (they do not tell lines apart). */
static const struct {
    char letter;
    const char *header;
    bool sum;
} letters[] = {
    { 'P', "PARTITION", false },
    { 'R', "PARTITION", false },
    { 'a', "AVAIL", false },
    { 'l', "TIMELIMIT", false },
    { 'L', "DEFAULTTIME", false },
    { 'D', "NODES", true },
    { 't', "STATE", false },
    { 'T', "STATE", false },
    { 'N', "NODELIST", true },
    { 'n', "HOSTNAMES", false },
    { 'o', "NODE_ADDR", false },
    { 'G', "GRES", false },
    { 'c', "CPUS", false },
    { 'm', "MEMORY", false },
    { 'F', "NODES(A/I/O/T)", true },
    { 'A', "NODES(A/I)", true },
    { 'E', "REASON", false },
    { 'f', "AVAIL_FEATURES", false },
    { 'b', "ACTIVE_FEATURES", false },
    { 'w', "WEIGHT", false },
    { 'd', "TMP_DISK", false },
    { 'h', "OVERSUBSCRIBE", false },
    { 'g', "GROUPS", false },
    { 'r', "ROOT", false },
    { 's', "JOB_SIZE", false },
    { 'M', "PREEMPT_MODE", false },
    { 'v', "VERSION", false },
    { 'V', "CLUSTER", false },
    { 'u', "USER", false },
    { 'C', "CPUS(A/I/O/T)", true },
};

const char *slurm_node_state(json_t *node, bool short_form, char *text, size_t size)
{
    static const char *const words[][3] = {
        { "alloc", "allocated", "alloc" }, { "mixed", "mixed", "mix" },        { "idle", "idle", "idle" },
        { "drain", "drained", "drain" },   { "draining", "draining", "drng" }, { "down", "down", "down" },
    };
    const char *state = fmt_text(node, "state");

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i][0], state) == 0)
            return words[i][short_form ? 2 : 1];
    (void)snprintf(text, size, "%s", state);
    return text;
}

const char *slurm_node_gres(json_t *node, char *text, size_t size)
{
    if (!fmt_i64(node, "gpus"))
        return "(null)";
    (void)snprintf(text, size, "gpu:%s:%lld", fmt_text(node, "sku"), (long long)fmt_i64(node, "gpus"));
    return text;
}

static const char *features(json_t *node, char *text, size_t size)
{
    json_t *labels = json_object_get(node, "labels"), *value;
    const char *name;
    size_t used = 0;

    text[0] = '\0';
    json_object_foreach(labels, name, value)
    {
        int n = snprintf(text + used, size - used, "%s%s", used ? "," : "", name);

        if (n < 0 || (size_t)n >= size - used)
            return text;
        used += (size_t)n;
    }
    return used ? text : "(null)";
}

/* What is the same for all nodes and partitions. */
static const char *constant_letter(char letter)
{
    switch (letter) {
    case 'a':
        return "up";
    case 'l':
        return "infinite";
    case 'L':
        return "n/a";
    case 'w':
        return "1";
    case 'd':
        return "0";
    case 'h':
    case 'r':
        return "no";
    case 'g':
        return "all";
    case 's':
        return "1-infinite";
    case 'M':
        return "REQUEUE";
    case 'V':
        return "N/A";
    case 'u':
        return "Unknown";
    default:
        return NULL;
    }
}

static const char *sinfo_letter(json_t *node, char letter, char *text, size_t size)
{
    const char *fixed = constant_letter(letter);
    size_t i = 0;

    while (i < sizeof(letters) / sizeof(letters[0]) && letters[i].letter != letter)
        i++;
    if (i == sizeof(letters) / sizeof(letters[0]))
        return NULL;
    if (!node)
        return letters[i].header;
    if (fixed)
        return fixed;
    switch (letter) {
    case 'P':
        (void)snprintf(text, size, "%s%s", fmt_text(node, "partition"),
                       json_is_true(json_object_get(node, "first")) ? "*" : "");
        return text;
    case 'R':
        return fmt_text(node, "partition");
    case 'D':
        return slurm_number(fmt_i64(node, "count"), text, size);
    case 't':
    case 'T':
        return fmt_null(node, "up") ? slurm_node_state(node, letter == 't', text, size) : "up";
    case 'N':
        return fmt_text(node, "names");
    case 'n':
        return fmt_text(node, "name");
    case 'o':
        return fmt_text(node, "address");
    case 'v':
        return fmt_text(node, "version");
    case 'G':
        return slurm_node_gres(node, text, size);
    case 'F':
    case 'A':
    case 'C':
        return fmt_text(node, letter == 'F' ? "sum" : letter == 'A' ? "used" : "processors");
    case 'E':
        return *fmt_text(node, "drain_reason") ? fmt_text(node, "drain_reason") : "none";
    case 'f':
    case 'b':
        return features(node, text, size);
    case 'c':
        return slurm_number(fmt_i64(node, "cpus"), text, size);
    default:
        return slurm_number(fmt_i64(node, "memory_bytes") >> 20, text, size);
    }
}

/* Nodes that share a line, and their sums: in use, idle, other, all; the processors of each. */
struct group {
    json_t *line; /* the first of them */
    char *key;    /* owned: what the fields of the format say */
    const char **names;
    size_t count;
    int64_t sums[4], cpus[4];
};

static int node_class(json_t *node)
{
    const char *state = fmt_text(node, "state");

    return strcmp(state, "alloc") == 0 || strcmp(state, "mixed") == 0 ? 0 : strcmp(state, "idle") == 0 ? 1 : 2;
}

/* Processors are counted in proportion to the GPUs in use, since jobs are given them so. */
static void group_add(struct group *group, json_t *node)
{
    int64_t cpus = fmt_i64(node, "cpus"), gpus = fmt_i64(node, "gpus");
    int64_t used = gpus ? cpus * fmt_i64(node, "gpus_used") / gpus : 0;
    int class = node_class(node);

    group->names[group->count++] = fmt_text(node, "name");
    group->sums[class]++;
    group->sums[3]++;
    group->cpus[0] += used;
    group->cpus[class == 2 ? 2 : 1] += cpus - used;
    group->cpus[3] += cpus;
}

static json_t *four(const int64_t at[4])
{
    return json_sprintf("%lld/%lld/%lld/%lld", (long long)at[0], (long long)at[1], (long long)at[2], (long long)at[3]);
}

static void group_close(struct group *group, json_t *lines)
{
    CLEANUP_BUF struct buf hosts = BUF_INIT((size_t)1 << 20);

    hostlist_put(&hosts, group->names, group->count);
    buf_char(&hosts, '\0');
    (void)json_object_set_new(group->line, "count", json_integer(group->sums[3]));
    (void)json_object_set_new(group->line, "names", json_string(hosts.error ? "" : hosts.data));
    (void)json_object_set_new(group->line, "sum", four(group->sums));
    (void)json_object_set_new(group->line, "used",
                              json_sprintf("%lld/%lld", (long long)group->sums[0], (long long)group->sums[1]));
    (void)json_object_set_new(group->line, "processors", four(group->cpus));
    (void)json_array_append_new(lines, group->line);
    mem_free(group->key);
    mem_free(group->names);
}

/* What tells the node's line from others: all fields of the format that are no sums. */
static char *line_key(const char *format, bool each, json_t *node)
{
    struct buf key = BUF_INIT(65536);

    for (const char *at = strchr(format, '%'); at; at = strchr(at + 1, '%')) {
        const char *letter = at + 1 + strspn(at + 1, ".#0123456789");
        char text[1024];
        const char *found;
        size_t i = 0;

        while (i < sizeof(letters) / sizeof(letters[0]) && letters[i].letter != *letter)
            i++;
        if (i == sizeof(letters) / sizeof(letters[0]) || letters[i].sum)
            continue;
        found = sinfo_letter(node, *letter, text, sizeof(text));
        buf_printf(&key, "%s\n", found ? found : "");
    }
    buf_printf(&key, "%s%s", each ? fmt_text(node, "name") : "", each ? fmt_text(node, "partition") : "");
    buf_char(&key, '\0');
    if (key.error) {
        buf_done(&key);
        return NULL;
    }
    return key.data;
}

/* The lines: every node in every partition, those with the same key together. */
static json_t *lines_make(json_t *nodes, const char *format, bool each)
{
    size_t total = json_array_size(nodes), count = 0, i;
    struct group *groups = mem_zalloc(total + 1, sizeof(*groups));
    json_t *lines = json_array(), *node;

    json_array_foreach(nodes, i, node)
    {
        char *key = groups ? line_key(format, each, node) : NULL;
        size_t g = 0;

        if (!key)
            break;
        while (g < count && strcmp(groups[g].key, key) != 0)
            g++;
        if (g == count) {
            groups[g] = (struct group){ .line = json_copy(node),
                                        .key = key,
                                        .names = mem_zalloc(total + 1, sizeof(*groups[g].names)) };
            if (!groups[g].names)
                break;
            count++;
        } else {
            mem_free(key);
        }
        group_add(&groups[g], node);
    }
    for (size_t g = 0; g < count; g++)
        group_close(&groups[g], lines);
    mem_free(groups);
    return lines;
}

struct word_look {
    const char *name;
    bool found;
};

static int name_same(void *arg, const char *name)
{
    struct word_look *look = arg;

    look->found = look->found || strcmp(name, look->name) == 0;
    return 0;
}

/* Whether a list such as gpu[01-02],x holds the name; no list holds all. */
static bool list_holds(const char *list, const char *name)
{
    struct word_look look = { name, false };

    return !list || (hostlist_each(list, name_same, &look, NULL) >= 0 && look.found);
}

static bool state_wanted(const char *list, json_t *node)
{
    char copy[256], text[64], *save = NULL;

    if (!list || strcasecmp(list, "all") == 0)
        return true;
    (void)snprintf(copy, sizeof(copy), "%s", list);
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save))
        if (strcasecmp(word, slurm_node_state(node, false, text, sizeof(text))) == 0 ||
            strcasecmp(word, slurm_node_state(node, true, text, sizeof(text))) == 0)
            return true;
    return false;
}

/* Each node once in each partition that is asked for. */
static json_t *expand(const struct command_args *args, json_t *nodes, json_t *vcs)
{
    json_t *shown = json_array(), *node, *vc;
    bool summary = args_has(args, "summarize");
    size_t i, k;

    json_array_foreach(vcs, k, vc)
    {
        if (!list_holds(args_value(args, "partition"), fmt_text(vc, "name")))
            continue;
        json_array_foreach(nodes, i, node)
        {
            json_t *copy;

            if (!list_holds(args_value(args, "nodes"), fmt_text(node, "name")) ||
                !state_wanted(args_value(args, "states"), node))
                continue;
            if (args_has(args, "list-reasons") && !*fmt_text(node, "drain_reason"))
                continue;
            copy = json_copy(node);
            (void)json_object_set_new(copy, "partition", json_string(fmt_text(vc, "name")));
            (void)json_object_set_new(copy, "first", json_boolean(k == 0)); /* what jobs get that name none */
            if (summary)
                (void)json_object_set_new(copy, "up", json_true());
            (void)json_array_append_new(shown, copy);
        }
    }
    return shown;
}

static const char *sinfo_format(const struct command_args *args)
{
    if (args_value(args, "format"))
        return args_value(args, "format");
    if (args_has(args, "summarize"))
        return "%9P %.5a %.10l %.16F %N";
    if (args_has(args, "list-reasons"))
        return "%20E %9u %N";
    if (args_has(args, "Node"))
        return args_has(args, "long") ? "%N %.6D %.9P %.11T %.4c %.8m %f %20E" : "%N %.6D %.9P %6t";
    return args_has(args, "long") ? "%9P %.5a %.10l %.10s %.4r %.9h %.10g %.6D %.11T %N"
                                  : "%9P %.5a %.10l %.6D %.6t %N";
}

static void date_show(void)
{
    time_t now = (time_t)(fmt_now() / USEC_SEC);
    struct tm tm;
    char text[64];

    if (localtime_r(&now, &tm) && strftime(text, sizeof(text), "%a %b %d %H:%M:%S %Y", &tm))
        (void)puts(text);
}

int slurm_sinfo(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    struct problem problem;
    json_t *items = NULL, *vcs = NULL, *shown, *lines;
    int r = live_client(args, &client);

    if (r == 0 && (client_list(client, "/nodes", &items, &problem) || client_list(client, "/vcs", &vcs, &problem)))
        r = problem_print(&problem);
    shown = expand(args, items, vcs);
    if (r == 0 && args_has(args, "json")) {
        r = slurm_json_nodes(items, vcs);
    } else if (r == 0) {
        const char *format = sinfo_format(args);

        if (args_has(args, "long") && !args_has(args, "noheader"))
            date_show();
        lines = lines_make(shown, format, args_has(args, "Node"));
        r = slurm_lines(args, format, sinfo_letter, lines);
        json_decref(lines);
    }
    json_decref(items);
    json_decref(vcs);
    json_decref(shown);
    return r;
}
