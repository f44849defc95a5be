/* SPDX-License-Identifier: Apache-2.0 */
/* access.c - see access.h. Groups are those of the controller's machine, wherever it has them from: files, LDAP. */
#include "ctl/rest/common/access.h"

#include <grp.h>
#include <pwd.h>
#include <string.h>

#include "ctl/log/settings_json.h"
#include "wire/cluster/vc_access.h"
#include "wire/job/submission.h"

enum { GROUP_BYTES = 65536, GROUPS_OF_USER = 1024 };

static bool in_group(const char *user, const char *group)
{
    static char bytes[GROUP_BYTES]; /* the loop is one thread, and nobody keeps what is in it */
    gid_t gids[GROUPS_OF_USER];
    int count = GROUPS_OF_USER;
    struct group entry, *found = NULL;
    struct passwd account, *known = NULL;
    gid_t wanted;

    if (getgrnam_r(group, &entry, bytes, sizeof(bytes), &found) != 0 || !found)
        return false;
    wanted = found->gr_gid;
    if (getpwnam_r(user, &account, bytes, sizeof(bytes), &known) != 0 || !known)
        return false;
    if (getgrouplist(user, account.pw_gid, gids, &count) < 0)
        count = GROUPS_OF_USER;
    for (int i = 0; i < count; i++)
        if (gids[i] == wanted)
            return true;
    return false;
}

/* The access list of a virtual cluster, a tree of the caller's; NULL: it has none. */
static json_t *access_of(const struct ctl *ctl, const char *vc)
{
    const struct setting_value *vcs = setting_find(ctl_settings(ctl), "vcs");
    const struct setting_value *access = setting_find(setting_find(vcs, vc), "access");
    json_t *tree = access ? setting_tree(access) : NULL;

    return access && !tree ? json_null() : tree; /* without memory it lets nobody in */
}

/* The most it can grow to: its size may be set within its range, and a person who has set it may take that back. */
static int64_t gpus_most(const struct jobspec *wants)
{
    int32_t most = wants->gpus;

    most = wants->gpus_max > most ? wants->gpus_max : most;
    most = wants->range_max > most ? wants->range_max : most;
    return (int64_t)most + jobspec_sides(wants);
}

static struct access_ask ask_of(const char *user, const struct jobspec *wants)
{
    return (struct access_ask){ .user = user,
                                .priority = wants->priority,
                                .gpus = gpus_most(wants),
                                .time = wants->time_limit,
                                .in_group = in_group };
}

bool access_shown(const struct scene *scene, const char *user, const char *vc, const struct jobspec *wants)
{
    const struct access_ask ask = ask_of(user, wants);
    struct error err = { 0 };
    char hint[200];
    json_t *access;
    int r;

    if (scene->who && scene->who->role >= ROLE_ADMIN && strcmp(scene->who->user, user) == 0)
        return true;
    access = access_of(batcher_ctl(scene->server->batcher), vc);
    r = vc_access_check(access, vc, &ask, hint, &err);
    json_decref(access);
    return r == 0;
}

bool access_allowed(struct request *request, const char *vc, const struct jobspec *wants)
{
    const struct access_ask ask = ask_of(request->who.user, wants);
    struct error err = { 0 };
    char hint[200];
    json_t *access;
    int r;

    if (request->who.role >= ROLE_ADMIN)
        return true;
    access = access_of(batcher_ctl(request_server(request)->batcher), vc);
    r = vc_access_check(access, vc, &ask, hint, &err);
    json_decref(access);
    if (r == 0)
        return true;
    reply_problem(request, 403, "NotAllowed", hint, "%s", err.text);
    return false;
}

bool access_submission(struct request *request, const struct submission *spec)
{
    struct infeasible why = { 0 };
    struct jobspec wants;
    struct scene scene;
    const char *vc = spec->vc;

    scene_fill(&scene, request);
    if (!scene.core || submission_bind(spec, scene.cluster, &wants, &why, NULL) < 0)
        return true;
    if (!vc)
        vc = names_get(&scene.cluster->names, scene.cluster->vcs[0].name);
    return access_allowed(request, vc, &wants);
}

void access_default(struct request *request, struct submission *spec)
{
    const struct ctl *ctl = batcher_ctl(request_server(request)->batcher);
    const struct cluster_spec *cluster = ctl_cluster(ctl);
    const char *vc = spec->vc;

    if (!vc && cluster && cluster->vc_count)
        vc = names_get(&cluster->names, cluster->vcs[0].name);
    if (vc && spec->time == 0) {
        json_t *access = access_of(ctl, vc);

        spec->time = vc_access_time(access);
        json_decref(access);
    }
}
