/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* http_internal.h - the inside of the HTTP server, shared by http_server.c and http_reply.c alone. */
#include "ctl/http/http_server.h"

enum { ACCOUNT_HEADS = 256 };

/* One user's share of the server, as long as there is a connection of theirs. */
struct account {
    struct account *next;
    char name[sizeof(((struct principal *)NULL)->user)];
    uint32_t connections, requests;
    size_t bytes;      /* of bodies that are coming or being answered */
    uint64_t taken_in; /* turn of the loop in which their last request was taken */
};

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
    struct buf lead; /* the head of an answer that is streamed, until its first piece */
    struct buf held; /* whole answers that wait for those to what was asked behind them */
    struct client *next_held;
    size_t behind; /* bytes in hand behind the request that is being answered */
    int64_t made;  /* the job submitted last; 0 */
    bool feeding, closing, half_closed, chunked, streaming_now, holds;
    struct account *account; /* of whoever asked last; NULL: nobody we know */
    size_t body_bytes;       /* of its account's */
    bool counted;            /* its request is one of its account's */
    uint64_t taken_in;       /* turn of the loop in which its last request was taken */
    bool again;              /* wants to go on in the next */
    bool handling, finished; /* the handler is at work; it has answered */
};

struct http_server {
    struct loop *loop;
    struct http_server_config config;
    struct client *clients;
    struct loop_timer *again, *release;
    struct client *holding; /* who has something in `held` */
    struct account *accounts[ACCOUNT_HEADS];
    size_t count;
    uint64_t turn;
    usec_t turn_began; /* 0: nothing was asked in it yet */
    bool stopping;
};

/* Before a body comes: 0, or the status that refuses it. `arg` is the client. */
int account_body_ask(void *arg, const struct http_message *message);
void account_body_over(struct client *client);
void account_request_over(struct client *client);
void account_leave(struct client *client);

void client_finished(struct client *client);
/* Bytes to the client; `whole`: they end an answer. */
void client_write(struct client *client, const void *data, size_t size, bool whole);
void client_flush(struct client *client);
void client_unhold(struct client *client); /* it is about to go */
void clients_release(void *server);        /* all that is held */
void client_more(struct client *client);
void client_stream(struct client *client);
