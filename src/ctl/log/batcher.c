/* SPDX-License-Identifier: Apache-2.0 */
/* batcher.c - see batcher.h.
 *
 *   offers ─► put aside ─► (turn ends) ─► one batch ─► committed on the worker ─► applied ─► answered, orders sent
 *                              ▲                                                     │
 *                              └──────────── what came meanwhile is the next ◄───────┘
 *
 * A batch is written by batch_encode_*() (entry.h). Finished jobs and snapshots travel with the batch that follows
 * them; a crash before that replays the batch that made them, and makes them again.
 */
#include "ctl/log/batcher.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "ctl/log/batcher_internal.h"
#include "ctl/log/entry_json.h"
#include "ctl/state/registry.h"
#include "ctl/state/state_internal.h"

#define SNAPSHOT_BYTES_MAX ((size_t)1 << 31)

#define ENTRY_SIZE_MAX ((size_t)16 << 20)
#define RETRY_EVERY USEC_SEC /* where there was no room */
#define ROWS_WAIT (200 * USEC_MSEC)
#define REPORTS_WAIT (3 * USEC_MSEC)
#define QUICK_USEC (4 * USEC_MSEC)
enum { ROWS_MANY = 256, QUICK_ENOUGH = 2, QUICK_TURNS = 4 };

/* What is being committed. */
struct batch {
    struct batcher *batcher;
    struct offer *offers;
    size_t count;
    usec_t at;
    struct buf text;
    struct record_rows rows;
    struct buf snapshot;
    uint64_t snapshot_seq;
    struct store_write write;
    struct error err;
    usec_t took;
    int result;
};

struct ctl *batcher_ctl(struct batcher *batcher)
{
    return batcher->ctl;
}

bool batcher_quiet(const struct batcher *batcher)
{
    return batcher->stuck || (batcher->queue.count == 0 && !batcher->committing);
}

/* Puts an entry aside; takes what it holds. */
static int push(struct batcher *batcher, const struct entry *entry, batcher_done_fn done, void *arg)
{
    struct offer_list *queue = &batcher->queue;
    struct offer offer = { .entry = *entry, .done = done, .arg = arg };
    void *block = queue->items;
    int r = mem_grow(&block, &queue->capacity, queue->count + 1, (size_t)1 << 24, sizeof(*queue->items));

    queue->items = block;
    if (r == 0)
        r = offer_weigh(batcher, &offer);
    if (r < 0) {
        offer_drop(&offer);
        return r;
    }
    queue->items[queue->count++] = offer;
    return 0;
}

int batcher_push(struct batcher *batcher, const struct entry *entry, batcher_done_fn done, void *arg)
{
    batcher->urgent = true;
    return push(batcher, entry, done, arg);
}

/* With nobody in the queue, and nobody who asks, the end of a job is news to nobody: it is written with the next batch,
 * or a moment later. That saves a sync for each job of who submits one after the other. */
int batcher_push_report(struct batcher *batcher, const struct entry *report)
{
    const struct core *core = ctl_core(batcher->ctl);
    bool patient = !batcher->urgent && batcher->host.awaited && !batcher->host.awaited(batcher->host.arg) && core &&
                   core_waiting(core) == 0;
    int r = push(batcher, report, NULL, NULL);

    batcher->urgent = !patient;
    if (batcher->queue.count == 1)
        batcher->patient_until = batcher->host.now(batcher->host.arg) + REPORTS_WAIT;
    return r;
}

void batcher_hurry(struct batcher *batcher)
{
    batcher->urgent = batcher->queue.count > 0;
}

static int no_room(struct entry_result *ret)
{
    return ret->code =
               error_set(&ret->text, -EAGAIN, "the controller's disk is full: nothing is taken until there is room");
}

int batcher_offer(struct batcher *batcher, const struct entry *given, batcher_done_fn done, void *arg,
                  struct entry_result *ret)
{
    struct entry_result scratch, *result = ret ? ret : &scratch;
    struct entry entry = *given; /* a check may add to it */
    int r = ctl_check(batcher->ctl, &entry, result);

