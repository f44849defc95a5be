/* SPDX-License-Identifier: Apache-2.0 */
/* drive.c - see drive.h.
 *
 *   offers ─► put aside ─► (turn ends) ─► one batch ─► committed on the worker ─► applied ─► answered, orders sent
 *                              ▲                                                     │
 *                              └──────────── what came meanwhile is the next ◄───────┘
 *
 * A batch is {"at":..., "e":[["submit",{...}], ...]}. Finished jobs and snapshots travel with the batch that follows
 * them; a crash before that replays the batch that made them, and makes them again.
 */
#include "ctl/drive.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "ctl/book.h"
#include "ctl/drive_part.h"
#include "ctl/part.h"
#include "ctl/record.h"
#include "wire/json_quick.h"
#include "wire/json_write.h"

#define SNAPSHOT_BYTES_MAX ((size_t)1 << 31)

#define RETRY_EVERY USEC_SEC /* where there was no room */
#define ROWS_WAIT (200 * USEC_MSEC)
#define REPORTS_WAIT (3 * USEC_MSEC)
#define QUICK_USEC (4 * USEC_MSEC)
enum { ROWS_MANY = 256, QUICK_ENOUGH = 2, QUICK_TURNS = 4 };

/* What is being committed. */
struct flight {
    struct drive *drive;
    struct offer *offers;
    size_t count;
    usec_t at;
    struct buf text;
    struct store_job *rows;
    size_t row_count;
    struct buf snapshot;
    uint64_t snapshot_seq;
    struct store_write write;
    struct error err;
    usec_t took;
    int result;
};

struct ctl *drive_ctl(struct drive *drive)
{
    return drive->ctl;
}

bool drive_quiet(const struct drive *drive)
{
    return drive->stuck || (drive->offer_count == 0 && !drive->flying);
}

/* Puts an entry aside; takes what it holds. */
static int push(struct drive *drive, struct entry entry, drive_done_fn done, void *arg)
{
    void *block = drive->offers;
    int r = mem_grow(&block, &drive->offer_capacity, drive->offer_count + 1, (size_t)1 << 24, sizeof(*drive->offers));

    drive->offers = block;
    if (r < 0) {
        entry_done(&entry);
        return r;
    }
    drive->offers[drive->offer_count++] = (struct offer){ entry, done, arg };
    return 0;
}

int drive_push(struct drive *drive, enum entry_kind kind, json_t *body, drive_done_fn done, void *arg)
{
    drive->urgent = true;
    return push(drive, (struct entry){ .kind = kind, .body = body }, done, arg);
}

/* With nobody in the queue, and nobody who asks, the end of a job is news to nobody: it is written with the next batch,
 * or a moment later. That saves a sync for each job of who submits one after the other. */
int drive_push_report(struct drive *drive, json_t *body)
{
    const struct core *core = ctl_core(drive->ctl);
    bool patient = !drive->urgent && drive->host.awaited && !drive->host.awaited(drive->host.arg) && core &&
                   core_waiting(core) == 0;
    int r = push(drive, (struct entry){ .kind = ENTRY_REPORT, .body = body }, NULL, NULL);

    drive->urgent = !patient;
    if (drive->offer_count == 1)
        drive->patient_until = drive->host.now(drive->host.arg) + REPORTS_WAIT;
    return r;
}

void drive_hurry(struct drive *drive)
{
    drive->urgent = drive->offer_count > 0;
}

static int no_room(struct entry_result *ret)
{
    return ret->code =
               error_set(&ret->text, -EAGAIN, "the controller's disk is full: nothing is taken until there is room");
}

static int offer(struct drive *drive, struct entry entry, drive_done_fn done, void *arg, struct entry_result *ret)
{
    struct entry_result scratch, *result = ret ? ret : &scratch;
    int r = ctl_check(drive->ctl, &entry, result);

    if (r == 0 && drive->full)
        r = no_room(result);
    else if (r == 0 && (drive->offer_count >= drive->config.pending_max || drive->failed))
        r = result->code = error_set(&result->text, -EAGAIN, "the controller is busy: %zu requests wait to be written",
                                     drive->offer_count);
    if (r < 0) {
        entry_done(&entry);
        return r;
    }
    drive->urgent = true;
    r = push(drive, entry, done, arg);
    if (r < 0)
        result->code = error_set(&result->text, r, "no memory");
    return r;
}

