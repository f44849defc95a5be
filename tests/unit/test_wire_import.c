/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign traces: each format on a few lines of our own, with what it becomes and what it refuses; then, where the
 * public traces are at hand (MUSTER_SHARED, or shared/ beside the project), every file of them. */
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "io/file.h"
#include "wire/trace/import.h"
#include "wire/trace/trace.h"

static struct error err;

static int import_text(const char *format, const char *text, struct trace *trace, struct import_notes *notes)
{
    char copy[4096];
    struct bytes bytes = { copy, strlen(text) };

    assert_true(bytes.size < sizeof(copy));
    memcpy(copy, text, bytes.size);
    *trace = (struct trace){ 0 };
    return import_trace(format, "f", &bytes, trace, notes, &err);
}

/* What the text becomes in the native form, and the notes, each as "COUNT@LINE text\n". */
static void becomes(const char *format, const char *text, const char *expected, const char *expected_notes)
{
    struct trace trace;
    struct import_notes notes;
    struct bytes bytes;
    struct buf list = BUF_INIT(4096);

    assert_int_equal(import_text(format, text, &trace, &notes), 0);
    assert_int_equal(trace_write(&trace, &bytes, &err), 0);
    assert_string_equal(bytes.data, expected);
    buf_text(&list, "");
    for (size_t i = 0; i < notes.count; i++)
        buf_printf(&list, "%llu@%u %s\n", (unsigned long long)notes.notes[i].count, notes.notes[i].line,
                   notes.notes[i].text);
    assert_string_equal(list.data, expected_notes);
    buf_done(&list);
    bytes_done(&bytes);
    trace_done(&trace);
}

static void refused(const char *format, const char *text, const char *words)
{
    struct trace trace;
    struct import_notes notes;

    assert_true(import_text(format, text, &trace, &notes) < 0);
    assert_string_equal(err.text, words);
    assert_null(trace.jobs);
}

#define ENDED(id, submit, gpus, attempts, spec)                                                                        \
    "{\"id\":" id ",\"submit_usec\":" submit ",\"gpus\":" gpus ",\"priority\":100,\"user\":\"ann\",\"vc\":\"nlp\","    \
    "\"attempts\":[" attempts "],\"spec\":" spec "}"
#define RAN(seconds, code) "{\"ran_seconds\":" seconds ",\"exit_code\":" code "}"

#define ASKED "{\"run\":\"x\",\"gpus\":\"H100|A100:2\",\"time\":\"1h\"}"
#define MIXED                                                                                                          \
    "{\"roles\":{\"a\":{\"nodes\":2,\"per_node\":{\"gpu\":\"H100:8\"},\"run\":\"x\"},"                                 \
    "\"b\":{\"nodes\":2,\"per_node\":{\"gpu\":\"A100:2\"},\"run\":\"x\"}}}"
#define LATE "{\"run\":\"x\",\"deadline\":\"4062-01-01T00:00:00Z\"}"
#define RETRIED ENDED("9", "5000000", "2", RAN("10.5", "1") "," RAN("4", "85") "," RAN("30", "0"), ASKED)
#define FAILED ENDED("7", "3000000", "1", RAN("2", "1"), "null")
#define UNSTARTED ENDED("8", "4000000", "1", "", "null")
#define AT_ONCE ENDED("6", "4000000", "1", RAN("0", "0"), "null")

