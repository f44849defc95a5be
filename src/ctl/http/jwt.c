/* SPDX-License-Identifier: Apache-2.0 */
/* jwt.c - see jwt.h. The mathematics is OpenSSL's. */
#include "ctl/http/jwt.h"

#include <errno.h>
#include <math.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "wire/text/json_read.h"

enum { RSA_BITS_MIN = 2048, RSA_BITS_MAX = 8192, EC_BYTES = 32, NUMBER_BYTES_MAX = RSA_BITS_MAX / 8 };

enum alg { ALG_RS256, ALG_ES256, ALG_COUNT };
static const char *const alg_names[ALG_COUNT] = { "RS256", "ES256" };

struct jwk {
    char kid[JWT_KID_MAX]; /* "" = it has none */
    enum alg alg;
    EVP_PKEY *key;
};

struct jwks {
    struct jwk keys[JWKS_KEYS_MAX];
    size_t count;
};

void jwks_free(struct jwks *keys)
{
    for (size_t i = 0; keys && i < keys->count; i++)
        EVP_PKEY_free(keys->keys[i].key);
    mem_free(keys);
}

size_t jwks_count(const struct jwks *keys)
{
    return keys ? keys->count : 0;
}

/* base64url without padding; the bits of the last letter that say nothing must be zero. The size, or -EBADMSG. */
static int decode(const char *text, size_t size, unsigned char *out, size_t max)
{
    unsigned int bits = 0, have = 0;
    size_t used = 0;

    if (size % 4 == 1)
        return -EBADMSG;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                    : c >= 'a' && c <= 'z' ? c - 'a' + 26
                    : c >= '0' && c <= '9' ? c - '0' + 52
                    : c == '-'             ? 62
                    : c == '_'             ? 63
                                           : -1;

        if (value < 0)
            return -EBADMSG;
        bits = bits << 6 | (unsigned int)value;
        have += 6;
        if (have >= 8) {
            have -= 8;
            if (used == max)
                return -EBADMSG;
            out[used++] = (unsigned char)(bits >> have);
            bits &= (1U << have) - 1;
        }
    }
    return bits ? -EBADMSG : (int)used;
}

/* The number of a key. */
static int number_read(const json_t *key, const char *name, unsigned char *out, size_t max)
{
    const json_t *value = json_object_get(key, name);

    return json_is_string(value) ? decode(json_string_value(value), json_string_length(value), out, max) : -EBADMSG;
}

static EVP_PKEY *key_make(const char *type, OSSL_PARAM_BLD *build)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    EVP_PKEY *key = NULL;

    if (!ctx || !params || EVP_PKEY_fromdata_init(ctx) != 1 ||
        EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
        key = NULL;
    OSSL_PARAM_free(params);
    EVP_PKEY_CTX_free(ctx);
    return key;
}

static EVP_PKEY *rsa_read(const json_t *json)
{
    unsigned char n_bytes[NUMBER_BYTES_MAX + 1], e_bytes[8];
    int n_size = number_read(json, "n", n_bytes, sizeof(n_bytes));
    int e_size = number_read(json, "e", e_bytes, sizeof(e_bytes));
    BIGNUM *n = n_size > 0 ? BN_bin2bn(n_bytes, n_size, NULL) : NULL;
    BIGNUM *e = e_size > 0 ? BN_bin2bn(e_bytes, e_size, NULL) : NULL;
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    EVP_PKEY *key = NULL;

    if (n && e && build && BN_num_bits(n) >= RSA_BITS_MIN && BN_num_bits(n) <= RSA_BITS_MAX && BN_is_odd(n) &&
        BN_is_odd(e) && BN_num_bits(e) > 1 && OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n) == 1 &&
        OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e) == 1)
        key = key_make("RSA", build);
    OSSL_PARAM_BLD_free(build);
    BN_free(n);
    BN_free(e);
    return key;
}

static EVP_PKEY *ec_read(const json_t *json)
{
    unsigned char point[1 + 2 * EC_BYTES] = { 4 }; /* not compressed */
    const char *curve = json_string_value(json_object_get(json, "crv"));
    OSSL_PARAM_BLD *build;
    EVP_PKEY *key = NULL;

    if (!curve || strcmp(curve, "P-256") != 0 || number_read(json, "x", point + 1, EC_BYTES) != EC_BYTES ||
        number_read(json, "y", point + 1 + EC_BYTES, EC_BYTES) != EC_BYTES)
        return NULL;
    build = OSSL_PARAM_BLD_new();
    if (build && OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) == 1 &&
        OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point)) == 1)
        key = key_make("EC", build); /* a point that is not on the curve makes none */
    OSSL_PARAM_BLD_free(build);
    return key;
}