int drive_offer(struct drive *drive, enum entry_kind kind, json_t *body, drive_done_fn done, void *arg,
                struct entry_result *ret)
{
    return offer(drive, (struct entry){ .kind = kind, .body = body }, done, arg, ret);
}

int drive_offer_submit(struct drive *drive, json_t *body, struct submission *spec, drive_done_fn done, void *arg,
                       struct entry_result *ret)
{
    struct entry entry = { ENTRY_SUBMIT, body, book_spec_take(json_object_get(body, "spec"), spec) };

    return offer(drive, entry, done, arg, ret);
}

static void flight_free(struct flight *flight)
{
    for (size_t i = 0; i < flight->count; i++)
        entry_done(&flight->offers[i].entry);
    mem_free(flight->offers);
    buf_done(&flight->text);
    record_rows_free(flight->rows, flight->row_count);
    buf_done(&flight->snapshot);
    mem_free(flight);
}

static void take_rows(struct drive *drive, struct flight *flight, bool all)
{
    /* Several together change fewer pages; until then the batches that made them are there. */
    if (!all && ctl_done_count(drive->ctl) < ROWS_MANY && flight->at - drive->rows_since < ROWS_WAIT)
        return;
    drive->rows_since = 0;
    flight->rows = ctl_take_done(drive->ctl, &flight->row_count);
}

static int batch_write(struct flight *flight)
{
    struct buf *out = &flight->text;

    buf_text(out, "{\"at\":");
    json_put_i64(out, flight->at);
    buf_text(out, ",\"e\":[");
    for (size_t i = 0; i < flight->count; i++) {
        buf_text(out, i ? ",[\"" : "[\"");
        buf_text(out, entry_name(flight->offers[i].entry.kind));
        buf_text(out, "\",");
        json_put(out, flight->offers[i].entry.body);
        buf_char(out, ']');
    }
    buf_text(out, "]}");
    return out->error;
}

/* Everything put aside, and what has to be written with it; `all`: the finished jobs that could wait too. */
static struct flight *flight_new(struct drive *drive, usec_t at, bool all)
{
    struct flight *flight = mem_zalloc(1, sizeof(*flight));
    bool save;

    if (!flight)
        return NULL;
    flight->drive = drive;
    flight->at = at;
    flight->offers = drive->offers;
    flight->count = drive->offer_count;
    flight->text = flight->snapshot = (struct buf)BUF_INIT(SNAPSHOT_BYTES_MAX);
    drive->offers = NULL;
    drive->offer_count = drive->offer_capacity = 0;
    drive->urgent = false;
    drive->since_snapshot += flight->count;
    save = drive->config.snapshot_every && drive->since_snapshot >= drive->config.snapshot_every;
    /* The batches before a snapshot go: what they made must be written by then. */
    take_rows(drive, flight, save || all);
    if (batch_write(flight) < 0) {
        flight_free(flight);
        return NULL;
    }
    if (save && ctl_save(drive->ctl, &flight->snapshot, &flight->err) == 0) {
        flight->snapshot_seq = ctl_seq(drive->ctl);
        drive->since_snapshot = 0;
    }
    flight->write = (struct store_write){ .seq = ctl_seq(drive->ctl) + 1,
                                          .batch = flight->text.data,
                                          .batch_size = flight->text.size,
                                          .jobs = flight->rows,
                                          .job_count = flight->row_count,
                                          .snapshot = flight->snapshot.size ? flight->snapshot.data : NULL,
                                          .snapshot_size = flight->snapshot.size,
                                          .snapshot_seq = flight->snapshot_seq };
    return flight;
}

