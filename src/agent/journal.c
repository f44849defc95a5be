/* SPDX-License-Identifier: Apache-2.0 */
/* journal.c - see journal.h. */
#include "agent/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <zlib.h>

#include "agent/util.h"
#include "base/alloc.h"
#include "wire/agent/agent_msg.h"
#include "wire/text/json_quick.h"
#include "wire/text/json_read.h"

enum {
    VERSION = 2,
    SUM_CHARS = 8,
    FILE_MAX = 256 << 20,
    REWRITE_AT = 1 << 20,
    REWRITE_BUSY_AT = 32 << 20,
    AHEAD = 65536
};

static int id_make(char *id)
{
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return -EIO;
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static void sum_write(char *sum, const char *text, size_t size)
{
    (void)snprintf(sum, SUM_CHARS + 1, "%08lx", (unsigned long)crc32_z(0, (const Bytef *)text, size));
}

static int line_put(struct buf *out, json_t *json)
{
    char *text = json_text(json, NULL), sum[SUM_CHARS + 1];

    if (!text)
        return -ENOMEM;
    sum_write(sum, text, strlen(text));
    buf_text(out, sum);
    buf_char(out, ' ');
    buf_text(out, text);
    buf_char(out, '\n');
    mem_free(text);
    return out->error;
}

/* The file anew: the head, and the reports that are still needed. */
static int rewrite(struct journal *j)
{
    CLEANUP_BUF struct buf out = BUF_INIT(FILE_MAX);
    json_t *head = json_pack("{si,ss,sI,sI,ss}", "v", VERSION, "agent", j->id, "base",
                             (json_int_t)(j->count ? j->entries[0].seq - 1 : j->last), "given", (json_int_t)j->last,
                             "boot", j->boot);
    int r = head ? line_put(&out, head) : -ENOMEM, fd;

    json_decref(head);
    for (size_t i = 0; r == 0 && i < j->count; i++)
        r = line_put(&out, j->entries[i].report);
    if (r == 0)
        r = util_file_put(j->dir, "journal", out.data, out.size, j->durable);
    if (r < 0)
        return r;
    fd = openat(j->dir, "journal", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (j->fd >= 0)
        close(j->fd);
    j->fd = fd;
    j->file_size = j->file_end = out.size;
    j->written = j->synced = j->last;
    return 0;
}

static int write_at(int fd, const char *data, size_t size, size_t at)
{
    while (size > 0) {
        ssize_t n = pwrite(fd, data, size, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data += n;
        size -= (size_t)n;
        at += (size_t)n;
    }
    return 0;
}

/* Behind the last line there are zeros, which are no line: to sync a file that does not grow is one write to the disk,
 * where its length would be another. */
static int room_make(struct journal *j, size_t size)
{
    static const char zeros[AHEAD];
    int r = 0;

    while (r == 0 && j->durable && j->file_size + size > j->file_end) {
        r = write_at(j->fd, zeros, sizeof(zeros), j->file_end);
        j->file_end += sizeof(zeros);
    }
    return r;
}

static int entry_add(struct journal *j, uint64_t seq, json_t *report)
{
    int r = mem_grow((void **)&j->entries, &j->capacity, j->count + 1, JOURNAL_REPORTS_MAX, sizeof(*j->entries));

    if (r < 0)
        return r;
    j->entries[j->count++] = (struct journal_entry){ seq, report };
    return 0;
}

static int head_take(struct journal *j, const json_t *json)
{
    const char *id = util_text(json, "agent"), *boot = util_text(json, "boot");

    if (!id || strlen(id) >= JOURNAL_ID_MAX)
        return -EBADMSG;
    if (util_i64(json, "v", 1) > VERSION)
        return -EPROTONOSUPPORT;
    (void)snprintf(j->id, sizeof(j->id), "%s", id);
    (void)snprintf(j->boot, sizeof(j->boot), "%s", boot ? boot : "");
    j->last = (uint64_t)util_i64(json, "base", 0);
    j->given = (uint64_t)util_i64(json, "given", 0);
    return 0;
}

/* The line without its sum; NULL: it is damaged. Those of the former version have none. */
static const char *line_open(const char *line, size_t *size, bool sums)
{
    char sum[SUM_CHARS + 1];

    if (!sums)
        return line;
    if (*size <= SUM_CHARS + 1 || line[SUM_CHARS] != ' ')
        return NULL;
    *size -= SUM_CHARS + 1;
    sum_write(sum, line + SUM_CHARS + 1, *size);
    return memcmp(sum, line, SUM_CHARS) == 0 ? line + SUM_CHARS + 1 : NULL;
}

/* -EBADMSG: the line is not to be believed. */
static int line_take(struct journal *j, const char *line, size_t size, bool sums, bool first)
{
    const char *text = line_open(line, &size, sums);
    json_t *json = NULL;
    int64_t seq;
    int r = text ? json_read("journal", text, size, &json, NULL) : -EBADMSG;

    if (r < 0)
        return r;
    if (first) {
        r = head_take(j, json);
        json_decref(json);
        return r;
    }
    seq = util_i64(json, "seq", 0);
    r = seq > 0 && (uint64_t)seq > j->last ? entry_add(j, (uint64_t)seq, json) : -EBADMSG;
    if (r < 0)
        json_decref(json);
    else
        j->last = (uint64_t)seq;
    return r;
}

/* What cannot be read is left out, and what is behind it read again. */
static int lines_take(struct journal *j, const struct bytes *text)
{
    bool first = true, sums = text->size && text->data[0] != '{';
    int r;

    for (char *line = text->data, *end; line && (end = memchr(line, '\n', text->size - (size_t)(line - text->data)));
         line = end + 1) {
        r = line_take(j, line, (size_t)(end - line), sums, first);
        if (r < 0 && r != -EBADMSG)
            return r;
        j->damaged += r < 0;
        if (first && r < 0)
            break; /* nobody knows whose they are: another incarnation */
        first = false;
    }
    if (first)
        j->id[0] = '\0';
    return 0;
}

static int journal_load(struct journal *j, struct error *err)
{
    CLEANUP_BYTES struct bytes text = { 0 };
    int r = util_file_get(j->dir, "journal", FILE_MAX, &text, err);

    if (r == -ENOENT)
        return 0;
    if (r == 0)
        r = lines_take(j, &text);
    if (r == -EPROTONOSUPPORT)
        return error_set(err, r, "journal of reports: a later version wrote it");
    if (r < 0)
        return error_prefix(err, r, "journal of reports");
    if (j->damaged) /* kept, for whoever wants to know */
        (void)util_file_put(j->dir, "journal.damaged", text.data, text.size, false);
    return 0;
}

int journal_open(struct journal *journal, int dir, const char *boot, struct error *err)
{
    struct journal j = { .dir = dir, .fd = -1, .durable = boot != NULL };
    int r = journal_load(&j, err);

    if (j.last < j.given)
        j.last = j.given;
    if (r == 0 && j.id[0])
        j.last += JOURNAL_SKIP; /* what the disk may have lost, or was cut off, was sent with these */
    (void)snprintf(j.boot, sizeof(j.boot), "%s", boot ? boot : "");
    if (r == 0 && !j.id[0])
        r = id_make(j.id);
    if (r == 0)
        r = rewrite(&j);
    if (r < 0) {
        journal_close(&j);
        return r == -EPROTONOSUPPORT ? r : error_set(err, r, "journal of reports: %s", strerror(-r));
    }
    *journal = j;
    return 0;
}

void journal_close(struct journal *journal)
{
    for (size_t i = 0; i < journal->count; i++)
        json_decref(journal->entries[i].report);
    mem_free(journal->entries);
    if (journal->fd >= 0)
        close(journal->fd);
    *journal = (struct journal){ .fd = -1 };
}

int journal_append(struct journal *journal, json_t *report, struct error *err)
{
    uint64_t seq = journal->last + 1;
    int r = json_object_set_new(report, "seq", json_integer((json_int_t)seq)) < 0 ? -ENOMEM
                                                                                  : entry_add(journal, seq, report);

    if (r < 0) {
        json_decref(report);
        return error_set(err, r == -E2BIG ? -ENOSPC : r, "%zu reports wait to be taken", journal->count);
    }
    journal->last = seq;
    return 0;
}

const json_t *journal_unwritten(const struct journal *journal)
{
    const struct journal_entry *newest = journal->count ? &journal->entries[journal->count - 1] : NULL;

    return newest && newest->seq > journal->written ? newest->report : NULL;
}

void journal_take_back(struct journal *journal)
{
    assert(journal_unwritten(journal));
    json_decref(journal->entries[--journal->count].report);
    journal->last--;
}

/* Both are about the same task. */
static bool same_task(const json_t *a, const json_t *b)
{
    static const char *const keys[] = { "job", "attempt", "rank" };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (!json_object_get(a, keys[i]) || !json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i])))
            return false;
    return true;
}

