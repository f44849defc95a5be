/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* seal.h - texts that are kept encrypted: AES-256-GCM, with keys from a file.
 *
 * The file has a key a line, 64 hexadecimal digits; the first seals, all of them open. So a key is changed by a new
 * first line. A sealed text names its key: "sealed:1:KEY:BASE64". It opens only for the owner and the name that it was
 * sealed for.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { SEAL_KEYS_MAX = 16, SEAL_ID_BYTES = 9 };

struct seal_keys {
    size_t count;
    struct {
        char id[SEAL_ID_BYTES];
        unsigned char key[32];
    } keys[SEAL_KEYS_MAX];
};

/* -ENOENT: no such file; -EPERM: others than its owner can read it; -EINVAL. */
int seal_keys_read(const char *path, struct seal_keys *ret_keys, struct error *err);
/* A new file with one key, mode 0600. -EEXIST. */
int seal_keys_make(const char *path, struct error *err);
void seal_keys_forget(struct seal_keys *keys);

/* *ret_sealed is the caller's (mem_free). */
int seal_text(const struct seal_keys *keys, const char *owner, const char *name, const char *text, char **ret_sealed);
/* A text that was never sealed comes back as it is. -ENOKEY: none of the keys; -EBADMSG: it was changed, or is of
 * another owner or name. */
int seal_open(const struct seal_keys *keys, const char *owner, const char *name, const char *sealed, char **ret_text);
bool seal_fresh(const struct seal_keys *keys, const char *text); /* sealed, and by the first key */
