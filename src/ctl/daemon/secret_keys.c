/* SPDX-License-Identifier: Apache-2.0 */
/* secret_keys.c - the keys that secrets of users are sealed with, in a file that no backup has.
 *
 * The file is read when the state is there. Secrets that are sealed by another key than its first one, or that are of a
 * controller that did not seal them, are sealed again then: a key is changed by a new first line and a restart, and the
 * old line may go afterwards. Secrets of a key that is not there stay as they are, for whoever finds the key again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ctl/daemon/daemon.h"
#include "io/log.h"
#include "io/seal.h"

static void path_fill(const struct conf *conf, char *path, size_t size)
{
    if (conf->secrets_key)
        (void)snprintf(path, size, "%s", conf->secrets_key);
    else
        (void)snprintf(path, size, "%s/secrets.key", conf->state);
}

static void on_sealed(void *arg, const struct entry_result *result)
{
    (void)arg;
    if (result->code < 0)
        log_err("a secret was not sealed again", "error", result->text.text);
}

/* Opened and sealed by the first key. -ENOKEY, -EBADMSG: it stays as it is. */
static int seal_again(struct server *server, const struct entry_secret *secret)
{
    struct entry_result refused = { 0 };
    char *text = NULL, *sealed = NULL;
    int r = seal_open(server->secret_keys, secret->user, secret->name, secret->value.text, &text);

    if (r == 0)
        r = seal_text(server->secret_keys, secret->user, secret->name, text, &sealed);
    if (r == 0) {
        struct entry entry = { .kind = ENTRY_SECRET,
                               .secret = { .user = entry_text(secret->user),
                                           .name = entry_text(secret->name),
                                           .value = { .given = GIVEN_VALUE, .text = entry_text(sealed) } } };

        if (batcher_offer(server->batcher, &entry, on_sealed, NULL, &refused) < 0)
            on_sealed(NULL, &refused);
    }
    if (text)
        explicit_bzero(text, strlen(text));
    mem_free(text);
    mem_free(sealed);
    return r;
}

static void secrets_look(struct server *server, const char *path)
{
    int64_t again = 0, lost = 0;

    for (each_record(const struct entry_secret, secret, &server_book(server)->kept.secrets)) {
        if (seal_fresh(server->secret_keys, secret->value.text))
            continue;
        if (seal_again(server, secret) < 0)
            lost++;
        else
            again++;
    }
    if (again)
        log_info("secrets sealed by the present key", "count", LOG_I64(again), "file", path);
    if (lost)
        log_err(
            "secrets cannot be read: their key is not in the file. Put it there again as a line of its own and start "
            "musterd; or their users set them again. Jobs that ask for them are refused",
            "count", LOG_I64(lost), "file", path);
}

void secret_keys_open(struct server *server)
{
    struct error err = { 0 };
    char path[4200];

    path_fill(server->conf, path, sizeof(path));
    server->secret_keys = mem_zalloc(1, sizeof(*server->secret_keys));
    if (!server->secret_keys)
        return;
    if (access(path, F_OK) < 0 && errno == ENOENT && seal_keys_make(path, &err) == 0)
        log_info("made a key for secrets; no backup has it: keep a copy elsewhere", "file", path);
    if (seal_keys_read(path, server->secret_keys, &err) < 0) {
        log_err("secrets of users can be neither kept nor read", "error", err.text);
        mem_free(take(server->secret_keys));
        return;
    }
    secrets_look(server, path);
}

void secret_keys_close(struct server *server)
{
    if (server->secret_keys)
        seal_keys_forget(server->secret_keys);
    mem_free(take(server->secret_keys));
}
