/* SPDX-License-Identifier: Apache-2.0 */
/* The native trace: every column there and back, defaults, and the exact words of every refusal. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "wire/trace/trace.h"

static struct error err;

static int read_text(const char *text, struct trace *trace)
{
    char copy[4096];
    struct bytes bytes = { copy, strlen(text) };

    assert_true(bytes.size < sizeof(copy));
    memcpy(copy, text, bytes.size);
    *trace = (struct trace){ 0 };
    return trace_read("t.csv", &bytes, trace, &err);
}

/* Reads, writes, and compares with what is expected; then reads and writes that again. */
static void becomes(const char *text, const char *expected)
{
    struct trace trace;
    struct bytes first, second;

    assert_int_equal(read_text(text, &trace), 0);
    assert_int_equal(trace_write(&trace, &first, &err), 0);
    assert_string_equal(first.data, expected);
    trace_done(&trace);
    assert_int_equal(read_text(first.data, &trace), 0);
    assert_int_equal(trace_write(&trace, &second, &err), 0);
    assert_string_equal(second.data, expected);
    trace_done(&trace);
    bytes_done(&first);
    bytes_done(&second);
}

static void refused(const char *text, const char *words)
{
    struct trace trace;

    assert_true(read_text(text, &trace) < 0);
    assert_string_equal(err.text, words);
    assert_null(trace.jobs);
    assert_null(trace.ids.text);
}

static void the_least_a_file_says(void **state)
{
    struct trace trace;
    const struct jobspec *spec;

    (void)state;
    assert_int_equal(read_text("gpus,id,duration,submit\n8,7,60.5,3\n1,2,1e2,0\n", &trace), 0);
    assert_int_equal(trace.count, 2);
    spec = &trace.jobs[1].spec;
    assert_int_equal(trace.jobs[0].spec.id, 2);
    assert_int_equal(trace.jobs[0].truth.duration, 100 * USEC_SEC);
    assert_int_equal(spec->id, 7);
    assert_int_equal(spec->submit, 3 * USEC_SEC);
    assert_int_equal(trace.jobs[1].truth.duration, 60500000);
    assert_int_equal(spec->gpus, 8);
    assert_int_equal(spec->gpus_min, 8);
    assert_int_equal(spec->gpus_max, 8);
    assert_int_equal(spec->share, MGPU_ONE);
    assert_int_equal(spec->user, NAME_NONE);
    assert_int_equal(spec->vc, NAME_NONE);
    assert_int_equal(spec->model, NAME_NONE);
    assert_int_equal(spec->klass, CLASS_GUARANTEED);
    assert_int_equal(spec->tier, TIER_STANDARD);
    assert_int_equal(spec->slo, SLO_BEST_EFFORT);
    assert_int_equal(spec->estimate, 0);
    assert_int_equal(trace.jobs[1].truth.fail, FAIL_NONE);
    trace_done(&trace);
}

static void every_column(void **state)
{
    struct trace trace;
    const struct jobspec *spec;

    (void)state;
    assert_int_equal(read_text("id,submit,duration,iterations,gpus,share,gpus_min,gpus_max,servers,user,vc,model,class,"
                               "tier,priority,slo,deadlines,memory_mib,memory_peak_mib,utilisation,batch,skew,estimate,"
                               "limit,sku,retries,fail,fail_after,fail_times\n"
                               "5,1.5,100,2000,4,,2,8,3,ann,nlp,bert,opportunistic,premium,-1,soft,50:10|70.5:3,1000,"
                               "2000,85,256,0.25,90,200,V100|A100,2,system,40.25,3\n",
                               &trace),
                     0);
    spec = &trace.jobs[0].spec;
    assert_int_equal(trace.jobs[0].truth.iterations, 2000);
    assert_int_equal(spec->gpus_min, 2);
    assert_int_equal(spec->gpus_max, 8);
    assert_int_equal(spec->servers, 3);
    assert_string_equal(names_get(&trace.users, spec->user), "ann");
    assert_string_equal(names_get(&trace.vcs, spec->vc), "nlp");
    assert_string_equal(names_get(&trace.models, spec->model), "bert");
    assert_int_equal(spec->klass, CLASS_OPPORTUNISTIC);
    assert_int_equal(spec->tier, TIER_PREMIUM);
    assert_int_equal(spec->priority, -1);
    assert_int_equal(spec->slo, SLO_SOFT);
    assert_int_equal(spec->deadline_count, 2);
    assert_int_equal(spec->deadlines[1].at, 70500000);
    assert_int_equal(spec->deadlines[1].value, 3);
    assert_int_equal(spec->memory_mib, 1000);
    assert_int_equal(spec->memory_peak_mib, 2000);
    assert_int_equal(spec->utilisation, 85);
    assert_int_equal(spec->batch, 256);
    assert_int_equal(spec->skew_permille, 250);
    assert_int_equal(spec->estimate, 90 * USEC_SEC);
    assert_int_equal(spec->time_limit, 200 * USEC_SEC);
    assert_int_equal(spec->sku_mask, 3);
    assert_string_equal(names_get(&trace.skus, 1), "A100");
    assert_int_equal(spec->retries, 2);
    assert_int_equal(trace.jobs[0].truth.fail, FAIL_SYSTEM);
    assert_int_equal(trace.jobs[0].truth.fail_after, 40250000);
    assert_int_equal(trace.jobs[0].truth.fail_times, 3);
    trace_done(&trace);
}