/* Finished jobs of a controller: work is what counted, times begin at the first. */
static void history(void **state)
{
    (void)state;
    becomes("muster", "{\"items\":[" RETRIED "," FAILED "," UNSTARTED "," AT_ONCE "]}",
            "id,submit,duration,gpus,user,vc,priority,estimate,limit,sku\n7,0,2,1,ann,nlp,100,,,\n"
            "9,2,34,2,ann,nlp,100,3600,3600,A100|H100\n",
            "1@2 request not shown: taken as rigid, of any GPU type and without a time limit\n"
            "2@3 left out: never ran\n");
    becomes("muster", "[" ENDED("3", "0", "20", RAN("5", "0"), MIXED) "]", /* roles on two types */
            "id,submit,duration,gpus,user,vc,priority,sku,sides\n3,0,5,16,ann,nlp,100,H100,A100:4:2\n", "");
    refused("muster", "{\"items\":3}",
            "f: items: expected a list of jobs, as `muster history --json` prints it, got a whole number");
    refused("muster", "[{\"id\":\"x\"}]",
            "f: items.0.id: expected a whole number from 0 to 9223372036854775807, got a string");
    refused("muster", "[" ENDED("1", "1", "1", RAN("5", "0"), "{\"colour\":1}") "]",
            "f: items.0.spec: colour: unknown key 'colour'");
    refused("muster", "[" FAILED "," FAILED "]", "f: job 7 is there twice");
    refused("muster", "[" FAILED "," RETRIED "," ENDED("7", "6000000", "1", RAN("2", "1"), "null") "]",
            "f: job 7 is there twice");
    refused("muster", "[" ENDED("4", "1", "1", RAN("5", "0"), LATE) "]",
            "f: job 4: expected times within a thousand years of each other");
    refused("muster", "[", "f:1:1: ']' expected near end of file");
}

static void tiresias(void **state)
{
    (void)state;
    becomes("tiresias",
            "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
            "0,1,0,606,vgg19,164,30\n2,8,30,1,vgg11,147,0\n1,2,30,1,,7.5,1\n3,0,31,1,x,5,1\n4,1,31,1,x,0,1\n",
            "id,submit,duration,gpus,model\n0,0,164,1,vgg19\n1,30,7.5,2,\n2,30,147,8,vgg11\n",
            "1@5 left out: asks for no GPU\n1@6 left out: ran for no time\n");
    refused("tiresias", "job_id,num_gpu,submit_time,duration\n0,1.5,0,9\n",
            "f:2:3: num_gpu: expected a whole number from 1 to 65536, got '1.5'");
    refused("tiresias", "job_id,num_gpu,submit_time\n", "f:1:1: column 'duration' is missing");
}

static void philly(void **state)
{
    (void)state;
    becomes("philly",
            "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
            "2017-10-09 06:59:59,2951.0,4,1,6214e9\n2017-10-09 07:01:55,5.0,2,10.0,6214e9\n"
            "2018-01-01 00:00:00,5.0,2,10.0,6214e9\n",
            "id,submit,duration,gpus,vc\n1,0,2951,4,6214e9\n0,116,66,1,11cb48\n2,116,5,2,6214e9\n"
            "3,7232401,5,2,6214e9\n",
            "");
    refused("philly", "timestamp,duration,num_gpus,gpu_time,cluster\n2017-02-29 07:01:55,66.0,1,66.0,1\n",
            "f:2:1: timestamp: expected a time such as 2017-10-09 07:01:55, got '2017-02-29 07:01:55'");
    refused("philly", "timestamp,duration,num_gpus,gpu_time,cluster\n2017-02-28T07:01:55,66.0,1,66.0,1\n",
            "f:2:1: timestamp: expected a time such as 2017-10-09 07:01:55, got '2017-02-28T07:01:55'");
}

static void arrivals(void **state)
{
    static const char text[] = "job_id,arrival_s,service_sec,gpu_count\n9#0,0.0,172800.0,32\n8#1,5.25,3.0,8\n";

    (void)state;
    becomes("helios", text, "id,submit,duration,gpus\n9#0,0,172800,32\n8#1,5.25,3,8\n", "");
    becomes("pai", text, "id,submit,duration,gpus\n9#0,0,172800,32\n8#1,5.25,3,8\n", "");
}

