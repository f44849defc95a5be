/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* alerts.h - what somebody should look at, found in the present state. */
#include "ctl/rest/render/render.h"

enum { ALERTS_MAX = 1000 };

/* [{"kind","severity","since","text","hint","node","gpu","vc","job","user"}], the worst first. */
void alerts_put(const struct scene *scene, struct json_write *json, const char *key);