static bool is_state(const json_t *report, enum task_state state)
{
    const char *name = util_text(report, "state");

    return name && strcmp(name, task_state_name(state)) == 0;
}

void journal_join(struct journal *journal, json_t *report)
{
    enum { PLAIN_KEYS = 8 }; /* t, seq, at, started, state, job, attempt, rank: nothing that only it would tell */
    const json_t *last = journal_unwritten(journal);
    json_t *started = json_object_get(last, "started");

    if (!last || !started || json_object_size(last) != PLAIN_KEYS || !is_state(last, TASK_RUNNING) ||
        !is_state(report, TASK_EXITED) || !same_task(last, report))
        return;
    if (!json_object_get(report, "started") && json_object_set(report, "started", started) < 0)
        return;
    if (json_object_set_new(report, "ran", json_true()) < 0)
        return;
    journal_take_back(journal);
}

static int lines_write(struct journal *journal)
{
    CLEANUP_BUF struct buf out = BUF_INIT(FILE_MAX);
    size_t i = journal->count;
    int r = 0;

    while (i > 0 && journal->entries[i - 1].seq > journal->written)
        i--;
    for (; r == 0 && i < journal->count; i++)
        r = line_put(&out, journal->entries[i].report);
    if (r == 0)
        r = room_make(journal, out.size);
    if (r == 0)
        r = write_at(journal->fd, out.data, out.size, journal->file_size);
    if (r < 0)
        return r;
    journal->file_size += out.size;
    journal->written = journal->last;
    return 0;
}

