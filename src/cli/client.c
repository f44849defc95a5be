/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - see client.h. Bodies are limited, redirects are not followed, certificates are checked; MUSTER_CACERT
 * names an authority of the cluster's own. */
#include "cli/client.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/context.h"
#include "wire/json_read.h"

enum { BODY_MAX = 256 << 20, HEADERS_KEPT = 32 };

struct client {
    CURL *curl;
    struct context context;
    char base[512]; /* "http://host:port" */
    char headers[HEADERS_KEPT][160];
    size_t header_count;
    struct buf body;
    client_got_fn got;
    void *got_arg;
    int got_result;
    bool stream;
};

void answer_done(struct answer *answer)
{
    json_decref(answer->json);
    mem_free(answer->text);
    *answer = (struct answer){ 0 };
}

const char *client_url(const struct client *client)
{
    return client->context.url;
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    struct client *client = arg;
    size_t length = size * count;

    if (length > 5 && strncmp(data, "HTTP/", 5) == 0)
        client->header_count = 0;
    if (client->header_count < HEADERS_KEPT && memchr(data, ':', length))
        (void)snprintf(client->headers[client->header_count++], sizeof(client->headers[0]), "%.*s",
                       (int)strcspn(data, "\r\n"), data);
    return length;
}

const char *client_header(const struct client *client, const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < client->header_count; i++) {
        const char *header = client->headers[i];

        if (strncasecmp(header, name, length) == 0 && header[length] == ':')
            return header + length + 1 + strspn(header + length + 1, " ");
    }
    return "";
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct client *client = arg;
    size_t length = size * count;
    long status = 0;

    (void)curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (client->stream && status < 400) {
        client->got_result = client->got(client->got_arg, data, length);
        return client->got_result ? 0 : length;
    }
    buf_put(&client->body, data, length);
    return client->body.error ? 0 : length;
}

int client_new(const struct command_args *args, struct client **ret_client, struct problem *problem)
{
    struct client *client = mem_zalloc(1, sizeof(*client));
    struct error err = { 0 };
    int r;

    if (!client)
        return problem_set(problem, CODE_FAILED, "", "out of memory");
    client->body = (struct buf)BUF_INIT(BODY_MAX);
    r = context_load(args_value(args, "url"), args_value(args, "context"), &client->context, &err);
    if (r < 0) {
        client_free(client);
        return problem_set(problem, cli_exit_of(r), "", "%s", err.text);
    }
    if (strncmp(client->context.url, "unix:", 5) == 0)
        (void)snprintf(client->base, sizeof(client->base), "http://musterd");
    else
        (void)snprintf(
            client->base, sizeof(client->base), "%.*s",
            (int)(strlen(client->context.url) - (client->context.url[strlen(client->context.url) - 1] == '/')),
            client->context.url);
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
    client->curl = curl_easy_init();
    if (!client->curl) {
        client_free(client);
        return problem_set(problem, CODE_FAILED, "", "out of memory");
    }
    *ret_client = client;
    return 0;
}

void client_free(struct client *client)
{
    if (!client)
        return;
    if (client->curl)
        curl_easy_cleanup(client->curl);
    buf_done(&client->body);
    mem_free(client);
}

char *client_quote(const char *text)
{
    static const char hex[] = "0123456789ABCDEF";
    char *out = mem_zalloc(strlen(text) * 3 + 1, 1), *to = out;

    for (; out && *text; text++) {
        if (isalnum((unsigned char)*text) || strchr("-_.~,", *text)) {
            *to++ = *text;
        } else {
            *to++ = '%';
            *to++ = hex[(unsigned char)*text >> 4];
            *to++ = hex[(unsigned char)*text & 15];
        }
    }
    return out;
}

static int unreachable(const struct client *client, CURLcode code, struct problem *problem)
{
    const char *url = client->context.url;
    bool local = strncmp(url, "unix:", 5) == 0 || strstr(url, "127.0.0.1") || strstr(url, "localhost");
    bool tls = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;

    (void)problem_set(problem, CODE_UNREACHABLE, "Unreachable", "no answer from the controller at %s: %s", url,
                      curl_easy_strerror(code));
    if (tls)
        problem_hint(problem,
                     "MUSTER_CACERT=/path/to/ca.pem names the authority of this cluster; musterd prints where it is");
    else if (local)
        problem_hint(
            problem,
            "start one: musterd --dev --fake 4x8:H100    or tell where it is: export MUSTER_URL=https://HOST:7717");
    else
        problem_hint(problem, "is it running there? muster doctor looks; MUSTER_URL and --url say where it is");
    return CODE_UNREACHABLE;
}

