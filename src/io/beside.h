/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* beside.h - the other programs of an installation. */
#include <stddef.h>

/* The path of a program that was installed, or built, together with this one. -ENOENT: it is not there. */
int beside_find(const char *name, char *path, size_t size) __attribute__((warn_unused_result));