static void openb(void **state)
{
    (void)state;
    becomes("openb",
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
            "scheduled_time\n"
            "p0,1,1,1,460,,LS,Running,10,30,15\np1,1,1,2,1000,T4|A10,BE,Failed,11,31,11\np2,1,1,0,0,,LS,Running,0,1,0\n"
            "p3,1,1,1,1000,G2,Burstable,Pending,12,20,\np4,1,1,1,1000,,LS,Pending,12,12,\np5,1,1,1,1000,,LS,Running,12,"
            ",12\n",
            "id,submit,duration,gpus,share,class,sku\np0,10,15,1,0.46,,\np1,11,20,2,,opportunistic,A10|T4\n"
            "p3,12,8,1,,auto,G2\n",
            "1@4 left out: asks for no GPU\n2@5 was never scheduled: runs from its creation to its deletion\n"
            "1@6 left out: was deleted before it ran\n1@7 left out: has no deletion time\n");
    becomes("openb", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,1,1000\nb,1,1,1,20\n",
            "id,submit,duration,gpus,share\na,0,86400,1,\nb,1,86400,1,0.02\n",
            "2@2 has no times: comes a second after the one before and stays a day\n");
    refused("openb", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,2,500\n",
            "f:2:9: gpu_milli: expected 1000 for a pod of 2 GPUs, got '500'");
}

#define CHRONUS                                                                                                        \
    "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,"      \
    "best_effort,job_type\n"

static void chronus(void **state)
{
    (void)state;
    becomes("chronus",
            CHRONUS "0,vc_a,1,10,5,bert,96,5,159-189,10-8,0,soft\n1,vc_b,2,3,7,vgg,106,6,235,10,0,strict\n"
                    "2,vc_a,0,1,1,vgg,9,9,9,10,0,strict\n3,vc_a,1,1,1,vgg,9,9,9,10,1,best\n",
            "id,submit,duration,gpus,vc,model,deadlines\n3,60,540,1,vc_a,vgg,\n1,180,6360,2,vc_b,vgg,14280:10\n"
            "0,600,5760,1,vc_a,bert,10140:10|11940:8\n",
            "1@4 left out: asks for no GPU\n");
    refused("chronus", CHRONUS "0,v,1,10,5,b,96,5,159-189,10,0,soft\n",
            "f:2:27: expect_value_list: expected 2 numbers divided by '-', got '10'");
    refused("chronus", CHRONUS "0,v,1,10,5,b,96,5,159-109,10-8,0,soft\n",
            "f:2:19: expect_time_list: expected minutes above 0 in rising order, got '159-109'");
    refused("chronus", CHRONUS "0,v,1,10,5,b,96,5,159,10,0,hard\n",
            "f:2:28: job_type: expected best, soft or strict, got 'hard'");
}

static void workloads(void **state)
{
    static const char text[] = "name,time,application,num_replicas,batch_size\ncifar10-0,107,cifar10,6,2048\n"
                               "ncf-1,110.661836,ncf,1,32768\n";

    (void)state;
    becomes("pollux", text, "id,submit,gpus,model,batch\ncifar10-0,107,6,cifar10,2048\nncf-1,110.661836,1,ncf,32768\n",
            "");
    becomes("sia", text, "id,submit,gpus,model,batch\ncifar10-0,107,6,cifar10,2048\nncf-1,110.661836,1,ncf,32768\n",
            "");
    refused("sia", "name,time,application,num_replicas,batch_size\na,1,,6,8\n",
            "f:2:5: application: expected the name of an application, got ''");
}

