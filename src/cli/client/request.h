/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* request.h - the flags of submit, run, shell and plan, and the request they make. */
#include "cli/client/client.h"

/* Options made of wire/job/job_request.h; filled once. */
const struct opt *request_opts(void);

enum request_form {
    REQUEST_SCRIPT,  /* words: SCRIPT [ARGS...] */
    REQUEST_COMMAND, /* words: the command, on every node */
    REQUEST_RUN,     /* the same, and standard input is carried to it */
};

/* The canonical submission, owned by the caller. Zero, or an exit code; the problem is printed. */
int request_make(const struct command_args *args, enum request_form form, char **ret_json);

/* Submits it, trying again while the controller is busy: the key makes sure that it is there once. */
int request_post(struct client *client, const char *path, const char *json, struct answer *ret,
                 struct problem *problem);
