/* SPDX-License-Identifier: Apache-2.0 */
/* tls.c - OpenSSL between two memory BIOs. */
#include "io/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

struct tls_context {
    SSL_CTX *ssl;
    bool server;
};

struct tls_session {
    SSL *ssl;
    BIO *in, *out; /* owned by ssl */
    char name[256];
    bool named;
};

static int ssl_fail(struct error *err, int code, const char *what)
{
    unsigned long number = ERR_get_error();
    const char *reason = number ? ERR_reason_error_string(number) : NULL;

    ERR_clear_error();
    return error_set(err, code, "%s: %s", what, reason ? reason : "unknown");
}

void tls_context_free(struct tls_context *context)
{
    if (!context)
        return;
    SSL_CTX_free(context->ssl);
    mem_free(context);
}
DEFINE_CLEANUP(struct tls_context *, tls_context_free)

static int files_load(SSL_CTX *ssl, const struct tls_files *files, struct error *err)
{
    if (files->cert && SSL_CTX_use_certificate_chain_file(ssl, files->cert) != 1)
        return ssl_fail(err, -EINVAL, files->cert);
    if (files->key && SSL_CTX_use_PrivateKey_file(ssl, files->key, SSL_FILETYPE_PEM) != 1)
        return ssl_fail(err, -EINVAL, files->key);
    if (files->key && SSL_CTX_check_private_key(ssl) != 1)
        return ssl_fail(err, -EINVAL, "key and certificate do not belong together");
    if (files->ca && SSL_CTX_load_verify_locations(ssl, files->ca, NULL) != 1)
        return ssl_fail(err, -EINVAL, files->ca);
    return 0;
}

