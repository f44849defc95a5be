/* SPDX-License-Identifier: Apache-2.0 */
/* tables_lucid.c - two jobs on one GPU, measured (Lucid, ASPLOS'23: colocate_info.csv, single_data.csv).
 *
 * A file with pairs, or the folder with both files. A job's model is "ResNet18", or with what is known of it
 * "ResNet18/CIFAR-10/64/1" (data set, batch size of one GPU, mixed precision); what is not told there is taken from the
 * job's batch size if that was measured, else every row of the model counts. A pair's speeds are the mean of all rows
 * that fit, in either order. A pair without a row but with both jobs in single_data.csv: they share the GPU by
 * utilisation, each at min(1, 100 / sum of both). Otherwise it is not measured.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/dir.h"
#include "sim/tables/tables_csv.h"
#include "sim/world/world_table.h"

enum { SIDES = 2, LUCID_ROWS_MAX = 1 << 20 };
#define NOT_TOLD UINT32_MAX

/* One job as the table tells it, or as much of it as a trace tells. */
struct lucid_job {
    uint32_t model, dataset, batch, amp;
};

struct lucid_row {
    struct lucid_job job[SIDES];
    double speed[SIDES];
};

struct lucid_single {
    struct lucid_job job;
    double utilisation;
};

struct lucid_rates {
    bool known, measured;
    double rates[SIDES];
};

struct lucid {
    struct table table;
    struct names datasets;
    struct lucid_row *rows;
    size_t row_count, row_capacity;
    struct lucid_single *singles;
    size_t single_count, single_capacity;
    struct lucid_job *wanted; /* of each entry */
    size_t wanted_count, wanted_capacity;
    struct lucid_rates *cache; /* wanted_count squared, made when first asked */
    size_t cache_side;
};

static void lucid_free(struct table *table)
{
    struct lucid *lucid = (struct lucid *)table;

    names_done(&lucid->datasets);
    mem_free(lucid->rows);
    mem_free(lucid->singles);
    mem_free(lucid->wanted);
    mem_free(lucid->cache);
    table_done(table);
    mem_free(table);
}

static bool lucid_claims(const char *head, const struct names *entries)
{
    if (entries)
        return names_find(entries, "colocate_info.csv", strlen("colocate_info.csv")) != NAME_NONE;
    return text_begins(head, ",model1,") || text_begins(head, "model1,");
}

/* Columns of one job: model, data set, batch size, mixed precision. */
static int read_job(struct lucid *lucid, const struct csv *csv, const struct csv_column *columns,
                    struct lucid_job *ret_job, struct error *err)
{
    int64_t batch = 0, amp = 0;
    int r = table_csv_name(csv, columns[0].index, &lucid->table.models, &ret_job->model, err);

    if (r == 0)
        r = table_csv_name(csv, columns[1].index, &lucid->datasets, &ret_job->dataset, err);
    if (r == 0)
        r = csv_i64(csv, columns[2].index, 1, INT32_MAX, &batch, err);
    if (r == 0)
        r = csv_i64(csv, columns[3].index, 0, 1, &amp, err);
    ret_job->batch = (uint32_t)batch;
    ret_job->amp = (uint32_t)amp;
    return r;
}

static int read_pairs(struct lucid *lucid, const char *path, struct error *err)
{
    struct csv_column columns[] = {
        { "model1", true, 0 },    { "dataset1", true, 0 },   { "batchsize1", true, 0 }, { "amp1", true, 0 },
        { "speed1", true, 0 },    { "model2", true, 0 },     { "dataset2", true, 0 },   { "batchsize2", true, 0 },
        { "amp2", true, 0 },      { "speed2", true, 0 },     { "gpu_num1", false, 0 },  { "gpu_num2", false, 0 },
        { "gpu_util", false, 0 }, { "gmem_util", false, 0 }, { "gmem", false, 0 },      { "", false, 0 },
    };
    struct table_csv file;
    int r = table_csv_open(&file, path, columns, sizeof(columns) / sizeof(columns[0]), err);

    if (r < 0)
        return r;
    while ((r = csv_next(&file.csv, err)) > 0) {
        struct lucid_row row = { 0 };

        for (int side = 0; r >= 0 && side < SIDES; side++) {
            r = read_job(lucid, &file.csv, &columns[side * 5], &row.job[side], err);
            if (r == 0)
                r = table_csv_speed(&file.csv, columns[side * 5 + 4].index, true, &row.speed[side], err);
        }
        if (r < 0)
            break;
        r = mem_grow((void **)&lucid->rows, &lucid->row_capacity, lucid->row_count + 1, LUCID_ROWS_MAX,
                     sizeof(*lucid->rows));
        if (r < 0) {
            error_set(err, r, "%s: more than %d rows", path, LUCID_ROWS_MAX);
            break;
        }
        lucid->rows[lucid->row_count++] = row;
    }
    table_csv_close(&file);
    if (r == 0 && !lucid->row_count)
        r = error_set(err, -EINVAL, "%s: expected rows after the header, got none", path);
    return r;
}

