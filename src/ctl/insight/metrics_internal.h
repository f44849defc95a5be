/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* metrics_internal.h - what metrics.c and metrics_vc.c share: lines of OpenMetrics. */
#include "ctl/insight/stats.h"
#include "ctl/rest/rest.h"

void metrics_family(struct buf *out, const char *name, const char *type, const char *help);
/* A label value: backslash, quote and line break escaped. */
void metrics_label(struct buf *out, const char *text);
/* labels: pairs of name and value, NULL at the end. */
void metrics_sample(struct buf *out, const char *name, const char *const *labels, double number);
void metrics_histogram(struct buf *out, const char *name, const char *const *labels, const struct histogram *histogram);
uint64_t histogram_all(const struct histogram *histogram);

#define LABELS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* metrics_vc.c: virtual clusters, jobs, what was used and lost. */
void metrics_vcs(const struct scene *scene, struct buf *out);
/* rest_licenses.c */
void metrics_licenses(const struct scene *scene, struct buf *out);
void metrics_jobs(const struct scene *scene, struct buf *out);
void metrics_finished(const struct scene *scene, struct buf *out);
void metrics_lost(const struct scene *scene, struct buf *out);
