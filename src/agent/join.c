/* SPDX-License-Identifier: Apache-2.0 */
/* join.c - see join.h.
 *
 * The token ends in the fingerprint of the cluster's authority. The controller shows its chain; nothing secret is said
 * before the authority in it has that fingerprint and has signed the controller's certificate. So neither side needs
 * anything beforehand but the one line `muster-agent join URL TOKEN`.
 */
#include "agent/join.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netdb.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "agent/conn.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "io/pki.h"
#include "wire/http/http1.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"

enum { WAIT_S = 20, ANSWER_MAX = 1 << 20 };

struct talk {
    int fd;
    SSL_CTX *context;
    SSL *ssl;
};

static void talk_done(struct talk *talk)
{
    SSL_free(talk->ssl);
    SSL_CTX_free(talk->context);
    if (talk->fd >= 0)
        close(talk->fd);
}

static int dial(const struct conn_target *target, struct error *err)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    const struct timeval wait = { .tv_sec = WAIT_S };
    struct addrinfo *list = NULL;
    int r = getaddrinfo(target->host, target->port, &hints, &list), fd = -1, last = ECONNREFUSED;

    if (r != 0)
        return error_set(err, -ECONNREFUSED, "%s: %s", target->host, gai_strerror(r));
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
        if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
            last = errno;
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd >= 0 ? fd : error_set(err, -ECONNREFUSED, "%s:%s: %s", target->host, target->port, strerror(last));
}

static bool fingerprint_is(X509 *cert, const char *wanted)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    char text[2 * EVP_MAX_MD_SIZE + 1] = "";
    unsigned int size = 0;

    if (!X509_digest(cert, EVP_sha256(), hash, &size))
        return false;
    for (unsigned int i = 0; i < size; i++)
        (void)snprintf(text + (size_t)2 * i, 3, "%02x", hash[i]);
    return strcasecmp(text, wanted) == 0;
}

/* The authority the token is of must be in the chain, and must have signed the rest of it. */
static int chain_check(SSL *ssl, const char *fingerprint, struct error *err)
{
    STACK_OF(X509) *chain = SSL_get_peer_cert_chain(ssl);
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    X509 *authority = NULL;
    bool good = false;

    for (int i = 0; chain && i < sk_X509_num(chain); i++)
        if (fingerprint_is(sk_X509_value(chain, i), fingerprint))
            authority = sk_X509_value(chain, i);
    if (store && check && authority && X509_STORE_add_cert(store, authority) == 1 &&
        X509_STORE_CTX_init(check, store, sk_X509_value(chain, 0), chain) == 1) {
        (void)X509_STORE_CTX_set_default(check, "ssl_server");
        good = X509_verify_cert(check) == 1;
    }
    X509_STORE_CTX_free(check);
    X509_STORE_free(store);
    return good ? 0 : error_set(err, -EACCES, "the controller there is not the one that this token is of");
}

/* And it must be that of the host that was called. */
static int host_check(SSL *ssl, const char *host, struct error *err)
{
    X509 *cert = SSL_get0_peer_certificate(ssl);

    if (cert && (X509_check_ip_asc(cert, host, 0) == 1 || X509_check_host(cert, host, 0, 0, NULL) == 1))
        return 0;
    return error_set(
        err, -EACCES,
        "the controller's certificate is not for %s: call it by a name that `musterd init --hosts` was told", host);
}

static int talk_open(const char *url, const char *fingerprint, struct talk *talk, struct error *err)
{
    struct conn_target target;
    int r = conn_target_parse(url, &target, err);

    if (r < 0)
        return r;
    if (!target.tls)
        return error_set(err, -EINVAL, "%s: joining needs https://", url);
    talk->fd = dial(&target, err);
    if (talk->fd < 0)
        return talk->fd;
    talk->context = SSL_CTX_new(TLS_client_method());
    talk->ssl = talk->context ? SSL_new(talk->context) : NULL;
    if (!talk->ssl || SSL_set_min_proto_version(talk->ssl, TLS1_3_VERSION) != 1 || SSL_set_fd(talk->ssl, talk->fd) != 1)
        return error_set(err, -ENOMEM, "TLS: no memory");
    if (SSL_connect(talk->ssl) != 1)
        return error_set(err, -EPROTO, "%s: the TLS handshake failed", url);
    r = chain_check(talk->ssl, fingerprint, err);
    return r == 0 ? host_check(talk->ssl, target.host, err) : r;
}