/* False: a key for something else, or none at all. */
static bool key_read(const json_t *json, struct jwk *ret)
{
    const char *type = json_string_value(json_object_get(json, "kty"));
    const char *use = json_string_value(json_object_get(json, "use"));
    const char *alg = json_string_value(json_object_get(json, "alg"));
    const char *kid = json_string_value(json_object_get(json, "kid"));

    if (!type || (use && strcmp(use, "sig") != 0) || (kid && strlen(kid) >= sizeof(ret->kid)))
        return false;
    *ret = (struct jwk){ .alg = strcmp(type, "RSA") == 0  ? ALG_RS256
                                : strcmp(type, "EC") == 0 ? ALG_ES256
                                                          : ALG_COUNT };
    if (ret->alg == ALG_COUNT || (alg && strcmp(alg, alg_names[ret->alg]) != 0))
        return false;
    if (kid)
        memcpy(ret->kid, kid, strlen(kid) + 1);
    ret->key = ret->alg == ALG_RS256 ? rsa_read(json) : ec_read(json);
    return ret->key != NULL;
}

int jwks_parse(const char *text, size_t size, struct jwks **ret_keys, struct error *err)
{
    struct jwks *keys;
    json_t *json, *item;
    size_t i;
    int r;

    *ret_keys = NULL;
    if (size > JWKS_BYTES_MAX)
        return error_set(err, -EBADMSG, "a set of keys of more than %d bytes", JWKS_BYTES_MAX);
    r = json_read("keys", text, size, &json, err);
    if (r < 0)
        return r;
    keys = mem_zalloc(1, sizeof(*keys));
    json_array_foreach(json_object_get(json, "keys"), i,
                       item) if (keys && keys->count < JWKS_KEYS_MAX && key_read(item, &keys->keys[keys->count]))
        keys->count++;
    json_decref(json);
    if (!keys)
        return error_set(err, -ENOMEM, "out of memory");
    if (!keys->count) {
        jwks_free(keys);
        return error_set(err, -EBADMSG, "no key for RS256 (%d bits or more) or ES256 in it", RSA_BITS_MIN);
    }
    *ret_keys = keys;
    return 0;
}

/* The key a header asks for; one without a name only where there is no choice. */
static const struct jwk *key_find(const struct jwks *keys, enum alg alg, const char *kid)
{
    const struct jwk *found = NULL;

    for (size_t i = 0; i < keys->count; i++) {
        if (keys->keys[i].alg != alg || (kid && strcmp(keys->keys[i].kid, kid) != 0))
            continue;
        if (found)
            return kid ? found : NULL;
        found = &keys->keys[i];
    }
    return found;
}

/* r and s, 32 bytes each, as the structure OpenSSL checks. The size; -EBADMSG. Frees nothing of the caller's. */
static int ec_signature(const unsigned char *raw, unsigned char **ret_der)
{
    ECDSA_SIG *sig = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(raw, EC_BYTES, NULL), *s = BN_bin2bn(raw + EC_BYTES, EC_BYTES, NULL);
    int size = -EBADMSG;

    *ret_der = NULL;
    if (sig && r && s && ECDSA_SIG_set0(sig, r, s) == 1) {
        size = i2d_ECDSA_SIG(sig, ret_der);
    } else {
        BN_free(r);
        BN_free(s);
    }
    ECDSA_SIG_free(sig);
    return size > 0 ? size : -EBADMSG;
}

static bool signature_good(const struct jwk *key, const char *text, size_t size, const unsigned char *sig,
                           size_t length)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char *der = NULL;
    bool good = false;
    int der_size = 0;

    if (key->alg == ALG_ES256)
        der_size = length == (size_t)2 * EC_BYTES ? ec_signature(sig, &der) : -EBADMSG;
    if (ctx && der_size >= 0 && EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key->key) == 1)
        good = EVP_DigestVerify(ctx, der ? der : sig, der ? (size_t)der_size : length, (const unsigned char *)text,
                                size) == 1;
    OPENSSL_free(der);
    EVP_MD_CTX_free(ctx);
    return good;
}

/* One of the parts in base64url, as a JSON object. */
static int part_read(const char *what, const char *text, size_t size, json_t **ret, struct error *err)
{
    unsigned char *bytes = mem_zalloc(size + 1, 1);
    struct error inner = { 0 };
    int r = bytes ? decode(text, size, bytes, size) : -ENOMEM;

    *ret = NULL;
    if (r >= 0)
        r = json_read(what, (const char *)bytes, (size_t)r, ret, &inner);
    mem_free(bytes);
    if (r == 0 && !json_is_object(*ret)) {
        json_decref(*ret);
        *ret = NULL;
        r = -EBADMSG;
    }
    return r < 0 ? error_set(err, r == -ENOMEM ? r : -EBADMSG, "the %s of the token cannot be read", what) : 0;
}

