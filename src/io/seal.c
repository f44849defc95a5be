/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c - see seal.h. */
#include "io/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "io/pki.h"

#define SEALED "sealed:1:"
enum { NONCE = 12, TAG = 16, KEY = 32, FILE_MAX = 8192, TEXT_MAX = 1 << 20 };

DEFINE_CLEANUP(EVP_CIPHER_CTX *, EVP_CIPHER_CTX_free)

/* Eight digits that name a key and do not tell it. */
static void id_fill(const unsigned char *key, char *id)
{
    unsigned char text[3 + KEY] = { 'i', 'd', ':' };
    char sum[PKI_FINGERPRINT_MAX];

    memcpy(text + 3, key, KEY);
    pki_sha256(text, sizeof(text), sum);
    explicit_bzero(text, sizeof(text));
    memcpy(id, sum, SEAL_ID_BYTES - 1);
    id[SEAL_ID_BYTES - 1] = '\0';
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int key_line(const char *line, unsigned char *key)
{
    for (int i = 0; i < KEY; i++) {
        int high = digit(line[2 * i]), low = high < 0 ? -1 : digit(line[2 * i + 1]);

        if (low < 0)
            return -EINVAL;
        key[i] = (unsigned char)(high * 16 + low);
    }
    return line[2 * KEY] == '\0' || line[2 * KEY] == '\n' ? 0 : -EINVAL;
}

static int keys_parse(const char *text, struct seal_keys *keys)
{
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (*line == '\n' || *line == '#')
            continue;
        if (keys->count == SEAL_KEYS_MAX || key_line(line, keys->keys[keys->count].key) < 0)
            return -EINVAL;
        id_fill(keys->keys[keys->count].key, keys->keys[keys->count].id);
        keys->count++;
    }
    return keys->count ? 0 : -EINVAL;
}

int seal_keys_read(const char *path, struct seal_keys *ret_keys, struct error *err)
{
    char text[FILE_MAX];
    struct stat st;
    ssize_t n = -1;
    int r = 0, fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    *ret_keys = (struct seal_keys){ 0 };
    if (fd < 0)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        r = error_set(err, -EINVAL, "%s: expected a file", path);
    else if (st.st_mode & 077)
        r = error_set(err, -EPERM, "%s: other users can read it; chmod 600 %s", path, path);
    else
        n = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (r == 0 && n >= 0) {
        text[n] = '\0';
        r = keys_parse(text, ret_keys);
    }
    explicit_bzero(text, sizeof(text));
    if (r == 0 && n < 0)
        r = error_set(err, -EIO, "%s: cannot be read", path);
    else if (r == -EINVAL && n >= 0)
        r = error_set(err, r, "%s: expected lines of 64 digits, 0 to 9 and a to f, at most %d", path, SEAL_KEYS_MAX);
    if (r < 0)
        seal_keys_forget(ret_keys);
    return r;
}

int seal_keys_make(const char *path, struct error *err)
{
    unsigned char key[KEY];
    char text[2 * KEY + 2];
    int r = 0, fd;

    if (RAND_bytes(key, sizeof(key)) != 1)
        return error_set(err, -EIO, "no random numbers");
    for (int i = 0; i < KEY; i++)
        (void)snprintf(text + (ptrdiff_t)2 * i, 3, "%02x", key[i]);
    text[2 * KEY] = '\n';
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        r = error_set(err, -errno, "%s: %s", path, strerror(errno));
    else if (write(fd, text, 2 * KEY + 1) != 2 * KEY + 1 || fsync(fd) < 0)
        r = error_set(err, -EIO, "%s: cannot be written", path);
    if (fd >= 0)
        (void)close(fd);
    explicit_bzero(key, sizeof(key));
    explicit_bzero(text, sizeof(text));
    return r;
}

void seal_keys_forget(struct seal_keys *keys)
{
    explicit_bzero(keys, sizeof(*keys));
}

/* Whose it is, and what it is called, belong to it. */
static int owner_bind(EVP_CIPHER_CTX *context, const char *owner, const char *name)
{
    const unsigned char *parts[] = { (const unsigned char *)owner, (const unsigned char *)name };
    int n;

    for (int i = 0; i < 2; i++)
        if (EVP_CipherUpdate(context, NULL, &n, parts[i], (int)strlen((const char *)parts[i]) + 1) != 1)
            return -EIO;
    return 0;
}