static void gavel(void **state)
{
    (void)state;
    becomes("gavel", "LM (batch size 5)\tcd %s && \"x\"\t-n\t1\t5635991\t0.500000\t4\nA3C\tc\t-n\t1\t7\t3.0\t1\n",
            "id,submit,iterations,gpus,model,batch\n0,0.5,5635991,4,LM (batch size 5),5\n1,3,7,1,A3C,\n", "");
    becomes("gavel", "LM (batch size 5)\tc\td\t-n\t1\t346\t2\t1\t-1.000000\t0\n",
            "id,submit,iterations,gpus,model,batch\n0,0,346,2,LM (batch size 5),5\n", "");
    becomes("shockwave", "LM (batch size 10)\tc\td\t-n\t1\t134583\t1\tgns\t1\t-1.000000\t1418\t55\n",
            "id,submit,duration,iterations,gpus,model,batch\n0,55,1418,134583,1,LM (batch size 10),10\n", "");
    refused("gavel", "LM\tc\td\t-n\t1\t346\t2\t2\t-1.000000\t0\n",
            "f:1:19: expected a priority weight of 1, the only one that is understood, got '2'");
    refused("gavel", "LM\tc\td\t-n\t1\t346\t2\t1\t1.2\t0\n",
            "f:1:21: expected -1 (no SLO), the only one that is understood, got '1.2'");
    refused("gavel", "LM\tc\n", "f:1:1: expected 7, 10 or 12 tab-separated fields, got 2");
}

static void muri(void **state)
{
    (void)state;
    becomes("muri",
            "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,"
            "resource_time_0,resource_time_1,resource_time_2,priority\n"
            "0,4,0,1046811,shufflenet,128,927475000,1,886,703,62,17,0\n1,4,1456,10,bert,4,500,1,190,0.5,163,18,1\n",
            "id,submit,duration,iterations,gpus,model,class,utilisation,batch\n"
            "0,0,927475,1046811,4,shufflenet,,7,128\n1,1.456,0.5,10,4,bert,opportunistic,86,4\n",
            "");
}

static void elasticflow(void **state)
{
    (void)state;
    becomes("elasticflow",
            "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n"
            "0,0,77215,resnet50,4426,256,1,3930,0\n1,5,7,vgg16,4426,64,2,3930,1\n",
            "id,submit,duration,iterations,gpus,gpus_min,gpus_max,model,deadlines,batch\n"
            "0,0,3930,77215,1,,64,resnet50,4426:10,256\n1,5,3930,7,2,1,64,vgg16,,64\n",
            "");
    refused("elasticflow",
            "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration\n0,9,7,vgg,9,25,1,39\n",
            "f:2:11: ddl: expected a time after the submission, got '9'");
}

static void rubick(void **state)
{
    (void)state;
    becomes("rubick",
            "name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,exec_plan,steps,is_sla\n"
            "vit-0,0,3163.091667,vit,2,16,0,zero-dp,37239,1\nt5-2,3519,3312,t5,4,32,0,ga,8109,0\n",
            "id,submit,duration,iterations,gpus,model,class\nvit-0,0,3163.091667,37239,2,vit,\n"
            "t5-2,3519,3312,8109,4,t5,auto\n",
            "");
}

static void formats_are_known_and_guessed(void **state)
{
    char head[] = "job_id,arrival_s,service_sec,gpu_count\n";
    char tabs[] = "LM\tcd\t1\n", nothing[] = "id,submit\n";
    struct bytes bytes = { head, strlen(head) };
    struct trace trace = { 0 };
    struct import_notes notes;

    (void)state;
    assert_string_equal(import_guess(&bytes)->name, "helios");
    bytes = (struct bytes){ tabs, strlen(tabs) };
    assert_string_equal(import_guess(&bytes)->name, "gavel");
    bytes = (struct bytes){ nothing, strlen(nothing) };
    assert_null(import_guess(&bytes));
    assert_int_equal(import_trace("slurm", "f", &bytes, &trace, &notes, &err), -EINVAL);
    assert_string_equal(err.text, "unknown trace format 'slurm'");
}

static void out_of_memory(void **state)
{
    struct trace trace;
    struct import_notes notes;
    size_t n = 0;
    int r;

    (void)state;
    do {
        mem_fail_at(++n);
        r = import_text("chronus", CHRONUS "a,vc_a,1,10,5,bert,96,5,159-189,10-8,0,soft\n", &trace, &notes);
        mem_fail_at(0);
        assert_true(r == 0 || r == -ENOMEM);
    } while (r < 0);
    assert_true(n > 5);
    trace_done(&trace);
}

