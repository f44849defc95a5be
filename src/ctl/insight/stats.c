/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/insight/stats.h"

#include <string.h>

#include "ctl/daemon/server.h"
#include "ctl/insight/event_detail.h"

const double stats_bounds[STATS_CLASSES] = { 0.001, 0.003, 0.01, 0.03, 0.1,   0.3,   1,     3,
                                             10,    60,    600,  3600, 21600, 86400, 604800 };
const char *const stats_sizes[SIZE_CLASSES] = { "1", "2-8", "9-64", "65+" };
const char *const stats_causes[STOP_CAUSES] = { "preempt", "drain", "migrate", "node" };
const char *const stats_steps[STOP_STEPS] = { "suspend", "checkpoint", "requeue", "cancel" };

static int text_find(const char *const *list, int count, const char *text)
{
    for (int i = 0; text && i < count; i++)
        if (strcmp(list[i], text) == 0)
            return i;
    return -1;
}

void stats_preempted(struct stats *stats, uint32_t vc, const struct ctl_event *event)
{
    int cause = text_find(stats_causes, STOP_CAUSES, event_detail_text(event, "cause"));
    int step = text_find(stats_steps, STOP_STEPS, event_detail_text(event, "step"));

    if (vc >= STATS_VCS_MAX || cause < 0 || step < 0)
        return;
    stats->preempted[vc][cause][step]++;
    stats->lost[vc][cause] += (double)event_detail_number(event, "lost_gpu_seconds") / (double)USEC_SEC;
}

void histogram_add(struct histogram *histogram, usec_t value)
{
    double seconds = (double)value / 1e6;
    size_t i = 0;

    while (i < STATS_CLASSES && seconds > stats_bounds[i])
        i++;
    histogram->count[i]++;
    histogram->sum += value;
}

void stats_request(struct stats *stats, const struct request *request, usec_t took)
{
    size_t route = request->route ? (size_t)(request->route - routes) : STATS_ROUTES_MAX - 1;

    stats->requests++;
    if (route < STATS_ROUTES_MAX && request->status >= 100 && request->status < 600 && !request->streaming)
        histogram_add(&stats->routes[route].took[request->status / 100], took);
}