    if (r == 0 && entry_size(&entry) > ENTRY_SIZE_MAX)
        r = result->code = error_set(&result->text, -EINVAL, "the request is larger than %zu bytes", ENTRY_SIZE_MAX);
    if (r == 0 && batcher->full)
        r = no_room(result);
    else if (r == 0 && (batcher->queue.count >= batcher->config.pending_max || batcher->failed))
        r = result->code = error_set(&result->text, -EAGAIN, "the controller is busy: %zu requests wait to be written",
                                     batcher->queue.count);
    if (r < 0) {
        entry_done(&entry);
        return r;
    }
    batcher->urgent = true;
    r = push(batcher, &entry, done, arg);
    if (r < 0)
        result->code = error_set(&result->text, r, "no memory");
    return r;
}

int batcher_offer_json(struct batcher *batcher, enum entry_kind kind, json_t *body, batcher_done_fn done, void *arg,
                       struct entry_result *ret)
{
    struct entry_result scratch, *result = ret ? ret : &scratch;
    struct entry entry;

    *result = (struct entry_result){ 0 };
    result->code = entry_from_json(kind, body, &entry, &result->text);
    json_decref(body);
    if (result->code < 0) {
        entry_done(&entry);
        return result->code;
    }
    return batcher_offer(batcher, &entry, done, arg, ret);
}

static void batch_free(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        entry_done(&batch->offers[i].entry);
    mem_free(batch->offers);
    buf_done(&batch->text);
    record_rows_done(&batch->rows);
    buf_done(&batch->snapshot);
    mem_free(batch);
}

static void take_rows(struct batcher *batcher, struct batch *batch, bool all)
{
    /* Several together change fewer pages; until then the batches that made them are there. */
    if (!all && batcher->over.count < ROWS_MANY && batch->at - batcher->rows_since < ROWS_WAIT)
        return;
    batcher->rows_since = 0;
    batch->rows = batcher->over;
    batcher->over = (struct record_rows){ 0 };
}

static int batch_write(struct batch *batch)
{
    struct buf *out = &batch->text;

    batch_encode_begin(out, batch->at, batch->count);
    for (size_t i = 0; i < batch->count; i++)
        batch_encode_entry(out, &batch->offers[i].entry);
    return out->error;
}

/* Everything put aside, and what has to be written with it; `all`: the finished jobs that could wait too. */
static struct batch *batch_new(struct batcher *batcher, usec_t at, bool all)
{
    struct batch *batch = mem_zalloc(1, sizeof(*batch));
    struct offer_list list;
    bool save;
    int r;

    if (!batch)
        return NULL;
    batch->batcher = batcher;
    batch->at = at;
    r = batcher_take(batcher, all, &list);
    batch->offers = list.items;
    batch->count = list.count;
    batch->text = batch->snapshot = (struct buf)BUF_INIT(SNAPSHOT_BYTES_MAX);
    batcher->urgent = batcher->queue.count > 0;
    if (r < 0) {
        batch_free(batch);
        return NULL;
    }
    batcher->since_snapshot += batch->count;
    save = batcher->config.snapshot_every && batcher->since_snapshot >= batcher->config.snapshot_every;
    /* The batches before a snapshot go: what they made must be written by then. */
    take_rows(batcher, batch, save || all);
    if (batch_write(batch) < 0) {
        batch_free(batch);
        return NULL;
    }
    if (save && ctl_save(batcher->ctl, &batch->snapshot, &batch->err) == 0) {
        batch->snapshot_seq = ctl_seq(batcher->ctl);
        batcher->since_snapshot = 0;
    }
    batch->write = (struct store_write){ .seq = ctl_seq(batcher->ctl) + 1,
                                         .batch = batch->text.data,
                                         .batch_size = batch->text.size,
                                         .jobs = batch->rows.rows,
                                         .job_count = batch->rows.count,
                                         .snapshot = batch->snapshot.size ? batch->snapshot.data : NULL,
                                         .snapshot_size = batch->snapshot.size,
                                         .snapshot_seq = batch->snapshot_seq };
    return batch;
}

/* What agents report changes nothing that cannot be told again: they keep it until they have heard that it is durable.
 * So the sync may wait for the next batch, or for the first word that is to go to an agent. */
