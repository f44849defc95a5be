/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* join.h - a node becomes one of a cluster: a key of its own, a request, the certificate that is given for it. */
#include <stddef.h>

#include "base/error.h"

/* Asks the controller and keeps key, certificate, authority and URL in the state directory. -EACCES: the token was
 * refused, or the controller is not the one the token is of. */
int join_cluster(const char *url, const char *token, const char *node, const char *state, struct error *err);

/* The controller that was joined, and the name it was joined as. -ENOENT. */
int join_url(const char *state, char *out, size_t size);
int join_node(const char *state, char *out, size_t size);
