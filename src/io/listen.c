/* SPDX-License-Identifier: Apache-2.0 */
/* listen.c - addresses to listen on, and how many each peer is connected. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/net_part.h"

enum { BACKLOG = 1024 };

struct peer_count {
    struct peer_count *next;
    size_t count;
    char address[64];
};

void listener_free(struct net_listener *listener)
{
    for (size_t i = 0; i < PEER_BUCKETS; i++)
        while (listener->peers[i]) {
            struct peer_count *next = listener->peers[i]->next;

            mem_free(listener->peers[i]);
            listener->peers[i] = next;
        }
    mem_free(listener);
}

static struct peer_count **peer_slot(struct net_listener *listener, const char *address)
{
    struct peer_count **slot;
    uint32_t hash = 2166136261U;

    for (const char *p = address; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619U;
    slot = &listener->peers[hash % PEER_BUCKETS];
    while (*slot && strcmp((*slot)->address, address) != 0)
        slot = &(*slot)->next;
    return slot;
}

bool peer_enter(struct net_listener *listener, const char *address)
{
    struct peer_count **slot = peer_slot(listener, address), *peer = *slot;

    if (!peer) {
        peer = mem_zalloc(1, sizeof(*peer));
        if (!peer)
            return false;
        (void)snprintf(peer->address, sizeof(peer->address), "%s", address);
        *slot = peer;
    }
    if (peer->count >= listener->options.conns_address_max)
        return false;
    peer->count++;
    return true;
}

void peer_leave(struct net_listener *listener, const char *address)
{
    struct peer_count **slot = peer_slot(listener, address), *peer = *slot;

    if (!peer || --peer->count > 0)
        return;
    *slot = peer->next;
    mem_free(peer);
}

/* No host means every address of the machine, of both kinds: what comes by IPv4 is answered by the socket of IPv6 too.
 */
