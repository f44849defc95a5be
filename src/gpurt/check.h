/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* check.h - what the runtime can do on this machine, and what to do about what it cannot. */
#include <stdio.h>

/* One line a capability, "ok" or "no" first. 0 when programs can be limited and held back here, else -errno. */
int check_print(FILE *out);
