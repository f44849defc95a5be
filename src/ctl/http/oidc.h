/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* oidc.h - people whom an OpenID Connect issuer knows: its keys, its endpoints, and what its tokens make of somebody.
 *
 * The issuer's document and keys are fetched when they are first needed, again after an hour, and when a token names a
 * key that is not among them (not more often than auth.oidc.refresh says). What is fetched is fetched by a process of
 * its own (fetch.h); what was known stays in use while the issuer does not answer.
 */
#include "ctl/daemon/server.h"

struct oidc;

int oidc_new(struct server *server, struct oidc **ret_oidc);
void oidc_stop(struct oidc *oidc);
void oidc_free(struct oidc *oidc);

/* An endpoint of the issuer's document; NULL: it has none, or is not known yet. */
const char *oidc_endpoint(const struct oidc *oidc, const char *name);

/* Calls back when document and keys are there, at once if they are; with words when they cannot be had. `anew`: fetches
 * them, unless that was done a moment ago. */
typedef void (*oidc_ready_fn)(void *arg, const struct error *err);
void oidc_ready(struct oidc *oidc, bool anew, oidc_ready_fn then, void *arg);

/* Asks an endpoint. `form` is encoded already, without what says who we are. The answer is NULL when none came, with
 * words; it is the callee's to look at only. */
typedef void (*oidc_answer_fn)(void *arg, int status, json_t *answer, const char *why);
void oidc_ask(struct oidc *oidc, const char *endpoint, const char *form, oidc_answer_fn then, void *arg);

/* Who a token says somebody is. -EAGAIN: the issuer's keys do not have the one it is signed with, and may be fetched
 * anew; else -EACCES, -EBADMSG with words. */
struct oidc_person {
    char user[64], scope[64];
    enum role role;
    usec_t expires;
};
int oidc_judge(struct oidc *oidc, const char *token, const char *nonce, struct oidc_person *ret, struct error *err);

/* The same for a token that comes with a request, from what is known now. */
bool oidc_identify(struct oidc *oidc, const char *token, struct principal *who);
/* Whether it looks like a token of an issuer: two dots. */
bool oidc_resembles(const char *token);
