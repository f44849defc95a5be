/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* calls.h - the driver's functions as a program has them: every one the library stands in front of, or uses. */
#include "fake.h"

#define HOOK_SPECIAL(name, group, act, params, args) CUresult name params;
#define HOOK_TRACK HOOK_SPECIAL
#define HOOK_COPY(name, group, act, params, args, stream, n) HOOK_SPECIAL(name, group, act, params, args)
#include "shim/hooks.def"
#undef HOOK_SPECIAL
#undef HOOK_TRACK
#undef HOOK_COPY
#define NEED(name, params) CUresult name params;
#include "shim/needs.def"
#undef NEED
