/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* listing.h - what is said of all processes at once: `ls`, `top`, `json`, `steps`, and `rows N`, the rows of a JSON
 * listing that was too long for one answer, from the number on that its `next` says. An answer to `rows` is rows, a
 * line break and the next number, or nothing.
 */
#include <stdbool.h>

struct node;

/* True: the line was one of these, and text[NODE_TEXT] has the answer. */
bool listing_answer(const struct node *node, const char *line, char *text);
