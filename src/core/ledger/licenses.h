/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* licenses.h - licences that the whole cluster shares; see licenses.c. */
#include "base/bits.h"
#include "model/cluster.h"

struct audit;
struct core;
struct job;

struct licenses {
    uint32_t count;               /* kinds */
    uint32_t total[LICENSES_MAX]; /* there are */
    uint64_t held[LICENSES_MAX];  /* more than there are only after their number was lowered */
    uint64_t dirty;               /* bit i: of kind i another number is free than jobs were last looked at with */
    struct bits waits, looks;     /* jobs that ask for some: those that wait, those to be looked at */
};

void licenses_build(struct core *core, const struct cluster_spec *spec, bool *failed);
void licenses_move(struct core *core, const struct job *job, uint8_t from, uint8_t to);
void licenses_wait(struct core *core, uint32_t job, bool waits);
bool licenses_allow(const struct core *core, const struct job *job);
void licenses_settle(struct core *core, bool wakes); /* as users_settle; vc->shorted: whose jobs were set aside */
bool licenses_unsettled(const struct core *core);
void licenses_look(struct core *core, uint32_t job);
int licenses_check(const struct core *core, const struct jobspec *spec, struct error *err);
int licenses_restore(struct core *core);
void licenses_audit(const struct core *core, struct audit *audit);
