/* SPDX-License-Identifier: Apache-2.0 */
/* route.c - from a request to the function that answers it: path, credentials, role, readiness. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/daemon/server.h"
#include "ctl/rest/common/job_history.h"
#include "ctl/rest/rest.h"

enum { SEGMENTS_MAX = 8 };

/* Cuts at '/'; segments are borrowed from `path`. -E2BIG. */
static int path_cut(char *path, char **segments)
{
    int count = 0;

    while (*path) {
        if (*path == '/') {
            path++;
            continue;
        }
        if (count == SEGMENTS_MAX)
            return -E2BIG;
        segments[count++] = path;
        path = strchrnul(path, '/');
        if (*path)
            *path++ = '\0';
    }
    return count;
}

/* Whether the pattern takes the segments; a {name} takes any. */
static bool pattern_match(const char *pattern, char **segments, int count, char **params)
{
    int at = 0, found = 0;

    for (;;) {
        const char *text;

        while (*pattern == '/')
            pattern++;
        if (!*pattern || at == count)
            return !*pattern && at == count;
        text = segments[at++];
        if (*pattern == '{') {
            if (found == REQUEST_PARAMS_MAX)
                return false;
            params[found++] = segments[at - 1];
            pattern = strchrnul(pattern, '/');
            continue;
        }
        while (*pattern && *pattern != '/' && *pattern == *text)
            pattern++, text++;
        if (*text || (*pattern && *pattern != '/'))
            return false;
    }
}

static void allow_add(char *allow, size_t size, const char *method)
{
    size_t length = strlen(allow);

    (void)snprintf(allow + length, size - length, "%s%s", length ? ", " : "", method);
}

/* Most routes begin with another letter: they are passed by at once, over all routes of every request. None begins with
 * a {name}. */
static bool route_may(const struct route *route, bool api, const char *first)
{
    return (route->path[1] == '/') != api && route->path[api ? 1 : 2] == first[0];
}

const struct route *route_find(const char *method, char *path, char **params, int *ret_status, char *allow,
                               size_t allow_size)
{
    char *segments[SEGMENTS_MAX], *wanted = strcmp(method, "HEAD") == 0 ? "GET" : (char *)(uintptr_t)method;
    int count = path_cut(path, segments);
    bool api = count >= 2 && strcmp(segments[0], "api") == 0 && strcmp(segments[1], "v1") == 0;
    int skip = api ? 2 : 0;

    *ret_status = 404;
    allow[0] = '\0';
    if (count <= skip)
        return NULL; /* no route is that short */
    for (size_t i = 0; i < route_count; i++) {
        const struct route *route = &routes[i];

        if (route_may(route, api, segments[skip]) && strcmp(route->method, wanted) == 0 &&
            pattern_match(route->path, segments + skip, count - skip, params))
            return route;
    }
    /* Not by this method; by which? */
    for (size_t i = 0; i < route_count; i++) {
        const struct route *route = &routes[i];

        if (route_may(route, api, segments[skip]) &&
            pattern_match(route->path, segments + skip, count - skip, params)) {
            *ret_status = 405;
            allow_add(allow, allow_size, route->method);
        }
    }
    return NULL;
}

/* 0, or the status that refuses. */
static int access_check(struct server *server, struct request *request, const struct route *route)
{
    bool known = auth_identify(server, request);
    const struct principal *who = &request->who;

    switch (route->access) {
    case ACCESS_OPEN:
        return 0;
    case ACCESS_READ:
        return !known ? 401 : who->role == ROLE_AGENT ? 403 : who->role >= ROLE_VIEWER ? 0 : 401;
    case ACCESS_USER:
        return !known ? 401 : who->role >= ROLE_USER && who->role <= ROLE_ADMIN ? 0 : 403;
    case ACCESS_ADMIN:
        return !known ? 401 : who->role == ROLE_ADMIN ? 0 : 403;
    case ACCESS_JOIN:
        return known && who->role == ROLE_AGENT && who->token[0] ? 0 : 401;
    case ACCESS_AGENT:
        /* A node of the emulation has no certificate; it says its name itself. */
        if (server->dev && known && who->role == ROLE_ADMIN && !who->token[0])
            return 0;
        return known && who->role == ROLE_AGENT && !who->token[0] ? 0 : 401;
    }
    return 403;
}

static void access_refuse(struct request *request, int status)
{
    if (status == 401)
        reply_problem(request, 401, "NotLoggedIn",
                      request_server(request)->dev
                          ? "musterd --dev prints its token; muster finds it by itself for the user who started musterd"
                          : "muster login, or set MUSTER_TOKEN",
                      http_header(request->message, "authorization") ? "the token is unknown, used or has expired"
                                                                     : "who are you? a token is needed here");
    else
        reply_problem(request, 403, "NotAllowed", NULL, "your role (%s) does not allow this",
                      role_name(request->who.role));
}

/* No route: perhaps a page; else what there is. */
static void route_missing(struct request *request, int status, const char *allow)
{
    if (rest_static(request))
        return;
    if (status == 405)
        reply_header(request, "Allow", "%s", allow);
    reply_problem(request, status, status == 405 ? "NoSuchMethod" : "NotFound",
                  "GET /api/v1/openapi.json lists what there is",
                  status == 405 ? "no such method here" : "no such thing");
}

/* The name a client gave the request comes back with the answer. */
static void id_echo(struct request *request)
{
    const char *id = http_header(request->message, "x-request-id");

    if (id && strlen(id) <= 128)
        reply_header(request, "X-Request-Id", "%s", id);
}

/* Also what would change it: that a job is over is another answer than that there is none. */
static bool asks_of_job(const struct route *route)
{
    return strncmp(route->path, "/jobs/{id}", 10) == 0;
}

static void handle_again(struct request *request)
{
    request->route->handle(request);
}

bool route_identify(void *arg, struct request *request)
{
    return auth_identify(arg, request) && strcmp(request->who.via, "anonymous") != 0;
}

void route_handle(void *arg, struct request *request)
{
    struct server *server = arg;
    const struct route *route;
    char allow[128];
    int status;

    request->owner = server;
    id_echo(request);
    if (http_unescape(request->path, false) < 0) {
        reply_problem(request, 400, "BadRequest", NULL, "the path has a broken escape");
        return;
    }
    memcpy(request->cut, request->path, strlen(request->path) + 1); /* unescaping made nothing longer */
    route = route_find(request->message->method, request->cut, request->params, &status, allow, sizeof(allow));
    if (!route) {
        route_missing(request, status, allow);
        return;
    }
    request->route = route;
    status = access_check(server, request, route);
    if (status) {
        access_refuse(request, status);
        return;
    }
    if (request_admit(request) < 0) {
        reply_problem(request, 429, "TooManyOfYours", "wait for the answers to some of them",
                      "%.60s has too many connections or requests on their way", request->who.user);
        return;
    }
    if (!route->bare && (!server->batcher || server->stopping)) {
        reply_problem(request, 503, "NotReady", NULL,
                      server->stopping ? "the controller is stopping" : "the controller is starting");
        return;
    }
    if (!(asks_of_job(route) && past_fetch(server->past, request, handle_again)))
        route->handle(request);
}
