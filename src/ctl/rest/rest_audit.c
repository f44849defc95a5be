/* SPDX-License-Identifier: Apache-2.0 */
/* rest_audit.c - GET /audit: whether the state of the controller agrees with itself and with the core, for those who
 * look after it. */
#include "ctl/rest/rest.h"
#include "ctl/state/audit.h"

void rest_audit(struct request *request)
{
    struct server *server = request_server(request);
    struct state_audit audit = { 0 };
    json_t *lines = json_array();

    (void)state_audit(batcher_ctl(server->batcher), &audit);
    for (size_t i = 0; i < audit.count && i < AUDIT_LINES_MAX; i++)
        (void)json_array_append_new(lines, json_string(audit.lines[i]));
    reply_tree(request, 200,
               json_pack("{s:s, s:s, s:b, s:I, s:I, s:o}", "apiVersion", "v1", "kind", "Audit", "ok", audit.count == 0,
                         "jobs", (json_int_t)audit.jobs, "count", (json_int_t)audit.count, "differences", lines));
}
