/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* context.h - which controller, and with which token: ~/.config/muster/config.yaml.
 *
 *     current: lab
 *     contexts:
 *       lab: {url: "https://controller:7717", token: ..., ca: /path/to/ca.pem}
 *
 * MUSTER_URL, MUSTER_TOKEN and MUSTER_CONTEXT go before it. The file is readable by its owner alone.
 */
#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

struct context {
    char name[64]; /* "" = not of the file */
    char url[256], token[256], ca[256];
    bool local;       /* the token is that of a musterd --dev of this user, if there is one */
    const char *from; /* "--url", "MUSTER_URL", "context", "default" */
};

/* What is to be used now. url and name: of flags, or NULL. */
int context_load(const char *url, const char *name, struct context *ret_context, struct error *err);

/* The whole file as {"current","contexts":{NAME:{url,token,ca}}}; empty where there is none. */
int context_file_read(json_t **ret_file, struct error *err);
int context_file_write(json_t *file, struct error *err);
/* Owned by the caller. */
char *context_path(void);