static int read_singles(struct lucid *lucid, const char *path, struct error *err)
{
    struct csv_column columns[] = {
        { "model", true, 0 },      { "dataset", true, 0 },  { "batchsize", true, 0 },
        { "amp", true, 0 },        { "gpu_util", true, 0 }, { "speed", false, 0 },
        { "gmem_util", false, 0 }, { "gmem", false, 0 },    { "label", false, 0 },
    };
    struct table_csv file;
    int r = table_csv_open(&file, path, columns, sizeof(columns) / sizeof(columns[0]), err);

    if (r < 0)
        return r;
    while ((r = csv_next(&file.csv, err)) > 0) {
        struct lucid_single single = { 0 };

        r = read_job(lucid, &file.csv, columns, &single.job, err);
        if (r == 0)
            r = table_csv_speed(&file.csv, columns[4].index, true, &single.utilisation, err);
        if (r < 0)
            break;
        r = mem_grow((void **)&lucid->singles, &lucid->single_capacity, lucid->single_count + 1, LUCID_ROWS_MAX,
                     sizeof(*lucid->singles));
        if (r < 0) {
            error_set(err, r, "%s: more than %d rows", path, LUCID_ROWS_MAX);
            break;
        }
        lucid->singles[lucid->single_count++] = single;
    }
    table_csv_close(&file);
    return r;
}

static int lucid_load(const char *path, struct table **ret_table, struct error *err)
{
    CLEANUP(table_free) struct table *table = mem_zalloc(1, sizeof(struct lucid));
    struct lucid *lucid = (struct lucid *)table;
    char file[WORLD_PATH_MAX];
    int r;

    if (!table)
        return error_set(err, -ENOMEM, "out of memory");
    table->ops = &table_lucid;
    if (dir_is(path)) {
        r = table_path(file, path, "colocate_info.csv", err);
        if (r == 0)
            r = read_pairs(lucid, file, err);
        if (r == 0)
            r = table_path(file, path, "single_data.csv", err);
        if (r == 0)
            r = read_singles(lucid, file, err);
    } else {
        r = read_pairs(lucid, path, err);
    }
    if (r < 0)
        return r;
    *ret_table = take(table);
    return 0;
}

static bool fits(const struct lucid_job *wanted, const struct lucid_job *row)
{
    return wanted->model == row->model && (wanted->dataset == NOT_TOLD || wanted->dataset == row->dataset) &&
           (wanted->batch == NOT_TOLD || wanted->batch == row->batch) &&
           (wanted->amp == NOT_TOLD || wanted->amp == row->amp);
}

static bool is_measured(const struct lucid *lucid, const struct lucid_job *wanted)
{
    for (size_t i = 0; i < lucid->row_count; i++) {
        if (fits(wanted, &lucid->rows[i].job[0]) || fits(wanted, &lucid->rows[i].job[1]))
            return true;
    }
    for (size_t i = 0; i < lucid->single_count; i++) {
        if (fits(wanted, &lucid->singles[i].job))
            return true;
    }
    return false;
}

/* "model/dataset/batch/amp", later parts may be missing. -ENOENT: a name the table does not have. */
static int parse_model(const struct lucid *lucid, const struct table_job *job, struct lucid_job *ret_wanted)
{
    const char *part = job->model;
    size_t length = strcspn(part, "/");

    *ret_wanted = (struct lucid_job){ NAME_NONE, NOT_TOLD, NOT_TOLD, NOT_TOLD };
    ret_wanted->model = names_find(&lucid->table.models, part, length);
    if (ret_wanted->model == NAME_NONE)
        return -ENOENT;
    part += length;
    if (*part) {
        length = strcspn(++part, "/");
        ret_wanted->dataset = names_find(&lucid->datasets, part, length);
        part += length;
        if (ret_wanted->dataset == NAME_NONE)
            return -ENOENT;
    }
    if (*part) {
        ret_wanted->batch = (uint32_t)strtoul(++part, NULL, 10);
        part += strcspn(part, "/");
    } else if (job->batch) {
        ret_wanted->batch = job->batch / (uint32_t)job->gpus;
        if (!is_measured(lucid, ret_wanted))
            ret_wanted->batch = NOT_TOLD;
    }
    if (*part)
        ret_wanted->amp = (uint32_t)strtoul(part + 1, NULL, 10);
    return is_measured(lucid, ret_wanted) ? 0 : -ENOENT;
}