/* The exit code of a status of HTTP; docs/rest.md. */
static int exit_of_status(int status)
{
    switch (status) {
    case 400:
    case 413:
    case 414:
    case 431:
        return CODE_USAGE;
    case 401:
    case 403:
        return CODE_DENIED;
    case 404:
        return CODE_NOT_FOUND;
    case 409:
    case 412:
        return CODE_CONFLICT;
    case 422:
        return CODE_REFUSED;
    case 429:
    case 503:
    case 504:
        return CODE_UNREACHABLE;
    default:
        return CODE_FAILED;
    }
}

static const char *text_of(json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text ? text : "";
}

/* What a problem+json says, or the status where there is none. */
static int refused(const struct client *client, const struct answer *answer, struct problem *problem)
{
    json_t *hints = json_object_get(answer->json, "hints"), *errors = json_object_get(answer->json, "errors"), *item;
    const char *detail = text_of(answer->json, "detail");
    size_t i;

    (void)problem_set(problem, exit_of_status(answer->status), text_of(answer->json, "code"), "%s",
                      *detail ? detail : text_of(answer->json, "title"));
    problem->status = answer->status;
    if (!problem->text[0])
        (void)snprintf(problem->text, sizeof(problem->text), "the controller at %s answered %d", client->context.url,
                       answer->status);
    json_array_foreach(errors, i, item)
    {
        const char *path = text_of(item, "path"), *message = text_of(item, "message");
        size_t used = strlen(problem->text);

        if (*message && !strstr(problem->text, message))
            (void)snprintf(problem->text + used, sizeof(problem->text) - used, "%s%s%s%s", used ? "; " : "", path,
                           *path ? ": " : "", message);
    }
    json_array_foreach(hints, i, item) if (json_is_string(item)) problem_hint(problem, "%s", json_string_value(item));
    if (answer->status == 401 && problem->hint_count == 0)
        problem_hint(problem, "muster login URL keeps a token; or export MUSTER_TOKEN=...");
    return problem->exit;
}

static struct curl_slist *headers_of(const struct client *client, const char *type, const char *const *more)
{
    struct curl_slist *list = NULL;
    char line[600];

    if (client->context.token[0]) {
        (void)snprintf(line, sizeof(line), "Authorization: Bearer %s", client->context.token);
        list = curl_slist_append(list, line);
    }
    if (type) {
        (void)snprintf(line, sizeof(line), "Content-Type: %s", type);
        list = curl_slist_append(list, line);
    }
    list = curl_slist_append(list, "Expect:");
    for (; more && *more; more++)
        list = curl_slist_append(list, *more);
    return list;
}

static void request_prepare(struct client *client, const char *path)
{
    const char *ca = getenv("MUSTER_CACERT"); /* NOLINT(concurrency-mt-unsafe): one thread */
    char url[4096];

    curl_easy_reset(client->curl);
    (void)snprintf(url, sizeof(url), "%s%s%s", client->base, path[1] == '/' ? "" : "/api/v1",
                   path[1] == '/' ? path + 1 : path);
    (void)curl_easy_setopt(client->curl, CURLOPT_URL, url);
    if (strncmp(client->context.url, "unix:", 5) == 0)
        (void)curl_easy_setopt(client->curl, CURLOPT_UNIX_SOCKET_PATH, client->context.url + 5);
    (void)curl_easy_setopt(client->curl, CURLOPT_NOPROXY, "*");
    (void)curl_easy_setopt(client->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(client->curl, CURLOPT_CONNECTTIMEOUT, 10L);
    (void)curl_easy_setopt(client->curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(client->curl, CURLOPT_USERAGENT, "muster/" MUSTER_VERSION);
    if (client->context.ca[0] || ca)
        (void)curl_easy_setopt(client->curl, CURLOPT_CAINFO, ca ? ca : client->context.ca);
    (void)curl_easy_setopt(client->curl, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(client->curl, CURLOPT_HEADERDATA, client);
    (void)curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, client);
    buf_clear(&client->body);
    client->header_count = 0;
    client->got_result = 0;
}

/* Takes what was read over. */
static int answer_take(struct client *client, struct answer *answer, struct problem *problem)
{
    struct bytes bytes = { 0 };
    struct error err = { 0 };
    const char *type = client_header(client, "Content-Type");
    long status = 0;
    int r;

    (void)curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    *answer = (struct answer){ .status = (int)status };
    (void)snprintf(answer->etag, sizeof(answer->etag), "%.60s", client_header(client, "ETag"));
    r = buf_take(&client->body, &bytes, &err);
    if (r < 0)
        return problem_set(problem, CODE_FAILED, "", "the answer: %s", err.text);
    if (bytes.size && strstr(type, "json") && json_read("answer", bytes.data, bytes.size, &answer->json, &err) < 0)
        answer->json = NULL;
    answer->text = bytes.data;
    answer->size = bytes.size;
    if (answer->status < 400)
        return 0;
    r = refused(client, answer, problem);
    answer_done(answer);
    return r;
}

int client_send(struct client *client, const struct client_request *request, struct answer *ret_answer,
                struct problem *problem)
{
    struct curl_slist *list = headers_of(client, request->type, request->headers);
    CURLcode code;

    request_prepare(client, request->path);
    client->stream = false;
    (void)curl_easy_setopt(client->curl, CURLOPT_TIMEOUT, 120L);
    (void)curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, list);
    if (request->body) {
        (void)curl_easy_setopt(client->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(request->body));
        (void)curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, request->body);
    }
    (void)curl_easy_setopt(client->curl, CURLOPT_CUSTOMREQUEST, request->method);
    code = curl_easy_perform(client->curl);
    curl_slist_free_all(list);
    if (code != CURLE_OK)
        return unreachable(client, code, problem);
    return answer_take(client, ret_answer, problem);
}

