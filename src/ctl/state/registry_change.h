/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* registry_change.h - how the registry is changed: for the state machine alone. */
#include "ctl/state/registry.h"

struct ctl;
struct submission_edit;

int registry_init(struct registry *registry, const struct ctl_config *config);
void registry_done(struct registry *registry);
void registry_key_link(struct registry *registry, size_t index); /* it is found by its hash from now on */
struct ctl_job *registry_get(struct registry *registry, int64_t id);
struct ctl_job *registry_after(struct registry *registry, int64_t id); /* the next that is not over; NULL */
/* What its submission counts for; it is one that so many share. */
void job_weigh(struct registry *registry, struct ctl_job *job, size_t shared);
int registry_add(struct ctl *ctl, struct ctl_job *job);
void registry_compact(struct registry *registry); /* closes the gaps that ended jobs have left in the list */
void registry_outcome_put(struct registry *registry, int64_t id, enum phase_of_job phase);
struct ctl_array *ctl_array_hold(struct ctl_array *array); /* NULL stays NULL */
void ctl_array_drop(struct ctl_array *array);
void registry_retire(struct ctl *ctl, struct ctl_job *job);
void text_fit(char *to, size_t size, const char *text);                        /* as much as fits, whole characters */
struct ctl_spec *ctl_spec_new(const char *text, struct error *err);            /* a submission as a document */
void ctl_spec_share(struct ctl_spec *spec, const struct ctl_spec *other);      /* they are of one array */
void ctl_spec_edit(struct ctl_spec *spec, const struct submission_edit *edit); /* its words alone */
enum phase_of_job registry_outcome(const struct registry *registry,
                                   int64_t id); /* PHASE_JOB_COUNT: not known any more */
int ctl_attempt_add(struct ctl_job *job);
