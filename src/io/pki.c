/* SPDX-License-Identifier: Apache-2.0 */
#include "io/pki.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/alloc.h"

#define PEM_BYTES_MAX ((size_t)64 << 10)

static void bio_free(BIO *bio)
{
    BIO_free(bio);
}
DEFINE_CLEANUP(BIO *, bio_free)
DEFINE_CLEANUP(EVP_PKEY *, EVP_PKEY_free)
DEFINE_CLEANUP(X509 *, X509_free)
DEFINE_CLEANUP(X509_REQ *, X509_REQ_free)

static int pki_fail(struct error *err, int code, const char *what)
{
    unsigned long number = ERR_get_error();
    const char *reason = number ? ERR_reason_error_string(number) : NULL;

    ERR_clear_error();
    return error_set(err, code, "%s%s%s", what, reason ? ": " : "", reason ? reason : "");
}

static int bio_take(BIO *bio, struct bytes *ret_pem, struct error *err)
{
    struct buf out = BUF_INIT(PEM_BYTES_MAX);
    char *data;
    long size = BIO_get_mem_data(bio, &data);

    buf_put(&out, data, size > 0 ? (size_t)size : 0);
    return buf_take(&out, ret_pem, err);
}

static EVP_PKEY *key_read(const char *pem)
{
    CLEANUP(bio_free) BIO *bio = BIO_new_mem_buf(pem, -1);

    return bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
}

static X509 *cert_read(const char *pem)
{
    CLEANUP(bio_free) BIO *bio = BIO_new_mem_buf(pem, -1);

    return bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
}

int pki_key(struct bytes *ret_pem, struct error *err)
{
    CLEANUP(EVP_PKEY_free) EVP_PKEY *key = EVP_EC_gen("P-256");
    CLEANUP(bio_free) BIO *bio = BIO_new(BIO_s_mem());

    if (!key || !bio || PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) != 1)
        return pki_fail(err, -EIO, "cannot make a key");
    return bio_take(bio, ret_pem, err);
}

static int name_add(X509_NAME *to, const char *name)
{
    return X509_NAME_add_entry_by_txt(to, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0) == 1;
}

static int extension_add(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;
    int r;

    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    if (!extension)
        return 0;
    r = X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
    return r;
}

/* Version, number, dates: what all certificates have. Valid from an hour ago: clocks differ. */
static int cert_begin(X509 *cert, int days)
{
    unsigned char serial[16];
    BIGNUM *number;
    int r;

    if (RAND_bytes(serial, sizeof(serial)) != 1)
        return 0;
    serial[0] &= 0x7f;
    number = BN_bin2bn(serial, sizeof(serial), NULL);
    r = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;
    BN_free(number);
    return r && X509_set_version(cert, X509_VERSION_3) &&
           X509_gmtime_adj(X509_getm_notBefore(cert), -(long)(PKI_BACKDATED / USEC_SEC)) &&
           X509_time_adj_ex(X509_getm_notAfter(cert), days, 0, NULL);
}

static int cert_take(X509 *cert, struct bytes *ret_pem, struct error *err)
{
    CLEANUP(bio_free) BIO *bio = BIO_new(BIO_s_mem());

    if (!bio || PEM_write_bio_X509(bio, cert) != 1)
        return pki_fail(err, -EIO, "cannot write the certificate");
    return bio_take(bio, ret_pem, err);
}

