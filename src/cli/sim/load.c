/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - see load.h. */
#include "cli/sim/load.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "wire/cluster/cluster.h"
#include "wire/cluster/cluster_cells.h"
#include "wire/text/yaml_doc.h"
#include "wire/trace/trace.h"

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);

    if (length > 3 && strcmp(text + length - 3, ".gz") == 0)
        length -= 3;
    return length > tail && memcmp(text + length - tail, end, tail) == 0;
}

static bool is_file(const char *argument)
{
    return strcmp(argument, "-") == 0 || ends_in(argument, ".yaml") || ends_in(argument, ".yml") ||
           ends_in(argument, ".csv");
}

static int cluster_file_load(const char *path, struct cluster_spec *ret_spec, struct error *err)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    int r = file_read(path, ends_in(path, ".csv") ? 0 : YAML_BYTES_MAX, &bytes, err);

    if (r < 0)
        return r;
    if (ends_in(path, ".csv"))
        return cluster_read_csv(path, &bytes, ret_spec, err);
    return cluster_read_yaml(file_label(path), &bytes, ret_spec, err);
}

int cluster_load(const char *argument, struct cluster_spec *ret_spec, struct error *err)
{
    int r;

    if (is_file(argument))
        return cluster_file_load(argument, ret_spec, err);
    r = cluster_parse(argument, ret_spec, err);
    if (r == -EINVAL && access(argument, R_OK) == 0)
        return cluster_file_load(argument, ret_spec, err);
    return r;
}

int cell_spec_load(const char *argument, struct cell_spec *ret_spec, struct buf *words, struct hived_warnings *warnings,
                   struct error *err)
{
    struct cluster_spec cluster = { 0 };
    CLEANUP_BYTES struct bytes bytes = { 0 };
    int r = is_file(argument) && !ends_in(argument, ".csv") ? file_read(argument, YAML_BYTES_MAX, &bytes, err)
                                                            : cluster_load(argument, &cluster, err);

    if (r == 0 && bytes.data) {
        if (cluster_is_hived(file_label(argument), &bytes))
            return hived_config_read(file_label(argument), &bytes, ret_spec, warnings, err);
        r = cluster_read_yaml(file_label(argument), &bytes, &cluster, err);
    }
    if (r < 0)
        return r;
    if (cluster.cells && cluster.guarantee_count == 0) { /* HiveD's, under a name that does not tell */
        *ret_spec = *cluster.cells;
        *cluster.cells = (struct cell_spec){ 0 };
    } else {
        r = cluster_cells(&cluster, ret_spec, words, NULL, err);
    }
    cluster_spec_done(&cluster);
    return r;
}

static void notes_print(const char *path, const struct import_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        fprintf(stderr, "muster: note: %s: %llu %s on line %u): %s\n", file_label(path),
                (unsigned long long)notes->notes[i].count,
                notes->notes[i].count == 1 ? "job (it is" : "jobs (the first", notes->notes[i].line,
                notes->notes[i].text);
}

int trace_load(const char *path, const char *format, struct trace *ret_trace, struct error *err)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    const struct import_format *guess;
    struct import_notes notes = { 0 };
    int r = file_read(path, 0, &bytes, err);

    if (r < 0)
        return r;
    if (format) {
        r = import_trace(format, file_label(path), &bytes, ret_trace, &notes, err);
        if (r == 0)
            notes_print(path, &notes);
        return r;
    }
    r = trace_read(file_label(path), &bytes, ret_trace, err);
    guess = r < 0 ? import_guess(&bytes) : NULL;
    if (guess && err) {
        size_t used = strlen(err->text);

        (void)snprintf(err->text + used, sizeof(err->text) - used,
                       "\nhint: it looks like a %s trace: muster trace import --format %s FILE -o OUT.csv", guess->name,
                       guess->name);
    }
    return r;
}

int64_t cluster_gpus(const struct cluster_spec *spec)
{
    int64_t gpus = 0;

    for (uint32_t i = 0; i < spec->node_count; i++)
        gpus += spec->nodes[i].gpus;
    return gpus;
}
