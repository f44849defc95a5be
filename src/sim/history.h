/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* history.h - what earlier jobs needed in all, from a file: GPU-seconds, one a line, with or without a header. */
#include <stddef.h>

#include "base/error.h"
#include "base/units.h"

enum { HISTORY_LINES_MAX = 10000000 };

/* Reads the file (gzip too). *ret_services is taken with mem_free. -EINVAL with file, line and what was expected,
 * -ENOENT, -E2BIG, -ENOMEM. */
int history_read(const char *path, svc_t **ret_services, size_t *ret_count, struct error *err)
    __attribute__((warn_unused_result));
