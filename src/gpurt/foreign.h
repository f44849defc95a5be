/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* foreign.h - what NVIDIA's management library says of the GPUs: how much is in use, and by whom that never registered.
 *
 * A process without the library, or with it switched off, is seen here and shown. It is no partner of anybody: it gets
 * no gate and no limit, and what it and the driver hold is left to them when memory is divided. Without the library
 * whoever has a GPU open is seen (seen.h), every five seconds.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { FOREIGN_MAX = 64 };

struct foreign {
    pid_t pid;
    uint64_t bytes;
    uint8_t uuid[16]; /* of the GPU */
};

struct node;
struct gpus;

struct foreigners {
    struct gpus *gpus; /* NULL, or none in it: no such library */
    uint64_t seen_ns;
    uint32_t count;
    struct foreign one[FOREIGN_MAX];
};

void foreign_open(struct node *node);
void foreign_close(struct node *node);
/* "GPU-40404040-4040-..." as 16 bytes. */
bool foreign_uuid(const char *text, uint8_t *ret);
/* Looks again when a second has passed. */
void foreign_turn(struct node *node, uint64_t now);
/* Rows of a listing, as `ls` and `json` have them; how many characters. `any`: others came before. */
size_t foreign_text(const struct node *node, char *text, size_t size);
size_t foreign_json(const struct node *node, bool any, char *text, size_t size);
