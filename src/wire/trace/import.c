/* SPDX-License-Identifier: Apache-2.0 */
/* import.c - see import.h: the list of formats. */
#include "wire/trace/import.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "wire/trace/import_formats.h"

const struct import_format import_formats[] = {
    { "tiresias", "Tiresias simulator, and whoever took over its columns: seconds",
      "job_id,num_gpu,submit_time,iterations,model_name,duration,interval", &import_tiresias, NULL },
    { "philly", "Philly table of Pollux and Sia: wall time, virtual clusters",
      "timestamp,duration,num_gpus,gpu_time,cluster", &import_philly, NULL },
    { "helios", "Helios job log: arrival, run time, GPUs", "job_id,arrival_s,service_sec,gpu_count", &import_arrivals,
      NULL },
    { "pai", "Alibaba PAI 2020 tasks: start taken as arrival, run time, GPUs", NULL, &import_arrivals, NULL },
    { "openb", "Alibaba 2023 GPU-sharing pods: fractions, QoS, GPU types",
      "name,cpu_milli,memory_mib,num_gpu,gpu_milli", &import_openb, NULL },
    { "chronus", "Chronus workloads: minutes, strict, soft and no deadlines",
      "job_id,user,num_gpu,submit_time,iterations,model_name", &import_chronus, NULL },
    { "pollux", "Pollux workload: application, replicas, batch size", "name,time,application,num_replicas,batch_size",
      &import_workload, NULL },
    { "sia", "Sia workload: same columns as Pollux", NULL, &import_workload, NULL },
    { "gavel", "Gavel trace: tab-separated job types and steps, 7 or 10 columns", NULL, &import_gavel, NULL },
    { "shockwave", "Shockwave trace: as Gavel's, with 12 columns", NULL, &import_gavel, NULL },
    { "muri", "Muri trace: milliseconds, profiles, opportunistic jobs",
      "job_id,num_gpu,submit_time,iterations,model_name,batch_size", &import_muri, NULL },
    { "elasticflow", "ElasticFlow trace: iterations, batch size, absolute deadlines", "job_id,submit_time,",
      &import_elasticflow, NULL },
    { "rubick", "Rubick workload: large-model jobs, steps, service guarantee",
      "name,submission_time,duration,application", &import_rubick, NULL },
    { "muster", "Finished jobs of a live cluster: 'muster history --json'", "{\"apiVersion\"", NULL,
      import_history_read },
    { 0 },
};

const struct import_format *import_find(const char *name)
{
    for (const struct import_format *format = import_formats; format->name; format++)
        if (strcmp(format->name, name) == 0)
            return format;
    return NULL;
}

const struct import_format *import_guess(const struct bytes *bytes)
{
    const char *tab = memchr(bytes->data, '\t', bytes->size < 100 ? bytes->size : 100);

    for (const struct import_format *format = import_formats; format->name; format++) {
        size_t length = format->sample ? strlen(format->sample) : 0;

        if (length && length <= bytes->size && memcmp(bytes->data, format->sample, length) == 0)
            return format;
    }
    return tab ? import_find("gavel") : NULL;
}

int import_trace(const char *format, const char *file, const struct bytes *bytes, struct trace *ret_trace,
                 struct import_notes *ret_notes, struct error *err)
{
    const struct import_format *found = import_find(format);

    if (!found)
        return error_set(err, -EINVAL, "unknown trace format '%s'", format);
    if (found->read)
        return found->read(file, bytes, ret_trace, ret_notes, err);
    return rows_read(found->rows, file, bytes, ret_trace, ret_notes, err);
}
