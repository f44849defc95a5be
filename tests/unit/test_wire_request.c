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
#include "wire/job_request.h"

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
    assert_refused("#SBATCH --mail-type=END\ntrue\n", "", "train.sh:1: --mail-type is not supported: use --notify");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts),
        cmocka_unit_test(refusals),
        cmocka_unit_test(flags_are_distinct),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
