/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - `muster gpu` alone, for machines that have a GPU and a C compiler but not the rest of what muster needs. */
#include <stdio.h>
#include <string.h>

#include "cli/verbs/cmd_gpu.h"

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "gpu") != 0) {
        (void)fprintf(stderr, "only `gpu` is built in\n");
        return 2;
    }
    return cmd_gpu(argc - 1, argv + 1);
}