int client_call(struct client *client, const char *method, const char *path, json_t *body, struct answer *ret_answer,
                struct problem *problem)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct client_request request = { method, path, body ? "application/json" : NULL, text, NULL };
    int r;

    if (body && !text)
        return problem_set(problem, CODE_FAILED, "", "out of memory");
    r = client_send(client, &request, ret_answer, problem);
    mem_free(text);
    return r;
}

int client_stream(struct client *client, const char *path, const char *const *headers, client_got_fn got, void *arg,
                  struct problem *problem)
{
    struct curl_slist *list = headers_of(client, NULL, headers);
    struct answer answer = { 0 };
    CURLcode code;
    int r = 0;

    request_prepare(client, path);
    client->stream = true;
    client->got = got;
    client->got_arg = arg;
    (void)curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, list);
    (void)curl_easy_setopt(client->curl, CURLOPT_TCP_KEEPALIVE, 1L);
    /* Something comes every 15 seconds, if only a comment: silence for longer means that nobody is there. */
    (void)curl_easy_setopt(client->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(client->curl, CURLOPT_LOW_SPEED_TIME, 120L);
    code = curl_easy_perform(client->curl);
    curl_slist_free_all(list);
    client->stream = false;
    if (client->got_result)
        return 0; /* the reader had enough */
    if (code != CURLE_OK)
        return unreachable(client, code, problem);
    r = answer_take(client, &answer, problem);
    answer_done(&answer);
    return r;
}

int client_list(struct client *client, const char *path, json_t **ret_items, struct problem *problem)
{
    json_t *items = json_array();
    char next[300] = "";

    do {
        CLEANUP_ANSWER struct answer answer = { 0 };
        char page[4096];
        const char *cursor;
        char *quoted = client_quote(next);
        int r;

        /* Long lists in few pages; the others come as they are. */
        (void)snprintf(page, sizeof(page), "%s%s%s%s%s", path, strchr(path, '?') ? "&" : "?",
                       strncmp(path, "/jobs?", 6) == 0 ? "limit=10000" : "", next[0] ? "&cursor=" : "",
                       next[0] ? quoted : "");
        mem_free(quoted);
        r = client_call(client, "GET", page, NULL, &answer, problem);
        if (r) {
            json_decref(items);
            return r;
        }
        (void)json_array_extend(items, json_object_get(answer.json, "items"));
        cursor = json_string_value(json_object_get(answer.json, "next"));
        (void)snprintf(next, sizeof(next), "%s", cursor && !strstr(path, "limit=") ? cursor : "");
    } while (next[0]);
    *ret_items = items;
    return 0;
}

int client_connect(struct client *client, void **ret_curl, const char **ret_host, const char **ret_token,
                   struct problem *problem)
{
    CURLcode code;

    request_prepare(client, "//");
    (void)curl_easy_setopt(client->curl, CURLOPT_CONNECT_ONLY, 1L);
    (void)curl_easy_setopt(client->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    code = curl_easy_perform(client->curl);
    if (code != CURLE_OK)
        return unreachable(client, code, problem);
    *ret_curl = client->curl;
    *ret_host = strstr(client->base, "://") + 3;
    *ret_token = client->context.token;
    return 0;
}
