/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* entries.h - entries of the log for the model, orders as its agents read them: the only file that knows how either is
 * written.
 */
#include <stdbool.h>
#include <stdint.h>

#include "ctl/state/state.h"

enum { ORDER_GPUS_MAX = 16, ORDER_KEEP_MAX = 256 };

/* What an agent tells of a task, or of a GPU (job 0). */
struct said {
    uint64_t seq;
    struct task_id id;
    enum task_state state;
    char cause[16];
    int exit, signal;
    bool oom, by_user; /* by_user: who is to blame for a refusal */
    int gpu;           /* -1: of a task */
    bool ok, foreign;
    int64_t rate; /* -1: no measure */
    bool saved;   /* a checkpoint */
};

struct keep_item {
    struct task_id id;
    bool fresh;
    int64_t born;
};

/* What an agent is told. */
struct order {
    bool keep;            /* the list of tasks it should have; else one order */
    enum order_kind kind; /* of an order */
    struct task_id id;    /* its rank is meaningful in a launch only */
    bool go, gate, guest;
    int64_t born, keep_ms; /* keep_ms -1: not told */
    char cause[16];        /* of a stop */
    usec_t end;
    uint32_t gpu_count, beside_count, keep_count;
    uint16_t gpus[ORDER_GPUS_MAX]; /* of the rank that is told */
    int64_t beside[ORDER_BESIDE_MAX];
    struct keep_item *items; /* owned; order_done() */
};

/* Each makes an entry that entry_done() ends. */
struct entry entry_submit(const char *user, const char *spec);
struct entry entry_cancel(int64_t job, bool now);
struct entry entry_act(enum entry_kind kind, int64_t job); /* hold release requeue suspend resume */
struct entry entry_signal(int64_t job, int number);
struct entry entry_set_number(int64_t job, const char *key, int64_t value);
struct entry entry_set_vc(int64_t job, const char *vc);
struct entry entry_join(const char *node, const char *agent, const char *boot, int gpus, const char *sku);
struct entry entry_silent(struct ctl *ctl, const char *node); /* with the launches that were told to nobody */
struct entry entry_back(const char *node);
struct entry entry_node(enum entry_kind kind, const char *node); /* lost forget */
struct entry entry_report(const char *node, const char *agent, const struct said *report);
/* gpu -1: the whole node; deadline 0: none. */
struct entry entry_drain(const char *node, int gpu, usec_t deadline, bool reboot);
struct entry entry_undrain(const char *node, int gpu);
struct entry entry_words(enum entry_kind kind, const char *json); /* config vc limits: as a person writes them */
struct entry entry_resv(const char *name, const char *nodes, usec_t start, usec_t end, usec_t lead);
struct entry entry_resv_remove(const char *name);
struct entry entry_solved(uint32_t vc, uint32_t ticket, const int64_t *words, uint32_t count);
struct entry entry_pause(bool paused);

/* As the log has it, and back; the text is the caller's. */
char *entry_write(const struct entry *entry);
struct entry entry_read(enum entry_kind kind, const char *text);

/* Whether it is one that an agent of the model knows. */
bool order_read(const json_t *frame, struct order *ret_order);
void order_done(struct order *order);
