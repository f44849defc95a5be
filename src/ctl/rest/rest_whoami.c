/* SPDX-License-Identifier: Apache-2.0 */
/* rest_whoami.c - GET /whoami: the authenticated user and role. */
#include "ctl/rest/rest.h"

void rest_whoami(struct request *request)
{
    const struct principal *who = &request->who;

    reply_tree(request, 200,
               json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:o}", "apiVersion", "v1", "kind", "Principal", "user",
                         who->user, "uid", who->has_uid ? json_integer(who->uid) : json_null(), "role",
                         role_name(who->role), "scope", who->scope, "via", who->via, "token",
                         who->token[0] ? json_string(who->token) : json_null()));
}
