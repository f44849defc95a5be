/* SPDX-License-Identifier: Apache-2.0 */
/* import_openb.c - Alibaba's GPU-sharing pods (2023).
 *
 * gpu_milli is the share of each GPU; gpu_spec the allowed types. LS and Guaranteed pods are guaranteed, BE is
 * opportunistic, Burstable is auto. A pod runs from scheduled_time to deletion_time; one that was never scheduled is
 * given its whole life, from creation to deletion. Files with the five resource columns have no times: their pods
 * come a second apart, in the order of the file, and stay a day, which is longer than all of them take to arrive.
 * cpu_milli and memory_mib are of the host.
 */
#include <errno.h>

#include "wire/trace/import_formats.h"

enum { NAME, CPU, MEMORY, GPUS, MILLI, SPEC, QOS, PHASE, CREATION, DELETION, SCHEDULED, COUNT };

static const struct csv_column columns[COUNT] = {
    [NAME] = { "name", true, 0 },
    [CPU] = { "cpu_milli", false, 0 },
    [MEMORY] = { "memory_mib", false, 0 },
    [GPUS] = { "num_gpu", true, 0 },
    [MILLI] = { "gpu_milli", true, 0 },
    [SPEC] = { "gpu_spec", false, 0 },
    [QOS] = { "qos", false, 0 },
    [PHASE] = { "pod_phase", false, 0 },
    [CREATION] = { "creation_time", false, 0 },
    [DELETION] = { "deletion_time", false, 0 },
    [SCHEDULED] = { "scheduled_time", false, 0 },
};

static const char *const qos_words[] = { "LS", "Guaranteed", "BE", "Burstable" };
static const uint8_t qos_classes[] = { CLASS_GUARANTEED, CLASS_GUARANTEED, CLASS_OPPORTUNISTIC, CLASS_AUTO };

static int share_read(struct rows *rows, struct jobspec *spec, struct error *err)
{
    int64_t milli;
    int r = csv_i64(&rows->csv, rows_at(rows, MILLI), 1, MGPU_ONE, &milli, err);

    if (r < 0)
        return r;
    if (milli < MGPU_ONE && spec->gpus > 1)
        return csv_expected(&rows->csv, rows_at(rows, MILLI), err, "1000 for a pod of %d GPUs", spec->gpus);
    spec->share = (mgpu_t)milli;
    return 0;
}

static int times_read(struct rows *rows, struct trace_job *job, struct error *err)
{
    usec_t from, to = 0;
    int r;

    if (rows_at(rows, CREATION) < 0) {
        rows_note(rows, "has no times: comes a second after the one before and stays a day");
        job->spec.submit = (usec_t)rows->row * USEC_SEC;
        job->truth.duration = USEC_DAY;
        return 1;
    }
    if (!rows_has(rows, DELETION)) {
        rows_note(rows, "left out: has no deletion time");
        return 0;
    }
    r = rows_time(rows, CREATION, USEC_SEC, &job->spec.submit, err);
    from = job->spec.submit;
    if (r == 0 && rows_has(rows, SCHEDULED))
        r = rows_time(rows, SCHEDULED, USEC_SEC, &from, err);
    else
        rows_note(rows, "was never scheduled: runs from its creation to its deletion");
    if (r == 0)
        r = rows_time(rows, DELETION, USEC_SEC, &to, err);
    if (r < 0)
        return r;
    if (to <= from) {
        rows_note(rows, "left out: was deleted before it ran");
        return 0;
    }
    job->truth.duration = to - from;
    return 1;
}

static int openb_row(struct rows *rows, struct trace_job *job, struct error *err)
{
    uint8_t qos = 0;
    int r = rows_import_gpus(rows, GPUS, job, err);

    if (r <= 0)
        return r;
    r = share_read(rows, &job->spec, err);
    if (r == 0 && rows_has(rows, SPEC))
        r = rows_skus(rows, SPEC, &job->spec, err);
    if (r == 0 && rows_has(rows, QOS))
        r = csv_word(&rows->csv, rows_at(rows, QOS), qos_words, 4, &qos, err);
    if (r < 0)
        return r;
    job->spec.klass = qos_classes[qos];
    return times_read(rows, job, err);
}

const struct row_format import_openb = {
    .separator = ',',
    .columns = columns,
    .column_count = COUNT,
    .id_column = NAME,
    .row = openb_row,
};
