/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* dir.h - what is in a folder. */
#include <stdbool.h>

#include "base/error.h"
#include "base/names.h"

bool dir_is(const char *path);

/* The names in it, sorted by their bytes, without those that begin with a dot. */
int dir_list(const char *path, struct names *ret_names, struct error *err) __attribute__((warn_unused_result));