int journal_flush(struct journal *journal, bool sync, struct error *err)
{
    int r = journal->written < journal->last ? lines_write(journal) : 0;

    sync = sync || journal->last - journal->synced >= JOURNAL_SKIP / 2;
    if (r == 0 && sync && journal->synced < journal->written) {
        r = journal->durable && fdatasync(journal->fd) < 0 ? -errno : 0;
        if (r == 0)
            journal->synced = journal->written;
    }
    if (r < 0) {
        /* Half a line may be there now: what follows it would be lost. */
        int again = rewrite(journal);

        return again < 0 ? error_set(err, r, "journal of reports: %s", strerror(-r)) : 0;
    }
    return 0;
}

bool journal_at_risk(const struct journal *journal)
{
    return journal->durable && journal->count && journal->entries[journal->count - 1].seq > journal->synced;
}

void journal_ack(struct journal *journal, uint64_t seq)
{
    size_t gone = 0;

    while (gone < journal->count && journal->entries[gone].seq <= seq)
        json_decref(journal->entries[gone++].report);
    if (seq > journal->acked && seq <= journal->last)
        journal->acked = seq;
    if (gone == 0)
        return;
    memmove(journal->entries, journal->entries + gone, (journal->count - gone) * sizeof(*journal->entries));
    journal->count -= gone;
    if (journal->file_size > (journal->count ? REWRITE_BUSY_AT : REWRITE_AT))
        (void)rewrite(journal);
}

json_t *journal_after(const struct journal *journal, uint64_t seq)
{
    size_t low = 0, high = journal->count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (journal->entries[middle].seq > seq)
            high = middle;
        else
            low = middle + 1;
    }
    return low < journal->count && journal->entries[low].seq <= journal->written ? journal->entries[low].report : NULL;
}
