/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* local_token.h - the token of a controller that was started with --dev, in a file of the user who started it.
 *
 * The file is named by the port of the controller and lies in the first of these folders that there is or can be made:
 * /run/user/UID/muster-dev (root: /run/muster-dev), XDG_RUNTIME_DIR/muster-dev, HOME/.cache/muster-dev. A folder or
 * file that another user owns or can open is not believed.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { LOCAL_TOKEN_MAX = 128 };

/* Makes the file, mode 0600; *ret_path is where it is. */
int local_token_put(unsigned int port, const char *token, char *ret_path, size_t size, struct error *err);
/* -ENOENT: no controller of this user is known at that port. */
int local_token_get(unsigned int port, char *ret_token, size_t size);
/* The same for "http://127.0.0.1:PORT", also of localhost and [::1]; other addresses have no such token. */
int local_token_of_url(const char *url, char *ret_token, size_t size);
void local_token_remove(unsigned int port);
/* Whether those who listen at that port of this machine are this user or root. Where the kernel does not tell: true. */
bool local_port_ours(unsigned int port);
/* The path of the Unix socket of the controller at that port. -ENOENT: no folder; -ENAMETOOLONG. */
int local_token_socket(unsigned int port, char *ret_path, size_t size);
