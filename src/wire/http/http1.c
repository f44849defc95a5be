/* SPDX-License-Identifier: Apache-2.0 */
/* http1.c - HTTP/1.1 over llhttp, which finds the tokens; limits, storage and the refusal of folded headers are ours.
 *
 * All text of a head lies in one buffer, each string followed by '\0'; headers are offsets into it until the head is
 * whole, since the buffer moves while it grows.
 */
#include "wire/http/http1.h"

#include <errno.h>
#include <llhttp.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"

enum { HTTP_HEADS_CAPACITY_MAX = 4096 };

struct head_span {
    size_t name, value;
};

struct http_reader {
    llhttp_t parser;
    llhttp_settings_t settings;
    struct http_limits limits;
    struct buf text; /* target, then names and values */
    struct buf body;
    struct head_span *spans;
    struct http_head *heads;
    size_t span_count, span_capacity, head_capacity;
    size_t text_heads;      /* bytes of names and values */
    size_t body_most;       /* of this message */
    const char *value_end;  /* where the last piece of a value ended */
    const char *feed_start; /* of the bytes being fed */
    bool value_open;        /* a value has begun; at_edge: its last piece ended with the bytes fed */
    bool at_edge, begun, in_body, done, expects, told_expects, upgraded, failed;
    int refusal;
    const char *why;
    struct http_message message;
};

static struct http_reader *reader_of(llhttp_t *parser)
{
    return parser->data;
}

static int refuse(struct http_reader *reader, int status, const char *why)
{
    reader->refusal = status;
    reader->why = why;
    llhttp_set_error_reason(&reader->parser, why);
    return HPE_USER;
}

static int on_begin(llhttp_t *parser)
{
    reader_of(parser)->begun = true;
    return 0;
}

static int on_target(llhttp_t *parser, const char *at, size_t size)
{
    struct http_reader *reader = reader_of(parser);

    if (size > reader->limits.target_max - reader->text.size)
        return refuse(reader, 414, "the request line is too long");
    buf_put(&reader->text, at, size);
    return reader->text.error ? refuse(reader, 413, "out of memory") : 0;
}

/* A token of the head is whole: its end, unless it was closed before. */
static void text_close(struct http_reader *reader)
{
    buf_char(&reader->text, '\0');
}

static int on_target_complete(llhttp_t *parser)
{
    text_close(reader_of(parser));
    return 0;
}

static int head_text(struct http_reader *reader, const char *at, size_t size)
{
    if (size > reader->limits.head_bytes_max - reader->text_heads)
        return refuse(reader, 431, "the headers are too long");
    reader->text_heads += size;
    buf_put(&reader->text, at, size);
    return reader->text.error ? refuse(reader, 413, "out of memory") : 0;
}

static int on_field(llhttp_t *parser, const char *at, size_t size)
{
    struct http_reader *reader = reader_of(parser);
    struct head_span *span;

    if (reader->span_count == 0 || reader->spans[reader->span_count - 1].value) {
        if (reader->span_count >= reader->limits.head_count_max)
            return refuse(reader, 431, "too many headers");
        if (mem_grow((void **)&reader->spans, &reader->span_capacity, reader->span_count + 1, HTTP_HEADS_CAPACITY_MAX,
                     sizeof(*reader->spans)) < 0)
            return refuse(reader, 431, "too many headers");
        span = &reader->spans[reader->span_count++];
        *span = (struct head_span){ .name = reader->text.size };
    }
    return head_text(reader, at, size);
}

static int on_field_complete(llhttp_t *parser)
{
    struct http_reader *reader = reader_of(parser);

    text_close(reader);
    if (reader->span_count)
        reader->spans[reader->span_count - 1].value = reader->text.size;
    reader->value_open = false;
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t size)
{
    struct http_reader *reader = reader_of(parser);

    /* Pieces of one value touch, or meet where one feed ended and the next began. Else a line was folded. */
    if (reader->value_open && !(at == reader->value_end || (reader->at_edge && at == reader->feed_start)))
        return refuse(reader, 400, "a folded header");
    reader->value_open = true;
    reader->value_end = at + size;
    return head_text(reader, at, size);
}

static int on_value_complete(llhttp_t *parser)
{
    text_close(reader_of(parser));
    return 0;
}

/* Names and values become pointers; trailing blanks of values go. */
static int heads_settle(struct http_reader *reader)
{
    struct http_head *heads;

    if (mem_grow((void **)&reader->heads, &reader->head_capacity, reader->span_count, HTTP_HEADS_CAPACITY_MAX,
                 sizeof(*heads)) < 0)
        return -ENOMEM;
    heads = reader->heads;
    for (size_t i = 0; i < reader->span_count; i++) {
        char *value = reader->text.data + reader->spans[i].value;
        size_t length = strlen(value);

        while (length && (value[length - 1] == ' ' || value[length - 1] == '\t'))
            value[--length] = '\0';
        heads[i] = (struct http_head){ reader->text.data + reader->spans[i].name, value };
    }
    reader->message.heads = heads;
    reader->message.head_count = reader->span_count;
    return 0;
}

