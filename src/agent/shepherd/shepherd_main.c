/* SPDX-License-Identifier: Apache-2.0 */
/* shepherd_main.c - muster-shepherd: what agents fork the keepers of tasks from. Not for people. */
#include <stdio.h>
#include <string.h>

#include "agent/shepherd/forker.h"

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], FORKER_MODE) == 0)
        return forker_main(FORKER_FD);
    (void)fputs("muster-shepherd: started by muster-agent, not by hand\n", stderr);
    return 2;
}