static int context_new(bool server, const struct tls_files *files, struct tls_context **ret_context, struct error *err)
{
    CLEANUP(tls_context_free) struct tls_context *context = mem_zalloc(1, sizeof(*context));
    int r;

    if (!context)
        return error_set(err, -ENOMEM, "out of memory");
    context->server = server;
    context->ssl = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (!context->ssl)
        return ssl_fail(err, -ENOMEM, "TLS");
    (void)SSL_CTX_set_min_proto_version(context->ssl, TLS1_3_VERSION);
    SSL_CTX_set_mode(context->ssl, SSL_MODE_RELEASE_BUFFERS);
    r = files_load(context->ssl, files, err);
    if (r < 0)
        return r;
    if (!server) {
        SSL_CTX_set_verify(context->ssl, SSL_VERIFY_PEER, NULL);
        if (!files->ca && SSL_CTX_set_default_verify_paths(context->ssl) != 1)
            return ssl_fail(err, -EIO, "the system's certificates");
    } else if (files->ca) {
        SSL_CTX_set_verify(context->ssl, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_client_CA_list(context->ssl, SSL_load_client_CA_file(files->ca));
    }
    /* Resumed sessions would skip the certificate of the client; agents reconnect rarely. */
    SSL_CTX_set_session_cache_mode(context->ssl, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_num_tickets(context->ssl, 0);
    *ret_context = take(context);
    return 0;
}

int tls_server_new(const struct tls_files *files, struct tls_context **ret_context, struct error *err)
{
    return context_new(true, files, ret_context, err);
}

int tls_client_new(const struct tls_files *files, struct tls_context **ret_context, struct error *err)
{
    return context_new(false, files, ret_context, err);
}

void tls_session_free(struct tls_session *session)
{
    if (!session)
        return;
    SSL_free(session->ssl);
    mem_free(session);
}
DEFINE_CLEANUP(struct tls_session *, tls_session_free)

/* A host may be a name or an address; certificates speak of them in different fields. */
static int host_expect(SSL *ssl, const char *host, struct error *err)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

    if (X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1)
        return 0;
    ERR_clear_error();
    if (SSL_set1_host(ssl, host) != 1 || SSL_set_tlsext_host_name(ssl, (char *)(uintptr_t)host) != 1)
        return ssl_fail(err, -EINVAL, host);
    return 0;
}

int tls_session_new(struct tls_context *context, const char *host, struct tls_session **ret_session, struct error *err)
{
    CLEANUP(tls_session_free) struct tls_session *session = mem_zalloc(1, sizeof(*session));
    int r;

    if (!session)
        return error_set(err, -ENOMEM, "out of memory");
    session->ssl = SSL_new(context->ssl);
    session->in = BIO_new(BIO_s_mem());
    session->out = BIO_new(BIO_s_mem());
    if (!session->ssl || !session->in || !session->out) {
        BIO_free(session->in);
        BIO_free(session->out);
        return error_set(err, -ENOMEM, "out of memory");
    }
    SSL_set_bio(session->ssl, session->in, session->out);
    if (context->server) {
        SSL_set_accept_state(session->ssl);
    } else {
        if (host && *host) {
            r = host_expect(session->ssl, host, err);
            if (r < 0)
                return r;
        }
        SSL_set_connect_state(session->ssl);
        (void)SSL_do_handshake(session->ssl); /* the first bytes to send */
    }
    *ret_session = take(session);
    return 0;
}

int tls_feed(struct tls_session *session, const void *data, size_t size, struct error *err)
{
    const char *at = data;

    while (size) {
        int part = size > INT_MAX ? INT_MAX : (int)size, n = BIO_write(session->in, at, part);

        if (n <= 0)
            return error_set(err, -ENOMEM, "out of memory");
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

static int ssl_result(struct tls_session *session, int n, const char *what, struct error *err)
{
    switch (SSL_get_error(session->ssl, n)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        return error_set(err, -EPIPE, "closed");
    default: {
        long verify = SSL_get_verify_result(session->ssl);

        if (verify != X509_V_OK) {
            ERR_clear_error();
            return error_set(err, -EPROTO, "%s: %s", what, X509_verify_cert_error_string(verify));
        }
        return ssl_fail(err, -EPROTO, what);
    }
    }
}

int tls_read(struct tls_session *session, void *data, size_t size, struct error *err)
{
    int n;

    ERR_clear_error();
    n = SSL_read(session->ssl, data, size > INT_MAX ? INT_MAX : (int)size);
    return n > 0 ? n : ssl_result(session, n, "TLS", err);
}

int tls_write(struct tls_session *session, const void *data, size_t size, struct error *err)
{
    const char *at = data;

    if (!SSL_is_init_finished(session->ssl))
        return -EAGAIN;
    ERR_clear_error();
    while (size) {
        int n = SSL_write(session->ssl, at, size > INT_MAX ? INT_MAX : (int)size);

        if (n <= 0) {
            int r = ssl_result(session, n, "TLS", err);

            return r < 0 ? r : error_set(err, -EIO, "TLS: the peer asks for bytes first");
        }
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

size_t tls_drain(struct tls_session *session, void *data, size_t size)
{
    int n = BIO_read(session->out, data, size > INT_MAX ? INT_MAX : (int)size);

    return n > 0 ? (size_t)n : 0;
}

size_t tls_pending(const struct tls_session *session)
{
    return BIO_ctrl_pending(session->out);
}

void tls_bye(struct tls_session *session)
{
    if (SSL_is_init_finished(session->ssl))
        (void)SSL_shutdown(session->ssl);
    ERR_clear_error();
}

bool tls_ready(const struct tls_session *session)
{
    return SSL_is_init_finished(session->ssl);
}

usec_t tls_peer_since(const struct tls_session *session)
{
    const X509 *cert = SSL_get0_peer_certificate(session->ssl);
    struct tm tm;

    if (!cert || !ASN1_TIME_to_tm(X509_get0_notBefore(cert), &tm))
        return 0;
    return (usec_t)timegm(&tm) * USEC_SEC;
}

const char *tls_peer_name(const struct tls_session *session)
{
    struct tls_session *s = (struct tls_session *)(uintptr_t)session;
    X509 *cert;

    if (!s->named && SSL_is_init_finished(s->ssl) && SSL_get_verify_result(s->ssl) == X509_V_OK) {
        cert = SSL_get0_peer_certificate(s->ssl);
        if (cert)
            (void)X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, s->name, sizeof(s->name));
        s->named = true;
    }
    return s->name[0] ? s->name : NULL;
}
