/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* fetch.h - `musterd fetch [CA]`: asks a web server one question, in a process of its own.
 *
 * Names that do not resolve and servers that do not answer are nothing for the controller's loop. Reads "URL\nFORM"
 * from standard input (secrets are in the form, so it is in no list of processes); an empty form is a GET. Prints the
 * status and, on the next line, the answer. HTTPS only, but for this machine itself; redirects are not followed.
 */
#include <stdbool.h>

enum { FETCH_BYTES_MAX = 1 << 18 };

int fetch_run(const char *ca);         /* the exit status; words on standard error */
bool fetch_url_good(const char *text); /* https, or http on the loopback */