/* What agents report changes nothing that cannot be told again: they keep it until they have heard that it is durable.
 * So the sync may wait for the next batch, or for the first word that is to go to an agent. */
static bool flight_lazy(const struct flight *flight)
{
    for (size_t i = 0; i < flight->count; i++)
        if (flight->offers[i].entry.kind != ENTRY_REPORT || flight->offers[i].done)
            return false;
    return flight->count > 0 && !flight->write.snapshot && !flight->row_count;
}

/* The batch is durable, or as good: it happens now. */
static void land(struct flight *flight)
{
    struct drive *drive = flight->drive;
    bool few = flight->count <= LANDING_FEW; /* mostly one or two, and a result is large */
    struct entry *entries = few ? drive->entries : mem_zalloc(flight->count, sizeof(*entries));
    struct entry_result *results = few ? drive->results : mem_zalloc(flight->count, sizeof(*results));

    if (!entries || !results) {
        /* It is written, so it must happen: a restart applies it. */
        (void)error_set(&flight->err, -ENOMEM, "no memory to apply a batch");
        drive->failed = true;
        drive->host.fatal(drive->host.arg, &flight->err);
    } else {
        for (size_t i = 0; i < flight->count; i++)
            entries[i] = flight->offers[i].entry;
        usec_t began = drive->host.applied ? drive->host.now(drive->host.arg) : 0, ended;

        ctl_apply(drive->ctl, flight->write.seq, flight->at, entries, flight->count, results);
        if (drive->host.applied) {
            ended = drive->host.now(drive->host.arg);
            drive->host.applied(drive->host.arg, ended - flight->at, ended - began);
        }
        drive_answer_agents(drive, flight->offers, flight->count, flight->write.seq);
        for (size_t i = 0; i < flight->count; i++)
            if (flight->offers[i].done)
                flight->offers[i].done(flight->offers[i].arg, &results[i]);
    }
    if (!few) {
        mem_free(entries);
        mem_free(results);
    }
}

static void commit_work(void *arg)
{
    struct flight *flight = arg;
    struct drive *drive = flight->drive;
    usec_t began = drive->host.now(drive->host.arg);

    flight->result = store_commit(drive->store, &flight->write, &flight->err);
    flight->took = drive->host.now(drive->host.arg) - began;
}

/* Two that were quick in a row, and the disk is believed to be. */
static void disk_judge(struct drive *drive, usec_t took)
{
    drive->quick = took > QUICK_USEC ? 0 : drive->quick + (drive->quick < QUICK_ENOUGH);
}

static void room_tell(struct drive *drive, const struct error *err)
{
    if (drive->full != (err != NULL) && drive->host.full)
        drive->host.full(drive->host.arg, err);
    drive->full = err != NULL;
}

/* No room in the store. Whoever waits for an answer gets it: nothing of theirs has happened. What cannot be refused,
 * such as the reports of nodes, waits with the batch. Beats are answered meanwhile, so that jobs run on. */
static int flight_park(struct flight *flight)
{
    struct drive *drive = flight->drive;
    struct entry_result refused = { 0 };
    size_t kept = 0;

    room_tell(drive, &flight->err);
    (void)no_room(&refused);
    for (size_t i = 0; i < flight->count; i++) {
        if (flight->offers[i].done) {
            flight->offers[i].done(flight->offers[i].arg, &refused);
            entry_done(&flight->offers[i].entry);
        } else {
            flight->offers[kept++] = flight->offers[i];
        }
    }
    flight->count = kept;
    buf_clear(&flight->text);
    if (batch_write(flight) < 0)
        return error_set(&flight->err, -ENOMEM, "no memory for a batch");
    flight->write.batch = flight->text.data;
    flight->write.batch_size = flight->text.size;
    drive->stuck = flight;
    drive->retry = drive->host.now(drive->host.arg) + RETRY_EVERY;
    return 0;
}

