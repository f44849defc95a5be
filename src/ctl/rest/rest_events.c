/* SPDX-License-Identifier: Apache-2.0 */
/* rest_events.c - GET /events: the event feed. */
#include "ctl/insight/feed.h"
#include "ctl/rest/rest.h"

void rest_events(struct request *request)
{
    static const char *const known[] = { "since", "kinds", "job", NULL };
    int64_t job = 0;

    if (query_known(request, known) && query_i64(request, "job", 1, INT64_MAX, &job) == 0)
        feed_reply(request_server(request)->feed, request, job);
}
