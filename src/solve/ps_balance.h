/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* ps_balance.h - which parameter server keeps which block of a model, and which worker is too slow (Optimus,
 * EuroSys'18, section 5). Pure functions of what is given; nothing is kept. */
#include <stdint.h>

enum { PS_SERVERS_MAX = 256 };

/* A block, or a slice of one that is larger than an even part of the model. */
struct ps_piece {
    int block;
    int server;
    double bytes;
};

struct ps_load {
    double bytes;
    int requests; /* update requests a step: one a piece */
};

/* Blocks come in descending order of size. Fills loads[servers] and, where `pieces` is not NULL, up to `max` pieces in
 * the order in which they were dealt. Returns how many pieces there are, or -EINVAL: no blocks, none or too many
 * servers, sizes that are not positive or not in order. */
int ps_balance(const double *blocks, int count, int servers, struct ps_load *loads, struct ps_piece *pieces, int max);

/* Marks workers slower than half the median speed: slow[i] becomes 1 or 0. Returns how many. */
int ps_stragglers(const double *speeds, int count, uint8_t *slow);
