/* SPDX-License-Identifier: Apache-2.0 */
/* util.c - see util.h. */
#include "agent/util.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/beneath.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"

enum { JSON_FILE_MAX = 16 << 20 };

static usec_t clock_read(clockid_t id)
{
    struct timespec ts = { 0 };

    (void)clock_gettime(id, &ts);
    return (usec_t)ts.tv_sec * USEC_SEC + ts.tv_nsec / 1000;
}

usec_t clock_real(void)
{
    return clock_read(CLOCK_REALTIME);
}

usec_t clock_boot(void)
{
    return clock_read(CLOCK_BOOTTIME);
}

usec_t util_boot_of(usec_t real)
{
    usec_t boot = real - clock_real() + clock_boot();

    return real == 0 ? 0 : boot > 0 ? boot : 1;
}

int64_t util_i64(const json_t *object, const char *key, int64_t fallback)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

const char *util_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

bool util_flag(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

int util_write_all(int fd, const void *data, size_t size)
{
    const char *p = data;

    while (size > 0) {
        ssize_t n = write(fd, p, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        size -= (size_t)n;
    }
    return 0;
}

static int fd_read_all(int fd, size_t max, struct buf *buf)
{
    char part[16384];
    ssize_t n;

    buf->max = max;
    while ((n = read(fd, part, sizeof(part))) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        buf_put(buf, part, (size_t)n);
        if (buf->error)
            return buf->error;
    }
    return 0;
}

int util_file_get(int dir, const char *name, size_t max, struct bytes *ret_bytes, struct error *err)
{
    CLEANUP_BUF struct buf buf = BUF_INIT(0);
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOCTTY), r;

    if (fd < 0)
        return error_set(err, -errno, "%s: %s", name, strerror(errno));
    r = fd_read_all(fd, max, &buf);
    close(fd);
    if (r < 0)
        return error_set(err, r, "%s: %s", name, strerror(-r));
    return buf_take(&buf, ret_bytes, err);
}

int util_file_put(int dir, const char *name, const void *data, size_t size, bool sync)
{
    return beneath_file_put(dir, name, &(struct beneath_content){ data, size, 0600, sync });
}

int util_json_write(int dir, const char *name, json_t *json, bool sync)
{
    char *text = json_text(json, NULL);
    int fd, r;

    if (!text)
        return -ENOMEM;
    fd = beneath_open(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    r = fd < 0 ? fd : util_write_all(fd, text, strlen(text));
    if (r == 0 && sync && (fsync(fd) < 0 || fsync(dir) < 0))
        r = -errno;
    if (fd >= 0)
        close(fd);
    mem_free(text);
    return r;
}

static int json_put_mode(int dir, const char *name, json_t *json, mode_t mode, bool sync)
{
    char *text = json_text(json, NULL);
    int r;

    if (!text)
        return -ENOMEM;
    r = beneath_file_put(dir, name, &(struct beneath_content){ text, strlen(text), mode, sync });
    mem_free(text);
    return r;
}

int util_json_put(int dir, const char *name, json_t *json, bool sync)
{
    return json_put_mode(dir, name, json, 0600, sync);
}

int util_json_publish(int dir, const char *name, json_t *json)
{
    return json_put_mode(dir, name, json, 0644, false);
}

json_t *util_json_get(int dir, const char *name)
{
    CLEANUP_BYTES struct bytes bytes = { 0 };
    json_t *json = NULL;

    if (util_file_get(dir, name, JSON_FILE_MAX, &bytes, NULL) < 0 ||
        json_read(name, bytes.data, bytes.size, &json, NULL) < 0)
        return NULL;
    return json;
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void util_base64_put(struct buf *out, const void *data, size_t size)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);
        char quad[4] = { base64_digits[v >> 18], base64_digits[v >> 12 & 63],
                         left > 1 ? base64_digits[v >> 6 & 63] : '=', left > 2 ? base64_digits[v & 63] : '=' };

        buf_put(out, quad, sizeof(quad));
    }
}

static int digit_value(char c)
{
    const char *at = c ? strchr(base64_digits, c) : NULL;

    return at ? (int)(at - base64_digits) : -1;
}

int util_base64_get(const char *text, size_t length, struct buf *out)
{
    if (length % 4)
        return -EINVAL;
    for (size_t i = 0; i < length; i += 4) {
        bool last = i + 4 == length;
        size_t pad = last && text[i + 3] == '=' ? text[i + 2] == '=' ? 2 : 1 : 0;
        uint32_t v = 0;
        char bytes[3];

        for (size_t k = 0; k < 4; k++) {
            int d = k >= 4 - pad ? 0 : digit_value(text[i + k]);

            if (d < 0)
                return -EINVAL;
            v = v << 6 | (uint32_t)d;
        }
        bytes[0] = (char)(v >> 16);
        bytes[1] = (char)(v >> 8);
        bytes[2] = (char)v;
        buf_put(out, bytes, 3 - pad);
    }
    return out->error;
}

bool util_env_has(const json_t *list, const char *text)
{
    size_t length = (size_t)(strchrnul(text, '=') - text), i;
    const json_t *value;

    json_array_foreach(list, i, value)
    {
        const char *one = json_string_value(value);

        if (one && strncmp(one, text, length) == 0 && one[length] == '=')
            return true;
    }
    return false;
}

const char *util_env_value(const json_t *env, const char *name)
{
    size_t length = strlen(name), i;
    const json_t *one;

    json_array_foreach(env, i, one)
    {
        const char *text = json_string_value(one);

        if (strncmp(text, name, length) == 0 && text[length] == '=')
            return text + length + 1;
    }
    return NULL;
}

json_t *util_env_merge(const json_t *first, const json_t *second)
{
    json_t *list = json_array(), *value;
    size_t i;

    json_array_foreach(first, i, value) if (!util_env_has(second, json_string_value(value)))(void)
        json_array_append(list, value);
    json_array_foreach(second, i, value)(void) json_array_append(list, value);
    return list;
}
