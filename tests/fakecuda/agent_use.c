/* SPDX-License-Identifier: Apache-2.0 */
/* agent_use.c - what the agent does to a task's programs on GPUs, by its own functions: `agent_use off|on PID...`,
 * `agent_use limit MIB PERCENT PID...`. Prints `none` when none of them has the library; else exits as the agent's
 * child does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/off_gpu.h"

#define PIDS 16

int main(int argc, char **argv)
{
    bool limit = argc > 1 && strcmp(argv[1], "limit") == 0;
    int from = limit ? 4 : 2, count = 0, status = 0;
    pid_t pids[PIDS], child;

    for (int i = from; i < argc && count < PIDS; i++)
        pids[count++] = (pid_t)strtol(argv[i], NULL, 10);
    if (count == 0)
        return 2;
    if (limit)
        child = limit_gpu_start(NULL, pids, count, strtoll(argv[2], NULL, 10), strtoll(argv[3], NULL, 10));
    else
        child = off_gpu_start(NULL, pids, count, strcmp(argv[1], "off") == 0);
    if (child <= 0)
        return puts("none") < 0 || child < 0;
    if (waitpid(child, &status, 0) != child)
        return 3;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}
