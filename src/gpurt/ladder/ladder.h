/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* ladder.h - a process up and down the rungs, and who watches it there. */
#include "gpurt/node.h"

/* ladder.c: pause, evict, release and back. 0, or -errno with the words in err. */
int ladder_order(struct node *node, struct client *client, enum client_state goal, struct error *err);
/* -EIO: the driver has given it up, and it takes no orders. */
int ladder_usable(const struct client *client, struct error *err);
/* Application checkpoint, the last rung: resumes the process; where it defines muster_on_checkpoint() that is called at
 * the end of a step within `save_s`, else (or with 0) it is sent the signal. One that would be ended by that without
 * having been saved is left alone, unless forced. SAVE_END: it is ended when it has saved itself, by SIGTERM and, when
 * another `save_s` are over, by SIGKILL; one that has not is left alone, unless forced. */
int ladder_signal(struct node *node, struct client *client, int number, uint32_t save_s, uint32_t how,
                  struct error *err);
/* Another limit of GPU number `gpu`, as the process counts them, or with -1 of each: its memory follows, one GPU after
 * the other, and the answer comes when all are there. */
int ladder_memory(struct node *node, struct client *client, int gpu, uint64_t bytes, struct error *err);
/* `steps` of it with its neighbours closed: how long they are, and what "alone" is from now on. */
int ladder_baseline(struct node *node, struct client *client, uint32_t steps, struct error *err);
/* Of one that is paused or further down: it lets go of us for `seconds` of its own time, so that an image can be taken.
 */
int ladder_dump(struct node *node, struct client *client, uint32_t seconds, struct error *err);
void save_turn(struct node *node, struct client *client);         /* while it is being ended */
void save_done(struct node *node, struct client *client, int r);  /* the answer to a checkpoint of its own */
void order_done(struct node *node, struct client *client, int r); /* the answer to either */
/* Its socket has closed: whoever waits for it is told. */
void ladder_gone(struct node *node, struct client *client);
void ladder_turn(struct node *node, struct client *client);
void ladder_tell(struct node *node, const struct client *client, const char *how, const char *detail);
/* A move of ours: down to `bytes` on its GPU number `gpu`, or home by up to so many. False: it is busy. */
bool ladder_spill(struct client *client, uint32_t gpu, uint64_t bytes);
void ladder_again(struct client *client, uint32_t gpu, uint64_t bytes); /* a spill of one that is paused */
bool ladder_promote(struct client *client, uint32_t gpu, uint64_t bytes);
void ladder_adopt(struct node *node, struct client *client);
void ladder_orphans(struct node *node); /* released processes whose guardians are gone */

/* guardian.c */
#define GUARDIAN_NS 5000000000ULL                                     /* a guardian has opened the driver by then */
int guardian_connect(struct node *node, const struct client *client); /* its socket, -1 none */
int guardian_start(struct node *node, struct client *client);
void guardian_drop(struct client *client);
/* What it said to the step under way, if anything: 1 `expect`, 0 not yet, -1 failed (text tells). */
int guardian_look(struct node *node, struct client *client, const char *expect, char *text, size_t size);
/* While one is released: we are here. 1: it is not, says the guardian; -EIO: the driver has given the process up. */
int guardian_claim(struct node *node, struct client *client);
bool guardian_failed(const struct node *node, const struct client *client); /* so says the journal */

/* rungs.c: the rungs' estimates for a process, as a table; the one that frees so much; what a step has taught. */
void rungs_text(const struct node *node, const struct client *client, uint64_t free_bytes, char *text, size_t size);
enum estimate_rung rungs_choose(const struct node *node, const struct client *client, uint64_t free_bytes);
void rungs_learn(struct node *node, const struct client *client, enum ladder_step step);