int pki_authority(const char *key_pem, const char *name, int days, struct bytes *ret_pem, struct error *err)
{
    CLEANUP(EVP_PKEY_free) EVP_PKEY *key = key_read(key_pem);
    CLEANUP(X509_free) X509 *cert = X509_new();

    if (!key || !cert)
        return pki_fail(err, -EBADMSG, "not a private key");
    if (!cert_begin(cert, days) || !X509_set_pubkey(cert, key) || !name_add(X509_get_subject_name(cert), name) ||
        !X509_set_issuer_name(cert, X509_get_subject_name(cert)) ||
        !extension_add(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
        !extension_add(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") ||
        !extension_add(cert, cert, NID_subject_key_identifier, "hash") || !X509_sign(cert, key, EVP_sha256()))
        return pki_fail(err, -EIO, "cannot make the authority");
    return cert_take(cert, ret_pem, err);
}

int pki_request(const char *key_pem, const char *name, struct bytes *ret_pem, struct error *err)
{
    CLEANUP(EVP_PKEY_free) EVP_PKEY *key = key_read(key_pem);
    CLEANUP(X509_REQ_free) X509_REQ *request = X509_REQ_new();
    CLEANUP(bio_free) BIO *bio = BIO_new(BIO_s_mem());

    if (!key)
        return pki_fail(err, -EBADMSG, "not a private key");
    if (!request || !bio || !X509_REQ_set_version(request, X509_REQ_VERSION_1) || !X509_REQ_set_pubkey(request, key) ||
        !name_add(X509_REQ_get_subject_name(request), name) || !X509_REQ_sign(request, key, EVP_sha256()) ||
        PEM_write_bio_X509_REQ(bio, request) != 1)
        return pki_fail(err, -EIO, "cannot make a certificate request");
    return bio_take(bio, ret_pem, err);
}

static int sign_fields(X509 *cert, X509 *ca, EVP_PKEY *wanted, const struct pki_sign *how)
{
    return cert_begin(cert, how->days) && X509_set_pubkey(cert, wanted) &&
           name_add(X509_get_subject_name(cert), how->name) && X509_set_issuer_name(cert, X509_get_subject_name(ca)) &&
           extension_add(cert, ca, NID_basic_constraints, "critical,CA:FALSE") &&
           extension_add(cert, ca, NID_key_usage, "critical,digitalSignature") &&
           extension_add(cert, ca, NID_ext_key_usage, how->server ? "serverAuth" : "clientAuth") &&
           (!how->alt || extension_add(cert, ca, NID_subject_alt_name, how->alt));
}

int pki_sign(const char *request_pem, const struct pki_sign *how, struct bytes *ret_pem, struct error *err)
{
    CLEANUP(EVP_PKEY_free) EVP_PKEY *key = key_read(how->ca_key_pem);
    CLEANUP(X509_free) X509 *ca = cert_read(how->ca_pem), *cert = X509_new();
    CLEANUP(bio_free) BIO *bio = BIO_new_mem_buf(request_pem, -1);
    CLEANUP(X509_REQ_free) X509_REQ *request = bio ? PEM_read_bio_X509_REQ(bio, NULL, NULL, NULL) : NULL;
    EVP_PKEY *wanted;

    if (!key || !ca || !cert)
        return pki_fail(err, -EIO, "cannot read the authority's key or certificate");
    if (!request)
        return pki_fail(err, -EBADMSG, "not a certificate request");
    wanted = X509_REQ_get0_pubkey(request);
    if (!wanted || X509_REQ_verify(request, wanted) != 1)
        return pki_fail(err, -EBADMSG, "the certificate request is not signed by its own key");
    if (!sign_fields(cert, ca, wanted, how) || !X509_sign(cert, key, EVP_sha256()))
        return pki_fail(err, -EIO, "cannot sign the certificate");
    return cert_take(cert, ret_pem, err);
}

static void hex_put(const unsigned char *data, size_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[data[i] >> 4];
        out[2 * i + 1] = digits[data[i] & 15];
    }
    out[2 * size] = '\0';
}

int pki_fingerprint(const char *cert_pem, char *out, struct error *err)
{
    CLEANUP(X509_free) X509 *cert = cert_read(cert_pem);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;

    if (!cert || X509_digest(cert, EVP_sha256(), digest, &size) != 1 || size != 32)
        return pki_fail(err, -EBADMSG, "not a certificate");
    hex_put(digest, size, out);
    return 0;
}

void pki_sha256(const void *data, size_t size, char *out)
{
    unsigned char digest[EVP_MAX_MD_SIZE] = { 0 };
    unsigned length = 0;

    (void)EVP_Digest(data, size, digest, &length, EVP_sha256(), NULL);
    hex_put(digest, 32, out);
}

int pki_random_text(size_t bytes, char *out, size_t out_size)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char raw[64];
    size_t n = 0;

    if (bytes > sizeof(raw) || out_size < (bytes * 8 + 5) / 6 + 1 || RAND_bytes(raw, (int)bytes) != 1)
        return -EIO;
    for (size_t bit = 0; bit < bytes * 8; bit += 6) {
        unsigned value = (unsigned)raw[bit / 8] << 8 | (bit / 8 + 1 < bytes ? raw[bit / 8 + 1] : 0U);

        out[n++] = letters[value >> (10 - bit % 8) & 63];
    }
    out[n] = '\0';
    return 0;
}
