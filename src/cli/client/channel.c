/* SPDX-License-Identifier: Apache-2.0 */
/* channel.c - see channel.h. What is on this machine, or told by its address; the rest is channel_tls.c's. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/client/channel_internal.h"

#define HTTP "http://"

void channel_close(struct channel *channel)
{
    if (!channel)
        return;
    if (channel->calls)
        channel->calls->close(channel);
    else if (channel->fd >= 0)
        close(channel->fd);
    mem_free(channel);
}

int channel_fd(const struct channel *channel)
{
    return channel->fd;
}

void channel_host(const char *url, char host[CHANNEL_HOST_MAX])
{
    const char *at = strstr(url, "://");

    if (at)
        (void)snprintf(host, CHANNEL_HOST_MAX, "%.*s", (int)strcspn(at + 3, "/"), at + 3);
    else
        (void)snprintf(host, CHANNEL_HOST_MAX, "musterd");
}

ssize_t channel_send(struct channel *channel, const void *data, size_t size)
{
    ssize_t r;

    if (channel->calls)
        return channel->calls->send(channel, data, size);
    r = send(channel->fd, data, size, MSG_NOSIGNAL);
    return r < 0 ? -errno : r;
}

ssize_t channel_recv(struct channel *channel, void *data, size_t size)
{
    ssize_t r;

    if (channel->calls)
        return channel->calls->recv(channel, data, size);
    r = recv(channel->fd, data, size, 0);
    return r < 0 ? -errno : r;
}

/* Connects a socket that does not wait, and waits. */
static int connect_wait(int fd, const struct sockaddr *address, socklen_t size)
{
    struct pollfd wait = { .fd = fd, .events = POLLOUT };
    int failed = 0, n;
    socklen_t length = sizeof(failed);

    if (connect(fd, address, size) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return -errno;
    do
        n = poll(&wait, 1, CHANNEL_CONNECT_MS);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n == 0 ? -ETIMEDOUT : -errno;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length) < 0)
        return -errno;
    return -failed;
}

int channel_dial(struct channel *channel, const struct sockaddr *address, socklen_t size)
{
    int r;

    channel->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (channel->fd < 0)
        return -errno;
    r = connect_wait(channel->fd, address, size);
    if (r < 0) {
        close(channel->fd);
        channel->fd = -1;
    } else if (address->sa_family != AF_UNIX) {
        int yes = 1;

        (void)setsockopt(channel->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        (void)setsockopt(channel->fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
    }
    return r;
}

static int open_unix(struct channel *channel, const char *path, struct error *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int r;

    if (strlen(path) >= sizeof(address.sun_path))
        return error_set(err, -ENAMETOOLONG, "the path of the socket is too long");
    memcpy(address.sun_path, path, strlen(path) + 1);
    r = channel_dial(channel, (const struct sockaddr *)&address, sizeof(address));
    return r < 0 ? error_set(err, r, "%s", strerror(-r)) : 0;
}

int channel_host_split(const char *text, char *host, char *port)
{
    size_t length = strcspn(text, "/"), name;
    const char *colon;

    if (text[0] == '[') {
        name = strcspn(text, "]");
        colon = name < length && text[name + 1] == ':' ? text + name + 1 : NULL;
        text++;
        length--;
        name--;
    } else {
        name = strcspn(text, ":/");
        colon = text[name] == ':' ? text + name : NULL;
    }
    if (name == 0 || name >= CHANNEL_HOST_MAX)
        return -EINVAL;
    (void)snprintf(host, CHANNEL_HOST_MAX, "%.*s", (int)name, text);
    (void)snprintf(port, CHANNEL_HOST_MAX, "%.*s", colon ? (int)strcspn(colon + 1, "/") : 2, colon ? colon + 1 : "80");
    return 0;
}

/* An address as such; 0: it is none, somebody has to be asked. */
static socklen_t address_read(const char *host, const char *port, struct sockaddr_storage *ret)
{
    struct sockaddr_in *four = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;
    char *end;
    unsigned long number = strtoul(port, &end, 10);

    if (port[0] < '0' || port[0] > '9' || *end || number > UINT16_MAX)
        return 0;
    *ret = (struct sockaddr_storage){ 0 };
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)number);
        return sizeof(*four);
    }
    if (inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((uint16_t)number);
        return sizeof(*six);
    }
    return 0;
}

static socklen_t url_read(const char *url, struct sockaddr_storage *ret)
{
    char host[CHANNEL_HOST_MAX], port[CHANNEL_HOST_MAX];

    if (strncmp(url, HTTP, strlen(HTTP)) != 0 || channel_host_split(url + strlen(HTTP), host, port) < 0)
        return 0;
    return address_read(host, port, ret);
}

bool channel_near(const char *url)
{
    struct sockaddr_storage address;

    return strncmp(url, "unix:", 5) == 0 || url_read(url, &address) > 0;
}

int channel_open(const char *url, const char *ca, struct channel **ret_channel, struct error *err)
{
    struct channel *channel = mem_zalloc(1, sizeof(*channel));
    struct sockaddr_storage address;
    socklen_t size;
    int r;

    if (!channel)
        return error_set(err, -ENOMEM, "out of memory");
    channel->fd = -1;
    size = url_read(url, &address);
    if (strncmp(url, "unix:", 5) == 0) {
        r = open_unix(channel, url + 5, err);
    } else if (size) {
        r = channel_dial(channel, (const struct sockaddr *)&address, size);
        r = r < 0 ? error_set(err, r, "%s", strerror(-r)) : 0;
    } else {
        r = channel_open_far(channel, url, ca, err);
    }
    if (r < 0)
        channel_close(channel);
    else
        *ret_channel = channel;
    return r;
}