static const char *shared(void)
{
    static char path[PATH_MAX];
    const char *given = getenv("MUSTER_SHARED"), *source = getenv("MUSTER_SOURCE");

    (void)snprintf(path, sizeof(path), "%s%s/traces", given ? given : source ? source : ".", given ? "" : "/../shared");
    return access(path, R_OK) == 0 ? path : NULL;
}

struct known_file {
    const char *format, *pattern;
    size_t files, jobs, left_out; /* over all files of the pattern; from the READMEs beside them */
};

static const struct known_file known_files[] = {
    { "tiresias", "tiresias/60_job.csv", 1, 60, 0 },
    { "tiresias", "philly/vc/philly-vc-0e4a51.csv.gz", 1, 1435, 0 },
    { "tiresias", "philly/vc/philly-vc-103959.csv.gz", 1, 1934, 0 },
    { "tiresias", "philly/vc/philly-vc-11cb48.csv.gz", 1, 16091, 0 },
    { "tiresias", "philly/vc/philly-vc-2869ce.csv.gz", 1, 422, 0 },
    { "tiresias", "philly/vc/philly-vc-6214e9.csv.gz", 1, 41226, 0 },
    { "tiresias", "philly/vc/philly-vc-6c71a0.csv.gz", 1, 9953, 0 },
    { "tiresias", "philly/vc/philly-vc-7f04ca.csv.gz", 1, 723, 0 },
    { "tiresias", "philly/vc/philly-vc-ee9e8c.csv.gz", 1, 1511, 0 },
    { "philly", "philly/philly-all-but-heldout.csv.gz", 1, 74824, 0 },
    { "helios", "helios-venus/venus-*.csv.gz", 1, 77573, 0 },
    { "pai", "alibaba-pai/*.csv.gz", 1, 60105, 0 },
    { "openb", "alibaba-openb/openb_pod_list_default.csv.gz", 1, 8152 - 1088 - 1, 1088 + 1 },
    { "openb", "alibaba-openb/openb_pod_list_gpuspec33.csv.gz", 1, 8152 - 1088 - 1, 1088 + 1 },
    { "openb", "alibaba-openb/openb_pod_list_gpushare*.csv.gz", 5, 5 * (8152 - 1088) - 7, 5 * 1088 + 7 },
    { "openb", "alibaba-openb/openb_pod_list_multigpu*.csv.gz", 2, 8324 + 9061 - 2 * 1088, 2 * 1088 },
    { "chronus", "chronus/trace_job_Philly_SLO.csv.gz", 1, 30940 - 205, 205 },
    { "chronus", "chronus/trace_job_Philly_MIX1.csv.gz", 1, 30940 - 184, 184 },
    { "chronus", "chronus/trace_job_Philly_MIX2.csv.gz", 1, 30940 - 194, 194 },
    { "pollux", "pollux/workloads/*.csv", 8, 8 * 160, 0 },
    { "pollux", "pollux/workloads-0.5/*.csv", 8, 8 * 80, 0 },
    { "pollux", "pollux/workloads-1.5/*.csv", 8, 8 * 240, 0 },
    { "pollux", "pollux/workloads-2.0/*.csv", 8, 8 * 320, 0 },
    { "pollux", "pollux/workloads-realistic/*.csv", 8, 8 * 160, 0 },
    { "sia", "sia/workloads/saturn/*.csv", 10, 10 * 160, 0 },
    { "sia", "sia/workloads/philly/*.csv", 8, 8 * 160, 0 },
    { "sia", "sia/workloads/newtrace/*.csv", 10, 10 * 960, 0 },
    { "sia", "sia/workloads/scale/rate_?0/*.csv", 50, 10 * (80 + 160 + 240 + 320 + 400), 0 },
    { "sia", "sia/workloads/scale/scale_*x/*", 5, 320 + 640 + 1280 + 2560 + 5120, 0 },
    { "gavel", "gavel/traces-msr-seed0/*.trace.gz", 14, 13264, 0 },
    { "gavel", "gavel/traces-physical/*.trace", 8, 287, 0 },
    { "shockwave", "shockwave/*.trace.gz", 5, 120 + 220 + 460 + 900 + 900, 0 },
    { "muri", "muri/trace1*.csv.gz", 2, 2 * 1494, 0 },
    { "muri", "muri/trace2*.csv.gz", 2, 2 * 5755, 0 },
    { "muri", "muri/trace3*.csv.gz", 2, 2 * 992, 0 },
    { "muri", "muri/trace4*.csv.gz", 2, 2 * 2638, 0 },
    { "muri", "muri/job_type_*.csv.gz", 4, 4 * 992, 0 },
    { "muri", "muri/testbed/cluster_trace.csv", 1, 400, 0 },
    { "elasticflow", "elasticflow/philly_103959.csv", 1, 876, 0 },
    { "elasticflow", "elasticflow/elasticVpollux_e.csv", 1, 195, 0 },
    { "elasticflow", "elasticflow/resnet_cifar_trace.csv", 1, 5, 0 },
    { "rubick", "rubick/workloads/workload-*.csv", 3, 3 * 406, 0 },
    { "rubick", "rubick/workloads/naive.csv", 1, 10, 0 },
};