static int ask(struct talk *talk, const char *secret, const char *body, json_t **ret_answer, struct error *err)
{
    const struct http_limits limits = HTTP_LIMITS_STANDARD;
    struct http_reader *reader = NULL;
    const struct http_message *m;
    CLEANUP_BUF struct buf out = BUF_INIT(ANSWER_MAX);
    char part[8192];
    size_t used;
    int n = 0, r = http_reader_new(HTTP_RESPONSES, &limits, &reader);

    buf_printf(&out, "POST /api/v1/join HTTP/1.1\r\nHost: controller\r\nAuthorization: Bearer %s\r\n", secret);
    buf_printf(&out, "Content-Type: application/json\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
               strlen(body), body);
    if (r == 0 && (out.error || SSL_write(talk->ssl, out.data, (int)out.size) <= 0))
        r = error_set(err, -EPIPE, "the controller closed the connection");
    while (r == 0 && (n = SSL_read(talk->ssl, part, sizeof(part))) > 0)
        r = http_reader_feed(reader, part, (size_t)n, &used, err);
    if (r == 0 && n <= 0)
        r = error_set(err, -ETIMEDOUT, "the controller did not answer");
    if (r == 1) {
        m = http_reader_message(reader);
        r = json_read("answer", m->body, m->body_size, ret_answer, err);
        if (m->status != 200 && m->status != 201) {
            const char *words = r == 0 ? util_text(*ret_answer, "detail") : NULL;

            r = error_set(err, m->status == 401 || m->status == 403 ? -EACCES : -EPROTO,
                          "the controller refused: %d %s", m->status, words ? words : http_status_text(m->status));
        }
    }
    http_reader_free(reader);
    return r;
}

static int state_open(const char *state, struct error *err)
{
    char path[4096];
    int fd;

    for (const char *p = state; (p = strchr(p + 1, '/'));) {
        (void)snprintf(path, sizeof(path), "%.*s", (int)(p - state), state);
        (void)mkdir(path, 0755);
    }
    (void)mkdir(state, 0755);
    fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? error_set(err, -errno, "%s: %s", state, strerror(errno)) : fd;
}

static int keep_all(int dir, const char *url, const char *node, const char *key, const json_t *answer,
                    struct error *err)
{
    const char *cert = util_text(answer, "certificate"), *ca = util_text(answer, "ca");
    int r;

    if (!cert || !ca)
        return error_set(err, -EPROTO, "the controller's answer has no certificate");
    r = util_file_put(dir, "node.key", key, strlen(key), true);
    if (r == 0)
        r = util_file_put(dir, "ca.crt", ca, strlen(ca), true);
    if (r == 0)
        r = util_file_put(dir, "url", url, strlen(url), true);
    if (r == 0)
        r = util_file_put(dir, "node", node, strlen(node), true);
    if (r == 0)
        r = util_file_put(dir, "node.crt", cert, strlen(cert), true);
    return r < 0 ? error_set(err, r, "state directory: %s", strerror(-r)) : 0;
}

int join_cluster(const char *url, const char *token, const char *node, const char *state, struct error *err)
{
    const char *dot = strrchr(token, '.');
    CLEANUP_BYTES struct bytes key = { 0 }, request = { 0 };
    struct talk talk = { .fd = -1 };
    json_t *body = NULL, *answer = NULL;
    char *text = NULL;
    int dir, r;

    if (!dot || strlen(dot + 1) != 64)
        return error_set(err, -EINVAL, "the token is not whole: expected SECRET.FINGERPRINT");
    dir = state_open(state, err);
    if (dir < 0)
        return dir;
    r = pki_key(&key, err);
    if (r == 0)
        r = pki_request(key.data, node, &request, err);
    if (r == 0)
        r = talk_open(url, dot + 1, &talk, err);
    if (r == 0) {
        body = json_pack("{ss,ss}", "node", node, "csr", request.data);
        text = body ? json_text(body, NULL) : NULL;
        r = text ? ask(&talk, token, text, &answer, err) : error_set(err, -ENOMEM, "no memory");
    }
    if (r == 0)
        r = keep_all(dir, url, node, key.data, answer, err);
    mem_free(text);
    json_decref(body);
    json_decref(answer);
    talk_done(&talk);
    close(dir);
    return r;
}

static int kept(const char *state, const char *what, char *out, size_t size)
{
    CLEANUP_BYTES struct bytes text = { 0 };
    char path[4096];
    int r;

    (void)snprintf(path, sizeof(path), "%s/%s", state, what);
    r = util_file_get(AT_FDCWD, path, size - 1, &text, NULL);
    if (r < 0)
        return r;
    (void)snprintf(out, size, "%s", text.data);
    return 0;
}

int join_url(const char *state, char *out, size_t size)
{
    return kept(state, "url", out, size);
}

int join_node(const char *state, char *out, size_t size)
{
    return kept(state, "node", out, size);
}
