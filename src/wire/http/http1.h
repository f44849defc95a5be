/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* http1.h - HTTP/1.1 messages from bytes, and the heads of answers to bytes.
 *
 * A reader takes any bytes in any pieces and stops behind each whole message, so that what follows (a pipelined
 * request, another protocol) stays with the caller. Everything that grows is counted: request line, headers, their
 * number, body. Over llhttp in strict mode; folded headers are refused too.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum http_side { HTTP_REQUESTS, HTTP_RESPONSES };

struct http_message;

struct http_limits {
    size_t target_max;     /* bytes of the request target; beyond: 414 */
    size_t head_bytes_max; /* of all header names and values; beyond: 431 */
    size_t head_count_max; /* headers; beyond: 431 */
    size_t body_max;       /* beyond: 413 */
    /* Who sends more than `body_free` is looked at before it comes: 0, or the status that refuses. NULL: nobody is. */
    size_t body_free;
    int (*body_ask)(void *arg, const struct http_message *message);
    void *body_arg;
};

#define HTTP_LIMITS_STANDARD                                                                                           \
    {                                                                                                                  \
        .target_max = 8192, .head_bytes_max = 32768, .head_count_max = 100, .body_max = (size_t)1 << 20,               \
    }

struct http_head {
    const char *name, *value; /* '\0'-terminated */
};

/* Borrowed from the reader until http_reader_next(). */
struct http_message {
    const char *method; /* "GET"; NULL in responses */
    const char *target; /* "/a/b?c=d" as sent; NULL in responses */
    int status;         /* 0 in requests */
    uint8_t minor;      /* of the version 1.x */
    bool keep_alive;
    bool upgrade; /* it asks for (or grants) another protocol; http_header(m, "upgrade") says which */
    const struct http_head *heads;
    size_t head_count;
    const char *body; /* '\0' follows */
    size_t body_size;
};

struct http_reader;

int http_reader_new(enum http_side side, const struct http_limits *limits, struct http_reader **ret_reader);
void http_reader_free(struct http_reader *reader);

/* 1: a whole message is there, *ret_used bytes of `data` belong to it; feed the rest after http_reader_next().
 * 0: all was used, more is needed. Negative: not to be trusted any more; http_reader_refusal() is the status to answer.
 */
int http_reader_feed(struct http_reader *reader, const char *data, size_t size, size_t *ret_used, struct error *err);

/* The peer closed: 1 when that ends a response without a length, 0 between messages, -EPIPE in the middle of one. */
int http_reader_end(struct http_reader *reader, struct error *err);

const struct http_message *http_reader_message(const struct http_reader *reader);
int http_reader_refusal(const struct http_reader *reader); /* 400, 413, 414, 431 */

/* Where it is: nothing of a message read yet; and, in its body, whether "100 Continue" is waited for (told once). */
bool http_reader_idle(const struct http_reader *reader);
bool http_reader_in_body(const struct http_reader *reader);
bool http_reader_expects(struct http_reader *reader);

/* Forgets the message and takes the next. */
void http_reader_next(struct http_reader *reader);

/* A response streams: hands over and forgets the body read so far. Borrowed until the next feed. */
void http_reader_drain(struct http_reader *reader, const char **ret_data, size_t *ret_size);

/* The value of a header, case of the name ignored; NULL. */
const char *http_header(const struct http_message *message, const char *name);

/* Whether a comma list of tokens has `token`, case ignored. NULL has none. */
bool http_list_has(const char *list, const char *token);

const char *http_status_text(int status);

/* %XX and, in queries, '+'. Decodes in place; -EINVAL for broken escapes and for %00. */
int http_unescape(char *text, bool plus);

/* The value of a query parameter, as sent (escaped); occurrence `nth`, 0 = first. false: it is not there. */
bool http_query_find(const char *query, const char *name, size_t nth, const char **ret_value, size_t *ret_size);
/* The next pair from *at ("" at the end: false). */
bool http_query_next(const char **at, const char **ret_name, size_t *ret_name_size, const char **ret_value,
                     size_t *ret_size);
