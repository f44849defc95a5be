/* SPDX-License-Identifier: Apache-2.0 */
/* channel_tls.c - connections that need a library: TLS, which is curl's, and names of hosts, which the C library asks
 * modules of its own for. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "cli/client/channel_internal.h"
#include "io/lib.h"

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

static ssize_t tls_send(struct channel *channel, const void *data, size_t size)
{
    size_t sent = 0;
    CURLcode code = curl.curl_easy_send(channel->inner, data, size, &sent);

    return code == CURLE_OK ? (ssize_t)sent : code == CURLE_AGAIN ? -EAGAIN : -EIO;
}

static ssize_t tls_recv(struct channel *channel, void *data, size_t size)
{
    size_t got = 0;
    CURLcode code = curl.curl_easy_recv(channel->inner, data, size, &got);

    return code == CURLE_OK ? (ssize_t)got : code == CURLE_AGAIN ? -EAGAIN : -EIO;
}

static void tls_close(struct channel *channel)
{
    curl.curl_easy_cleanup(channel->inner);
}

static const struct channel_calls tls_calls = { tls_send, tls_recv, tls_close };

static int open_tls(struct channel *channel, const char *url, const char *ca, struct error *err)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    CURLcode code;
    CURL *easy;
    int r = lib_open(CURL_FILE, curl_names, LIB_COUNT(curl_names), &curl, err);

    if (r < 0)
        return r;
    (void)curl.curl_global_init(CURL_GLOBAL_DEFAULT);
    easy = curl.curl_easy_init();
    if (!easy)
        return error_set(err, -ENOMEM, "out of memory");
    channel->inner = easy;
    channel->calls = &tls_calls;
    (void)curl.curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl.curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    (void)curl.curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
    (void)curl.curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CHANNEL_CONNECT_MS);
    (void)curl.curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl.curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    (void)curl.curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl.curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    if (ca && *ca)
        (void)curl.curl_easy_setopt(easy, CURLOPT_CAINFO, ca);
    code = curl.curl_easy_perform(easy);
    if (code == CURLE_OK)
        code = curl.curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd);
    channel->fd = fd;
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
        return error_set(err, -EPROTO, "%s", curl.curl_easy_strerror(code));
    return code == CURLE_OK ? 0 : error_set(err, -EIO, "%s", curl.curl_easy_strerror(code));
}

static int open_name(struct channel *channel, const char *where, struct error *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV }, *list = NULL;
    char host[CHANNEL_HOST_MAX], port[CHANNEL_HOST_MAX];
    int r = channel_host_split(where, host, port), found;

    if (r < 0)
        return error_set(err, r, "no name of a host");
    found = getaddrinfo(host, port, &hints, &list);
    if (found)
        return error_set(err, -EHOSTUNREACH, "%s: %s", host, gai_strerror(found));
    r = -EHOSTUNREACH;
    for (const struct addrinfo *at = list; at && r < 0; at = at->ai_next)
        r = channel_dial(channel, at->ai_addr, at->ai_addrlen);
    freeaddrinfo(list);
    return r < 0 ? error_set(err, r, "%s", strerror(-r)) : 0;
}

int channel_open_far(struct channel *channel, const char *url, const char *ca, struct error *err)
{
    return strncmp(url, "https://", 8) == 0 ? open_tls(channel, url, ca, err)
                                            : open_name(channel, url + strlen("http://"), err);
}
