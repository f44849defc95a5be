/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* net_part.h - what listeners (listen.c) and connections (net.c) share. */
#include <uv.h>

#include "io/net.h"

enum { PEER_BUCKETS = 1024 };

struct peer_count;

struct net_listener {
    union {
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } handle;
    struct net_options options;
    char address[128];
    char path[108];
    struct loop *loop;
    struct peer_count *peers[PEER_BUCKETS];
    size_t conns;
    uint64_t refused;
    bool is_unix, closing, closed;
};

void listener_free(struct net_listener *listener);
void listener_accept(uv_stream_t *server, int status);
/* One more connection of this address; false when it has as many as it may. */
bool peer_enter(struct net_listener *listener, const char *address);
void peer_leave(struct net_listener *listener, const char *address);