static bool batch_lazy(const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if ((batch->offers[i].entry.kind != ENTRY_REPORT && batch->offers[i].entry.kind != ENTRY_MEASURES) ||
            batch->offers[i].done)
            return false;
    return batch->count > 0 && !batch->write.snapshot && !batch->rows.count;
}

/* The batch is durable, or as good: it happens now. */
static void batch_apply(struct batch *batch)
{
    struct batcher *batcher = batch->batcher;
    bool few = batch->count <= BATCH_FEW; /* mostly one or two, and a result is large */
    struct entry *entries = few ? batcher->entries : mem_zalloc(batch->count, sizeof(*entries));
    struct entry_result *results = few ? batcher->results : mem_zalloc(batch->count, sizeof(*results));

    if (!entries || !results) {
        /* It is written, so it must happen: a restart applies it. */
        (void)error_set(&batch->err, -ENOMEM, "no memory to apply a batch");
        batcher->failed = true;
        batcher->host.fatal(batcher->host.arg, &batch->err);
    } else {
        for (size_t i = 0; i < batch->count; i++)
            entries[i] = batch->offers[i].entry;
        usec_t began = batcher->host.applied ? batcher->host.now(batcher->host.arg) : 0, ended;

        ctl_apply(batcher->ctl, batch->write.seq, batch->at, entries, batch->count, results);
        if (batcher->host.applied) {
            ended = batcher->host.now(batcher->host.arg);
            batcher->host.applied(batcher->host.arg, ended - batch->at, ended - began);
        }
        batcher_answer_agents(batcher, batch->offers, batch->count, batch->write.seq);
        for (size_t i = 0; i < batch->count; i++)
            if (batch->offers[i].done)
                batch->offers[i].done(batch->offers[i].arg, &results[i]);
    }
    if (!few) {
        mem_free(entries);
        mem_free(results);
    }
}

static void commit_work(void *arg)
{
    struct batch *batch = arg;
    struct batcher *batcher = batch->batcher;
    usec_t began = batcher->host.now(batcher->host.arg);

    batch->result = store_commit(batcher->store, &batch->write, &batch->err);
    batch->took = batcher->host.now(batcher->host.arg) - began;
}

/* Two that were quick in a row, and the disk is believed to be. */
static void disk_judge(struct batcher *batcher, usec_t took)
{
    batcher->quick = took > QUICK_USEC ? 0 : batcher->quick + (batcher->quick < QUICK_ENOUGH);
}

static void room_tell(struct batcher *batcher, const struct error *err)
{
    if (batcher->full != (err != NULL) && batcher->host.full)
        batcher->host.full(batcher->host.arg, err);
    batcher->full = err != NULL;
}

/* No room in the store. Whoever waits for an answer gets it: nothing of theirs has happened. What cannot be refused,
 * such as the reports of nodes, waits with the batch. Beats are answered meanwhile, so that jobs run on. */
static int batch_park(struct batch *batch)
{
    struct batcher *batcher = batch->batcher;
    struct entry_result refused = { 0 };
    size_t kept = 0;

    room_tell(batcher, &batch->err);
    (void)no_room(&refused);
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->offers[i].done) {
            batch->offers[i].done(batch->offers[i].arg, &refused);
            entry_done(&batch->offers[i].entry);
        } else {
            batch->offers[kept++] = batch->offers[i];
        }
    }
    batch->count = kept;
    buf_clear(&batch->text);
    if (batch_write(batch) < 0)
        return error_set(&batch->err, -ENOMEM, "no memory for a batch");
    batch->write.batch = batch->text.data;
    batch->write.batch_size = batch->text.size;
    batcher->stuck = batch;
    batcher->retry = batcher->host.now(batcher->host.arg) + RETRY_EVERY;
    return 0;
}

static void batch_end(struct batch *batch)
{
    struct batcher *batcher = batch->batcher;
    bool parked = batch->result == -ENOSPC && batch_park(batch) == 0;

    if (!batch->write.lazy)
        disk_judge(batcher, batch->took);
    if (batch->result == 0) {
        room_tell(batcher, NULL);
        batcher->behind = batch->write.lazy;
        batch_apply(batch);
    } else if (!parked) {
        batcher->failed = true;
        batcher->host.fatal(batcher->host.arg, &batch->err);
    }
    if (!parked)
        batch_free(batch);
}

