/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* channel_internal.h - between channel.c, which needs no library, and channel_tls.c, which does. */
#include <netinet/in.h>

#include "cli/client/channel.h"

enum { CHANNEL_CONNECT_MS = 10000 };

/* How bytes go where they do not go by the socket itself. */
struct channel_calls {
    ssize_t (*send)(struct channel *channel, const void *data, size_t size);
    ssize_t (*recv)(struct channel *channel, void *data, size_t size);
    void (*close)(struct channel *channel);
};

struct channel {
    const struct channel_calls *calls; /* NULL: plain */
    void *inner;                       /* theirs */
    int fd;
};

/* Connects to the address; *channel has the socket. */
int channel_dial(struct channel *channel, const struct sockaddr *address, socklen_t size);

/* channel_tls.c: https, and hosts by their names. */
int channel_open_far(struct channel *channel, const char *url, const char *ca, struct error *err);

/* "[::1]:7717/" into host and port, both of CHANNEL_HOST_MAX bytes. */
int channel_host_split(const char *text, char *host, char *port);
