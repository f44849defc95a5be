/* SPDX-License-Identifier: Apache-2.0 */
/* The authority, and two ends of TLS talking through memory. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/file.h"
#include "io/pki.h"
#include "io/tls.h"

static struct error err;
static char folder[] = "/tmp/muster-tls-XXXXXX";
static char ca_path[128], cert_path[128], key_path[128], node_cert[128], node_key[128], other_ca[128];

static void path_write(char *path, const char *name, const struct bytes *text)
{
    (void)snprintf(path, 128, "%s/%s", folder, name);
    assert_int_equal(file_write_atomic(path, text->data, text->size, &err), 0);
}

static void certify(const char *ca, const char *ca_key, const char *name, const char *alt, char *cert, char *key)
{
    CLEANUP_BYTES struct bytes key_pem = { 0 }, request = { 0 }, signed_pem = { 0 };
    struct pki_sign how = {
        .ca_pem = ca, .ca_key_pem = ca_key, .name = name, .alt = alt, .server = alt != NULL, .days = 10
    };
    char file[32];

    assert_int_equal(pki_key(&key_pem, &err), 0);
    assert_int_equal(pki_request(key_pem.data, "somebody else", &request, &err), 0);
    assert_int_equal(pki_sign(request.data, &how, &signed_pem, &err), 0);
    (void)snprintf(file, sizeof(file), "%s.crt", name);
    path_write(cert, file, &signed_pem);
    (void)snprintf(file, sizeof(file), "%s.key", name);
    path_write(key, file, &key_pem);
    request.data[100] ^= 1;
    assert_int_equal(pki_sign(request.data, &how, &signed_pem, &err), -EBADMSG);
    assert_int_equal(pki_sign("nothing", &how, &signed_pem, &err), -EBADMSG);
}

static int setup(void **state)
{
    CLEANUP_BYTES struct bytes key = { 0 }, ca = { 0 }, key2 = { 0 }, ca2 = { 0 };

    (void)state;
    if (!mkdtemp(folder))
        return -1;
    assert_int_equal(pki_key(&key, &err), 0);
    assert_int_equal(pki_authority(key.data, "muster test", 100, &ca, &err), 0);
    path_write(ca_path, "ca.crt", &ca);
    certify(ca.data, key.data, "server", "DNS:localhost,IP:127.0.0.1", cert_path, key_path);
    certify(ca.data, key.data, "node07", NULL, node_cert, node_key);
    assert_int_equal(pki_key(&key2, &err), 0);
    assert_int_equal(pki_authority(key2.data, "stranger", 100, &ca2, &err), 0);
    path_write(other_ca, "other.crt", &ca2);
    return 0;
}

static int teardown(void **state)
{
    char command[80];

    (void)state;
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

/* Carries bytes both ways until nothing moves. Returns the first failure of either end. */
static int converse(struct tls_session *a, struct tls_session *b, char *to_b, size_t size)
{
    char wire[20000];
    size_t got = 0, n;

    for (int turn = 0; turn < 20; turn++) {
        struct tls_session *from = turn % 2 ? b : a, *to = turn % 2 ? a : b;
        char *out = to == b ? to_b + got : wire;
        int r;

        while ((n = tls_drain(from, wire, sizeof(wire))) > 0)
            assert_int_equal(tls_feed(to, wire, n, &err), 0);
        r = tls_read(to, out, to == b ? size - got : sizeof(wire), &err);
        if (r < 0)
            return r;
        if (to == b)
            got += (size_t)r;
    }
    return (int)got;
}

static int attempt(const struct tls_files *client_files, const char *host, const char **ret_name, char *said)
{
    struct tls_context *server = NULL, *client = NULL;
    struct tls_session *a = NULL, *b = NULL;
    static char name[64];
    int r;

    assert_int_equal(tls_server_new(&(struct tls_files){ cert_path, key_path, ca_path }, &server, &err), 0);
    assert_int_equal(tls_client_new(client_files, &client, &err), 0);
    assert_int_equal(tls_session_new(client, host, &a, &err), 0);
    assert_int_equal(tls_session_new(server, NULL, &b, &err), 0);
    assert_int_equal(tls_write(b, "x", 1, &err), -EAGAIN);
    r = converse(a, b, said, 100);
    if (r == 0) {
        assert_true(tls_ready(a) && tls_ready(b));
        assert_int_equal(tls_write(a, "hello", 5, &err), 0);
        r = converse(a, b, said, 100);
    }
    *ret_name = NULL;
    if (tls_peer_name(b)) {
        (void)snprintf(name, sizeof(name), "%s", tls_peer_name(b));
        *ret_name = name;
    }
    tls_session_free(a);
    tls_session_free(b);
    tls_context_free(server);
    tls_context_free(client);
    return r;
}

static void both_ways(void **state)
{
    const char *name;
    char said[100] = "";

    (void)state;
    assert_int_equal(attempt(&(struct tls_files){ node_cert, node_key, ca_path }, "localhost", &name, said), 5);
    assert_memory_equal(said, "hello", 5);
    assert_string_equal(name, "node07");
    assert_int_equal(attempt(&(struct tls_files){ .ca = ca_path }, "127.0.0.1", &name, said), 5);
    assert_null(name);
}

static void strangers(void **state)
{
    const char *name;
    char said[100];

    (void)state;
    assert_int_equal(attempt(&(struct tls_files){ .ca = other_ca }, "localhost", &name, said), -EPROTO);
    assert_int_equal(attempt(&(struct tls_files){ .ca = ca_path }, "elsewhere", &name, said), -EPROTO);
    /* A server's certificate is none of a client's. */
    assert_int_equal(attempt(&(struct tls_files){ cert_path, key_path, ca_path }, "localhost", &name, said), -EPROTO);
}

static void wrong_files(void **state)
{
    struct tls_context *context = NULL;

    (void)state;
    assert_true(tls_server_new(&(struct tls_files){ "/nowhere", key_path, NULL }, &context, &err) < 0);
    assert_non_null(strstr(err.text, "/nowhere"));
    assert_true(tls_server_new(&(struct tls_files){ cert_path, node_key, NULL }, &context, &err) < 0);
}

static void small_things(void **state)
{
    char text[50], sum[65];

    (void)state;
    assert_int_equal(pki_random_text(32, text, sizeof(text)), 0);
    assert_int_equal(strlen(text), 43);
    assert_int_equal(strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), 43);
    assert_int_equal(pki_random_text(32, text, 40), -EIO);
    pki_sha256("abc", 3, sum);
    assert_string_equal(sum, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways),
        cmocka_unit_test(strangers),
        cmocka_unit_test(wrong_files),
        cmocka_unit_test(small_things),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
