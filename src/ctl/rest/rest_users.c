/* SPDX-License-Identifier: Apache-2.0 */
/* rest_users.c - GET /users: use and limits of each user. */
#include <string.h>

#include "base/alloc.h"
#include "ctl/rest/rest.h"

static void limit_put(struct json_write *json, const char *key, int64_t value)
{
    if (value < 0)
        json_write_null(json, key);
    else
        json_write_i64(json, key, value);
}

/* Whether people who have no job to be seen are told: where others' jobs are not there at all, neither are they. */
static bool user_shown(const struct scene *scene, const char *name)
{
    return scene->server->conf->privacy != PRIVACY_NONE || scene->who->role == ROLE_ADMIN ||
           strcmp(name, scene->who->user) == 0;
}

void rest_users(struct request *request)
{
    struct buf out = BUF_INIT((size_t)64 << 20);
    struct json_write json;
    struct scene scene;
    struct use {
        int64_t gpus, running, pending;
    } * use;

    scene_fill(&scene, request);
    use = mem_zalloc(scene.registry->users.count + 1, sizeof(*use));
    if (!use) {
        reply_problem(request, 503, "Busy", NULL, "out of memory");
        return;
    }
    for (size_t i = 0; i < scene.registry->live_count; i++) {
        const struct ctl_job *job = scene.registry->live[i];

        if (job->user >= scene.registry->users.count || !render_shows(&scene, job))
            continue;
        if (job->phase == PHASE_JOB_PENDING) {
            use[job->user].pending++;
        } else {
            use[job->user].running++;
            use[job->user].gpus += jobspec_gpus(&job->wants);
        }
    }
    list_begin(&json, &out, "UserList");
    for (uint32_t i = 0; i < scene.registry->users.count; i++) {
        if (!user_shown(&scene, user_name(&scene, i)) && use[i].running + use[i].pending == 0)
            continue;
        json_write_object(&json, NULL);
        json_write_text(&json, "name", user_name(&scene, i));
        json_write_i64(&json, "gpus", use[i].gpus);
        json_write_i64(&json, "running_jobs", use[i].running);
        json_write_i64(&json, "pending_jobs", use[i].pending);
        limit_put(&json, "max_gpus", limits_gpus(scene.registry, user_name(&scene, i)));
        limit_put(&json, "max_jobs", limits_jobs(scene.registry, user_name(&scene, i)));
        json_write_close(&json);
    }
    list_end(&json, NULL);
    mem_free(use);
    reply_buf(request, 200, &out);
}