static void flight_end(struct flight *flight)
{
    struct drive *drive = flight->drive;
    bool parked = flight->result == -ENOSPC && flight_park(flight) == 0;

    if (!flight->write.lazy)
        disk_judge(drive, flight->took);
    if (flight->result == 0) {
        room_tell(drive, NULL);
        drive->behind = flight->write.lazy;
        land(flight);
    } else if (!parked) {
        drive->failed = true;
        drive->host.fatal(drive->host.arg, &flight->err);
    }
    if (!parked)
        flight_free(flight);
}

static void commit_done(void *arg)
{
    struct flight *flight = arg;
    struct drive *drive = flight->drive;

    drive->flying = false;
    flight_end(flight);
    drive_turn(drive);
}

/* Work for the worker; `flying` until it is done. */
static void work_start(struct drive *drive, void (*work)(void *), void (*done)(void *), void *arg)
{
    if (!arg || drive->host.work(drive->host.arg, work, done, arg) < 0) {
        struct error err;

        drive->failed = true;
        (void)error_set(&err, -ENOMEM, "no memory for a batch");
        drive->host.fatal(drive->host.arg, &err);
        return;
    }
    drive->flying = true;
}

static void tidy_work(void *arg)
{
    store_tidy(((struct drive *)arg)->store);
}

static void tidy_done(void *arg)
{
    struct drive *drive = arg;

    drive->flying = false;
    drive_turn(drive);
}

/* To wake a thread, and to be woken by it, costs more than a commit to a disk that answers at once. It is done here
 * while that is so: the next one that is slow is the last, and readers wait no longer than for that one. */
static bool flight_quick(const struct drive *drive, const struct flight *flight)
{
    return flight && (drive->quick >= QUICK_ENOUGH || flight->write.lazy) && !flight->write.snapshot &&
           flight->row_count < ROWS_MANY && drive->host.alone && drive->host.alone(drive->host.arg);
}

/* A sync of what is behind. */
struct settling {
    struct drive *drive;
    struct error err;
    usec_t took;
    int result;
};

static void settle_work(void *arg)
{
    struct settling *settling = arg;
    struct drive *drive = settling->drive;
    usec_t began = drive->host.now(drive->host.arg);

    settling->result = store_sync(drive->store, &settling->err);
    settling->took = drive->host.now(drive->host.arg) - began;
}

static void settle_end(struct settling *settling)
{
    struct drive *drive = settling->drive;

    drive->behind = false;
    disk_judge(drive, settling->took);
    if (settling->result < 0) {
        drive->failed = true;
        drive->host.fatal(drive->host.arg, &settling->err);
    }
}

static void settle_done(void *arg)
{
    struct settling *settling = arg;
    struct drive *drive = settling->drive;

    drive->flying = false;
    settle_end(settling);
    mem_free(settling);
    drive_turn(drive);
}

bool drive_behind(const struct drive *drive)
{
    return drive->behind;
}

void drive_settle(struct drive *drive)
{
    struct settling settling = { .drive = drive };

    if (!drive->behind)
        return;
    settle_work(&settling);
    settle_end(&settling);
}

bool drive_settled(struct drive *drive)
{
    struct settling *settling;

    if (drive->behind && drive->quick >= QUICK_ENOUGH)
        drive_settle(drive);
    if (!drive->behind || drive->flying)
        return !drive->behind;
    settling = mem_zalloc(1, sizeof(*settling));
    if (settling)
        settling->drive = drive;
    work_start(drive, settle_work, settle_done, settling);
    return false;
}

/* Whether a batch is due now; else it is said when one will be. */
static bool turn_due(struct drive *drive, usec_t now)
{
    usec_t wake, look;

    drive_look_at_nodes(drive, now);
    wake = ctl_next_wake(drive->ctl);
    if (ctl_done_count(drive->ctl) == 0)
        drive->rows_since = 0;
    else if (!drive->rows_since)
        drive->rows_since = now;
    if (drive->rows_since && drive->rows_since + ROWS_WAIT < wake)
        wake = drive->rows_since + ROWS_WAIT; /* nothing else may come to write them with */
    if (drive->offer_count && drive->patient_until < wake)
        wake = drive->patient_until;
    if ((drive->offer_count && drive->urgent) || wake <= now)
        return true;
    look = drive->looked + DRIVE_LOOK_EVERY;
    drive->host.wake_at(drive->host.arg, wake < look ? wake : look);
    return false;
}

