/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* rounds.h - several optimizers a mini-batch: which of their steps is its end? Pure.
 *
 * A program with two networks steps one optimizer after the other, or one of them five times for each time of the
 * other; some optimizers call another inside. What repeats is one mini-batch. Before anything is seen to repeat, and
 * for a program with one optimizer, every step is an end.
 */
#include <stdbool.h>
#include <stdint.h>

#define ROUNDS_RING 64u
#define ROUNDS_MOST 16u  /* steps a mini-batch */
#define ROUNDS_CHECK 32u /* so many of the newest must repeat, where there are so many; and three rounds */

struct rounds {
    uint64_t count;
    uint32_t since;            /* steps after the last end */
    uint32_t period;           /* 0: nothing was seen */
    uint16_t ids[ROUNDS_RING]; /* of the newest steps */
    uint16_t one[ROUNDS_MOST]; /* a round, its last step last */
};

/* An optimizer has made a step: is it the last of its mini-batch? */
bool rounds_step(struct rounds *rounds, uint16_t which);
