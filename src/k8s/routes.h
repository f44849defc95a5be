/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* routes.h - what muster-k8s answers over HTTP. */
#include "k8s/sched.h"
#include "k8s/serve.h"

struct routes {
    const struct sched *sched;
    bool ready; /* all collections were listed */
    bool leading;
};

int routes_answer(void *arg, const struct http_message *request, struct buf *body, const char **type);
