/* SPDX-License-Identifier: Apache-2.0 */
/* gittins.c - see gittins.h. Tiresias (NSDI'19), section 3.2.2; the sum in the expectation is of (sample - attained),
 * which the public simulator of Tiresias gets wrong for jobs that have run.
 */
#include "solve/gittins.h"

size_t gittins_up_to(const int64_t *sorted, size_t count, int64_t value)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (sorted[middle] <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct gittins gittins_index(const int64_t *sorted, const __int128 *sums, size_t count, int64_t attained, int64_t delta)
{
    int64_t end = delta > INT64_MAX - attained ? INT64_MAX : attained + delta;
    size_t from = gittins_up_to(sorted, count, attained), to = gittins_up_to(sorted, count, end);
    __int128 inside = sums[to] - sums[from] - (__int128)attained * (__int128)(to - from);

    return (struct gittins){ .ends = (int64_t)(to - from), .spent = inside + (__int128)delta * (__int128)(count - to) };
}

int64_t gittins_cost(struct gittins index, int64_t none)
{
    __int128 cost;

    if (index.ends == 0)
        return none;
    cost = index.spent / index.ends;
    return cost < none ? (int64_t)cost : none;
}

/* Shell's sort: no memory, and quick enough for a few thousand. */
void gittins_prepare(int64_t *samples, __int128 *sums, size_t count)
{
    size_t gap = 1;

    while (gap < count / 3)
        gap = 3 * gap + 1;
    for (; gap; gap /= 3)
        for (size_t i = gap; i < count; i++) {
            int64_t value = samples[i];
            size_t at = i;

            for (; at >= gap && samples[at - gap] > value; at -= gap)
                samples[at] = samples[at - gap];
            samples[at] = value;
        }
    sums[0] = 0;
    for (size_t i = 0; i < count; i++)
        sums[i + 1] = sums[i] + samples[i];
}
