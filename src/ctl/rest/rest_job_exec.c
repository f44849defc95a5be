/* SPDX-License-Identifier: Apache-2.0 */
/* rest_job_exec.c - a command inside a running job, or a connection to a port of it: WebSocket towards the client, asks
 * and answers towards the agent.
 *
 * Messages are binary and begin with a byte (docs/rest.md). wslay makes and reads frames; it does no I/O: what came
 * lies in `in` until its receive callback takes it, what it sends goes to the connection.
 *
 * Neither side may fill our memory. Of what the client says at most INPUT_AHEAD is under way to the job: then its
 * connection is not read until the agent tells how much was taken. Of what the job says at most OUTPUT_HIGH waits for
 * the client, and what the agent has sent already: it is told when there is no room, and when there is again.
 */
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wslay/wslay.h>

#include "base/alloc.h"
#include "ctl/daemon/links.h"
#include "ctl/rest/rest.h"
#include "wire/text/decimal.h"

enum { INPUT_AHEAD = 1 << 20, OUTPUT_HIGH = 1 << 20 };
enum { MESSAGE_BYTES_MAX = 1 << 20, ARGS_MAX = 256, ARG_BYTES_MAX = 8192 };
enum { SAY_INPUT = 0, SAY_OUTPUT = 1, SAY_ERRORS = 2, SAY_RESIZE = 2, SAY_STATUS = 3, SAY_EOF = 3 };

#define SAY_TIME USEC_MIN /* to read what has been said */

struct session {
    struct request *request; /* held */
    struct server *server;
    wslay_event_context_ptr ws;
    struct buf in;
    size_t in_at;
    char node[256];
    int64_t ask;
    size_t ahead; /* bytes of input that were not told to be taken */
    bool busy, over;
    bool paced; /* the agent tells what was taken */
    bool full;  /* the agent was told to wait */
};

