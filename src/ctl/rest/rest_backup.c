/* SPDX-License-Identifier: Apache-2.0 */
/* rest_backup.c - GET /backup: a consistent copy of the store, made on the worker while all goes on, then streamed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ctl/rest/rest.h"
#include "io/log.h"

enum { PIECE_BYTES = 262144 };

struct backup {
    struct request *request; /* held */
    struct store *store;
    char path[4096];
    int fd, result;
    struct error err;
};

static void backup_free(void *arg)
{
    struct backup *backup = arg;

    if (backup->fd >= 0)
        (void)close(backup->fd);
    (void)unlink(backup->path);
    request_drop(backup->request);
    mem_free(backup);
}

static int backup_next(void *arg, struct buf *out)
{
    struct backup *backup = arg;
    char *piece = mem_zalloc(PIECE_BYTES, 1);
    ssize_t n = piece ? read(backup->fd, piece, PIECE_BYTES) : -1;

    if (n > 0)
        buf_put(out, piece, (size_t)n);
    mem_free(piece);
    return n < 0 ? -EIO : n > 0;
}

static const struct stream_ops backup_stream = { .next = backup_next, .gone = backup_free };

static void backup_work(void *arg)
{
    struct backup *backup = arg;

    backup->result = store_backup(backup->store, backup->path, &backup->err);
}

static void backup_done(void *arg)
{
    struct backup *backup = arg;

    if (backup->result == 0)
        backup->fd = open(backup->path, O_RDONLY | O_CLOEXEC);
    if (backup->result == 0 && backup->fd < 0)
        (void)error_set(&backup->err, -errno, "%s: %s", backup->path, strerror(errno));
    if (backup->fd < 0) {
        log_err("no backup", "error", backup->err.text);
        reply_problem(backup->request, 500, "Internal", NULL, "%s", backup->err.text);
        backup_free(backup);
        return;
    }
    reply_header(backup->request, "Cache-Control", "no-store");
    reply_header(backup->request, "Content-Disposition", "attachment; filename=\"muster.backup\"");
    reply_stream(backup->request, 200, "application/octet-stream", &backup_stream, backup);
}

void rest_backup(struct request *request)
{
    static unsigned number;
    struct server *server = request_server(request);
    struct backup *backup = mem_zalloc(1, sizeof(*backup));

    if (!backup) {
        reply_problem(request, 503, "Busy", NULL, "out of memory");
        return;
    }
    backup->fd = -1;
    backup->store = server->store;
    backup->request = request_hold(request);
    (void)snprintf(backup->path, sizeof(backup->path), "%.3900s/backup-%u.tmp", server->conf->state, ++number);
    (void)unlink(backup->path); /* of a former life */
    if (loop_work(server->loop, backup_work, backup_done, backup) < 0) {
        reply_problem(request, 503, "Busy", NULL, "out of memory");
        backup_free(backup);
    }
}
