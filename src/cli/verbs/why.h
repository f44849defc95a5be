/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* why.h - explanations and plans in words. */
#include <jansson.h>

void why_show(json_t *explanation);
void plan_show(json_t *plan);
