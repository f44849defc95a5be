/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/forecast.h"

#include <errno.h>

#include "base/alloc.h"
#include "ctl/rest.h"

struct forecast {
    struct server *server;
};

int forecast_new(struct server *server, struct forecast **ret_forecast)
{
    struct forecast *forecast = mem_zalloc(1, sizeof(*forecast));

    if (!forecast)
        return -ENOMEM;
    forecast->server = server;
    *ret_forecast = forecast;
    return 0;
}

void forecast_free(struct forecast *forecast)
{
    mem_free(forecast);
}

bool forecast_eta(struct forecast *forecast, int64_t job, struct eta *ret_eta)
{
    (void)forecast;
    (void)job;
    (void)ret_eta;
    return false;
}

const struct planned *forecast_planned(struct forecast *forecast, size_t *ret_count, const uint32_t **ret_gpus)
{
    (void)forecast;
    *ret_count = 0;
    *ret_gpus = NULL;
    return NULL;
}

void forecast_why(struct request *request)
{
    reply_problem(request, 501, "NotThere", NULL, "not there yet");
}

void forecast_plan(struct request *request)
{
    reply_problem(request, 501, "NotThere", NULL, "not there yet");
}