static ssize_t on_receive(wslay_event_context_ptr ws, uint8_t *data, size_t size, int flags, void *arg)
{
    struct session *session = arg;
    size_t left = session->in.size - session->in_at;

    (void)flags;
    if (left == 0) {
        wslay_event_set_error(ws, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    if (size > left)
        size = left;
    memcpy(data, session->in.data + session->in_at, size);
    session->in_at += size;
    return (ssize_t)size;
}

static ssize_t on_send(wslay_event_context_ptr ws, const uint8_t *data, size_t size, int flags, void *arg)
{
    struct session *session = arg;
    struct net_conn *conn = request_conn(session->request);

    (void)flags;
    if (!conn) {
        wslay_event_set_error(ws, WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
    }
    net_write(conn, data, size);
    return (ssize_t)size;
}

static void ask_input(struct session *session, const uint8_t *data, size_t size, bool eof)
{
    json_t *body = json_pack("{s:s, s:b}", "do", "input", "eof", eof);
    char *text = mem_zalloc(size / 3 * 4 + 8, 1);

    if (text && body) {
        (void)EVP_EncodeBlock((unsigned char *)text, data, (int)size);
        (void)json_object_set_new(body, "data", json_string(text));
    }
    mem_free(text);
    links_ask_more(session->server->links, session->node, session->ask, body);
    session->ahead += size;
    if (session->paced && session->ahead > INPUT_AHEAD && request_conn(session->request))
        net_read_pause(request_conn(session->request));
}

static void input_took(struct session *session, json_int_t size)
{
    struct net_conn *conn = request_conn(session->request);

    if (size < 0)
        return;
    session->ahead -= (size_t)size < session->ahead ? (size_t)size : session->ahead;
    if (session->ahead <= INPUT_AHEAD && conn)
        net_read_resume(conn);
}

static void room_tell(struct session *session, bool room)
{
    if (session->full != room || session->ask <= 0)
        return;
    session->full = !room;
    links_ask_more(session->server->links, session->node, session->ask,
                   json_pack("{s:s, s:b}", "do", "room", "room", room));
}

static void on_message(wslay_event_context_ptr ws, const struct wslay_event_on_msg_recv_arg *message, void *arg)
{
    struct session *session = arg;
    int rows, columns;
    char text[32];

    (void)ws;
    if (message->opcode != WSLAY_BINARY_FRAME || message->msg_length == 0 || session->ask <= 0)
        return;
    switch (message->msg[0]) {
    case SAY_INPUT:
        if (message->msg_length > 1)
            ask_input(session, message->msg + 1, message->msg_length - 1, false);
        break;
    case SAY_RESIZE:
        (void)snprintf(text, sizeof(text), "%.*s", (int)(message->msg_length < 30 ? message->msg_length - 1 : 29),
                       (const char *)message->msg + 1);
        if (sscanf(text, "%5dx%5d", &rows, &columns) == 2 && rows > 0 && columns > 0)
            links_ask_more(session->server->links, session->node, session->ask,
                           json_pack("{s:s, s:i, s:i}", "do", "resize", "rows", rows, "cols", columns));
        break;
    case SAY_EOF:
        ask_input(session, message->msg, 0, true);
        break;
    default:
        break;
    }
}

static void say(struct session *session, uint8_t kind, const void *data, size_t size)
{
    uint8_t *copy = mem_zalloc(size + 1, 1);
    struct wslay_event_msg message = { .opcode = WSLAY_BINARY_FRAME, .msg = copy, .msg_length = size + 1 };

    if (!copy)
        return;
    copy[0] = kind;
    if (size)
        memcpy(copy + 1, data, size);
    (void)wslay_event_queue_msg(session->ws, &message);
    mem_free(copy);
}

/* Frames in and out until there is nothing left to do. */
static void session_turn(struct session *session)
{
    struct net_conn *conn = request_conn(session->request);
    bool broken;

    if (session->busy || !conn)
        return;
    session->busy = true;
    broken = wslay_event_recv(session->ws) != 0;
    while (!broken && wslay_event_want_write(session->ws))
        broken = wslay_event_send(session->ws) != 0;
    session->in.size = session->in_at = 0;
    session->busy = false;
    if (broken || (!wslay_event_want_read(session->ws) && !wslay_event_want_write(session->ws)))
        net_finish(conn, USEC_SEC);
}

static void session_end(struct session *session, int status)
{
    char text[16];

    if (session->over)
        return;
    session->over = true;
    input_took(session, (json_int_t)session->ahead); /* the end of the connection is to be seen */
    (void)snprintf(text, sizeof(text), "%d", status);
    say(session, SAY_STATUS, text, strlen(text));
    session_turn(session); /* a close overtakes messages that wait */
    (void)wslay_event_queue_close(session->ws, WSLAY_CODE_NORMAL_CLOSURE, NULL, 0);
    session_turn(session);
    if (request_conn(session->request)) /* also with one who does not say goodbye */
        net_finish(request_conn(session->request), SAY_TIME);
}

static void output_say(struct session *session, json_t *answer, const char *data)
{
    const char *stream = json_string_value(json_object_get(answer, "stream"));
    size_t length = strlen(data), pad = 0;
    unsigned char *plain = mem_zalloc(length / 4 * 3 + 4, 1);
    int n = plain ? EVP_DecodeBlock(plain, (const unsigned char *)data, (int)length) : -1;

    while (length > pad && pad < 2 && data[length - 1 - pad] == '=')
        pad++;
    if (n > (int)pad)
        say(session, stream && strcmp(stream, "err") == 0 ? SAY_ERRORS : SAY_OUTPUT, plain, (size_t)n - pad);
    mem_free(plain);
}

static void on_answer(void *arg, json_t *answer, bool last)
{
    struct session *session = arg;
    const char *data = json_string_value(json_object_get(answer, "data"));
    const char *error = json_string_value(json_object_get(answer, "error"));
    json_t *signal = json_object_get(answer, "signal");
    int status = (int)json_integer_value(json_object_get(answer, "exit"));

    if (last)
        session->ask = 0;
    if (!answer || json_is_false(json_object_get(answer, "ok"))) {
        error = error ? error : "the node does not answer";
        say(session, SAY_ERRORS, "muster: ", 8);
        say(session, SAY_ERRORS, error, strlen(error));
        say(session, SAY_ERRORS, "\n", 1);
        session->ask = 0;
        session_end(session, 125);
        return;
    }
    if (json_object_get(answer, "took")) {
        session->paced = true;
        input_took(session, json_integer_value(json_object_get(answer, "took")));
    }
    if (data)
        output_say(session, answer, data);
    if (last)
        session_end(session, json_integer_value(signal) > 0 ? 128 + (int)json_integer_value(signal) : status);
    else
        session_turn(session);
    if (request_conn(session->request) && net_queued(request_conn(session->request)) > OUTPUT_HIGH)
        room_tell(session, false);
}

static void on_drained(void *arg)
{
    room_tell(arg, true);
}

static void on_data(void *arg, const char *data, size_t size)
{
    struct session *session = arg;

    buf_put(&session->in, data, size);
    if (session->in.error)
        net_close(request_conn(session->request));
    else
        session_turn(session);
}

static void on_closed(void *arg)
{
    struct session *session = arg;

    if (session->ask > 0)
        links_unask(session->server->links, session->node, session->ask);
    if (session->ws)
        wslay_event_context_free(session->ws);
    buf_done(&session->in);
    request_drop(session->request);
    mem_free(session);
}

static const struct upgrade_ops session_ops = { .data = on_data, .drained = on_drained, .closed = on_closed };

/* The key that proves that we speak WebSocket. */
static void accept_key(const char *key, char *out)
{
    char text[128];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    (void)snprintf(text, sizeof(text), "%.64s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    (void)EVP_Digest(text, strlen(text), digest, &size, EVP_sha1(), NULL);
    (void)EVP_EncodeBlock((unsigned char *)out, digest, (int)size);
}

/* ?cmd=bash&cmd=-l */
static json_t *argv_read(const struct request *request)
{
    json_t *argv = json_array();
    char *text = mem_zalloc(ARG_BYTES_MAX, 1);
    const char *value;
    size_t size;

    for (size_t i = 0; text && i < ARGS_MAX && http_query_find(request->query, "cmd", i, &value, &size); i++) {
        if (size >= ARG_BYTES_MAX)
            break;
        memcpy(text, value, size);
        text[size] = '\0';
        if (http_unescape(text, true) == 0)
            (void)json_array_append_new(argv, json_string(text));
    }
    mem_free(text);
    return argv;
}

/* The task to enter; NULL, answered. */
static const struct ctl_task *exec_task(struct request *request, const struct ctl_job *job, int64_t *ret_rank)
{
    const struct ctl_attempt *attempt = attempt_last(job);

    *ret_rank = 0;
    if (query_i64(request, "task", 0, UINT32_MAX, ret_rank) < 0)
        return NULL;
    if (!attempt || job->phase != PHASE_JOB_RUNNING) {
        reply_problem(request, 409, "Conflict", NULL, "job %" PRId64 " does not run (%s)", job->id,
                      phase_name(job->phase));
        return NULL;
    }
    if (*ret_rank >= attempt->task_count) {
        reply_problem(request, 404, "NotFound", NULL, "job %" PRId64 " has no task %" PRId64, job->id, *ret_rank);
        return NULL;
    }
    return &attempt->tasks[*ret_rank];
}

static int session_new(struct request *request, struct session **ret)
{
    static const struct wslay_event_callbacks callbacks = { .recv_callback = on_receive,
                                                            .send_callback = on_send,
                                                            .on_msg_recv_callback = on_message };
    struct session *session = mem_zalloc(1, sizeof(*session));

    if (!session || wslay_event_context_server_init(&session->ws, &callbacks, session) != 0) {
        mem_free(session);
        return -ENOMEM;
    }
    wslay_event_config_set_max_recv_msg_length(session->ws, MESSAGE_BYTES_MAX);
    session->in.max = MESSAGE_BYTES_MAX * 2;
    session->request = request_hold(request);
    session->server = request_server(request);
    *ret = session;
    return 0;
}

/* Enters a task of the job: `ask` (taken) is what its agent is asked to do there. */
static void session_start(struct request *request, const struct ctl_job *job, json_t *ask)
{
    const char *key = http_header(request->message, "sec-websocket-key");
    const struct ctl_attempt *attempt = attempt_last(job);
    const struct ctl_task *task;
    struct session *session;
    char heads[128], accept[64];
    struct scene scene;
    int64_t rank;

    task = exec_task(request, job, &rank);
    if (!task || !attempt || !key) {
        json_decref(ask);
        return;
    }
    if (session_new(request, &session) < 0) {
        json_decref(ask);
        reply_problem(request, 503, "Busy", NULL, "no memory");
        return;
    }
    scene_fill(&scene, request);
    (void)snprintf(session->node, sizeof(session->node), "%s", node_name(&scene, task->node));
    accept_key(key, accept);
    (void)snprintf(heads, sizeof(heads), "Sec-WebSocket-Accept: %s\r\n", accept);
    (void)json_object_set_new(ask, "job", json_integer(job->id));
    (void)json_object_set_new(ask, "attempt", json_integer(attempt->number));
    (void)json_object_set_new(ask, "rank", json_integer(rank));
    session->ask = links_ask(session->server->links, session->node, ask, on_answer, session);
    if (session->ask < 0) {
        reply_problem(request, 503, "NodeUnreachable", NULL, "node %s is not connected", session->node);
        on_closed(session);
        return;
    }
    reply_upgrade(request, "websocket", heads, &session_ops, session);
}

/* The job, where the caller may enter it and speaks WebSocket; NULL, answered. */
static const struct ctl_job *entered_job(struct request *request, const char *const *known, const char *what)
{
    const struct ctl_job *job = request_governed(request);
    const struct http_message *m = request->message;

    if (!job || !query_known(request, known))
        return NULL;
    if (m->upgrade && http_list_has(http_header(m, "upgrade"), "websocket") && http_header(m, "sec-websocket-key"))
        return job;
    reply_header(request, "Upgrade", "websocket");
    reply_problem(request, 426, "UpgradeRequired", NULL, "%s speaks WebSocket", what);
    return NULL;
}

void rest_job_exec(struct request *request)
{
    static const char *const known[] = { "task", "tty", "cmd", "rows", "cols", NULL };
    const struct ctl_job *job = entered_job(request, known, "exec");
    json_t *argv;

    if (!job)
        return;
    argv = argv_read(request);
    if (json_array_size(argv) == 0) {
        json_decref(argv);
        reply_problem(request, 400, "BadRequest", NULL, "cmd: say what to run");
        return;
    }
    session_start(request, job,
                  json_pack("{s:s, s:o, s:b}", "do", "exec", "argv", argv, "tty", query_flag(request, "tty")));
}

void rest_job_input(struct request *request)
{
    static const char *const known[] = { "task", NULL };
    const struct ctl_job *job = entered_job(request, known, "input");

    if (!job)
        return;
    if (job->spec->input == INPUT_NONE) {
        reply_problem(request, 409, "Conflict", "submit it with input: all, or by muster run",
                      "job %" PRId64 " takes no input", job->id);
        return;
    }
    session_start(request, job, json_pack("{s:s}", "do", "stdin"));
}

void rest_job_forward(struct request *request)
{
    static const char *const known[] = { "task", NULL };
    const char *text = request->params[1];
    const struct ctl_job *job = entered_job(request, known, "forward");
    int64_t port;

    if (!job)
        return;
    if (decimal_parse_i64(text, strlen(text), &port) < 0 || port < 1 || port > UINT16_MAX) {
        reply_problem(request, 400, "BadRequest", NULL, "port: expected 1 to 65535, got '%.20s'", text);
        return;
    }
    session_start(request, job, json_pack("{s:s, s:I}", "do", "forward", "port", (json_int_t)port));
}
