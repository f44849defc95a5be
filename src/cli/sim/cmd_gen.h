/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cmd_gen.h - muster sim gen. */

/* argv[0] is what the command is called in messages. Returns the exit code. */
int cmd_sim_gen(int argc, char **argv);
