/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* forecast_internal.h - what forecast.c and rest_job_why.c share. */
#include "ctl/insight/forecast.h"
#include "ctl/insight/foresee.h"
#include "ctl/rest/render/render.h"

/* The job that is only thought of. */
#define PLAN_ID INT64_MAX
/* No job has this mark. */
#define PLAN_MARK MARKS_MAX

enum expect { EXPECT_LIKELY, EXPECT_LIMITS, EXPECT_SOON, EXPECT_COUNT };

struct expectation {
    enum expect how;
    bool guessed; /* somebody had neither estimate nor limit */
};

usec_t left_expected(void *arg, const struct job *job, usec_t now);

/* A core that goes on from the present; the caller's. -ENOENT: there is none yet. */
int core_copy(const struct server *server, struct core **ret_core, struct error *err);
/* The same, with nodes that scene->choice meets marked. */
int core_copy_choosing(const struct scene *scene, struct core **ret_core, struct error *err);

/* Its future; `until`: no further than the start of this job, 0 = all. Uses the core up. */
int future_of(const struct server *server, struct core *core, enum expect how, int64_t until, struct future *ret,
              bool *ret_guessed);

bool eta_range(const struct server *server, int64_t job, struct eta *ret_eta);

/* Parts of explanations that plans share: rest_job_why.c. */
void why_asks(const struct scene *scene, struct json_write *json, const struct jobspec *spec);
/* Licences it asks for: how many there are, who holds them. */
void why_licenses(const struct scene *scene, struct json_write *json, const struct jobspec *spec);
void why_eta(struct json_write *json, const char *key, const struct eta *eta);
/* "gpu[01-02]", ended by '\0'. */
void why_place(const struct scene *scene, const struct future *future, const struct foreseen *start, struct buf *out);
/* The future of a job like `spec`, put into a copy in place of `instead` (NULL: beside everybody). */
int why_start(const struct scene *scene, const struct jobspec *spec, uint32_t vc, const struct ctl_job *instead,
              struct future *ret_future, struct error *err);
/* Requests near this one, and whether they would start now. */
void why_shapes(const struct scene *scene, struct json_write *json, const char *key, const struct jobspec *spec,
                uint32_t vc, const struct ctl_job *instead);
