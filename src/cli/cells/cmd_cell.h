/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cmd_cell.h - muster cell replay, tree, ls, show. */

/* argv[0] is what the command is called in messages ("muster cell"). Returns the exit code. */
int cmd_cell(int argc, char **argv);