/* Imports one file, writes it, reads that, writes it again: the same bytes. */
static void file_check(const char *format, const char *path, size_t *jobs, size_t *left_out)
{
    struct bytes bytes, first, second;
    struct trace trace = { 0 }, again = { 0 };
    struct import_notes notes;

    if (file_read(path, 0, &bytes, &err) < 0 || import_trace(format, path, &bytes, &trace, &notes, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(trace_write(&trace, &first, &err), 0);
    if (trace_read(path, &first, &again, &err) < 0)
        fail_msg("written and read: %s", err.text);
    assert_int_equal(again.count, trace.count);
    assert_int_equal(trace_write(&again, &second, &err), 0);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    *jobs += trace.count;
    for (size_t i = 0; i < notes.count; i++)
        if (strncmp(notes.notes[i].text, "left out", 8) == 0)
            *left_out += notes.notes[i].count;
    bytes_done(&bytes);
    bytes_done(&first);
    bytes_done(&second);
    trace_done(&trace);
    trace_done(&again);
}

static void public_traces(void **state)
{
    const char *folder = shared();

    (void)state;
    if (!folder) {
        print_message("SKIP: no public traces (MUSTER_SHARED)\n");
        skip();
    }
    for (size_t i = 0; folder && i < sizeof(known_files) / sizeof(known_files[0]); i++) {
        const struct known_file *known = &known_files[i];
        char pattern[2 * PATH_MAX];
        size_t jobs = 0, left_out = 0;
        glob_t found;

        (void)snprintf(pattern, sizeof(pattern), "%s/%s", folder, known->pattern);
        assert_int_equal(glob(pattern, 0, NULL, &found), 0);
        assert_int_equal(found.gl_pathc, known->files);
        for (size_t k = 0; k < found.gl_pathc; k++)
            file_check(known->format, found.gl_pathv[k], &jobs, &left_out);
        globfree(&found);
        if (jobs != known->jobs || left_out != known->left_out)
            fail_msg("%s: %zu jobs, %zu left out; expected %zu and %zu", pattern, jobs, left_out, known->jobs,
                     known->left_out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiresias),      cmocka_unit_test(history),
        cmocka_unit_test(philly),        cmocka_unit_test(arrivals),
        cmocka_unit_test(openb),         cmocka_unit_test(chronus),
        cmocka_unit_test(workloads),     cmocka_unit_test(gavel),
        cmocka_unit_test(muri),          cmocka_unit_test(elasticflow),
        cmocka_unit_test(rubick),        cmocka_unit_test(formats_are_known_and_guessed),
        cmocka_unit_test(out_of_memory), cmocka_unit_test(public_traces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
