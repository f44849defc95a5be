/* SPDX-License-Identifier: Apache-2.0 */
/* lost.c - see lost.h. */
#include "gpurt/ladder/lost.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "gpurt/node.h"

bool process_ends(pid_t pid, int number)
{
    unsigned long long blocked = 0, ignored = 0, caught = 0;
    char path[64], line[256];
    bool known = false;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return false;
    while (fgets(line, sizeof(line), f)) {
        (void)sscanf(line, "SigBlk: %llx", &blocked);
        (void)sscanf(line, "SigIgn: %llx", &ignored);
        known |= sscanf(line, "SigCgt: %llx", &caught) == 1;
    }
    (void)fclose(f);
    return known && !((blocked | ignored | caught) >> (number - 1) & 1);
}

void process_lost(const struct client *client, char *text, size_t size)
{
    struct timespec up = { 0 };
    long ticks = sysconf(_SC_CLK_TCK);
    double age;

    if (client->saved_ns) {
        (void)snprintf(text, size, "the %.0f s since it saved itself", (double)(node_now() - client->saved_ns) / 1e9);
        return;
    }
    (void)clock_gettime(CLOCK_BOOTTIME, &up);
    age = (double)up.tv_sec - (double)client->start_ticks / (double)(ticks > 0 ? ticks : 100);
    (void)snprintf(text, size, "the %.0f s since its start, as far as is known here", age > 0 ? age : 0);
}
