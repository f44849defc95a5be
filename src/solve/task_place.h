/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* task_place.h - where the tasks of a job go: the fewest nodes, the same number of servers and of workers on each
 * (Optimus, EuroSys'18, section 4.2: what makes a synchronous job fastest). */
#include <stdint.h>

#include "solve/gain_alloc.h"

/* What a node has free. Of equal ones the lower number is taken first. */
struct task_node {
    double free[GAIN_RESOURCES];
};

struct task_request {
    double worker[GAIN_RESOURCES], server[GAIN_RESOURCES];
    int workers, servers;
    enum gain_resource by; /* the resource whose free amount orders the nodes */
};

/* Servers and workers on one node. */
struct task_part {
    uint32_t node;
    int workers, servers;
};

/* Fills parts, which has room for `count` as `order` has, and takes what is placed out of the nodes' free amounts. With
 * k = 1, 2, ... the k nodes with most room: task i goes to the i mod k-th. If no k works, as many as fit, servers and
 * workers in turn: then request->workers and ->servers become what was placed. Returns how many nodes are used, or
 * -EBUSY when not even one task of each kind asked for fits; then nothing was taken. */
int task_place(struct task_node *nodes, uint32_t count, struct task_request *request, struct task_part *parts,
               uint32_t *order);
