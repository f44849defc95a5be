/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* constraint.h - which nodes a job is content with, by their labels: "ib&gen=h100|!old".
 *
 * Terms joined by '&' (or ',') must all hold, of groups joined by '|' one. A term is a label, or label=value; '!'
 * before it turns it round. Labels and values have letters, digits and -_./ only.
 */
#include <stdbool.h>

#include "base/error.h"

enum { CONSTRAINT_MAX = 1024 };

/* -EINVAL with the column. */
int constraint_check(const char *text, struct error *err);

/* The value of a label, "" where it has none; NULL: there is no such label. */
typedef const char *(*constraint_label_fn)(void *arg, const char *label);

/* Whether it holds; text was checked. */
bool constraint_holds(const char *text, constraint_label_fn label, void *arg);
