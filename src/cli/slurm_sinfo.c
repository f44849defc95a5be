/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_sinfo.c - sinfo: our nodes in Slurm's formats. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/fmt.h"
#include "cli/listing.h"
#include "cli/live.h"
#include "cli/slurm.h"
#include "wire/hostlist.h"

static const char *sinfo_letter(json_t *node, char letter, char *text, size_t size)
{
    static const char letters[] = "PalDtTNGcmF";
    static const char *const headers[] = { "PARTITION", "AVAIL", "TIMELIMIT", "NODES",  "STATE",         "STATE",
                                           "NODELIST",  "GRES",  "CPUS",      "MEMORY", "NODES(A/I/O/T)" };
    const char *at = letter ? strchr(letters, letter) : NULL;

    if (!at)
        return NULL;
    if (!node)
        return headers[at - letters];
    switch (letter) {
    case 'P':
        return fmt_text(node, "partition");
    case 'a':
        return "up";
    case 'l':
        return "infinite";
    case 'D':
        return slurm_number(fmt_i64(node, "count"), text, size);
    case 't':
        (void)snprintf(text, size, "%.5s", fmt_text(node, "state"));
        if (strcmp(fmt_text(node, "state"), "mixed") == 0)
            (void)snprintf(text, size, "mix");
        return text;
    case 'T':
        return fmt_text(node, "state");
    case 'N':
        return fmt_text(node, "name");
    case 'G':
        (void)snprintf(text, size, "gpu:%s:%lld", fmt_text(node, "sku"), (long long)fmt_i64(node, "gpus"));
        return text;
    case 'F':
        return fmt_text(node, "sum");
    case 'c':
        return slurm_number(fmt_i64(node, "cpus"), text, size);
    default:
        return slurm_number(fmt_i64(node, "memory_bytes") >> 20, text, size);
    }
}

/* Allocated, idle, other, and all of them: of one node, each 0 or 1. */
static void node_count(json_t *node, int64_t sums[4])
{
    const char *state = fmt_text(node, "state");
    bool used = strcmp(state, "alloc") == 0 || strcmp(state, "mixed") == 0;

    sums[used ? 0 : strcmp(state, "idle") == 0 ? 1 : 2]++;
    sums[3]++;
}

static json_t *sums_text(const int64_t sums[4])
{
    return json_sprintf("%lld/%lld/%lld/%lld", (long long)sums[0], (long long)sums[1], (long long)sums[2],
                        (long long)sums[3]);
}

/* A line a virtual cluster: every node is for each of them. */
static json_t *summary_make(json_t *nodes, json_t *vcs)
{
    size_t count = json_array_size(nodes), i;
    const char **names = mem_zalloc(count + 1, sizeof(*names));
    CLEANUP_BUF struct buf hosts = BUF_INIT((size_t)1 << 20);
    int64_t sums[4] = { 0 };
    json_t *lines = json_array(), *node, *vc, *first = json_array_get(nodes, 0);

    json_array_foreach(nodes, i, node)
    {
        node_count(node, sums);
        if (names)
            names[i] = fmt_text(node, "name");
    }
    if (names)
        hostlist_put(&hosts, names, count);
    mem_free(names);
    buf_char(&hosts, '\0');
    json_array_foreach(vcs, i, vc)
    {
        json_t *line = first ? json_copy(first) : json_object();

        (void)json_object_set_new(line, "partition", json_string(fmt_text(vc, "name")));
        (void)json_object_set_new(line, "name", json_string(hosts.error ? "" : hosts.data));
        (void)json_object_set_new(line, "count", json_integer(sums[3]));
        (void)json_object_set_new(line, "sum", sums_text(sums));
        (void)json_object_set_new(line, "state", json_string("up"));
        (void)json_array_append_new(lines, line);
    }
    return lines;
}

int slurm_sinfo(struct command_args *args)
{
    CLEANUP(client_free) struct client *client = NULL;
    const char *format = args_value(args, "format"), *one = args_value(args, "nodes");
    struct problem problem;
    json_t *items = NULL, *vcs = NULL, *shown = json_array(), *node;
    size_t i;
    int r = live_client(args, &client);

    if (r == 0 && (client_list(client, "/nodes", &items, &problem) || client_list(client, "/vcs", &vcs, &problem)))
        r = problem_print(&problem);
    json_array_foreach(items, i, node)
    {
        int64_t sums[4] = { 0 };

        if (one && strcmp(one, fmt_text(node, "name")) != 0)
            continue;
        (void)json_object_set_new(node, "count", json_integer(1));
        node_count(node, sums);
        (void)json_object_set_new(node, "sum", sums_text(sums));
        /* Every node is for every virtual cluster; the first is what jobs get that name none. */
        (void)json_object_set_new(
            node, "partition",
            json_string(json_array_size(vcs) ? fmt_text(json_array_get(vcs, 0), "name") : "default"));
        (void)json_array_append(shown, node);
    }
    if (r == 0 && args_has(args, "json")) {
        json_t *list = json_pack("{s:O}", "nodes", shown);

        show_json(list);
        json_decref(list);
    } else if (r == 0 && args_has(args, "summarize")) {
        json_t *lines = summary_make(shown, vcs);

        r = slurm_lines(args, format ? format : "%9P %.5a %.10l %.16F %N", sinfo_letter, lines);
        json_decref(lines);
    } else if (r == 0) {
        r = slurm_lines(args, format ? format : "%9P %.5a %.10l %.6D %.6t %N", sinfo_letter, shown);
    }
    json_decref(items);
    json_decref(vcs);
    json_decref(shown);
    return r;
}
