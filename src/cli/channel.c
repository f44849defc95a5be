/* SPDX-License-Identifier: Apache-2.0 */
/* channel.c - see channel.h. */
#include "cli/channel.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/lib.h"

enum { CONNECT_MS = 10000, HOST_MAX = 300 };

#define CURL_FILE "libcurl.so.4"
#define CURL_CALLS(X)                                                                                                  \
    X(curl_easy_init)                                                                                                  \
    X(curl_easy_cleanup)                                                                                               \
    X(curl_easy_setopt)                                                                                                \
    X(curl_easy_getinfo)                                                                                               \
    X(curl_easy_perform)                                                                                               \
    X(curl_easy_send)                                                                                                  \
    X(curl_easy_recv)                                                                                                  \
    X(curl_easy_strerror)                                                                                              \
    X(curl_global_init)

static struct {
    CURL_CALLS(LIB_FIELD)
} curl;
static const char *const curl_names[] = { CURL_CALLS(LIB_NAME) };

struct channel {
    CURL *easy; /* NULL: plain */
    int fd;
    char host[HOST_MAX];
};

void channel_close(struct channel *channel)
{
    if (!channel)
        return;
    if (channel->easy)
        curl.curl_easy_cleanup(channel->easy);
    else if (channel->fd >= 0)
        close(channel->fd);
    mem_free(channel);
}

int channel_fd(const struct channel *channel)
{
    return channel->fd;
}

const char *channel_host(const struct channel *channel)
{
    return channel->host;
}

ssize_t channel_send(struct channel *channel, const void *data, size_t size)
{
    size_t sent = 0;
    ssize_t r;

    if (channel->easy) {
        CURLcode code = curl.curl_easy_send(channel->easy, data, size, &sent);

        return code == CURLE_OK ? (ssize_t)sent : code == CURLE_AGAIN ? -EAGAIN : -EIO;
    }
    r = send(channel->fd, data, size, MSG_NOSIGNAL);
    return r < 0 ? -errno : r;
}

ssize_t channel_recv(struct channel *channel, void *data, size_t size)
{
    size_t got = 0;
    ssize_t r;

    if (channel->easy) {
        CURLcode code = curl.curl_easy_recv(channel->easy, data, size, &got);

        return code == CURLE_OK ? (ssize_t)got : code == CURLE_AGAIN ? -EAGAIN : -EIO;
    }
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
        n = poll(&wait, 1, CONNECT_MS);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n == 0 ? -ETIMEDOUT : -errno;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length) < 0)
        return -errno;
    return -failed;
}

static int open_unix(struct channel *channel, const char *path, struct error *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int r;

    (void)snprintf(channel->host, sizeof(channel->host), "musterd");
    if (strlen(path) >= sizeof(address.sun_path))
        return error_set(err, -ENAMETOOLONG, "the path of the socket is too long");
    memcpy(address.sun_path, path, strlen(path) + 1);
    channel->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (channel->fd < 0)
        return error_set(err, -errno, "%s", strerror(errno));
    r = connect_wait(channel->fd, (const struct sockaddr *)&address, sizeof(address));
    return r < 0 ? error_set(err, r, "%s", strerror(-r)) : 0;
}

/* "[::1]:7717/" into host and port. */
static int host_split(const char *text, char *host, char *port)
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
    if (name == 0 || name >= HOST_MAX)
        return -EINVAL;
    (void)snprintf(host, HOST_MAX, "%.*s", (int)name, text);
    (void)snprintf(port, 16, "%.*s", colon ? (int)strcspn(colon + 1, "/") : 2, colon ? colon + 1 : "80");
    return 0;
}

static int open_tcp(struct channel *channel, const char *where, struct error *err)
{
    /* An address as such first: asking who has a name loads and reads much. */
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
    struct addrinfo *list = NULL;
    char host[HOST_MAX], port[16];
    int r = host_split(where, host, port), found, yes = 1;

    (void)snprintf(channel->host, sizeof(channel->host), "%.*s", (int)strcspn(where, "/"), where);
    if (r < 0)
        return error_set(err, r, "no name of a host");
    found = getaddrinfo(host, port, &hints, &list);
    if (found == EAI_NONAME) {
        hints.ai_flags = AI_NUMERICSERV;
        found = getaddrinfo(host, port, &hints, &list);
    }
    if (found)
        return error_set(err, -EHOSTUNREACH, "%s: %s", host, gai_strerror(found));
    r = -EHOSTUNREACH;
    for (const struct addrinfo *at = list; at && r < 0; at = at->ai_next) {
        channel->fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (channel->fd < 0) {
            r = -errno;
            continue;
        }
        r = connect_wait(channel->fd, at->ai_addr, at->ai_addrlen);
        if (r < 0) {
            close(channel->fd);
            channel->fd = -1;
        }
    }
    freeaddrinfo(list);
    if (r < 0)
        return error_set(err, r, "%s", strerror(-r));
    (void)setsockopt(channel->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    (void)setsockopt(channel->fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
    return 0;
}

static int open_tls(struct channel *channel, const char *url, const char *ca, struct error *err)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    CURLcode code;
    int r = lib_open(CURL_FILE, curl_names, LIB_COUNT(curl_names), &curl, err);

    if (r < 0)
        return r;
    (void)snprintf(channel->host, sizeof(channel->host), "%.*s", (int)strcspn(url + 8, "/"), url + 8);
    (void)curl.curl_global_init(CURL_GLOBAL_DEFAULT);
    channel->easy = curl.curl_easy_init();
    if (!channel->easy)
        return error_set(err, -ENOMEM, "out of memory");
    (void)curl.curl_easy_setopt(channel->easy, CURLOPT_URL, url);
    (void)curl.curl_easy_setopt(channel->easy, CURLOPT_NOPROXY, "*");
    (void)curl.curl_easy_setopt(channel->easy, CURLOPT_PROTOCOLS_STR, "https");
    (void)curl.curl_easy_setopt(channel->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    (void)curl.curl_easy_setopt(channel->easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl.curl_easy_setopt(channel->easy, CURLOPT_CONNECT_ONLY, 1L);
    (void)curl.curl_easy_setopt(channel->easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl.curl_easy_setopt(channel->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    if (ca && *ca)
        (void)curl.curl_easy_setopt(channel->easy, CURLOPT_CAINFO, ca);
    code = curl.curl_easy_perform(channel->easy);
    if (code == CURLE_OK)
        code = curl.curl_easy_getinfo(channel->easy, CURLINFO_ACTIVESOCKET, &fd);
    channel->fd = fd;
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
        return error_set(err, -EPROTO, "%s", curl.curl_easy_strerror(code));
    return code == CURLE_OK ? 0 : error_set(err, -EIO, "%s", curl.curl_easy_strerror(code));
}

int channel_open(const char *url, const char *ca, struct channel **ret_channel, struct error *err)
{
    struct channel *channel = mem_zalloc(1, sizeof(*channel));
    int r;

    if (!channel)
        return error_set(err, -ENOMEM, "out of memory");
    channel->fd = -1;
    if (strncmp(url, "unix:", 5) == 0)
        r = open_unix(channel, url + 5, err);
    else if (strncmp(url, "https://", 8) == 0)
        r = open_tls(channel, url, ca, err);
    else
        r = open_tcp(channel, url + strlen("http://"), err);
    if (r < 0)
        channel_close(channel);
    else
        *ret_channel = channel;
    return r;
}
