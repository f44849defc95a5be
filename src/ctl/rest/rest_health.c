/* SPDX-License-Identifier: Apache-2.0 */
/* rest_health.c - GET /version, /healthz, /readyz. */
#include "ctl/rest/rest.h"

void rest_version(struct request *request)
{
    struct server *server = request_server(request);

    reply_tree(request, 200,
               json_pack("{s:s, s:s, s:s, s:s, s:s, s:[s,s,s,s], s:b}", "apiVersion", "v1", "kind", "Version",
                         "version", MUSTER_VERSION, "api", "v1", "cluster", server->conf->cluster, "features", "events",
                         "plan", "why", "exec", "dev", server->dev));
}

void rest_health(struct request *request)
{
    reply(request, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

void rest_ready(struct request *request)
{
    struct server *server = request_server(request);

    if (server->batcher && !server->stopping)
        reply(request, 200, "text/plain; charset=utf-8", "ready\n", 6);
    else
        reply_problem(request, 503, "NotReady", NULL, server->stopping ? "stopping" : "starting");
}
