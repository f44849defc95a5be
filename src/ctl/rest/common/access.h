/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* access.h - whether a user may have such a job in a virtual cluster: its access list, `access`. */
#include "ctl/rest/rest.h"

/* False: answered, in words that say whom to ask. Administrators may do everything. */
bool access_allowed(struct request *request, const char *vc, const struct jobspec *wants);
/* The same of a submission, as far as it can be told what it asks for; what cannot be is refused elsewhere. */
bool access_submission(struct request *request, const struct submission *spec);
/* Whether that user could submit it there: what is not so is not proposed. */
bool access_shown(const struct scene *scene, const char *user, const char *vc, const struct jobspec *wants);
/* A job without a time limit gets that of its virtual cluster. */
void access_default(struct request *request, struct submission *spec);
