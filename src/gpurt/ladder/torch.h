/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* torch.h - what PyTorch's own allocator says of a process, read on order at the end of a step: its answer and rows. */
#include <stdbool.h>
#include <stddef.h>

struct node;
struct client;
struct error;

/* Asks for it; the answer comes when a step has ended, at most ten seconds later. */
int torch_order(struct client *client, struct error *err);
void torch_done(struct node *node, struct client *client, int r);
/* What was read last: fields of a row of `json`, nothing where nothing was; a table for `top`. */
int torch_json(const struct client *client, char *text, size_t size);
size_t torch_text(const struct node *node, char *text, size_t size);
