/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cmd_gpu.h - muster gpu: the GPU runtime on one machine, without a cluster. */

/* argv[0] is "gpu" or what the command is called in messages; argv[1] the verb. Returns the exit code. */
int cmd_gpu(int argc, char **argv);