/* The body is about to come: how much of it may. */
static int body_ask(struct http_reader *reader)
{
    const llhttp_t *parser = &reader->parser;
    const struct http_limits *limits = &reader->limits;
    bool told = parser->flags & F_CONTENT_LENGTH, chunked = parser->flags & F_CHUNKED;
    int status;

    if (told && parser->content_length > limits->body_max)
        return refuse(reader, 413, "the body is too large");
    if (!limits->body_ask || !(chunked || (told && parser->content_length > limits->body_free)))
        return 0;
    status = limits->body_ask(limits->body_arg, &reader->message);
    reader->body_most = status == 0 ? limits->body_max : limits->body_free;
    if (status && !chunked)
        return refuse(reader, status, "a token is needed for so large a body");
    return 0;
}

static int on_heads_complete(llhttp_t *parser)
{
    struct http_reader *reader = reader_of(parser);
    struct http_message *m = &reader->message;

    if (reader->text.error || heads_settle(reader) < 0)
        return refuse(reader, 413, "out of memory");
    if (parser->http_major != 1 || parser->http_minor > 1)
        return refuse(reader, 400, "neither HTTP/1.0 nor HTTP/1.1");
    m->minor = parser->http_minor;
    if (parser->type == HTTP_REQUEST) {
        m->method = llhttp_method_name(parser->method);
        m->target = reader->text.data ? reader->text.data : "";
    } else {
        m->status = parser->status_code;
    }
    if (m->minor == 1 && parser->type == HTTP_REQUEST && http_list_has(http_header(m, "expect"), "100-continue"))
        reader->expects = parser->content_length > 0 || parser->flags & F_CHUNKED;
    m->upgrade = parser->upgrade;
    m->keep_alive = llhttp_should_keep_alive(parser);
    reader->in_body = true;
    return body_ask(reader);
}

static int on_body(llhttp_t *parser, const char *at, size_t size)
{
    struct http_reader *reader = reader_of(parser);

    if (size > reader->body_most - reader->body.size)
        return refuse(reader, 413, "the body is too large");
    buf_put(&reader->body, at, size);
    return reader->body.error ? refuse(reader, 413, "out of memory") : 0;
}

static int on_complete(llhttp_t *parser)
{
    struct http_reader *reader = reader_of(parser);

    reader->done = true;
    return parser->upgrade ? 0 : HPE_PAUSED;
}

int http_reader_new(enum http_side side, const struct http_limits *limits, struct http_reader **ret_reader)
{
    struct http_reader *reader = mem_zalloc(1, sizeof(*reader));

    if (!reader)
        return -ENOMEM;
    reader->limits = *limits;
    reader->text.max = limits->target_max + 2 * limits->head_bytes_max + 2 * limits->head_count_max + 16;
    reader->body.max = limits->body_max + 1;
    reader->body_most = limits->body_max;
    llhttp_settings_init(&reader->settings);
    reader->settings.on_message_begin = on_begin;
    reader->settings.on_url = on_target;
    reader->settings.on_url_complete = on_target_complete;
    reader->settings.on_header_field = on_field;
    reader->settings.on_header_field_complete = on_field_complete;
    reader->settings.on_header_value = on_value;
    reader->settings.on_header_value_complete = on_value_complete;
    reader->settings.on_headers_complete = on_heads_complete;
    reader->settings.on_body = on_body;
    reader->settings.on_message_complete = on_complete;
    llhttp_init(&reader->parser, side == HTTP_REQUESTS ? HTTP_REQUEST : HTTP_RESPONSE, &reader->settings);
    reader->parser.data = reader;
    *ret_reader = reader;
    return 0;
}

void http_reader_free(struct http_reader *reader)
{
    if (!reader)
        return;
    buf_done(&reader->text);
    buf_done(&reader->body);
    mem_free(reader->spans);
    mem_free(reader->heads);
    mem_free(reader);
}

static int message_done(struct http_reader *reader)
{
    buf_char(&reader->body, '\0');
    if (reader->body.error) {
        reader->refusal = 413;
        reader->failed = true;
        return -ENOMEM;
    }
    reader->message.body = reader->body.data;
    reader->message.body_size = reader->body.size - 1;
    return 1;
}

