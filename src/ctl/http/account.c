/* SPDX-License-Identifier: Apache-2.0 */
/* account.c - what one user has of the server: connections, requests on their way, bytes of bodies.
 *
 * A connection belongs to whoever asked last on it. Its bodies are counted before they come, by their length as told;
 * one in chunks counts as the longest there may be. Strangers and agents have no account: the first are limited by
 * their address and by what they may send, the second are few.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/http/http_internal.h"

static struct account **place_of(struct http_server *server, const char *name)
{
    uint32_t hash = 2166136261u;

    for (const char *p = name; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    return &server->accounts[hash % ACCOUNT_HEADS];
}

static struct account *account_get(struct http_server *server, const char *name)
{
    struct account **head = place_of(server, name), *account;

    for (account = *head; account; account = account->next)
        if (strcmp(account->name, name) == 0)
            return account;
    account = mem_zalloc(1, sizeof(*account));
    if (!account)
        return NULL;
    memcpy(account->name, name, strnlen(name, sizeof(account->name) - 1));
    account->next = *head;
    *head = account;
    return account;
}

static void account_drop(struct http_server *server, struct account *account)
{
    struct account **at = place_of(server, account->name);

    if (account->connections)
        return;
    while (*at != account)
        at = &(*at)->next;
    *at = account->next;
    mem_free(account);
}

void account_body_over(struct client *client)
{
    if (client->account)
        client->account->bytes -= client->body_bytes;
    client->body_bytes = 0;
}

void account_request_over(struct client *client)
{
    if (client->counted)
        client->account->requests--;
    client->counted = false;
}

void account_leave(struct client *client)
{
    struct account *account = client->account;

    if (!account)
        return;
    account_request_over(client);
    account_body_over(client);
    client->account = NULL;
    account->connections--;
    account_drop(client->server, account);
}

static bool has_account(const struct principal *who)
{
    return who->user[0] && who->role != ROLE_AGENT && who->role != ROLE_NOBODY;
}

/* The connection becomes that user's. */
static int account_join(struct client *client, const struct principal *who)
{
    struct http_server *server = client->server;
    struct account *account;

    if (client->account && strcmp(client->account->name, who->user) == 0)
        return 0;
    account = account_get(server, who->user);
    if (!account)
        return -ENOMEM;
    if (account->connections >= server->config.user_connections) {
        account_drop(server, account);
        return -EUSERS;
    }
    account->connections++;
    account_leave(client);
    client->account = account;
    return 0;
}

int request_admit(struct request *request)
{
    struct client *client = request->client;
    int r;

    if (!client || !client->server->config.user_connections || !has_account(&request->who))
        return 0;
    r = account_join(client, &request->who);
    if (r < 0)
        return r;
    if (client->account->requests >= client->server->config.user_requests)
        return -EUSERS;
    client->counted = true;
    client->account->requests++;
    return 0;
}

int account_body_ask(void *arg, const struct http_message *message)
{
    struct client *client = arg;
    struct http_server *server = client->server;
    struct request probe = { .server = server, .client = client, .message = message };
    const char *length = http_header(message, "content-length");
    uint64_t bytes = length ? strtoull(length, NULL, 10) : server->config.limits.body_max;
    int r;

    if (!server->config.identify)
        return 0;
    if (!server->config.identify(server->config.arg, &probe) || probe.who.role == ROLE_NOBODY || !probe.who.user[0])
        return 401;
    if (!server->config.user_connections || !has_account(&probe.who))
        return 0;
    r = account_join(client, &probe.who);
    if (r < 0 || client->account->bytes + bytes > server->config.user_bytes)
        return 429;
    client->body_bytes = (size_t)bytes;
    client->account->bytes += (size_t)bytes;
    return 0;
}