static void commit_done(void *arg)
{
    struct batch *batch = arg;
    struct batcher *batcher = batch->batcher;

    batcher->committing = false;
    batch_end(batch);
    batcher_turn(batcher);
}

/* Work for the worker; `committing` until it is done. */
static void work_start(struct batcher *batcher, void (*work)(void *), void (*done)(void *), void *arg)
{
    if (!arg || batcher->host.work(batcher->host.arg, work, done, arg) < 0) {
        struct error err;

        batcher->failed = true;
        (void)error_set(&err, -ENOMEM, "no memory for a batch");
        batcher->host.fatal(batcher->host.arg, &err);
        return;
    }
    batcher->committing = true;
}

static void tidy_work(void *arg)
{
    store_tidy(((struct batcher *)arg)->store);
}

static void tidy_done(void *arg)
{
    struct batcher *batcher = arg;

    batcher->committing = false;
    batcher_turn(batcher);
}

/* To wake a thread, and to be woken by it, costs more than a commit to a disk that answers at once. It is done here
 * while that is so: the next one that is slow is the last, and readers wait no longer than for that one. */
static bool batch_quick(const struct batcher *batcher, const struct batch *batch)
{
    return batch && (batcher->quick >= QUICK_ENOUGH || batch->write.lazy) && !batch->write.snapshot &&
           batch->rows.count < ROWS_MANY && batcher->host.alone && batcher->host.alone(batcher->host.arg);
}

/* A sync of what is behind. */
struct settling {
    struct batcher *batcher;
    struct error err;
    usec_t took;
    int result;
};

static void settle_work(void *arg)
{
    struct settling *settling = arg;
    struct batcher *batcher = settling->batcher;
    usec_t began = batcher->host.now(batcher->host.arg);

    settling->result = store_sync(batcher->store, &settling->err);
    settling->took = batcher->host.now(batcher->host.arg) - began;
}

static void settle_end(struct settling *settling)
{
    struct batcher *batcher = settling->batcher;

    batcher->behind = false;
    disk_judge(batcher, settling->took);
    if (settling->result < 0) {
        batcher->failed = true;
        batcher->host.fatal(batcher->host.arg, &settling->err);
    }
}

static void settle_done(void *arg)
{
    struct settling *settling = arg;
    struct batcher *batcher = settling->batcher;

    batcher->committing = false;
    settle_end(settling);
    mem_free(settling);
    batcher_turn(batcher);
}

bool batcher_behind(const struct batcher *batcher)
{
    return batcher->behind;
}

void batcher_settle(struct batcher *batcher)
{
    struct settling settling = { .batcher = batcher };

    if (!batcher->behind)
        return;
    settle_work(&settling);
    settle_end(&settling);
}

bool batcher_settled(struct batcher *batcher)
{
    struct settling *settling;

    if (batcher->behind && batcher->quick >= QUICK_ENOUGH)
        batcher_settle(batcher);
    if (!batcher->behind || batcher->committing)
        return !batcher->behind;
    settling = mem_zalloc(1, sizeof(*settling));
    if (settling)
        settling->batcher = batcher;
    work_start(batcher, settle_work, settle_done, settling);
    return false;
}

/* Whether a batch is due now; else it is said when one will be. */
static bool turn_due(struct batcher *batcher, usec_t now)
{
    usec_t wake, look;

    batcher_look_at_nodes(batcher, now);
    wake = ctl_next_wake(batcher->ctl);
    if (batcher->over.count == 0)
        batcher->rows_since = 0;
    else if (!batcher->rows_since)
        batcher->rows_since = now;
    if (batcher->rows_since && batcher->rows_since + ROWS_WAIT < wake)
        wake = batcher->rows_since + ROWS_WAIT; /* nothing else may come to write them with */
    if (batcher->queue.count && batcher->patient_until < wake)
        wake = batcher->patient_until;
    if ((batcher->queue.count && batcher->urgent) || wake <= now)
        return true;
    look = batcher->looked + BATCHER_LOOK_EVERY;
    batcher->host.wake_at(batcher->host.arg, wake < look ? wake : look);
    return false;
}

