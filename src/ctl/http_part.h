/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* http_part.h - the inside of the HTTP server, shared by http_server.c and http_reply.c alone. */
#include "ctl/http_server.h"

struct client {
    struct http_server *server;
    struct net_conn *conn;
    struct http_reader *reader;
    struct client *prev, *next;
    struct request *request; /* on its way; NULL */
    struct buf in;           /* came behind it */
    const struct stream_ops *stream;
    void *stream_arg;
    const struct upgrade_ops *upgraded;
    void *upgraded_arg;
    bool feeding, closing, half_closed, chunked, streaming_now;
    bool handling, finished; /* the handler is at work; it has answered */
};

struct http_server {
    struct loop *loop;
    struct http_server_config config;
    struct client *clients;
    size_t count;
    bool stopping;
};

void client_finished(struct client *client);
void client_more(struct client *client);
void client_stream(struct client *client);
