/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: flags, #MUSTER and #SBATCH lines and files end in the same submission; errors say who said it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "wire/job/job_request.h"

static usec_t zone_ahead(usec_t now)
{
    (void)now;
    return USEC_HOUR;
}

static struct error err;

/* 2026-01-31 12:00 UTC, local clocks an hour ahead. */
#define NOW (INT64_C(1769860800) * USEC_SEC)

static int finish(struct job_request *request, struct buf *out)
{
    struct submission s;
    int r = job_request_finish(request, &s, &err);

    if (r < 0)
        return r;
    r = submission_to_json(&s, out, &err);
    submission_done(&s);
    return r;
}

/* A script read after the flags of `line`, as `muster submit FLAGS script` has them. */
static int script(const char *text, const char *line, struct buf *out)
{
    struct job_request request;
    char copy[400], *words[32];
    int count, r = job_request_init(&request, NOW, zone_ahead, &err);

    assert_int_equal(r, 0);
    r = job_request_script(&request, "train.sh", text, strlen(text), &err);
    (void)snprintf(copy, sizeof(copy), "%s", line);
    count = job_words(copy, words, 32);
    assert_true(count >= 0);
    for (int i = 0; r == 0 && i < count; i++) { /* --name=value only */
        size_t length = strcspn(words[i] + 2, "=");
        const struct job_flag *flag = job_flag_find(words[i] + 2, length);

        assert_non_null(flag);
        r = job_request_flag(&request, flag, words[i][2 + length] ? words[i] + 3 + length : NULL, "", &err);
    }
    if (r == 0)
        r = finish(&request, out);
    job_request_done(&request);
    return r;
}