static int lucid_find(struct table *table, const struct table_job *job, uint32_t *ret_entry, struct error *err)
{
    struct lucid *lucid = (struct lucid *)table;
    struct lucid_job wanted;
    int r = parse_model(lucid, job, &wanted);

    if (r < 0)
        return r;
    for (size_t i = 0; i < lucid->wanted_count; i++) {
        if (memcmp(&lucid->wanted[i], &wanted, sizeof(wanted)) == 0) {
            *ret_entry = (uint32_t)i;
            return 0;
        }
    }
    r = mem_grow((void **)&lucid->wanted, &lucid->wanted_capacity, lucid->wanted_count + 1, 4096,
                 sizeof(*lucid->wanted));
    if (r < 0)
        return error_set(err, r, "more than 4096 different jobs");
    *ret_entry = (uint32_t)lucid->wanted_count;
    lucid->wanted[lucid->wanted_count++] = wanted;
    return 0;
}

static double utilisation(const struct lucid *lucid, const struct lucid_job *wanted)
{
    double sum = 0;
    size_t count = 0;

    for (size_t i = 0; i < lucid->single_count; i++) {
        if (fits(wanted, &lucid->singles[i].job)) {
            sum += lucid->singles[i].utilisation;
            count++;
        }
    }
    return count ? sum / (double)count : -1;
}

static void work_out(const struct lucid *lucid, const struct lucid_job *a, const struct lucid_job *b,
                     struct lucid_rates *ret)
{
    double sum[SIDES] = { 0 }, both;
    size_t count = 0;

    for (size_t i = 0; i < lucid->row_count; i++) {
        const struct lucid_row *row = &lucid->rows[i];

        for (int turn = 0; turn < SIDES; turn++) {
            if (!fits(a, &row->job[turn]) || !fits(b, &row->job[!turn]))
                continue;
            sum[0] += row->speed[turn];
            sum[1] += row->speed[!turn];
            count++;
        }
    }
    *ret = (struct lucid_rates){ .known = true, .measured = count > 0 };
    if (count) {
        ret->rates[0] = sum[0] / (double)count;
        ret->rates[1] = sum[1] / (double)count;
        return;
    }
    sum[0] = utilisation(lucid, a);
    sum[1] = utilisation(lucid, b);
    if (sum[0] < 0 || sum[1] < 0)
        return;
    both = sum[0] + sum[1];
    ret->measured = true;
    ret->rates[0] = ret->rates[1] = both > 100 ? 100 / both : 1;
}

static int lucid_pair(struct table *table, const uint32_t entries[2], const struct table_place *place,
                      double ret_rates[2])
{
    struct lucid *lucid = (struct lucid *)table;
    struct lucid_rates fresh = { 0 }, *rates = &fresh;

    (void)place;
    if (lucid->cache_side != lucid->wanted_count) {
        mem_free(lucid->cache);
        lucid->cache = mem_zalloc(lucid->wanted_count * lucid->wanted_count, sizeof(*lucid->cache));
        lucid->cache_side = lucid->cache ? lucid->wanted_count : 0;
    }
    if (lucid->cache)
        rates = &lucid->cache[entries[0] * lucid->cache_side + entries[1]];
    if (!rates->known)
        work_out(lucid, &lucid->wanted[entries[0]], &lucid->wanted[entries[1]], rates);
    if (!rates->measured)
        return -ENOENT;
    ret_rates[0] = rates->rates[0];
    ret_rates[1] = rates->rates[1];
    return 0;
}

const struct table_ops table_lucid = {
    .kind = "lucid",
    .holds = "Lucid's pairs of jobs on one GPU",
    .claims = lucid_claims,
    .load = lucid_load,
    .free = lucid_free,
    .find = lucid_find,
    .pair = lucid_pair,
};
