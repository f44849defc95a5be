/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cli.h - what the verbs of the command line share: exit codes, errors, files named on the command line. */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { CODE_DONE, CODE_FAILED, CODE_USAGE, CODE_NOT_FOUND, CODE_DENIED, CODE_CONFLICT, CODE_REFUSED };

/* "muster: error: TEXT"; the exit code that fits the errno. */
int cli_fail(int code, const struct error *err);

/* argp in the way all verbs use it: "muster VERB" in messages, exit 2 on usage errors. */
struct argp;
int cli_parse(const struct argp *argp, int argc, char **argv, void *input);
