/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens and keys of issuers. The first line is a set of keys, or empty: then a fixed one; the rest is a token. Nothing
 * that was not signed is ever taken. */
#include <string.h>

#include "ctl/http/jwt.h"
#include "fuzz.h"

/* Of a pair that was made for the corpus; its private half is gone. */
static const char fixed[] =
    "{\"keys\":[{\"kty\":\"EC\",\"kid\":\"e\",\"crv\":\"P-256\",\"x\":\"zC2IXymQJbcQnAlgkWQbds81pgG_an3PQ80n_QgPbUQ\","
    "\"y\":\"mXFwoRxMzEEgi--DjYm3duXbh1IbLvQEy8pKgR4W6A0\"}]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = fuzz_copy(data, size);
    const char *line = size ? memchr(text.data, '\n', text.size) : NULL;
    size_t head = line ? (size_t)(line - text.data) : 0;
    struct jwt_expect expect = { .issuer = "https://a", .audience = "m", .now = USEC_SEC, .skew = USEC_SEC };
    struct error err = { 0 };
    json_t *claims = NULL;
    struct jwks *keys = NULL;
    int r = head ? jwks_parse(text.data, head, &keys, &err) : jwks_parse(fixed, sizeof(fixed) - 1, &keys, &err);

    if (r < 0) {
        fuzz_check_error(r, &err);
        CHECK(!keys);
    } else {
        const char *token = line ? line + 1 : text.data;

        CHECK(jwks_count(keys) > 0 && jwks_count(keys) <= JWKS_KEYS_MAX);
        r = jwt_verify(keys, token, text.size - (line ? head + 1 : 0), &claims, &err);
        if (r < 0) {
            fuzz_check_error(r, &err);
            CHECK(!claims);
        } else {
            CHECK(json_is_object(claims));
            r = jwt_check(claims, &expect, &err);
            if (r < 0)
                fuzz_check_error(r, &err);
        }
    }
    json_decref(claims);
    jwks_free(keys);
    bytes_done(&text);
    return 0;
}
