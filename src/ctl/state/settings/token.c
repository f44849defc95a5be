/* SPDX-License-Identifier: Apache-2.0 */
/* token.c - tokens of users and agents. The state has hashes, never the tokens themselves. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/state/state_internal.h"

enum { TOKENS_MAX = 65536 };

int token_check(const struct ctl *ctl, struct entry *entry, struct entry_result *ret)
{
    const struct entry_token *token = &entry->token;

    (void)ctl;
    if (!token->id || !*token->id || !token->hash || !*token->hash || !token->user || !*token->user)
        return ret->code = error_set(&ret->text, -EINVAL, "token: expected id, hash and user");
    return 0;
}

static void copy_text(char *to, size_t size, const char *text)
{
    (void)snprintf(to, size, "%s", text ? text : "");
}

void token_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    struct registry *registry = &ctl->registry;
    const struct entry_token *from = &entry->token;
    void *block = registry->tokens;
    int r =
        mem_grow(&block, &registry->token_capacity, registry->token_count + 1, TOKENS_MAX, sizeof(*registry->tokens));
    struct ctl_token *token;

    registry->tokens = block;
    if (r < 0) {
        ret->code = error_set(&ret->text, -ENOSPC, "token: %d tokens are there already, the limit", TOKENS_MAX);
        return;
    }
    token = &registry->tokens[registry->token_count++];
    *token = (struct ctl_token){ .expires = from->expires, .created = ctl->now, .nodes = (uint32_t)from->nodes };
    copy_text(token->id, sizeof(token->id), from->id);
    copy_text(token->hash, sizeof(token->hash), from->hash);
    copy_text(token->user, sizeof(token->user), from->user);
    copy_text(token->role, sizeof(token->role), from->role);
    copy_text(token->scope, sizeof(token->scope), from->scope);
}

void untoken_apply(struct ctl *ctl, const struct entry *entry, struct entry_result *ret)
{
    struct registry *registry = &ctl->registry;
    const char *id = entry->untoken.id ? entry->untoken.id : "";
    size_t kept = 0;

    for (size_t i = 0; i < registry->token_count; i++) {
        struct ctl_token *token = &registry->tokens[i];

        if (strcmp(token->id, id) != 0) {
            registry->tokens[kept++] = *token;
        } else if (entry->untoken.joined && token->nodes > 1) {
            token->nodes--; /* still good for others */
            return;
        }
    }
    if (kept == registry->token_count)
        ret->code = error_set(&ret->text, -ENOENT, "no token '%s'", id);
    registry->token_count = kept;
}
