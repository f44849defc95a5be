/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* links.h - the connections of agents: frames in and out, and questions to them (docs/protocol.md).
 *
 * A node has one link; a new one of the same node takes the place of the old. What an agent reports goes to the
 * batcher; answers go to who asked.
 */
#include <jansson.h>

#include "ctl/http/http_server.h"

struct agent_frame;
struct links;
struct server;

int links_new(struct server *server, struct links **ret_links);
void links_stop(struct links *links); /* its timer */
void links_free(struct links *links); /* after all connections are closed */

/* GET /agent/v1 */
void links_accept(struct request *request);

void links_drop(struct links *links, const char *node); /* its certificate was revoked */
/* A frame to a node, borrowed. False: it is not connected, and nothing was or will be written. */
bool links_send(struct links *links, const char *node, const struct agent_frame *frame);
bool links_connected(const struct links *links, const char *node);
size_t links_count(const struct links *links);

/* Asks. answer() gets each answer (borrowed), `last` with the last; NULL and last when the node is gone or silent.
 * Returns the id, > 0; -ENOTCONN, -ENOMEM. Takes the body. */
typedef void (*links_answer_fn)(void *arg, json_t *answer, bool last);
int64_t links_ask(struct links *links, const char *node, json_t *body, links_answer_fn answer, void *arg);
/* More to the same id: input, resize. Takes the body. */
void links_ask_more(struct links *links, const char *node, int64_t id, json_t *body);
/* No more answers are wanted; the agent is told. */
void links_unask(struct links *links, const char *node, int64_t id);