/* NONCE, bytes, TAG: how many there are; -EIO. */
static int bytes_seal(const unsigned char *key, const char *owner, const char *name, const char *text,
                      unsigned char *out)
{
    CLEANUP(EVP_CIPHER_CTX_free) EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int size = (int)strlen(text), n = 0, last = 0;

    if (!context || RAND_bytes(out, NONCE) != 1 ||
        EVP_CipherInit_ex(context, EVP_aes_256_gcm(), NULL, key, out, 1) != 1 || owner_bind(context, owner, name) < 0 ||
        EVP_CipherUpdate(context, out + NONCE, &n, (const unsigned char *)text, size) != 1 ||
        EVP_CipherFinal_ex(context, out + NONCE + n, &last) != 1 ||
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, TAG, out + NONCE + n + last) != 1)
        return -EIO;
    return NONCE + n + last + TAG;
}

int seal_text(const struct seal_keys *keys, const char *owner, const char *name, const char *text, char **ret_sealed)
{
    size_t size = strlen(text), head = strlen(SEALED) + SEAL_ID_BYTES;
    unsigned char *bytes;
    char *sealed;
    int n;

    if (keys->count == 0)
        return -ENOKEY;
    if (size > TEXT_MAX)
        return -E2BIG;
    bytes = mem_zalloc(size + NONCE + TAG, 1);
    sealed = mem_zalloc(head + (size + NONCE + TAG + 2) / 3 * 4 + 1, 1);
    n = bytes && sealed ? bytes_seal(keys->keys[0].key, owner, name, text, bytes) : -ENOMEM;
    if (n > 0) {
        (void)snprintf(sealed, head + 1, SEALED "%s:", keys->keys[0].id);
        (void)EVP_EncodeBlock((unsigned char *)sealed + head, bytes, n);
        *ret_sealed = sealed;
    } else {
        mem_free(sealed);
    }
    mem_free(bytes);
    return n > 0 ? 0 : n;
}

static int bytes_open(const unsigned char *key, const char *owner, const char *name, unsigned char *bytes, int size,
                      char *text)
{
    CLEANUP(EVP_CIPHER_CTX_free) EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int n = 0, last = 0;

    if (size < NONCE + TAG || !context || EVP_CipherInit_ex(context, EVP_aes_256_gcm(), NULL, key, bytes, 0) != 1 ||
        owner_bind(context, owner, name) < 0 ||
        EVP_CipherUpdate(context, (unsigned char *)text, &n, bytes + NONCE, size - NONCE - TAG) != 1 ||
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, TAG, bytes + size - TAG) != 1 ||
        EVP_CipherFinal_ex(context, (unsigned char *)text + n, &last) != 1)
        return -EBADMSG;
    text[n + last] = '\0';
    return 0;
}

static const unsigned char *key_of(const struct seal_keys *keys, const char *id)
{
    for (size_t i = 0; i < keys->count; i++)
        if (strncmp(keys->keys[i].id, id, SEAL_ID_BYTES - 1) == 0)
            return keys->keys[i].key;
    return NULL;
}

static bool sealed_is(const char *text)
{
    return strncmp(text, SEALED, strlen(SEALED)) == 0;
}

int seal_open(const struct seal_keys *keys, const char *owner, const char *name, const char *sealed, char **ret_text)
{
    size_t head = strlen(SEALED) + SEAL_ID_BYTES, length = strlen(sealed);
    const unsigned char *key;
    unsigned char *bytes;
    char *text;
    int n, r = -ENOMEM;

    if (!sealed_is(sealed))
        return (*ret_text = mem_strdup(sealed)) ? 0 : -ENOMEM;
    key = key_of(keys, sealed + strlen(SEALED));
    if (!key)
        return -ENOKEY;
    if (length < head + 4 || sealed[head - 1] != ':' || (length - head) % 4 || length > 2 * TEXT_MAX)
        return -EBADMSG;
    bytes = mem_zalloc(length - head, 1);
    text = mem_zalloc(length - head, 1);
    if (bytes && text) {
        n = EVP_DecodeBlock(bytes, (const unsigned char *)sealed + head, (int)(length - head));
        n -= (sealed[length - 1] == '=') + (sealed[length - 2] == '=');
        r = bytes_open(key, owner, name, bytes, n, text);
    }
    mem_free(bytes);
    if (r == 0)
        *ret_text = text;
    else
        mem_free(text);
    return r;
}

bool seal_fresh(const struct seal_keys *keys, const char *text)
{
    return keys->count && sealed_is(text) && strncmp(text + strlen(SEALED), keys->keys[0].id, SEAL_ID_BYTES - 1) == 0 &&
           text[strlen(SEALED) + SEAL_ID_BYTES - 1] == ':';
}