static bool host_any(const char *text)
{
    int fd = text[0] == ':' ? socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;

    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

/* "HOST:PORT" to an address, by name if it must be. */
static int address_find(const char *text, struct sockaddr_storage *ret, struct error *err)
{
    const char *colon = strrchr(text, ':');
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *found = NULL;
    char host[256];
    size_t length;
    int r;

    if (!colon || !colon[1])
        return error_set(err, -EINVAL, "listen: '%s' is not ADDRESS:PORT", text);
    /* The resolver would take what is left of a larger number. */
    if (strspn(colon + 1, "0123456789") == strlen(colon + 1) && (strlen(colon + 1) > 5 || atoi(colon + 1) > 65535))
        return error_set(err, -EINVAL, "listen: %s: expected a port from 0 to 65535", colon + 1);
    length = (size_t)(colon - text);
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    if (host_any(text))
        hints.ai_family = AF_INET6;
    if (length >= sizeof(host))
        return error_set(err, -EINVAL, "listen: the address is too long");
    memcpy(host, text, length);
    host[length] = '\0';
    r = getaddrinfo(length ? host : NULL, colon + 1, &hints, &found);
    if (r != 0)
        return error_set(err, -EINVAL, "listen: %s: %s", text, gai_strerror(r));
    memcpy(ret, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

static int tcp_bind(struct net_listener *listener, struct error *err)
{
    struct sockaddr_storage address = { 0 };
    int size = sizeof(address), r = address_find(listener->options.address, &address, err);
    char name[64] = "";
    int port;

    if (r < 0)
        return r;
    r = uv_tcp_bind(&listener->handle.tcp, (struct sockaddr *)&address, 0);
    if (r == 0)
        r = uv_listen(&listener->handle.stream, BACKLOG, listener_accept);
    if (r < 0)
        return error_set(err, r, "cannot listen on %s: %s", listener->options.address, uv_strerror(r));
    /* What every connection should have: it gets it from the socket it came to. */
    (void)uv_tcp_nodelay(&listener->handle.tcp, 1);
    (void)uv_tcp_keepalive(&listener->handle.tcp, 1, 60);
    (void)uv_tcp_getsockname(&listener->handle.tcp, (struct sockaddr *)&address, &size);
    (void)uv_ip_name((struct sockaddr *)&address, name, sizeof(name));
    port = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
    (void)snprintf(listener->address, sizeof(listener->address), address.ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d",
                   name, port);
    return 0;
}

/* /run/muster is made by the unit, and is gone after each start of the machine: who starts the program by hand has
 * none. libuv would tell of a permission. */
static int socket_folder_make(const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/');
    char folder[sizeof(((struct net_listener *)0)->path)];
    size_t length = slash ? (size_t)(slash - path) : 0;
    int r;

    if (length == 0 || length >= sizeof(folder))
        return 0;
    memcpy(folder, path, length);
    folder[length] = '\0';
    r = mkdir(folder, 0755) < 0 ? errno : 0;
    if (r == 0 || r == EEXIST || access(folder, F_OK) == 0)
        return 0;
    return error_set(err, -r, "cannot listen on %s: its folder is not there and cannot be made: %s", path, strerror(r));
}

static int unix_bind(struct net_listener *listener, struct error *err)
{
    const char *path = listener->options.address;
    struct stat st;
    int r;

    if (strlen(path) >= sizeof(listener->path))
        return error_set(err, -ENAMETOOLONG, "the path of the socket is too long: %s", path);
    r = socket_folder_make(path, err);
    if (r < 0)
        return r;
    /* What a former run left behind; the state folder's lock keeps two controllers apart. */
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        (void)unlink(path);
    r = uv_pipe_bind(&listener->handle.pipe, path);
    if (r == 0 && chmod(path, listener->options.socket_mode) < 0)
        r = -errno;
    if (r == 0)
        r = uv_listen(&listener->handle.stream, BACKLOG, listener_accept);
    if (r < 0)
        return error_set(err, r, "cannot listen on %s: %s", path, uv_strerror(r));
    (void)snprintf(listener->path, sizeof(listener->path), "%s", path);
    (void)snprintf(listener->address, sizeof(listener->address), "%s", path);
    return 0;
}

static void on_listener_close(uv_handle_t *handle)
{
    struct net_listener *listener = handle->data;

    listener->closed = true;
    if (listener->conns == 0)
        listener_free(listener);
}

int net_listen(struct loop *loop, const struct net_options *options, struct net_listener **ret_listener,
               struct error *err)
{
    struct net_listener *listener = mem_zalloc(1, sizeof(*listener));
    int r;

    if (!listener)
        return error_set(err, -ENOMEM, "out of memory");
    listener->options = *options;
    listener->loop = loop;
    listener->is_unix = options->address[0] == '/';
    if (listener->is_unix)
        (void)uv_pipe_init(loop_uv(loop), &listener->handle.pipe, 0);
    else
        (void)uv_tcp_init(loop_uv(loop), &listener->handle.tcp);
    listener->handle.stream.data = listener;
    r = listener->is_unix ? unix_bind(listener, err) : tcp_bind(listener, err);
    if (r < 0) {
        uv_close((uv_handle_t *)&listener->handle.stream, on_listener_close);
        return r;
    }
    *ret_listener = listener;
    return 0;
}

void net_listener_close(struct net_listener *listener)
{
    if (!listener || listener->closing)
        return;
    listener->closing = true;
    if (listener->path[0])
        (void)unlink(listener->path);
    uv_close((uv_handle_t *)&listener->handle.stream, on_listener_close);
}

const char *net_listener_address(const struct net_listener *listener)
{
    return listener->address;
}

size_t net_listener_conns(const struct net_listener *listener)
{
    return listener->conns;
}

void net_listener_tls(struct net_listener *listener, struct tls_context *tls)
{
    listener->options.tls = tls;
}

uint64_t net_listener_refused(const struct net_listener *listener)
{
    return listener->refused;
}
