/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* alloc.h - the only place that asks the system for memory.
 *
 * Every call can be told to fail, so that a test can walk through a function once per allocation. Counts are in
 * elements and checked for overflow. NULL means -ENOMEM.
 */
#include <stddef.h>

#include "base/cleanup.h"

void *mem_zalloc(size_t count, size_t size) __attribute__((malloc, warn_unused_result));

/* Grows or shrinks; the new part is not cleared. On failure the old block stands. */
void *mem_resize(void *block, size_t count, size_t size) __attribute__((warn_unused_result));

void mem_free(void *block);

char *mem_strdup(const char *text) __attribute__((malloc, warn_unused_result));

/* Makes the n-th allocation from now on fail (1 = the next). 0 turns it off. For tests. */
void mem_fail_at(size_t nth);

/* Doubles *capacity until it holds `need` elements, up to `max`. 0, -ENOMEM, or -E2BIG when need > max. */
int mem_grow(void **block, size_t *capacity, size_t need, size_t max, size_t size) __attribute__((warn_unused_result));

DEFINE_CLEANUP(char *, mem_free)
