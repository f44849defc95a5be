/* SPDX-License-Identifier: Apache-2.0 */
/* render_promise.c - what became of a job's deadline: whether its policy has promised it, and what it could have. */
#include "ctl/rest/render/render.h"
#include "model/promise.h"

void put_promise(const struct scene *scene, struct json_write *json, const struct ctl_job *job)
{
    const struct jobspec *wants = &job->wants;
    const struct job *core = job_in_core(job) && scene->core ? core_job(scene->core, job->slot) : NULL;
    const char *state = "none";

    if (wants->deadline_count == 0 || phase_over(job->phase))
        return;
    if (core && core->breach != BREACH_NONE)
        state = "broken";
    else if (core && core->promise)
        state = "promised";
    else if (core && core->offer)
        state = "declined";
    json_write_object(json, "promise");
    json_write_text(json, "state", state);
    put_time(json, "deadline", wants->deadlines[wants->deadline_count - 1].at);
    put_time(json, "offer", core && core->offer != USEC_NEVER ? core->offer : 0);
    if (core && core->breach != BREACH_NONE) {
        json_write_text(json, "cause", breach_name((enum breach)core->breach));
        json_write_text(json, "message", breach_text((enum breach)core->breach));
    } else {
        json_write_null(json, "cause");
        json_write_text(json, "message", "");
    }
    json_write_close(json);
}
