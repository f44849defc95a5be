/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* util.h - small things of the agent: clocks, whole files below a directory, values of a JSON object. */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/units.h"

usec_t clock_real(void); /* since 1970 */
usec_t clock_boot(void); /* since the machine started, sleep included */
/* An instant since 1970, as both clocks are now, on the one that nobody sets; 0 stays 0. */
usec_t util_boot_of(usec_t real);

/* A key of an object; the default when it is missing or of another type. */
int64_t util_i64(const json_t *object, const char *key, int64_t fallback);
const char *util_text(const json_t *object, const char *key); /* NULL */
bool util_flag(const json_t *object, const char *key);

int util_write_all(int fd, const void *data, size_t size);

/* A whole small file below `dir` (a descriptor, or AT_FDCWD). -E2BIG beyond `max`. */
int util_file_get(int dir, const char *name, size_t max, struct bytes *ret_bytes, struct error *err);
/* Written beside it, then renamed; with `sync` on the disk, name and all, before it returns. Never follows a link. */
int util_file_put(int dir, const char *name, const void *data, size_t size, bool sync);
/* Without the rename: for a file that whoever finds it broken takes for missing. */
int util_json_write(int dir, const char *name, json_t *json, bool sync);
int util_json_put(int dir, const char *name, json_t *json, bool sync);
int util_json_publish(int dir, const char *name, json_t *json); /* for everybody to read */
json_t *util_json_get(int dir, const char *name);               /* NULL when it is not there or not whole */

/* Base64 as in RFC 4648. */
void util_base64_put(struct buf *out, const void *data, size_t size);
int util_base64_get(const char *text, size_t length, struct buf *out); /* -EINVAL */

/* Lists of NAME=VALUE: whether one has the variable of this text; two as one, where the second counts. */
bool util_env_has(const json_t *list, const char *text);
json_t *util_env_merge(const json_t *first, const json_t *second);
/* What a variable of such a list is; NULL: it is not there. */
const char *util_env_value(const json_t *env, const char *name);
