/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* jwt.h - signed statements of an issuer (RFC 7515, 7519: the compact form) and the keys to check them by (RFC 7517).
 *
 * RS256 with 2048 to 8192 bits and ES256; nothing else is read, whatever a token says of itself. A key is used for the
 * algorithm it was made for only.
 */
#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "base/units.h"

enum { JWT_BYTES_MAX = 16384, JWKS_BYTES_MAX = 1 << 18, JWKS_KEYS_MAX = 64, JWT_KID_MAX = 256 };

struct jwks;

/* The keys of a set that can be used; others are passed over. -EBADMSG: no set of keys, or none that can be used. */
int jwks_parse(const char *text, size_t size, struct jwks **ret_keys, struct error *err)
    __attribute__((warn_unused_result));
void jwks_free(struct jwks *keys);
size_t jwks_count(const struct jwks *keys);

/* What a token says, once its signature is found to be that of one of the keys. The claims are the caller's. -EBADMSG:
 * no token, or an algorithm that is not taken; -ENOKEY: the keys do not have the one it names; -EACCES: signed by
 * somebody else. */
int jwt_verify(const struct jwks *keys, const char *text, size_t size, json_t **ret_claims, struct error *err)
    __attribute__((warn_unused_result));

struct jwt_expect {
    const char *issuer, *audience;
    const char *nonce; /* NULL: none was sent */
    usec_t now, skew;
};

/* Whether it is for us, and now. -EACCES with words. */
int jwt_check(const json_t *claims, const struct jwt_expect *expect, struct error *err)
    __attribute__((warn_unused_result));