int http_reader_feed(struct http_reader *reader, const char *data, size_t size, size_t *ret_used, struct error *err)
{
    llhttp_errno_t r;
    const char *end;

    *ret_used = 0;
    if (reader->failed)
        return error_set(err, -EBADMSG, "%s", "bytes after a refusal");
    reader->feed_start = data;
    reader->value_end = NULL;
    r = llhttp_execute(&reader->parser, data, size);
    if (r == HPE_OK) {
        /* A value that reached the end of these bytes goes on at the start of the next. */
        reader->at_edge = reader->value_open && reader->value_end == data + size;
        *ret_used = size;
        return 0;
    }
    end = llhttp_get_error_pos(&reader->parser);
    if (end >= data && end <= data + size)
        *ret_used = (size_t)(end - data);
    if (r == HPE_PAUSED_UPGRADE && reader->done) {
        reader->upgraded = true;
        return message_done(reader) < 0 ? error_set(err, -ENOMEM, "out of memory") : 1;
    }
    if (r == HPE_PAUSED && reader->done)
        return message_done(reader) < 0 ? error_set(err, -ENOMEM, "out of memory") : 1;
    reader->failed = true;
    if (!reader->refusal)
        reader->refusal = 400;
    if (!reader->why)
        reader->why = llhttp_get_error_reason(&reader->parser);
    return error_set(err, reader->refusal == 400 ? -EBADMSG : -E2BIG, "%s",
                     reader->why && *reader->why ? reader->why : "not HTTP");
}

int http_reader_end(struct http_reader *reader, struct error *err)
{
    llhttp_errno_t r;

    if (reader->failed)
        return error_set(err, -EBADMSG, "closed after a refusal");
    if (!reader->begun)
        return 0;
    r = llhttp_finish(&reader->parser);
    if ((r == HPE_OK || r == HPE_PAUSED) && reader->done)
        return message_done(reader) < 0 ? error_set(err, -ENOMEM, "out of memory") : 1;
    return error_set(err, -EPIPE, "closed in the middle of a message");
}

const struct http_message *http_reader_message(const struct http_reader *reader)
{
    return &reader->message;
}

int http_reader_refusal(const struct http_reader *reader)
{
    return reader->refusal ? reader->refusal : 400;
}

bool http_reader_idle(const struct http_reader *reader)
{
    return !reader->begun;
}

bool http_reader_in_body(const struct http_reader *reader)
{
    return reader->in_body && !reader->done;
}

bool http_reader_expects(struct http_reader *reader)
{
    bool tell = reader->expects && !reader->told_expects && !reader->done && reader->body.size == 0;

    reader->told_expects |= tell;
    return tell;
}

void http_reader_drain(struct http_reader *reader, const char **ret_data, size_t *ret_size)
{
    *ret_data = reader->body.data;
    *ret_size = reader->done && reader->body.size ? reader->body.size - 1 : reader->body.size;
    reader->body.size = 0;
}

/* A message that was large leaves no memory behind on a connection that idles. */
static void buf_reset(struct buf *buf, size_t keep)
{
    size_t max = buf->max;

    if (buf->capacity > keep)
        buf_done(buf);
    else
        buf_clear(buf);
    buf->max = max;
}

void http_reader_next(struct http_reader *reader)
{
    buf_reset(&reader->text, 4096);
    buf_reset(&reader->body, 4096);
    reader->span_count = reader->text_heads = 0;
    reader->value_open = reader->at_edge = reader->begun = reader->in_body = reader->done = false;
    reader->expects = reader->told_expects = false;
    reader->body_most = reader->limits.body_max;
    reader->message = (struct http_message){ 0 };
    if (reader->upgraded)
        llhttp_resume_after_upgrade(&reader->parser);
    else
        llhttp_resume(&reader->parser);
    reader->upgraded = false;
}

const char *http_header(const struct http_message *message, const char *name)
{
    for (size_t i = 0; i < message->head_count; i++)
        if (strcasecmp(message->heads[i].name, name) == 0)
            return message->heads[i].value;
    return NULL;
}

bool http_list_has(const char *list, const char *token)
{
    size_t length = strlen(token);

    while (list && *list) {
        size_t span;

        list += strspn(list, " \t,");
        span = strcspn(list, ",;");
        while (span && (list[span - 1] == ' ' || list[span - 1] == '\t'))
            span--;
        if (span == length && strncasecmp(list, token, length) == 0)
            return true;
        list += strcspn(list, ",");
    }
    return false;
}

const char *http_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        { 200, "OK" },
        { 201, "Created" },
        { 202, "Accepted" },
        { 204, "No Content" },
        { 304, "Not Modified" },
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 406, "Not Acceptable" },
        { 408, "Request Timeout" },
        { 409, "Conflict" },
        { 412, "Precondition Failed" },
        { 413, "Content Too Large" },
        { 414, "URI Too Long" },
        { 415, "Unsupported Media Type" },
        { 422, "Unprocessable Content" },
        { 426, "Upgrade Required" },
        { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 500, "Internal Server Error" },
        { 501, "Not Implemented" },
        { 503, "Service Unavailable" },
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].status == status)
            return texts[i].text;
    return "Unknown";
}
