/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/rest/render/record_tree.h"

#include "wire/text/duration.h"
#include "wire/text/json_read.h"

#define RECORD_BYTES_MAX ((size_t)256 << 20)

json_t *record_time(usec_t at)
{
    CLEANUP_BUF struct buf text = BUF_INIT(64);

    if (at > 0)
        instant_put(&text, at);
    return text.size ? json_stringn(text.data, text.size) : json_null();
}

json_t *record_job(const struct ctl *ctl, const struct ctl_job *job)
{
    CLEANUP_BUF struct buf text = BUF_INIT(RECORD_BYTES_MAX);
    json_t *tree = NULL;

    record_write(ctl, job, &text);
    return text.error || json_read("record", text.data, text.size, &tree, NULL) < 0 ? NULL : tree;
}