void batcher_turn(struct batcher *batcher)
{
    usec_t now = 0;

    if (batcher->committing || batcher->failed || batcher->config.ctl.virtual_time)
        return;
    for (int i = 0; i < QUICK_TURNS && !batcher->failed; i++) {
        struct batch *batch;

        now = batcher->host.now(batcher->host.arg);
        if (batcher->stuck) {
            if (now < batcher->retry)
                batcher->host.wake_at(batcher->host.arg, batcher->retry);
            else
                work_start(batcher, commit_work, commit_done, take(batcher->stuck));
            return;
        }
        if (store_due(batcher->store)) {
            work_start(batcher, tidy_work, tidy_done, batcher);
            return;
        }
        if (now < ctl_now(batcher->ctl))
            now = ctl_now(batcher->ctl); /* the clock went back; time here does not */
        if (!turn_due(batcher, now))
            return;
        batch = batch_new(batcher, now, false);
        if (batch)
            batch->write.lazy = batcher->host.settles && batch_lazy(batch);
        if (!batch_quick(batcher, batch)) {
            work_start(batcher, commit_work, commit_done, batch);
            return;
        }
        commit_work(batch);
        batch_end(batch);
        if (batcher->queue.count)
            break; /* that was one turn's work */
    }
    batcher->host.wake_at(batcher->host.arg, now); /* others are heard first */
}

int batcher_turn_at(struct batcher *batcher, usec_t at)
{
    struct batch *batch;
    int r;

    if (batcher->committing || batcher->failed)
        return -EBUSY;
    batch = batch_new(batcher, at, true);
    if (!batch)
        return -ENOMEM;
    commit_work(batch);
    r = batch->result;
    if (r == 0)
        batch_apply(batch);
    else
        batcher->failed = true;
    batch_free(batch);
    if (store_due(batcher->store))
        store_tidy(batcher->store);
    return r;
}

void batcher_free(struct batcher *batcher)
{
    if (!batcher)
        return;
    for (size_t i = 0; i < batcher->queue.count; i++)
        offer_drop(&batcher->queue.items[i]);
    mem_free(batcher->queue.items);
    if (batcher->stuck)
        batch_free(batcher->stuck);
    ctl_free(batcher->ctl);
    record_rows_done(&batcher->over);
    buf_done(&batcher->frame);
    mem_free(batcher);
}

/* The state as it is, and the finished jobs that only the batches it replaces could tell again. */
static int close_save(struct batcher *batcher, struct error *err)
{
    struct buf snapshot = BUF_INIT(SNAPSHOT_BYTES_MAX);
    struct batch *last = mem_zalloc(1, sizeof(*last));
    int r = last ? 0 : error_set(err, -ENOMEM, "no memory for a snapshot");

    if (last)
        take_rows(batcher, last, true);
    if (r == 0)
        r = ctl_save(batcher->ctl, &snapshot, err);
    if (r == 0) {
        struct store_write write = { .jobs = last->rows.rows,
                                     .job_count = last->rows.count,
                                     .snapshot = snapshot.data,
                                     .snapshot_size = snapshot.size,
                                     .snapshot_seq = ctl_seq(batcher->ctl) };

        r = store_commit(batcher->store, &write, err);
    }
    if (last)
        batch_free(last);
    buf_done(&snapshot);
    return r;
}

int batcher_close(struct batcher *batcher, struct error *err)
{
    struct batch *batch;
    int r;

    if (batcher->stuck) {
        /* Those who could be answered were; nodes tell the rest again. */
        batch_free(take(batcher->stuck));
        return error_set(err, -ENOSPC, "there was no room left in the store");
    }
    batch = batch_new(batcher, ctl_now(batcher->ctl), true);
    /* The batch is applied before the state is saved, so that the snapshot holds everything. */
    if (!batch)
        return error_set(err, -ENOMEM, "no memory for a snapshot");
    commit_work(batch);
    r = batch->result;
    if (r == 0)
        batch_apply(batch);
    else if (err)
        *err = batch->err;
    batch_free(batch);
    return r < 0 ? r : close_save(batcher, err);
}