static void written_in_one_form(void **state)
{
    (void)state;
    becomes("gpus,submit,id,duration,user\n2,5.50,9,60.0,\n1,0.000001,3,1e1,\n",
            "id,submit,duration,gpus\n3,0.000001,10,1\n9,5.5,60,2\n");
    becomes("id,submit,gpus,share,model,user\n1,0,1,0.46,\"a,b\",\"say \"\"hi\"\"\"\n2,0,1,1,c,\n",
            "id,submit,gpus,share,user,model\n1,0,1,0.46,\"say \"\"hi\"\"\",\"a,b\"\n2,0,1,,,c\n");
    becomes("id,submit,gpus,duration,sku\n1,0,1,5,T4|A10\n2,0,1,5,P4|T4\n3,0,1,5,\n",
            "id,submit,duration,gpus,sku\n1,0,5,1,A10|T4\n2,0,5,1,P4|T4\n3,0,5,1,\n");
    becomes("id,submit,gpus,duration,sku,sides\n1,0,2,5,V100,T4|A10:4:2;P4:1:1:0.5\n2,0,1,5,P4,V100:8:8:0:64\n",
            "id,submit,duration,gpus,sku,sides\n1,0,5,2,V100,A10|T4:4:2;P4:1:1:0.5\n2,0,5,1,P4,V100:8:8:0:64\n");
    becomes("id,submit,gpus,duration,deadlines,slo\n1,0,1,5,9,\n2,0,1,5,9:10|10,\n3,0,1,5,9,best_effort\n",
            "id,submit,duration,gpus,slo,deadlines\n1,0,5,1,,9:10\n2,0,5,1,,9:10|10:10\n3,0,5,1,best_effort,9:10\n");
    becomes("id,submit,gpus,duration,fail,fail_after,fail_times\n1,0,1,5,user,5,all\n2,0,1,5,unknown,1,2\n3,0,1,5,,,\n",
            "id,submit,duration,gpus,fail,fail_after,fail_times\n1,0,5,1,user,5,\n2,0,5,1,unknown,1,2\n3,0,5,1,,,\n");
}