/* The algorithm and the key that the header names. */
static int header_read(const struct jwks *keys, const char *text, size_t size, const struct jwk **ret_key,
                       struct error *err)
{
    json_t *header;
    const char *name, *kid;
    int alg = ALG_COUNT, r = part_read("header", text, size, &header, err);

    if (r < 0)
        return r;
    name = json_string_value(json_object_get(header, "alg"));
    kid = json_string_value(json_object_get(header, "kid"));
    for (int i = 0; name && i < ALG_COUNT; i++)
        if (strcmp(name, alg_names[i]) == 0)
            alg = i;
    if (alg == ALG_COUNT)
        r = error_set(err, -EBADMSG, "tokens are taken with RS256 or ES256, not with %.20s", name ? name : "none");
    else if (json_object_get(header, "crit"))
        r = error_set(err, -EBADMSG, "the token asks for extensions that are not known");
    else if (!(*ret_key = key_find(keys, (enum alg)alg, kid)))
        r = error_set(err, -ENOKEY, "the issuer has no %s key '%.60s'", alg_names[alg], kid ? kid : "");
    json_decref(header);
    return r;
}

int jwt_verify(const struct jwks *keys, const char *text, size_t size, json_t **ret_claims, struct error *err)
{
    unsigned char sig[NUMBER_BYTES_MAX];
    const char *first = memchr(text, '.', size), *second;
    const struct jwk *key = NULL;
    size_t signed_size;
    int length, r;

    *ret_claims = NULL;
    if (size > JWT_BYTES_MAX)
        return error_set(err, -EBADMSG, "a token of more than %d bytes", JWT_BYTES_MAX);
    second = first ? memchr(first + 1, '.', size - (size_t)(first + 1 - text)) : NULL;
    if (!second || memchr(second + 1, '.', size - (size_t)(second + 1 - text)))
        return error_set(err, -EBADMSG, "a token has three parts");
    r = header_read(keys, text, (size_t)(first - text), &key, err);
    if (r < 0)
        return r;
    signed_size = (size_t)(second - text);
    length = decode(second + 1, size - signed_size - 1, sig, sizeof(sig));
    if (length <= 0)
        return error_set(err, -EBADMSG, "the signature of the token cannot be read");
    if (!signature_good(key, text, signed_size, sig, (size_t)length))
        return error_set(err, -EACCES, "the token is not signed by the issuer");
    return part_read("payload", first + 1, (size_t)(second - first - 1), ret_claims, err);
}

/* A time of the token; 0 = it is not there, -1: it is no time. */
static usec_t time_read(const json_t *claims, const char *name)
{
    const json_t *value = json_object_get(claims, name);
    double seconds = json_number_value(value);

    if (!value)
        return 0;
    return json_is_number(value) && isfinite(seconds) && seconds > 0 && seconds < 1e11 ? (usec_t)(seconds * 1e6) : -1;
}

static bool audience_has(const json_t *claims, const char *audience)
{
    const json_t *aud = json_object_get(claims, "aud"), *item;
    const char *azp = json_string_value(json_object_get(claims, "azp"));
    size_t i;

    if (json_is_string(aud))
        return strcmp(json_string_value(aud), audience) == 0;
    json_array_foreach(aud, i, item) if (json_is_string(item) && strcmp(json_string_value(item), audience) ==
                                                                     0) return json_array_size(aud) == 1 ||
        !azp || strcmp(azp, audience) == 0;
    return false;
}

int jwt_check(const json_t *claims, const struct jwt_expect *expect, struct error *err)
{
    const char *issuer = json_string_value(json_object_get(claims, "iss"));
    const char *nonce = json_string_value(json_object_get(claims, "nonce"));
    usec_t expires = time_read(claims, "exp"), from = time_read(claims, "nbf"), made = time_read(claims, "iat");

    if (!issuer || strcmp(issuer, expect->issuer) != 0)
        return error_set(err, -EACCES, "the token is of another issuer");
    if (!audience_has(claims, expect->audience))
        return error_set(err, -EACCES, "the token is for somebody else than %.60s", expect->audience);
    if (expires <= 0 || from < 0 || made < 0)
        return error_set(err, -EACCES, "the token does not say until when it is good");
    if (expires + expect->skew <= expect->now)
        return error_set(err, -EACCES, "the token has expired");
    if (from - expect->skew > expect->now || made - expect->skew > expect->now)
        return error_set(err, -EACCES, "the token is not good yet: clocks differ?");
    if (expect->nonce && (!nonce || strcmp(nonce, expect->nonce) != 0))
        return error_set(err, -EACCES, "the token is the answer to another question");
    return 0;
}