void drive_turn(struct drive *drive)
{
    usec_t now = 0;

    if (drive->flying || drive->failed || drive->config.ctl.virtual_time)
        return;
    for (int i = 0; i < QUICK_TURNS && !drive->failed; i++) {
        struct flight *flight;

        now = drive->host.now(drive->host.arg);
        if (drive->stuck) {
            if (now < drive->retry)
                drive->host.wake_at(drive->host.arg, drive->retry);
            else
                work_start(drive, commit_work, commit_done, take(drive->stuck));
            return;
        }
        if (store_due(drive->store)) {
            work_start(drive, tidy_work, tidy_done, drive);
            return;
        }
        if (now < ctl_now(drive->ctl))
            now = ctl_now(drive->ctl); /* the clock went back; time here does not */
        if (!turn_due(drive, now))
            return;
        flight = flight_new(drive, now, false);
        if (flight)
            flight->write.lazy = drive->host.settles && flight_lazy(flight);
        if (!flight_quick(drive, flight)) {
            work_start(drive, commit_work, commit_done, flight);
            return;
        }
        commit_work(flight);
        flight_end(flight);
    }
    drive->host.wake_at(drive->host.arg, now); /* others are heard first */
}

int drive_turn_at(struct drive *drive, usec_t at)
{
    struct flight *flight;
    int r;

    if (drive->flying || drive->failed)
        return -EBUSY;
    flight = flight_new(drive, at, true);
    if (!flight)
        return -ENOMEM;
    commit_work(flight);
    r = flight->result;
    if (r == 0)
        land(flight);
    else
        drive->failed = true;
    flight_free(flight);
    if (store_due(drive->store))
        store_tidy(drive->store);
    return r;
}

void drive_free(struct drive *drive)
{
    if (!drive)
        return;
    for (size_t i = 0; i < drive->offer_count; i++)
        entry_done(&drive->offers[i].entry);
    mem_free(drive->offers);
    if (drive->stuck)
        flight_free(drive->stuck);
    ctl_free(drive->ctl);
    mem_free(drive);
}

/* The state as it is, and the finished jobs that only the batches it replaces could tell again. */
static int close_save(struct drive *drive, struct error *err)
{
    struct buf snapshot = BUF_INIT(SNAPSHOT_BYTES_MAX);
    struct flight *last = mem_zalloc(1, sizeof(*last));
    int r = last ? 0 : error_set(err, -ENOMEM, "no memory for a snapshot");

    if (last)
        take_rows(drive, last, true);
    if (r == 0)
        r = ctl_save(drive->ctl, &snapshot, err);
    if (r == 0) {
        struct store_write write = { .jobs = last->rows,
                                     .job_count = last->row_count,
                                     .snapshot = snapshot.data,
                                     .snapshot_size = snapshot.size,
                                     .snapshot_seq = ctl_seq(drive->ctl) };

        r = store_commit(drive->store, &write, err);
    }
    if (last)
        flight_free(last);
    buf_done(&snapshot);
    return r;
}

int drive_close(struct drive *drive, struct error *err)
{
    struct flight *flight;
    int r;

    if (drive->stuck) {
        /* Those who could be answered were; nodes tell the rest again. */
        flight_free(take(drive->stuck));
        return error_set(err, -ENOSPC, "there was no room left in the store");
    }
    flight = flight_new(drive, ctl_now(drive->ctl), true);
    /* The batch is applied before the state is saved, so that the snapshot holds everything. */
    if (!flight)
        return error_set(err, -ENOMEM, "no memory for a snapshot");
    commit_work(flight);
    r = flight->result;
    if (r == 0)
        land(flight);
    else if (err)
        *err = flight->err;
    flight_free(flight);
    return r < 0 ? r : close_save(drive, err);
}
