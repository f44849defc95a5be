/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* pki.h - keys, requests and certificates: the controller's own authority. P-256, everything in PEM text.
 *
 * A node asks with a request for its name; the controller signs it at join. Nothing here reads or writes files.
 */
#include <stdbool.h>

#include "base/buf.h"
#include "base/units.h"

/* A new private key. */
int pki_key(struct bytes *ret_pem, struct error *err);

/* A self-signed authority. */
int pki_authority(const char *key_pem, const char *name, int days, struct bytes *ret_pem, struct error *err);

/* A request to have `name` certified. */
int pki_request(const char *key_pem, const char *name, struct bytes *ret_pem, struct error *err);

/* Certificates are good from so long before they were made: clocks differ. */
#define PKI_BACKDATED USEC_HOUR

struct pki_sign {
    const char *ca_pem, *ca_key_pem;
    const char *name; /* the common name, whatever the request says */
    const char *alt;  /* "DNS:a,IP:127.0.0.1" */
    bool server;      /* else of a client */
    int days;
};

/* -EBADMSG: no request, or one whose signature is wrong. */
int pki_sign(const char *request_pem, const struct pki_sign *how, struct bytes *ret_pem, struct error *err);

/* SHA-256 of the certificate in 64 hexadecimal digits. */
enum { PKI_FINGERPRINT_MAX = 65 };
int pki_fingerprint(const char *cert_pem, char *out, struct error *err);

/* SHA-256 of bytes, in hexadecimal digits. */
void pki_sha256(const void *data, size_t size, char *out);

/* Random bytes as text that needs no escapes (base64url). out has 4 bytes for each 3, and one. -EIO. */
int pki_random_text(size_t bytes, char *out, size_t out_size);