static void ids_are_numbers_or_text(void **state)
{
    struct trace trace;

    (void)state;
    assert_int_equal(read_text("id,submit,gpus,duration\n12,0,1,5\n7#a,0,1,5\n5,0,1,5\n", &trace), 0);
    assert_int_equal(trace.ids.count, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(trace.jobs[i].spec.id, i);
    assert_string_equal(names_get(&trace.ids, 0), "12");
    assert_string_equal(names_get(&trace.ids, 1), "7#a");
    trace_done(&trace);
    assert_int_equal(read_text("id,submit,gpus,duration\n12,0,1,5\n5,0,1,5\n", &trace), 0);
    assert_int_equal(trace.ids.count, 0);
    assert_int_equal(trace.jobs[0].spec.id, 5);
    assert_int_equal(trace.jobs[1].spec.id, 12);
    trace_done(&trace);
    becomes("id,submit,gpus,duration\n007,1,1,5\nx,0,1,5\n", "id,submit,duration,gpus\nx,0,5,1\n007,1,5,1\n");
    refused("id,submit,gpus,duration\n12,0,1,5\n5,0,1,5\n12,9,1,5\n",
            "t.csv:4:1: id: '12' is the id of line 2 already");
    refused("id,submit,gpus,duration\na,0,1,5\nb,0,1,5\nb,9,1,5\n", "t.csv:4:1: id: 'b' is the id of line 3 already");
    refused("id,submit,gpus,duration\n,0,1,5\n", "t.csv:2:1: id: expected an id, got ''");
}

static void what_is_not_a_trace(void **state)
{
    (void)state;
    refused("", "t.csv:1:1: expected a header line, got nothing");
    refused("id,submit,gpus,duration\n", "t.csv:2:1: expected a job, got the end of the file");
    refused("id,submit,duration\n", "t.csv:1:1: column 'gpus' is missing");
#define SIDES "expected at most 3 of TYPE|TYPE:GPUS:PER_NODE[:CPUS[:MIB]], divided by ';', got "
    refused("id,submit,gpus,duration,sides\n1,0,1,5,A:3:2\n", "t.csv:2:9: sides: " SIDES "'A:3:2'");
    refused("id,submit,gpus,duration,sides\n1,0,1,5,A:2\n", "t.csv:2:9: sides: " SIDES "'A:2'");
    refused("id,submit,gpus,duration,sides\n1,0,1,5,:2:1\n", "t.csv:2:9: sides: " SIDES "':2:1'");
    refused("id,submit,gpus,duration,sides\n1,0,1,5,A:1:1:1:1:1\n", "t.csv:2:9: sides: " SIDES "'A:1:1:1:1:1'");
    refused("id,submit,gpus,duration,sides\n1,0,1,5,A:1:1;B:1:1;C:1:1;D:1:1\n",
            "t.csv:2:9: sides: " SIDES "'A:1:1;B:1:1;C:1:1;D:1:1'");
    refused("id,submit,gpus,duration,colour\n", "t.csv:1:25: unknown column 'colour'");
    refused("id,submit,gpus,duraton\n", "t.csv:1:16: unknown column 'duraton'; did you mean 'duration'?");
    refused("id,submit,gpus,duration,gpus\n", "t.csv:1:25: column 'gpus' comes twice");
    refused("id,submit,gpus\n1,0,1\n", "t.csv:2:1: expected a duration, iterations or a model, got none of them");
    refused("id,submit,gpus,duration\n1,0,1\n", "t.csv:2: expected 4 fields, as in the header, got 3");
}

static void wrong_numbers(void **state)
{
    (void)state;
    refused("id,submit,gpus,duration\n1,0,0,5\n", "t.csv:2:5: gpus: a job without GPUs needs 'cpus'");
    refused("id,submit,gpus,duration\n1,0,-2,5\n",
            "t.csv:2:5: gpus: expected a whole number from 0 to 65536, got '-2'");
    refused("id,submit,gpus,duration\n1,0,70000,5\n",
            "t.csv:2:5: gpus: expected a whole number from 0 to 65536, got '70000'");
    refused("id,submit,gpus,duration\n1,-1,1,5\n", "t.csv:2:3: submit: expected seconds, not negative, got '-1'");
    refused("id,submit,gpus,duration\n1,x,1,5\n", "t.csv:2:3: submit: expected seconds, not negative, got 'x'");
    refused("id,submit,gpus,duration\n1,,1,5\n", "t.csv:2:3: submit: expected seconds, not negative, got ''");
    refused("id,submit,gpus,duration\n1,0,1,0\n", "t.csv:2:7: duration: expected a time above 0, got '0'");
    refused("id,submit,gpus,duration\n1,0,1,1e12\n",
            "t.csv:2:7: duration: expected at most 31536000000 seconds, got '1e12'");
    refused("id,submit,gpus,iterations\n1,0,1,0\n",
            "t.csv:2:7: iterations: expected a whole number from 1 to 1000000000000000, got '0'");
    refused("id,submit,gpus,duration,share\n1,0,1,5,1.5\n",
            "t.csv:2:9: share: expected a number from 0 to 1, got '1.5'");
    refused("id,submit,gpus,duration,share\n1,0,1,5,0\n",
            "t.csv:2:9: share: expected a share of at least 0.001 GPU, got '0'");
    refused("id,submit,gpus,duration,share\n1,0,2,5,0.5\n",
            "t.csv:2:9: share: a job of 2 GPUs cannot take a share of each");
    refused("id,submit,gpus,duration,share,gpus_max\n1,0,1,5,0.5,2\n",
            "t.csv:2:13: gpus_max: a job with a share of one GPU cannot grow");
    refused("id,submit,gpus,duration,gpus_min\n1,0,2,5,3\n",
            "t.csv:2:9: gpus_min: expected a whole number from 1 to 2, got '3'");
    refused("id,submit,gpus,duration,gpus_max\n1,0,2,5,1\n",
            "t.csv:2:9: gpus_max: expected a whole number from 2 to 65536, got '1'");
    refused("id,submit,gpus,duration,utilisation\n1,0,2,5,101\n",
            "t.csv:2:9: utilisation: expected a whole number from 0 to 100, got '101'");
    refused("id,submit,gpus,duration,priority\n1,0,2,5,-2\n",
            "t.csv:2:9: priority: expected a whole number from -1 to 1000, got '-2'");
}

static void wrong_words(void **state)
{
    (void)state;
    refused("id,submit,gpus,duration,class\n1,0,2,5,gold\n",
            "t.csv:2:9: class: expected guaranteed, opportunistic or auto, got 'gold'");
    refused("id,submit,gpus,duration,slo\n1,0,2,5,strict\n", "t.csv:2:9: slo: strict needs 'deadlines'");
    refused("id,submit,gpus,duration,deadlines\n1,0,2,5,9:a\n",
            "t.csv:2:9: deadlines: expected SECONDS:VALUE, several divided by '|', got '9:a'");
    refused("id,submit,gpus,duration,deadlines\n1,9,2,5,9\n",
            "t.csv:2:9: deadlines: expected deadlines after the submission, each later than the one before, got '9'");
    refused("id,submit,gpus,duration,deadlines\n1,0,2,5,9|8\n",
            "t.csv:2:9: deadlines: expected deadlines after the submission, each later than the one before, got '9|8'");
    refused("id,submit,gpus,duration,deadlines\n1,0,2,5,1|2|3|4|5\n",
            "t.csv:2:9: deadlines: expected at most 4 deadlines, got '1|2|3|4|5'");
    refused("id,submit,gpus,duration,deadlines\n1,0,2,5,8:5|9:7\n",
            "t.csv:2:9: deadlines: expected a later deadline worth no more than an earlier one, got '8:5|9:7'");
    refused("id,submit,gpus,duration,sku\n1,0,2,5,A||B\n",
            "t.csv:2:9: sku: expected names of GPU types, several divided by '|', got 'A||B'");
    refused("id,submit,gpus,duration,fail\n1,0,2,5,user\n", "t.csv:2:9: fail: needs 'fail_after' to say when");
    refused("id,submit,gpus,duration,fail_after\n1,0,2,5,3\n",
            "t.csv:2:9: fail_after: says how a job fails that does not: 'fail' is none");
    refused("id,submit,gpus,duration,fail,fail_after\n1,0,2,5,user,6\n",
            "t.csv:2:14: fail_after: expected at most the duration, got '6'");
    refused("id,submit,gpus,duration,fail,fail_after,fail_times\n1,0,2,5,user,5,0\n",
            "t.csv:2:16: fail_times: expected a whole number from 1 to 254 or 'all', got '0'");
}

/* Once per allocation, with that one failing: an error, nothing lost, nothing half made. */
static void out_of_memory(void **state)
{
    static const char text[] = "id,submit,gpus,duration,user,vc,model,sku\n"
                               "1,0,1,5,\"a\"\"b\",v,m,A|B\nx,0,1,5,c,w,n,C\ny,0,1,5,c,w,n,C\n";
    struct trace trace;
    struct bytes bytes;
    size_t n = 0;
    int r;

    (void)state;
    do {
        mem_fail_at(++n);
        r = read_text(text, &trace);
        mem_fail_at(0);
        if (r < 0) {
            assert_int_equal(r, -ENOMEM);
            assert_non_null(strstr(err.text, "out of memory"));
            assert_null(trace.jobs);
        }
        assert_true(n < 1000);
    } while (r < 0);
    assert_true(n > 10);
    for (n = 1;; n++) {
        mem_fail_at(n);
        r = trace_write(&trace, &bytes, &err);
        mem_fail_at(0);
        if (r == 0)
            break;
        assert_int_equal(r, -ENOMEM);
    }
    assert_true(n > 1);
    bytes_done(&bytes);
    trace_done(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_a_file_says), cmocka_unit_test(every_column),
        cmocka_unit_test(written_in_one_form),   cmocka_unit_test(ids_are_numbers_or_text),
        cmocka_unit_test(what_is_not_a_trace),   cmocka_unit_test(wrong_numbers),
        cmocka_unit_test(wrong_words),           cmocka_unit_test(out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
