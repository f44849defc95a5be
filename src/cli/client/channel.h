/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* channel.h - a connection to the controller that carries bytes: a socket, or TLS over one.
 *
 * Sockets are our own; TLS and its certificates are curl's, which is opened when an https:// address is met and not
 * before: most commands of a day go to http:// on the loopback or to the Unix socket, and are over before curl would be
 * loaded. Nothing here waits, but for connecting.
 */
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct channel;

/* unix:/PATH, http://HOST[:PORT], https://HOST[:PORT]. `ca` names authorities of its own; NULL or "": the system's.
 * -EPROTO: TLS, or who answered there, is not to be trusted. */
int channel_open(const char *url, const char *ca, struct channel **ret_channel, struct error *err);
void channel_close(struct channel *channel);
/* The address needs no library: a socket of this machine, or http:// with a host that is a number. */
bool channel_near(const char *url);

/* How much was taken or has come; 0 from recv: the other side has closed. -EAGAIN: poll the descriptor. */
ssize_t channel_send(struct channel *channel, const void *data, size_t size);
ssize_t channel_recv(struct channel *channel, void *data, size_t size);
int channel_fd(const struct channel *channel);
/* HOST[:PORT] of the address, for the Host header. */
enum { CHANNEL_HOST_MAX = 300 };
void channel_host(const char *url, char host[CHANNEL_HOST_MAX]);
