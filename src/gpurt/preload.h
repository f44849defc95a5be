/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* preload.h - where the library is that stands in front of a program's driver, and what belongs to it. */
#include <stdbool.h>

#include "base/error.h"

/* Beside `program`, in ../lib of it or of its folder, or where MUSTER_GPU_LIBRARY says. Into library[PATH_MAX]. */
int preload_find(const char *program, char *library, struct error *err);

/* Into folder[PATH_MAX] the one of sitecustomize.py, for a Python that the library cannot look into. False: there is
 * none. */
bool preload_python(const char *library, char *folder);
