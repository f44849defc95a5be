/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cmd_trace.h - muster trace import, muster trace stat. */

/* argv[0] is what the command is called in messages ("muster trace"). Returns the exit code. */
int cmd_trace(int argc, char **argv);
