/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* lease_words.h - a lease problem and its plan as numbers: request and answer of SOLVE_LEASES (model/solve.h).
 *
 * Request: version, tasks, leases, sigma, nodes (of the search tree, at most), the capacity of each lease, then of
 * every task size, need, steps, and `last` and value of each step. Answer: enum lease_status, gap in millionths,
 * objective in thousandths, search nodes; then of every task the step it keeps and its leases, 64 in a word.
 */
#include "solve/lease.h"

enum { LEASE_REQUEST_HEAD = 5, LEASE_ANSWER_HEAD = 4, LEASE_MILP_CELLS = 1 << 16 };

enum lease_status { LEASE_NO_PLAN, LEASE_OPTIMAL, LEASE_LIMIT /* a plan, but perhaps not the best */, LEASE_UNKNOWN };

/* Words of a request; of its answer. */
uint32_t lease_request_size(const struct lease_problem *problem);
uint32_t lease_answer_size(const struct lease_problem *problem);

/* Writes the request. `out` has room for lease_request_size() words. */
void lease_request(const struct lease_problem *problem, int64_t nodes, int64_t *out);

/* Reads the plan of an answer; false if it has none, or one that does not hold for the problem. */
bool lease_answer(const struct lease_problem *problem, const int64_t *words, uint32_t count, struct lease_plan *plan);
