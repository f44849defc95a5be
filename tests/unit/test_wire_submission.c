/* SPDX-License-Identifier: Apache-2.0 */
/* Submissions: what is read, what is written back, what is refused and in which words, what it asks of a cluster. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "wire/cluster/cluster.h"
#include "wire/job/gpu_spec.h"
#include "wire/job/roles.h"
#include "wire/job/submission.h"
#include "wire/text/duration.h"
#include "wire/text/hostlist.h"

static struct error err;

static int from_json(const char *text, struct submission *s)
{
    return submission_from_json(text, strlen(text), s, &err);
}

static int from_yaml(const char *text, struct submission *s)
{
    return submission_from_yaml("job.yaml", text, strlen(text), s, &err);
}

/* Reads the text, writes it canonically, reads that and writes it again. */
static void assert_canonical(int (*from)(const char *, struct submission *), const char *text, const char *expected)
{
    struct buf once = BUF_INIT(SUBMISSION_BYTES_MAX), twice = BUF_INIT(SUBMISSION_BYTES_MAX);
    struct submission s;

    if (from(text, &s) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(submission_to_json(&s, &once, &err), 0);
    submission_done(&s);
    assert_string_equal(once.data, expected);
    if (from_json(once.data, &s) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(submission_to_json(&s, &twice, &err), 0);
    submission_done(&s);
    assert_string_equal(once.data, twice.data);
    buf_done(&once);
    buf_done(&twice);
}

static void canonical_forms(void **state)
{
    (void)state;
    assert_canonical(from_json, "{\"run\": \"true\"}", "{\"run\":\"true\"}");
    assert_canonical(from_json, "{\"run\":\"x\",\"priority\":\"prod\",\"time\":90,\"gpus\":8,\"nodes\":\"2..4\"}",
                     "{\"gpus\":\"8\",\"nodes\":\"2..4\",\"priority\":\"high\",\"run\":\"x\",\"time\":\"5400s\"}");
    assert_canonical(
        from_json, "{\"run\":\"x\",\"array\":\"0-3,9%2\",\"after\":{\"ok\":[7,8],\"any\":9}}",
        "{\"after\":{\"any\":[9],\"ok\":[7,8]},\"array\":{\"indices\":\"0-3,9\",\"parallel\":2},\"run\":\"x\"}");
    assert_canonical(from_yaml,
                     "name: llama-ft\nvc: nlp\npriority: high\ntime: 24h\nnodes: 4\n"
                     "per_node: {gpu: \"H100:8\", cpu: 96, memory: 900G, shm: 64G}\n"
                     "topology: {level: rack, policy: prefer}\nimage: nvcr.io/nvidia/pytorch:25.05-py3\n"
                     "mounts: [\"/data:/data:ro\", \"/ckpt:/ckpt\"]\nenv: {NCCL_DEBUG: INFO, A: 1}\n"
                     "run: |\n  torchrun train.py --out /ckpt\n"
                     "checkpoint: {dir: /ckpt, signal: TERM, every: 30m, grace: 180s}\npreempt: suspend\nretries: 3\n"
                     "array: {values: {lr: [1e-4, 3e-4], seed: \"0-1\"}, parallel: 4}\nafter: {ok: [4090]}\n"
                     "notify: [fail, preempt]\n",
                     "{\"after\":{\"ok\":[4090]},\"array\":{\"keys\":[\"lr\",\"seed\"],\"parallel\":4,\"rows\":"
                     "[[\"1e-4\",\"0\"],[\"1e-4\",\"1\"],[\"3e-4\",\"0\"],[\"3e-4\",\"1\"]]},"
                     "\"checkpoint\":{\"dir\":\"/ckpt\",\"every\":\"1800s\",\"signal\":\"TERM\"},"
                     "\"env\":{\"A\":\"1\",\"NCCL_DEBUG\":\"INFO\"},\"grace\":\"180s\","
                     "\"image\":\"nvcr.io/nvidia/pytorch:25.05-py3\",\"mounts\":[\"/data:/data:ro\",\"/ckpt:/ckpt\"],"
                     "\"name\":\"llama-ft\",\"nodes\":4,\"notify\":[\"fail\",\"preempt\"],"
                     "\"per_node\":{\"cpu\":96,\"gpu\":\"H100:8\",\"memory\":\"900G\",\"shm\":\"64G\"},"
                     "\"preempt\":\"suspend\",\"priority\":\"high\",\"retries\":3,"
                     "\"run\":\"torchrun train.py --out /ckpt\\n\",\"time\":\"86400s\","
                     "\"topology\":{\"level\":\"rack\"},\"vc\":\"nlp\"}");
    assert_canonical(from_json,
                     "{\"args\":[\"a\",\"b c\"],\"launch\":\"node\",\"requeue\":false,\"signal\":\"USR1@120\","
                     "\"begin\":\"2026-02-28T23:59:60+01:00\",\"gpus\":\"0.5\",\"retry_on\":\"85,137\","
                     "\"emulate\":{\"run\":\"0.25s\",\"exit\":3},\"tags\":{\"k\":\"v\"}}",
                     "{\"args\":[\"a\",\"b c\"],\"begin\":\"2026-02-28T23:00:00.000000Z\","
                     "\"emulate\":{\"exit\":3,\"run\":\"0.25s\"},\"gpus\":\"0.5\",\"launch\":\"node\","
                     "\"requeue\":false,\"retry_on\":[85,137],\"signal\":\"USR1@120s\",\"tags\":{\"k\":\"v\"}}");
}

/* What a trace can tell of a job, a submission can too. */
static void training(void **state)
{
    static const char *const bad[] = {
        "class: auto\npriority: oppo\n",
        "class: best\n",
        "deadlines: [{at: 2026-02-28T10:00Z}, {at: 2026-02-28T09:00Z}]\n",
        "deadlines: [{at: 2026-02-28T10:00Z, value: 2}, {at: 2026-02-28T11:00Z, value: 5}]\n",
        "deadlines: [{value: 2}]\n",
        "deadline: 2026-02-28T10:00Z\ndeadlines: [{at: 2026-02-28T10:00Z}]\n",
        "training: {skew: 1.5}\n",
        "training: {batch: 0}\n",
        "training: {model: two words}\n",
        "training: {speed: 3}\n",
        "training: {gpu_servers: 4}\ngpus: 4\n",
        "progress: {step: '('}\n",
        "progress: {speed: x}\n"
    };

    (void)state;
    assert_canonical(from_yaml,
                     "run: x\ngpus: 8\nclass: auto\nprogress: {loss: 'l=(\\S+)', step: '(\\d+)'}\n"
                     "deadlines: [{at: 2026-02-28T10:00:00Z}, {at: 2026-02-28T11:00:00Z, value: 4}]\n"
                     "training: {model: bert, batch: 256, servers: 2, gpu_servers: 1, bandwidth: 25, skew: 0.625,\n"
                     "  gpu_memory: 12G, utilisation: 70, launch: 30s, save: 1m}\n",
                     "{\"class\":\"auto\",\"deadlines\":[{\"at\":\"2026-02-28T10:00:00.000000Z\",\"value\":10},"
                     "{\"at\":\"2026-02-28T11:00:00.000000Z\",\"value\":4}],\"gpus\":\"8\","
                     "\"progress\":{\"loss\":\"l=(\\\\S+)\",\"step\":\"(\\\\d+)\"},\"run\":\"x\","
                     "\"training\":{\"bandwidth\":25,\"batch\":256,\"gpu_memory\":\"12G\",\"gpu_servers\":1,"
                     "\"launch\":\"30s\",\"model\":\"bert\",\"save\":\"60s\",\"servers\":2,\"skew\":0.625,"
                     "\"utilisation\":70}}");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct submission s;
        struct error words = { 0 };
        char text[400];

        (void)snprintf(text, sizeof(text), "run: x\n%s", bad[i]);
        if (submission_from_yaml("f", text, strlen(text), &s, &words) != -EINVAL || !words.text[0])
            fail_msg("taken: %s", bad[i]);
    }
}

static void pai_files(void **state)
{
    (void)state;
    assert_canonical(
        from_yaml,
        "protocolVersion: 2\nname: bert\ntype: job\njobRetryCount: 1\n"
        "prerequisites: [{name: torch, type: dockerimage, uri: \"pytorch:2\"}]\n"
        "parameters: {lr: 1e-4}\nsecrets: {key: s3cr3t}\n"
        "taskRoles:\n  worker:\n    instances: 2\n    dockerImage: torch\n"
        "    completion: {minFailedInstances: 1, minSucceededInstances: -1}\n"
        "    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 8}\n"
        "    commands: [\"python t.py --lr <% $parameters.lr %>\", \"echo <%$secrets.key%>\"]\n"
        "defaults: {virtualCluster: nlp}\n"
        "extras: {hivedScheduler: {jobPriorityClass: prod, taskRoles: {worker: {skuType: V100}}}}\n",
        "{\"compat\":\"pai\",\"image\":\"pytorch:2\",\"launch\":\"node\",\"name\":\"bert\",\"nodes\":2,"
        "\"per_node\":{\"cpu\":4,\"gpu\":\"V100:8\",\"memory\":\"8G\"},\"priority\":\"high\",\"retries\":1,"
        "\"run\":\"python t.py --lr 1e-4\\necho s3cr3t\\n\",\"vc\":\"nlp\"}");
}

/* Tasks that start one by one are an array of jobs of one task. */
static void one_by_one(void **state)
{
    struct submission s;

    (void)state;
    assert_canonical(
        from_yaml,
        "protocolVersion: 2\nname: inc\ntype: job\n"
        "taskRoles:\n  w: {instances: 4, completion: {minFailedInstances: 1}, "
        "resourcePerInstance: {gpu: 1}, commands: [w]}\n"
        "extras: {gangAllocation: false}\n",
        "{\"array\":{\"indices\":\"0-3\"},\"compat\":\"pai\",\"launch\":\"node\",\"name\":\"inc\",\"nodes\":1,"
        "\"per_node\":{\"gpu\":\"1\"},\"run\":\"w\\n\"}");
    assert_canonical(from_yaml, "run: w\nnodes: 3\nper_node: {gpu: 2}\ngang: false\n",
                     "{\"array\":{\"indices\":\"0-2\"},\"nodes\":1,\"per_node\":{\"gpu\":\"2\"},\"run\":\"w\"}");
    assert_canonical(from_yaml, "run: w\nnodes: 3\ngang: true\n", "{\"nodes\":3,\"run\":\"w\"}");
    assert_true(from_yaml("run: w\nnodes: 2\narray: 0-3\ngang: false\n", &s) < 0);
    assert_non_null(strstr(err.text, "neither array nor roles"));
    assert_true(from_yaml("run: w\nnodes: 2\ngpus: 8\ngang: false\n", &s) < 0);
    assert_non_null(strstr(err.text, "needs per_node.gpu"));
    assert_true(from_yaml("run: w\nnodes: 2..4\ngang: false\n", &s) < 0);
    assert_non_null(strstr(err.text, "the number of tasks"));
}

#define ROLES                                                                                                          \
    "\"roles\":{\"ps\":{\"nodes\":2,\"per_node\":{\"cpu\":4,\"memory\":\"1G\"},\"run\":\"p\"},"                        \
    "\"worker\":{\"completion\":{\"min_failed\":-1,\"min_succeeded\":3},\"env\":{\"A\":\"b\"},\"nodes\":3,"            \
    "\"per_node\":{\"gpu\":\"H100:4\"},\"run\":\"w\"}}"

#define PAI_IMAGES(second)                                                                                             \
    "protocolVersion: 2\nname: a\n"                                                                                    \
    "prerequisites: [{name: i, type: dockerimage, uri: 'one:1'}, {name: k, type: dockerimage, uri: '" second "'}]\n"   \
    "taskRoles:\n  p: {instances: 1, dockerImage: i, commands: [p]}\n"                                                 \
    "  w: {instances: 1, dockerImage: k, resourcePerInstance: {gpu: 2}, commands: [w]}\n"

/* Several roles: written as they were read; OpenPAI's become them; who is where follows from the number of nodes. */
static void roles(void **state)
{
    struct role_task *tasks = NULL;
    struct submission s;

    (void)state;
    assert_canonical(from_json, "{" ROLES "}", "{\"launch\":\"node\"," ROLES "}");
    assert_canonical(from_yaml, PAI_IMAGES("two:2"),
                     "{\"compat\":\"pai\",\"launch\":\"node\",\"name\":\"a\",\"roles\":{"
                     "\"p\":{\"image\":\"one:1\",\"nodes\":1,\"run\":\"p\\n\"},"
                     "\"w\":{\"image\":\"two:2\",\"nodes\":1,\"per_node\":{\"gpu\":\"2\"},\"run\":\"w\\n\"}}}");
    assert_canonical(from_yaml, PAI_IMAGES("one:1"), /* one for all is the job's */
                     "{\"compat\":\"pai\",\"image\":\"one:1\",\"launch\":\"node\",\"name\":\"a\",\"roles\":{"
                     "\"p\":{\"nodes\":1,\"run\":\"p\\n\"},"
                     "\"w\":{\"nodes\":1,\"per_node\":{\"gpu\":\"2\"},\"run\":\"w\\n\"}}}");
    assert_canonical(from_yaml,
                     "protocolVersion: 2\nname: a\ntaskRoles:\n"
                     "  ps: {instances: 2, resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}, commands: [p]}\n"
                     "  w: {instances: 3, completion: {minFailedInstances: 2, minSucceededInstances: 3},\n"
                     "      resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 4}, commands: [w]}\n"
                     "extras: {hivedScheduler: {taskRoles: {w: {skuType: V100}}}}\n",
                     "{\"compat\":\"pai\",\"launch\":\"node\",\"name\":\"a\",\"roles\":{"
                     "\"ps\":{\"nodes\":2,\"per_node\":{\"cpu\":1,\"memory\":\"1G\"},\"run\":\"p\\n\"},"
                     "\"w\":{\"completion\":{\"min_failed\":2,\"min_succeeded\":3},\"nodes\":3,"
                     "\"per_node\":{\"cpu\":1,\"gpu\":\"V100:4\",\"memory\":\"1G\"},\"run\":\"w\\n\"}}}");
    assert_int_equal(from_json("{\"roles\":{\"a\":{\"nodes\":2,\"per_node\":{\"gpu\":1},\"run\":\"x\"},"
                               "\"b\":{\"nodes\":2,\"per_node\":{\"gpu\":4},\"run\":\"x\"},"
                               "\"c\":{\"nodes\":3,\"run\":\"x\"}}}",
                               &s),
                     0);
    assert_int_equal(roles_tasks(&s), 7);
    assert_int_equal(roles_gpus(&s), 10);
    assert_int_equal(roles_pack(&s, (const struct role_node[]){ { 0, 3 }, { 0, 3 }, { 0, 3 } }, 3, &tasks), -ERANGE);
    assert_int_equal(roles_pack(&s, NULL, 0, &tasks), -ERANGE);
    assert_int_equal(roles_pack(&s, (const struct role_node[]){ { 0, 5 }, { 0, 5 } }, 2, &tasks), 0);
    assert_int_equal(tasks[1].node, 1); /* the second of a, behind the second of b */
    assert_int_equal(tasks[1].gpu_first, 4);
    assert_int_equal(tasks[3].node, 1);
    assert_int_equal(tasks[3].gpu_count, 4);
    assert_int_equal(tasks[6].node, 0); /* the third of c, in turn */
    mem_free(tasks);
    submission_done(&s);
    for (uint64_t nth = 1;; nth++) {
        int r;

        mem_fail_at(nth);
        r = from_json("{" ROLES "}", &s);
        mem_fail_at(0);
        if (r == 0)
            break;
        assert_true(nth < 1000);
    }
    submission_done(&s);
}

#define MIXED                                                                                                          \
    "\"roles\":{\"actor\":{\"nodes\":4,\"per_node\":{\"cpu\":2,\"gpu\":\"A100:1\"},\"run\":\"a\"},"                    \
    "\"judge\":{\"nodes\":1,\"per_node\":{\"gpu\":\"A100:2\"},\"run\":\"j\"},"                                         \
    "\"learner\":{\"nodes\":2,\"per_node\":{\"cpu\":8,\"gpu\":\"H100:8\"},\"run\":\"l\"},"                             \
    "\"log\":{\"nodes\":3,\"run\":\"g\"}}"

/* Roles on GPUs of several types: each type is a part of the gang, with nodes of its own. */
static void roles_types(void **state)
{
    /* As ranks may come: the nodes of a part need not follow each other. */
    const struct role_node nodes[] = { { 1, 8 }, { 0, 3 }, { 1, 8 }, { 0, 3 } };
    struct role_task *tasks = NULL;
    struct submission s;

    (void)state;
    assert_canonical(from_json, "{" MIXED "}", "{\"launch\":\"node\"," MIXED "}");
    assert_canonical(from_yaml,
                     "protocolVersion: 2\nname: a\ntaskRoles:\n"
                     "  a: {instances: 2, resourcePerInstance: {gpu: 1}, commands: [a]}\n"
                     "  l: {instances: 1, resourcePerInstance: {gpu: 8}, commands: [l]}\n"
                     "extras: {hivedScheduler: {taskRoles: {l: {skuType: H100}, a: {skuType: A100}}}}\n",
                     "{\"compat\":\"pai\",\"launch\":\"node\",\"name\":\"a\",\"roles\":{"
                     "\"a\":{\"nodes\":2,\"per_node\":{\"gpu\":\"A100:1\"},\"run\":\"a\\n\"},"
                     "\"l\":{\"nodes\":1,\"per_node\":{\"gpu\":\"H100:8\"},\"run\":\"l\\n\"}}}");
    assert_int_equal(from_json("{" MIXED "}", &s), 0);
    assert_int_equal(roles_parts(&s), 2);
    assert_int_equal(roles_part(&s, &s.roles[2]), 1);
    assert_int_equal(roles_part(&s, &s.roles[3]), 0);
    assert_string_equal(roles_part_type(&s, 0), "A100");
    assert_string_equal(roles_part_type(&s, 1), "H100");
    assert_int_equal(roles_part_gpus(&s, 0), 6);
    assert_int_equal(roles_part_gpus(&s, 1), 16);
    assert_int_equal(roles_pack(&s, nodes, 4, &tasks), 0);
    assert_int_equal(tasks[4].node, 1); /* judge, the largest of its part, first */
    assert_int_equal(tasks[0].node, 1);
    assert_int_equal(tasks[0].gpu_first, 2);
    assert_int_equal(tasks[3].node, 3);
    assert_int_equal(tasks[5].node, 0);
    assert_int_equal(tasks[6].node, 2);
    assert_int_equal(tasks[7].node, 1); /* without GPUs: beside the first part, in turn */
    assert_int_equal(tasks[8].node, 3);
    assert_int_equal(tasks[9].node, 1);
    mem_free(tasks);
    assert_int_equal(roles_pack(&s, nodes + 1, 3, &tasks), -ERANGE); /* H100 are too few */
    submission_done(&s);
    for (uint64_t nth = 1;; nth++) {
        int r;

        mem_fail_at(nth);
        r = from_json("{" MIXED "}", &s);
        mem_fail_at(0);
        if (r == 0)
            break;
        assert_true(nth < 1000);
    }
    submission_done(&s);
}

static void assert_refused(int (*from)(const char *, struct submission *), const char *text, const char *words)
{
    struct submission s;

    assert_true(from(text, &s) < 0);
    assert_string_equal(err.text, words);
}

static void refusals(void **state)
{
    (void)state;
    assert_refused(from_json, "{\"run\":\"x\",\"tme\":1}", "tme: unknown key 'tme'; did you mean 'time'?");
    assert_refused(from_json, "{\"run\":\"x\",\"per_node\":{\"gpu\":\"H100:x\"}}",
                   "per_node.gpu: expected GPUs as [TYPE:]COUNT such as 8, H100:8, 4..16 or 0.5, got 'H100:x'");
    assert_refused(from_json, "{\"run\":\"x\",\"gpus\":1,\"per_node\":{\"gpu\":1}}",
                   "per_node.gpu: give either gpus, of the whole job, or per_node.gpu");
    assert_refused(from_json, "{\"run\":\"x\",\"secrets\":[\"A-B\"]}",
                   "secrets: expected the name of a secret such as HF_TOKEN, got 'A-B'");
    assert_refused(from_json, "{\"name\":\"x\"}", "nothing to run: expected 'run' or 'args'");
    assert_refused(from_json, "{\"run\":\"x\",\"env\":{\"A B\":\"1\"}}",
                   "env.A B: a variable is named with letters, digits and _");
    assert_refused(from_json, "{\"run\":\"x\",\"array\":\"5-3\"}",
                   "array: expected indices such as 0-99, 0-99%8 or 1,3,5-9:2, got '5-3'");
    assert_refused(from_json, "[1]", "expected a mapping");
    assert_refused(from_json,
                   "{\"roles\":{\"a\":{\"per_node\":{\"gpu\":\"A:1\"},\"run\":\"x\"},"
                   "\"b\":{\"per_node\":{\"gpu\":\"B:1\"},\"run\":\"x\"},"
                   "\"c\":{\"per_node\":{\"gpu\":\"C:1\"},\"run\":\"x\"},"
                   "\"d\":{\"per_node\":{\"gpu\":\"D:1\"},\"run\":\"x\"},"
                   "\"e\":{\"per_node\":{\"gpu\":\"E:1\"},\"run\":\"x\"}}}",
                   "roles.e.per_node.gpu: roles are on GPUs of at most 4 types");
    assert_refused(from_yaml, "run: x\ngpuz: 3\n",
                   "job.yaml:2:1: unknown key 'gpuz'; did you mean 'gpus'?\n  gpuz: 3\n  ^");
    assert_refused(from_yaml, "run: x\nper_node:\n  cpu: many\n",
                   "job.yaml:3:8: per_node.cpu: expected a whole number from 1 to 65536, got 'many'\n"
                   "    cpu: many\n         ^");
    assert_refused(from_yaml, "protocolVersion: 2\nname: a\ntaskRoles: {w: {commands: [x], ports: {}}}\n",
                   "job.yaml:3:32: OpenPAI's key 'ports' is not supported here\n"
                   "  taskRoles: {w: {commands: [x], ports: {}}}\n                                 ^");
}

/* An alias of an alias of ... is not followed for ever. */
static void bombs(void **state)
{
    struct buf text = BUF_INIT(100000);
    struct submission s;

    (void)state;
    buf_text(&text, "run: x\nenv:\n  A: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for (int i = 1; i < 10; i++) {
        buf_printf(&text, "  B%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            buf_printf(&text, "%s*a%d", k ? "," : "", i - 1);
        buf_text(&text, "]\n");
    }
    assert_true(from_yaml(text.data, &s) < 0);
    assert_non_null(strstr(err.text, "more than 20000 values, aliases written out"));
    buf_clear(&text);
    /* What is deep because an alias stands where it does. */
    buf_text(&text, "run: x\nenv:\n  A: &a0 [x]\n");
    for (int i = 1; i < 40; i++)
        buf_printf(&text, "  B%d: &a%d [*a%d]\n", i, i, i - 1);
    assert_true(from_yaml(text.data, &s) < 0);
    assert_non_null(strstr(err.text, "more than 32 levels"));
    buf_clear(&text);
    buf_text(&text, "run: x\nenv: {A: [");
    for (int i = 0; i < 25000; i++)
        buf_text(&text, "1,");
    buf_text(&text, "]}\n");
    assert_true(from_yaml(text.data, &s) < 0);
    assert_non_null(strstr(err.text, "more than 20000 values"));
    buf_done(&text);
    assert_true(from_yaml("run: &r [*r]\n", &s) < 0);
    assert_non_null(strstr(err.text, "an alias of what it is in"));
    /* One that is small may be used. */
    assert_int_equal(from_yaml("run: &r x\nname: *r\n", &s), 0);
    assert_string_equal(s.name, "x");
    submission_done(&s);
}

static usec_t span_of(const char *text)
{
    usec_t span = -1;

    return duration_parse(text, strlen(text), &span) < 0 ? -1 : span;
}

static void spans(void **state)
{
    (void)state;
    assert_int_equal(span_of("90"), 90 * USEC_MIN);
    assert_int_equal(span_of("04:30"), 4 * USEC_MIN + 30 * USEC_SEC);
    assert_int_equal(span_of("01:00:00"), USEC_HOUR);
    assert_int_equal(span_of("2-00"), 2 * USEC_DAY);
    assert_int_equal(span_of("1-12:30"), USEC_DAY + 12 * USEC_HOUR + 30 * USEC_MIN);
    assert_int_equal(span_of("2h30m"), 150 * USEC_MIN);
    assert_int_equal(span_of("1.5h"), 90 * USEC_MIN);
    assert_int_equal(span_of("250ms"), 250 * USEC_MSEC);
    assert_int_equal(span_of(""), -1);
    assert_int_equal(span_of("-5"), -1);
    assert_int_equal(span_of("5 h"), -1);
    assert_int_equal(span_of("h"), -1);
    assert_int_equal(span_of("1:2:3:4"), -1);
    assert_int_equal(span_of("999999999d"), -1);
}

static void instants(void **state)
{
    static const char *const same[] = { "1970-01-01T00:00:00.000000Z", "2000-02-29T12:34:56.789012Z",
                                        "2026-12-31T23:59:59.999999Z", "2100-03-01T00:00:00.000000Z" };
    usec_t at;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct buf out = BUF_INIT(64);

        assert_int_equal(instant_parse(same[i], strlen(same[i]), &at), 0);
        instant_put(&out, at);
        assert_string_equal(out.data, same[i]);
        buf_done(&out);
    }
    assert_int_equal(instant_parse("86400", 5, &at), 0);
    assert_int_equal(at, USEC_DAY);
    assert_int_equal(instant_parse("2026-13-01", 10, &at), -EINVAL);
    assert_int_equal(instant_parse("tomorrow", 8, &at), -EINVAL);
}

static void assert_hosts(const char *const *names, size_t count, const char *expected)
{
    const char *copy[16];
    struct buf out = BUF_INIT(1000);

    memcpy(copy, names, count * sizeof(*names));
    hostlist_put(&out, copy, count);
    assert_string_equal(out.data, expected);
    buf_done(&out);
}

static int host_gather(void *arg, const char *name)
{
    buf_printf(arg, "%s ", name);
    return 0;
}

static void hostlists(void **state)
{
    struct buf out = BUF_INIT(1000);

    (void)state;
    assert_hosts((const char *[]){ "gpu05", "gpu01", "gpu02" }, 3, "gpu[01-02,05]");
    assert_hosts((const char *[]){ "gpu9", "gpu10", "gpu11", "gpu8" }, 4, "gpu[8-9],gpu[10-11]");
    assert_hosts((const char *[]){ "login", "a1-ib", "a2-ib", "b" }, 4, "a[1-2]-ib,b,login");
    assert_hosts((const char *[]){ "n1", "n1" }, 2, "n1");
    assert_int_equal(hostlist_each("gpu[08-11,20],x,y[1-2]z", host_gather, &out, &err), 0);
    assert_string_equal(out.data, "gpu08 gpu09 gpu10 gpu11 gpu20 x y1z y2z ");
    assert_int_equal(hostlist_each("gpu[1-", host_gather, &out, &err), -EINVAL);
    assert_int_equal(hostlist_each("gpu[1-999999999]", host_gather, &out, &err), -E2BIG);
    buf_done(&out);
}

/* Binds against two clusters of eight-GPU and four-GPU nodes. */
static int bind(const char *text, struct jobspec *spec, struct infeasible *why)
{
    static const char file[] = "skus: {H100: {memory: 80G}, A100: {memory: 40G}}\n"
                               "nodes:\n  - {count: 4, prefix: h, gpus: 8, sku: H100, cpus: 64, memory: 512G}\n"
                               "  - {count: 2, prefix: a, gpus: 4, sku: A100, cpus: 32, memory: 256G}\n"
                               "vcs:\n  nlp: {quota: {H100: 16}, borrow: 8}\n  cv: {quota: {H100: 16, A100: 8}}\n";
    struct bytes bytes = { mem_strdup(file), sizeof(file) - 1 };
    struct cluster_spec cluster = { 0 };
    struct submission s;
    int r;

    if (cluster_read_yaml("c.yaml", &bytes, &cluster, &err) < 0 || from_json(text, &s) < 0)
        fail_msg("%s", err.text);
    r = submission_bind(&s, &cluster, spec, why, &err);
    submission_done(&s);
    cluster_spec_done(&cluster);
    bytes_done(&bytes);
    return r;
}

static void assert_never(const char *text, const char *code, const char *words, const char *hint)
{
    struct jobspec spec;
    struct infeasible why;

    assert_true(bind(text, &spec, &why) < 0);
    assert_string_equal(why.code, code);
    assert_string_equal(err.text, words);
    assert_string_equal(why.hint, hint);
}

static void bound(void **state)
{
    struct jobspec spec;
    struct infeasible why;

    (void)state;
    assert_int_equal(bind("{\"run\":\"x\"}", &spec, &why), 0);
    assert_int_equal(spec.gpus, 1);
    assert_int_equal(spec.sku_mask, 0);
    assert_int_equal(spec.priority, 100);
    assert_int_equal(
        bind("{\"run\":\"x\",\"nodes\":2,\"gpus\":\"h100:16\",\"time\":\"1h\",\"priority\":\"oppo\"}", &spec, &why), 0);
    assert_int_equal(spec.gpus, 16);
    assert_int_equal(spec.per_node, 8);
    assert_int_equal(spec.sku_mask, 1);
    assert_int_equal(spec.klass, CLASS_OPPORTUNISTIC);
    assert_int_equal(spec.time_limit, USEC_HOUR);
    assert_int_equal(spec.estimate, USEC_HOUR);
    assert_int_equal(bind("{\"run\":\"x\",\"nodes\":\"1..3\",\"per_node\":{\"gpu\":8}}", &spec, &why), 0);
    assert_int_equal(spec.gpus_min, 8);
    assert_int_equal(spec.gpus_max, 24);
    assert_int_equal(spec.per_node, 8);
    assert_int_equal(bind("{\"run\":\"x\",\"gpus\":\"40G..:4..16\"}", &spec, &why), 0);
    assert_int_equal(spec.sku_mask, 3);
    assert_int_equal(spec.gpus_max, 16);
    assert_int_equal(bind("{\"run\":\"x\",\"gpus\":\"41G..:0.25\"}", &spec, &why), 0);
    assert_int_equal(spec.sku_mask, 1);
    assert_int_equal(spec.share, 250);
    assert_int_equal(bind("{\"run\":\"x\",\"nodes\":2,\"exclusive\":true,\"gpus\":\"A100:2\"}", &spec, &why), 0);
    assert_int_equal(spec.gpus, 8);
    assert_int_equal(spec.per_node, 4);
}

/* The first type that is named is what policies see; the others come beside it. */
static void bound_types(void **state)
{
    struct jobspec spec;
    struct infeasible why;

    (void)state;
    assert_int_equal(
        bind("{\"roles\":{\"l\":{\"nodes\":2,\"per_node\":{\"gpu\":\"h100:8\"},\"run\":\"x\"},"
             "\"a\":{\"nodes\":4,\"per_node\":{\"cpu\":2,\"gpu\":\"A100:2\",\"memory\":\"1G\"},\"run\":\"x\"}}}",
             &spec, &why),
        0);
    assert_int_equal(spec.gpus, 16);
    assert_int_equal(spec.per_node, 8);
    assert_int_equal(spec.sku_mask, 1);
    assert_int_equal(spec.mcpus, 0);
    assert_int_equal(spec.side_count, 1);
    assert_int_equal(spec.sides[0].gpus, 8);
    assert_int_equal(spec.sides[0].per_node, 4); /* two nodes of 4 have four tasks of 2 */
    assert_int_equal(spec.sides[0].sku_mask, 2);
    assert_int_equal(spec.sides[0].mcpus, 1000);
    assert_int_equal(spec.sides[0].host_mib, 512);
    assert_int_equal(jobspec_gpus(&spec), 24);
}

#define TWO(a, b)                                                                                                      \
    "{\"roles\":{\"a\":{\"nodes\":2,\"per_node\":{\"gpu\":\"" a "\"},\"run\":\"x\"},"                                  \
    "\"b\":{\"nodes\":2,\"per_node\":{\"gpu\":\"" b "\"},\"run\":\"x\"}}"

static void infeasible(void **state)
{
    (void)state;
    assert_never(TWO("H100:1", "H100|A100:1") "}", "InvalidSpec",
                 "roles on several types of GPU have no type in common", "name one type for each");
    assert_never(TWO("H100:1", "B200:1") "}", "Infeasible.Sku", "no node has GPUs of type 'B200'",
                 "this cluster has H100, A100");
    assert_never(TWO("H100:1", "A100:5") "}", "Infeasible.NodeSize",
                 "the 10 GPUs of its roles do not fill nodes of this cluster evenly",
                 "give tasks with GPUs the same number each, or numbers of tasks that fill like nodes");
    assert_never(TWO("H100:1", "A100:1") ",\"topology\":\"rack\"}", "InvalidSpec",
                 "roles on several types of GPU have whole GPUs anywhere",
                 "leave topology, exclusive and parallel out");
    assert_never("{\"run\":\"x\",\"nodes\":1,\"gpus\":\"H100:16\"}", "Infeasible.NodeSize",
                 "no node has 16 H100; the largest has 8", "use -N2 --gpus-per-node=H100:8");
    assert_never("{\"run\":\"x\",\"nodes\":1,\"gpus\":65536}", "Infeasible.NodeSize",
                 "no node has 65536 GPUs; the largest has 8", "use -N8192 --gpus-per-node=8");
    assert_never("{\"run\":\"x\",\"gpus\":\"B200:1\"}", "Infeasible.Sku", "no node has GPUs of type 'B200'",
                 "this cluster has H100, A100");
    assert_never("{\"run\":\"x\",\"gpus\":\"A100:9\"}", "Infeasible.Sku",
                 "the cluster has 8 A100 in all; 9 were asked for", "use -G A100:8 or fewer");
    assert_never("{\"run\":\"x\",\"nodes\":5,\"per_node\":{\"gpu\":6}}", "Infeasible.NodeSize",
                 "the cluster has 24 GPUs in all in that shape; 30 were asked for",
                 "use -G 40 or fewer, and leave the number of nodes out");
    assert_never("{\"run\":\"x\",\"per_node\":{\"gpu\":1,\"cpu\":100}}", "Infeasible.NodeSize",
                 "no node has 100 CPUs; the largest has 64", "ask for at most 64 CPUs a node");
    assert_never("{\"run\":\"x\",\"vc\":\"lab\"}", "NoSuchVc", "no virtual cluster 'lab'", "there are: nlp, cv");
    assert_never("{\"run\":\"x\",\"vc\":\"nlp\",\"gpus\":\"H100:32\"}", "Infeasible.Quota",
                 "vc nlp may hold 24 H100 at most, borrowed ones included; 32 were asked for",
                 "ask for at most 24, or -q oppo");
    assert_never("{\"run\":\"x\",\"nodes\":3,\"gpus\":16}", "InvalidSpec",
                 "16 GPUs cannot be shared out evenly to 3 nodes",
                 "leave the number of nodes out, or ask for GPUs of each node");
}

/* Each allocation fails once: nothing leaks, nothing is half made. */
static void torture(void **state)
{
    static const char text[] =
        "{\"run\":\"x\",\"args\":[\"a\"],\"env\":{\"A\":\"b\"},\"tags\":{\"t\":\"u\"},\"mounts\":[\"/a:/b\"],"
        "\"image\":\"i\",\"after\":[1],\"array\":{\"values\":{\"lr\":[1,2],\"s\":\"0-1\"}},"
        "\"gpus\":\"H100:1\",\"topology\":\"rack:prefer\",\"notify\":[\"end\"]}";
    struct submission s;
    int r = -ENOMEM;

    (void)state;
    for (size_t nth = 1; r < 0; nth++) {
        mem_fail_at(nth);
        r = from_json(text, &s);
        mem_fail_at(0);
        assert_true(r == 0 || r == -ENOMEM || r == -EBADMSG);
        assert_true(nth < 1000);
    }
    submission_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_forms), cmocka_unit_test(training),    cmocka_unit_test(pai_files),
        cmocka_unit_test(one_by_one),      cmocka_unit_test(refusals),    cmocka_unit_test(bombs),
        cmocka_unit_test(spans),           cmocka_unit_test(instants),    cmocka_unit_test(hostlists),
        cmocka_unit_test(bound),           cmocka_unit_test(infeasible),  cmocka_unit_test(torture),
        cmocka_unit_test(roles),           cmocka_unit_test(roles_types), cmocka_unit_test(bound_types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