static void assert_script(const char *text, const char *line, const char *expected)
{
    struct buf out = BUF_INIT(100000);

    if (script(text, line, &out) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(out.data, expected);
    buf_done(&out);
}

static void assert_refused(const char *text, const char *line, const char *words)
{
    struct buf out = BUF_INIT(100000);

    assert_true(script(text, line, &out) < 0);
    assert_string_equal(err.text, words);
    buf_done(&out);
}

static void scripts(void **state)
{
    (void)state;
    assert_script(
        "#!/bin/sh\n#SBATCH -J 'my job' -N2 --gres=gpu:h100:4\n# words\n\n#MUSTER --time=1-00:00:00 -q high "
        "# now\ntrue\n",
        "",
        "{\"compat\":\"slurm\",\"name\":\"my job\",\"nodes\":2,\"per_node\":{\"gpu\":\"h100:4\"},\"priority\":\"high\","
        "\"run\":\"#!/bin/sh\\n#SBATCH -J 'my job' -N2 --gres=gpu:h100:4\\n# words\\n\\n#MUSTER "
        "--time=1-00:00:00 -q high # now\\ntrue\\n\",\"time\":\"86400s\"}");
    assert_script("#SBATCH -G1\ntrue\n", "--compat=pai",
                  "{\"compat\":\"pai\",\"gpus\":\"1\",\"run\":\"#SBATCH -G1\\ntrue\\n\"}");
    assert_script("#MUSTER --gpus-per-node=8 -t 10\ntrue\n#SBATCH -N 9\n",
                  "--gpus=A100:2 --time=1h --env=A=b=c --tag=x.y=z",
                  "{\"env\":{\"A\":\"b=c\"},\"gpus\":\"A100:2\",\"run\":\"#MUSTER --gpus-per-node=8 -t 10\\ntrue\\n"
                  "#SBATCH -N 9\\n\",\"tags\":{\"x.y\":\"z\"},\"time\":\"3600s\"}");
    assert_script("x", "--ntasks=4 --gpus-per-task=H100:2 --dependency=afterok:1:2,afterany:3 --hold --no-requeue",
                  "{\"after\":{\"any\":[3],\"ok\":[1,2]},\"gpus\":\"H100:8\",\"hold\":true,\"requeue\":false,"
                  "\"run\":\"x\",\"tasks\":4}");
    assert_script(
        "x", "--begin=90m --deadline=2d",
        "{\"begin\":\"2026-01-31T13:30:00.000000Z\",\"deadline\":\"2026-02-02T12:00:00.000000Z\",\"run\":\"x\"}");
    assert_script(
        "x", "--begin=now+1hour --deadline=now+2days",
        "{\"begin\":\"2026-01-31T13:00:00.000000Z\",\"deadline\":\"2026-02-02T12:00:00.000000Z\",\"run\":\"x\"}");
    assert_script(
        "x", "--begin=now+90 --deadline=now+1weeks", /* Slurm's are seconds */
        "{\"begin\":\"2026-01-31T12:01:30.000000Z\",\"deadline\":\"2026-02-07T12:00:00.000000Z\",\"run\":\"x\"}");
    assert_script(
        "x", "--begin=now+5minutes --deadline=now+7200seconds",
        "{\"begin\":\"2026-01-31T12:05:00.000000Z\",\"deadline\":\"2026-01-31T14:00:00.000000Z\",\"run\":\"x\"}");
    assert_script("x", "--begin=now+1h --deadline=12:30",
                  "{\"begin\":\"2026-01-31T13:00:00.000000Z\","
                  "\"deadline\":\"2026-02-01T11:30:00.000000Z\",\"run\":\"x\"}");
    assert_script("x", "--begin=2026-02-01T08:00 --array=1-3%2 --after=7,8 --notify=end,fail",
                  "{\"after\":{\"ok\":[7,8]},\"array\":{\"indices\":\"1-3\",\"parallel\":2},"
                  "\"begin\":\"2026-02-01T07:00:00.000000Z\",\"notify\":[\"end\",\"fail\"],\"run\":\"x\"}");
}

static void refusals(void **state)
{
    (void)state;
    assert_refused("#!/bin/sh\n#SBATCH --tim=1\ntrue\n", "",
                   "train.sh:2: unknown flag '--tim'; did you mean '--time'?");
    assert_refused("#SBATCH --qos=long\ntrue\n", "", "train.sh:1: --qos is not supported: use -q, --priority");
    assert_refused("#MUSTER -Z\ntrue\n", "", "train.sh:1: unknown flag '-Z'");
    assert_refused("#MUSTER --time\ntrue\n", "", "train.sh:1: --time needs a value");
    assert_refused("#MUSTER --hold=1\ntrue\n", "", "train.sh:1: --hold takes no value");
    assert_refused("#MUSTER 8\ntrue\n", "", "train.sh:1: expected a flag such as --time=2h, got '8'");
    assert_refused("#MUSTER -J 'x\ntrue\n", "", "train.sh:1: a quote is not closed");
    assert_refused("true\n#MUSTER -N2\n", "",
                   "train.sh:2: #MUSTER after the first command would have no effect; move it up");
    assert_refused("#MUSTER -t soon\ntrue\n", "",
                   "train.sh:1: --time: expected a time such as 24h, 2h30m, 90s or 1-12:00:00, got 'soon'");
    assert_refused("x", "--gpus=many",
                   "--gpus: expected GPUs as [TYPE:]COUNT such as 8, H100:8, 4..16 or 0.5, got 'many'");
    assert_refused("x", "--after=soon:3", "--after: expected ok, any or notok, got 'soon'");
    assert_refused("x", "--after=ok:prepare",
                   "--after: expected numbers of jobs such as 4127 or ok:4127,4128, got 'ok:prepare'");
    assert_refused("x", "--begin=now+1hourly",
                   "--begin: expected 1h (from now), 18:30 or 2026-01-31T18:30, got 'now+1hourly'");
    assert_refused("x", "--begin=now+99999999999weeks",
                   "--begin: expected 1h (from now), 18:30 or 2026-01-31T18:30, got 'now+99999999999weeks'");
    assert_refused("x", "--begin=soon", "--begin: expected 1h (from now), 18:30 or 2026-01-31T18:30, got 'soon'");
    assert_refused("# nothing\n", "", "train.sh: the script has no command");
    assert_refused("x", "--gpus-per-task=2",
                   "--gpus-per-task: needs the number of tasks: --ntasks, or --nodes and --ntasks-per-node");
}

/* Flags have one name and one letter each. */
static void flags_are_distinct(void **state)
{
    size_t count;
    const struct job_flag *flags = job_flags(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(job_flag_find(flags[i].name, strlen(flags[i].name)), &flags[i]);
        assert_ptr_equal(job_flag_letter(flags[i].letter), &flags[i]);
        assert_true(flags[i].key || flags[i].alias_of || flags[i].refused ||
                    strcmp(flags[i].name, "gpus-per-task") == 0);
    }
}

/* Slurm's flags: several that mean one key, those without effect, each noted once, and what is refused. */
static void test_slurm_flags(void **state)
{
    static const struct {
        const char *line, *key;
    } table[] = {
        { "--mail-type=END,FAIL --mail-user=ana@x.org",
          "\"notify\":[\"end=mailto:ana@x.org\",\"fail=mailto:ana@x.org\"]" },
        { "--mail-type=ALL --mail-user=ana",
          "\"notify\":[\"start=mailto:ana\",\"end=mailto:ana\",\"fail=mailto:ana\"]" },
        { "--gpus=4 --ntasks-per-gpu=2", "\"tasks\":8" },
        { "--nodes=2 --gpus-per-node=4 --ntasks-per-gpu=1", "\"tasks\":8" },
        { "--container-image=docker://nvcr.io#nvidia/pytorch:26.01 --gpus=1",
          "\"image\":\"nvcr.io/nvidia/pytorch:26.01\"" },
        { "--container-image=alpine --container-mounts=/data,/a:/b:ro --gpus=1",
          "\"mounts\":[\"/data:/data\",\"/a:/b:ro\"]" },
        { "--container-image=alpine --container-workdir=/w --gpus=1", "\"dir\":\"/w\"" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        CLEANUP_BUF struct buf out = BUF_INIT(1 << 16);

        assert_int_equal(script("true\n", table[i].line, &out), 0);
        buf_char(&out, '\0');
        if (!strstr(out.data, table[i].key))
            fail_msg("%s: %s", table[i].line, out.data);
    }
}

static void test_slurm_notes(void **state)
{
    static const char text[] =
        "#!/bin/sh\n#SBATCH --hint=nomultithread --nice --open-m=append\n#SBATCH --nice=5 --mail-type=BEGIN\ntrue\n";
    CLEANUP_BUF struct buf out = BUF_INIT(1 << 16);
    struct job_request request;

    (void)state;
    assert_int_equal(job_request_init(&request, NOW, zone_ahead, &err), 0);
    assert_int_equal(job_request_script(&request, "t.sh", text, strlen(text), &err), 0);
    assert_int_equal(finish(&request, &out), 0);
    assert_int_equal(json_array_size(request.notes), 5);
    assert_non_null(strstr(json_string_value(json_array_get(request.notes, 0)), "t.sh:2: --hint has no effect here: "));
    assert_non_null(strstr(json_string_value(json_array_get(request.notes, 2)), "t.sh:2: --open-mode has no effect"));
    assert_non_null(
        strstr(json_string_value(json_array_get(request.notes, 4)), "--mail-type has no effect here without"));
    job_request_done(&request);
}

static void test_slurm_refused(void **state)
{
    static const struct {
        const char *text, *line, *words;
    } table[] = {
        { "true\n", "--nodelist=", "--nodelist: expected names of nodes" },
        { "true\n", "--gpus=2 --ntasks=4 --ntasks-per-gpu=1", "give one of them" },
        { "true\n", "--ntasks-per-gpu=1", "needs a whole number of GPUs" },
        { "true\n", "--ntasks-per-gpu=x --gpus=1", "expected 1 to 1024, got 'x'" },
        { "true\n", "--mail-type=SOMETIMES --mail-user=a", "expected BEGIN, END, FAIL" },
        { "true\n", "--container-image=/images/x.sqsh", "a file of an image is not supported" },
        { "true\n", "--container-mounts=/a:/b:nosuch", "expected ro or rw" },
        { "#!/bin/sh\r\n#SBATCH -t 5\r\ntrue\r\n", "", "train.sh:1: lines end in CR LF" },
        { "#SBATCH --no=1\ntrue\n", "", "unknown flag '--no'" },   /* of many */
        { "#MUSTER --hin=x\ntrue\n", "", "unknown flag '--hin'" }, /* our own lines have whole names */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        CLEANUP_BUF struct buf out = BUF_INIT(1 << 16);

        assert_int_equal(script(table[i].text, table[i].line, &out), -EINVAL);
        if (!strstr(err.text, table[i].words))
            fail_msg("%zu: %s", i, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slurm_flags), cmocka_unit_test(test_slurm_notes), cmocka_unit_test(test_slurm_refused),
        cmocka_unit_test(scripts),          cmocka_unit_test(refusals),         cmocka_unit_test(flags_are_distinct),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
