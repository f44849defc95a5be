/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What was read is written, read and written again: the same. And it can be held against a cluster. */
#include "fuzz.h"
#include "wire/cluster/cluster.h"
#include "wire/job/submission.h"

static inline void fuzz_check_submission(struct submission *s)
{
    struct buf once = BUF_INIT((size_t)8 << 20), twice = BUF_INIT((size_t)8 << 20);
    struct cluster_spec cluster = { 0 };
    struct infeasible why;
    struct jobspec spec = { 0 };
    struct submission again;
    struct error err = { 0 };

    CHECK(cluster_parse("4x8:H100+2x4:A100", &cluster, &err) == 0);
    if (submission_bind(s, &cluster, &spec, &why, &err) < 0)
        CHECK(err.text[0] && why.code[0] && why.hint[0]);
    else
        CHECK(spec.gpus >= 1 && spec.gpus_min <= spec.gpus_max && (!spec.per_node || spec.gpus % spec.per_node == 0));
    cluster_spec_done(&cluster);
    CHECK(submission_to_json(s, &once, &err) == 0);
    if (once.size <= SUBMISSION_BYTES_MAX) {
        CHECK(submission_from_json(once.data, once.size, &again, &err) == 0);
        CHECK(submission_to_json(&again, &twice, &err) == 0);
        CHECK(strcmp(once.data, twice.data) == 0);
        submission_done(&again);
    }
    submission_done(s);
    buf_done(&once);
    buf_done(&twice);
}
