/* SPDX-License-Identifier: Apache-2.0 */
/* container.c - see container.h.
 *
 * An image that is a directory is a root file system and is started by runc, with a bundle written beside it; anything
 * else is a name that podman knows how to fetch. Without a runtime for it the launch is refused: a job that asked for
 * an image must not run on the bare node. The network is the node's, so that gangs find each other.
 */
#include "agent/task/container.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/shepherd/child.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "io/beneath.h"

#define MARK "MUSTER_TASK_KEY="

/* Each role may have an image of its own. */
static const char *proc_image(const struct task *task, size_t number)
{
    const struct launch *l = &task->launch;
    const struct role_task *role = launch_role(l, l->id.rank, (uint32_t)number);

    return role_image(&l->spec, role ? &l->spec.roles[role->role] : NULL);
}

static bool program_find(const char *name, char *path, size_t size)
{
    static const char *const places[] = {
        "/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin", "/bin", "/sbin"
    };

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        (void)snprintf(path, size, "%s/%s", places[i], name);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

/* What keeps podman from running a job inside the job's own group; NULL: nothing. runc under podman makes a group
 * elsewhere, which no limit of the job reaches; crun does not, but knows only nodes that have cgroup v2 alone. */
static const char *podman_short(void)
{
    char path[64];
    struct statfs fs;

    if (!program_find("podman", path, sizeof(path)))
        return "podman";
    if (!program_find("crun", path, sizeof(path)))
        return "crun beside podman (runc would leave the job's group)";
    if (statfs("/sys/fs/cgroup", &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
        return "a node with cgroup v2 alone for podman";
    return NULL;
}

json_t *container_runtimes(void)
{
    json_t *list = json_array();
    char path[64];

    if (program_find("runc", path, sizeof(path)))
        (void)json_array_append_new(list, json_string("runc"));
    if (!podman_short())
        (void)json_array_append_new(list, json_string("podman"));
    return list;
}

/* "SRC:DST[:ro]" */
static int mount_parse(const char *text, char *source, char *target, size_t size, bool *ret_readonly)
{
    const char *colon = strchr(text, ':'), *tail = colon ? strchr(colon + 1, ':') : NULL;

    if (!colon || text[0] != '/' || colon[1] != '/' || (tail && strcmp(tail, ":ro") != 0 && strcmp(tail, ":rw") != 0))
        return -EINVAL;
    (void)snprintf(source, size, "%.*s", (int)(colon - text), text);
    (void)snprintf(target, size, "%.*s", (int)(tail ? tail - colon - 1 : (long)strlen(colon + 1)), colon + 1);
    *ret_readonly = tail && strcmp(tail, ":ro") == 0;
    return 0;
}

static void mount_add(json_t *mounts, const char *source, const char *target, bool readonly)
{
    (void)json_array_append_new(mounts, json_pack("{ss,ss,ss,s[sss]}", "destination", target, "type", "bind", "source",
                                                  source, "options", "rbind", "rprivate", readonly ? "ro" : "rw"));
}

/* Could the user open it? */
static bool user_reaches(const json_t *plan, const char *path, int flags)
{
    int fd = user_open(plan, path, O_PATH | flags, 0);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* A folder of the node, as the runtime is told of it: a place that its user cannot change, where what its user can open
 * is put before (child_binds.c). The same for all processes of the task, each of which has its own. */
static void bind_add(json_t *plan, const char *dir, const char *source, char *place, size_t size)
{
    json_t *binds = json_object_get(plan, "binds"), *bind;
    size_t i;

    if (!binds) {
        char real[PATH_MAX]; /* runtimes want a place without links on the way */
        const char *at = realpath(dir, real) ? real : dir;

        binds = json_array();
        (void)json_object_set_new(plan, "binds", binds);
        (void)json_object_set_new(plan, "binds_at", json_sprintf("%s/binds", at));
    }
    json_array_foreach(binds, i, bind) if (strcmp(json_string_value(json_array_get(bind, 0)), source) == 0) break;
    (void)snprintf(place, size, "%s/%zu", util_text(plan, "binds_at"), i);
    if (i == json_array_size(binds))
        (void)json_array_append_new(binds, json_pack("[so]", source, json_sprintf("%zu", i)));
}

/* What belongs to the GPU runtime of the node is where it is outside. NULL: no more. */
static const char *runtime_part(const struct task *task, int number)
{
    struct gpu_runtime_paths paths;

    if (!gpu_runtime_for(task->agent, &task->launch))
        return NULL;
    paths = gpu_runtime_paths(task->agent);
    return number == 0 ? paths.place : number == 1 ? paths.library : number == 2 && *paths.python ? paths.python : NULL;
}

static int mounts_make(const struct task *task, const char *dir, json_t *plan, json_t *mounts, struct error *err)
{
    const struct submission *s = &task->launch.spec;
    static const struct {
        const char *target, *type, *source, *options[5];
    } base[] = {
        { "/proc", "proc", "proc", { NULL } },
        { "/dev", "tmpfs", "tmpfs", { "nosuid", "strictatime", "mode=755", "size=65536k", NULL } },
        { "/dev/pts", "devpts", "devpts", { "nosuid", "noexec", "newinstance", "ptmxmode=0666", NULL } },
        { "/sys", "none", "/sys", { "rbind", "nosuid", "noexec", "ro", NULL } },
        { "/tmp", "tmpfs", "tmpfs", { "nosuid", "mode=1777", NULL } },
    };
    char source[1024], target[1024], place[4200];
    const char *tmp = util_text(plan, "tmp_real");
    json_t *shm;
    bool readonly;

    for (size_t i = 0; i < sizeof(base) / sizeof(base[0]); i++) {
        json_t *options = json_array();

        for (const char *const *o = base[i].options; *o; o++)
            (void)json_array_append_new(options, json_string(*o));
        (void)json_array_append_new(mounts, json_pack("{ss,ss,ss,so}", "destination", base[i].target, "type",
                                                      base[i].type, "source", base[i].source, "options", options));
    }
    shm = json_pack("{ss,ss,ss,s[sss]}", "destination", "/dev/shm", "type", "tmpfs", "source", "shm", "options",
                    "nosuid", "nodev", "mode=1777");
    if (s->shm)
        (void)json_array_append_new(json_object_get(shm, "options"),
                                    json_sprintf("size=%llu", (unsigned long long)s->shm));
    (void)json_array_append_new(mounts, shm);
    mount_add(mounts, dir, dir, false);
    mount_add(mounts, tmp, tmp, false);
    for (int i = 0; runtime_part(task, i); i++)
        mount_add(mounts, runtime_part(task, i), runtime_part(task, i), true);
    for (size_t i = 0; i < s->mount_count; i++) {
        if (mount_parse(s->mounts[i], source, target, sizeof(source), &readonly) < 0)
            return error_set(err, -EINVAL, "mount '%s': expected /SOURCE:/TARGET[:ro]", s->mounts[i]);
        if (!user_reaches(plan, source, 0))
            return error_set(err, -EINVAL, "mount '%s': %s cannot be reached by its user", s->mounts[i], source);
        bind_add(plan, dir, source, place, sizeof(place));
        mount_add(mounts, place, target, readonly);
    }
    return 0;
}

/* /dev/nvidia* or /dev/dri/renderD* of the task's GPUs, and what is common to all, where they are. */
static json_t *devices_list(const struct task *task)
{
    static const char *const common[] = { "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/kfd" };
    const struct launch_node *node = &task->launch.nodes[task->id.rank];
    json_t *list = json_array();
    char path[64];

    if (task->agent->gpus->fake || node->gpu_count == 0)
        return list;
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
        if (access(common[i], F_OK) == 0)
            (void)json_array_append_new(list, json_string(common[i]));
    for (uint32_t i = 0; i < node->gpu_count; i++) {
        (void)snprintf(path, sizeof(path), "%s%d", task->agent->gpus->amd ? "/dev/dri/renderD" : "/dev/nvidia",
                       task->agent->gpus->info[node->gpus[i]].minor);
        if (access(path, F_OK) == 0)
            (void)json_array_append_new(list, json_string(path));
    }
    return list;
}

/* They are bound from the node. */
static void devices_add(const struct task *task, json_t *mounts)
{
    json_t *list = devices_list(task), *path;
    size_t i;

    json_array_foreach(list, i, path) mount_add(mounts, json_string_value(path), json_string_value(path), false);
    json_decref(list);
}

/* A group inside the task's own, one for each of its processes, as runc names it: from the root of the tree. */
static void group_below(const struct task *task, size_t number, char *out, size_t size)
{
    static const char *const roots[] = { "/sys/fs/cgroup/unified", "/sys/fs/cgroup" };
    char group[CGROUP_PATH_MAX];

    out[0] = '\0';
    task_cgroup(task, group, sizeof(group));
    for (size_t i = 0; group[0] && i < sizeof(roots) / sizeof(roots[0]); i++)
        if (strncmp(group, roots[i], strlen(roots[i])) == 0 && group[strlen(roots[i])] == '/') {
            (void)snprintf(out, size, "%.460s/container%zu", group + strlen(roots[i]), number);
            return;
        }
}

/* No user namespace can be made inside, and none that was made outside can be entered by a descriptor that a socket has
 * brought. The first process of a container could otherwise leave its namespaces for some
 * of its own, and runc, which joins those of that process, would be root in mounts that the user has made. As in
 * Docker, clone3() is not there: its flags cannot be looked at, and C libraries then take clone(). */
static json_t *namespaces_refuse(void)
{
    json_int_t user = CLONE_NEWUSER;
    json_t *list =
        json_pack("{ss,s[{s[ss],ss,s[{si,sI,sI,ss}]},{s[s],ss,si},{s[s],ss,si}]}", "defaultAction", "SCMP_ACT_ALLOW",
                  "syscalls", "names", "unshare", "clone", "action", "SCMP_ACT_ERRNO", "args", "index", 0, "value",
                  user, "valueTwo", user, "op", "SCMP_CMP_MASKED_EQ", "names", "clone3", "action", "SCMP_ACT_ERRNO",
                  "errnoRet", ENOSYS, "names", "setns", "action", "SCMP_ACT_ERRNO", "errnoRet", EPERM);

#ifdef __x86_64__
    (void)json_object_set_new(list, "architectures",
                              json_pack("[sss]", "SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"));
#endif
    return list;
}

static json_t *bundle_make(const struct task *task, const char *dir, json_t *plan, size_t number, struct error *err)
{
    const json_t *proc = json_array_get(json_object_get(plan, "procs"), number);
    const struct submission *s = &task->launch.spec;
    json_t *mounts = json_array(), *bundle;
    json_t *env = util_env_merge(json_object_get(plan, "env"), json_object_get(proc, "env"));
    char group[CGROUP_PATH_MAX], root[4200];
    int r = mounts_make(task, dir, plan, mounts, err);

    bind_add(plan, dir, proc_image(task, number), root, sizeof(root));
    devices_add(task, mounts);
    group_below(task, number, group, sizeof(group));
    /* The devices are fenced by the group around it; runc's own list would leave the GPUs out. */
    bundle = json_pack("{ss,s{ss,sb},s{sb,s{sI,sI},sO,so,ss,sb},ss,so,s{s[{ss},{ss},{ss},{ss}],s{s[{sb,ss}]},ss*}}",
                       "ociVersion", "1.0.2", "root", "path", root, "readonly", 0, "process", "terminal", 0, "user",
                       "uid", (json_int_t)task->launch.uid, "gid", (json_int_t)task->launch.gid, "args",
                       json_object_get(proc, "argv"), "env", env, "cwd", s->dir ? s->dir : "/", "noNewPrivileges", 1,
                       "hostname", task->agent->config.node, "mounts", mounts, "linux", "namespaces", "type", "pid",
                       "type", "ipc", "type", "uts", "type", "mount", "resources", "devices", "allow", 1, "access",
                       "rwm", "cgroupsPath", group[0] ? group : NULL);
    if (r < 0 || !bundle) {
        json_decref(bundle);
        return NULL;
    }
    (void)json_object_set_new(json_object_get(bundle, "linux"), "seccomp", namespaces_refuse());
    return bundle;
}

/* What the job set is for what runs inside, which has it from its bundle; root's own program must not hear of it
 * (LD_PRELOAD). The mark stays: processes of a task are found by it. */
static void env_leave(json_t *plan)
{
    json_t *env = json_pack("[s]", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), *one;
    size_t i;

    json_array_foreach(json_object_get(plan, "env"), i, one) if (strncmp(json_string_value(one), MARK, strlen(MARK)) ==
                                                                 0)(void) json_array_append(env, one);
    (void)json_object_set_new(plan, "env", env);
    json_array_foreach(json_object_get(plan, "procs"), i, one)(void) json_object_set_new(one, "env", json_array());
}

/* A directory of its own for each process. Takes the bundle. */
static int bundle_write(const struct task *task, size_t number, json_t *bundle)
{
    int dir = task_dir(task), fd, r;
    char name[32];

    (void)snprintf(name, sizeof(name), "bundle%zu", number);
    fd = dir < 0 ? dir : beneath_dir_make(dir, name, 0700);
    r = fd < 0 ? fd : util_json_put(fd, "config.json", bundle, false);
    if (fd >= 0)
        close(fd);
    if (dir >= 0)
        close(dir);
    json_decref(bundle);
    return r;
}

static int runc_wrap(const struct task *task, const char *dir, json_t *plan, const char *runc, struct error *err)
{
    json_t *proc;
    size_t i;

    json_array_foreach(json_object_get(plan, "procs"), i, proc)
    {
        char path[4096], root[4200], id[128];
        json_t *bundle = bundle_make(task, dir, plan, i, err), *argv;
        int r;

        if (!bundle)
            return err->code ? err->code : error_set(err, -EINVAL, "no bundle can be made for this image");
        (void)snprintf(path, sizeof(path), "%s/bundle%zu", dir, i);
        r = bundle_write(task, i, bundle);
        if (r < 0)
            return error_set(err, r, "%s: %s", path, strerror(-r));
        (void)snprintf(id, sizeof(id), "muster-%s-%zu-%.8s", task->name, i, task->agent->journal.id);
        /* What runc remembers goes with the task's directory. */
        (void)snprintf(root, sizeof(root), "%s/runc", dir);
        argv = json_pack("[s,s,s,s,s,s,s,s]", runc, "--root", root, "run", "--no-pivot", "--bundle", path, id);
        (void)json_object_set_new(proc, "argv", argv);
        if (i == 0)
            (void)json_object_set_new(
                plan, "inside",
                json_pack("[s,s,s,s,s,o]", runc, "--root", root, "exec", "--user",
                          json_sprintf("%lld:%lld", (long long)task->launch.uid, (long long)task->launch.gid)));
        if (i == 0)
            (void)json_object_set_new(plan, "container", json_string(id));
        (void)json_object_set_new(plan, "container_kept",
                                  json_string(id)); /* the last is the keeper, where it has one */
    }
    env_leave(plan);
    /* The runtime becomes the user itself. */
    (void)json_object_set_new(plan, "switch", json_false());
    (void)json_object_set_new(plan, "no_new_privs", json_false()); /* the bundle says so */
    (void)json_object_set_new(plan, "dir", json_string(dir));
    return 0;
}

/* Where the images lie that the user has fetched, and how: podman without a file that says otherwise takes overlay
 * where it has a helper for that, else whole copies. */
static bool images_find(const json_t *plan, const char *driver, char *out, size_t size)
{
    const char *home = util_env_value(json_object_get(plan, "env"), "HOME");
    char list[PATH_MAX];

    if (!home)
        return false;
    (void)snprintf(out, size, "%.3000s/.local/share/containers/storage", home);
    (void)snprintf(list, sizeof(list), "%.3100s/%s-images/images.json", out, driver);
    return user_reaches(plan, list, 0);
}

/* The task's temporary folder where its user finds it. */
static const char *podman_tmp(const json_t *plan)
{
    return util_flag(plan, "private_tmp") ? "/tmp" : util_text(plan, "tmp_real");
}

/* podman as the task's user, with a store and a state that begin and end with the task: podman's own are one for all
 * its calls, and a second task with a /tmp of its own takes them for left over from before the machine was started, so
 * that nobody gets into the first one's container any more; a task that is killed would leave its container there. The
 * images of the user are read where they are. What podman has to say beside errors would be in the job's output. */
static json_t *podman_call(const json_t *plan, const char *podman)
{
    const char *tmp = podman_tmp(plan);
    char store[3200];
    bool copies = images_find(plan, "vfs", store, sizeof(store)) && !images_find(plan, "overlay", store, sizeof(store));
    const char *driver = copies ? "vfs" : "overlay";
    json_t *argv = json_pack("[s,s,s,s]", podman, "--log-level=error", "--runtime=crun", "--cgroup-manager=cgroupfs");

    (void)json_array_append_new(argv, json_sprintf("--root=%s/.podman/root", tmp));
    (void)json_array_append_new(argv, json_sprintf("--runroot=%s/.podman/run", tmp));
    (void)json_array_append_new(argv, json_sprintf("--tmpdir=%s/.podman/tmp", tmp));
    (void)json_array_append_new(argv, json_sprintf("--storage-driver=%s", driver));
    if (images_find(plan, driver, store, sizeof(store)))
        (void)json_array_append_new(argv, json_sprintf("--storage-opt=%s.imagestore=%s", driver, store));
    return argv;
}

static void podman_limits(const json_t *plan, json_t *argv)
{
    json_t *rest = json_pack("[s,s,s,s,s,s]", "run", "--rm", "--network=host", "--cgroups=disabled",
                             "--log-driver=none", "--ulimit=host");

    if (util_flag(plan, "no_new_privs"))
        (void)json_array_append_new(rest, json_string("--security-opt=no-new-privileges"));
    (void)json_array_extend(argv, rest);
    json_decref(rest);
}

static int podman_wrap(const struct task *task, const char *dir, json_t *plan, const char *podman, struct error *err)
{
    const struct submission *s = &task->launch.spec;
    char source[1024], target[1024];
    json_t *proc, *value, *env, *devices;
    size_t i, k;
    bool readonly;

    json_array_foreach(json_object_get(plan, "procs"), i, proc)
    {
        char id[128];
        json_t *argv = podman_call(plan, podman);

        podman_limits(plan, argv);
        (void)snprintf(id, sizeof(id), "muster-%s-%zu-%.8s", task->name, i, task->agent->journal.id);
        (void)json_array_append_new(argv, json_sprintf("--name=%s", id));
        if (util_flag(proc, "input"))
            (void)json_array_append_new(argv, json_string("--interactive"));
        if (i == 0) {
            json_t *inside = podman_call(plan, podman);

            (void)json_array_append_new(inside, json_string("exec"));
            (void)json_array_append_new(inside, json_string("--interactive"));
            (void)json_object_set_new(plan, "inside", inside);
            (void)json_object_set_new(plan, "container", json_string(id));
        }
        (void)json_object_set_new(plan, "container_kept", json_string(id));
        (void)json_array_append_new(argv, json_string("--volume"));
        (void)json_array_append_new(argv, json_sprintf("%s:%s", dir, dir));
        (void)json_array_append_new(argv, json_string("--volume"));
        (void)json_array_append_new(argv, json_sprintf("%s:%s", podman_tmp(plan), util_text(plan, "tmp_real")));
        for (int part = 0; runtime_part(task, part); part++) {
            (void)json_array_append_new(argv, json_string("--volume"));
            (void)json_array_append_new(argv,
                                        json_sprintf("%s:%s:ro", runtime_part(task, part), runtime_part(task, part)));
        }
        env = util_env_merge(json_object_get(plan, "env"), json_object_get(proc, "env"));
        /* The names only: podman has the values, and the list of processes is for everybody to read. */
        json_array_foreach(env, k, value)
        {
            const char *text = json_string_value(value);

            (void)json_array_append_new(argv, json_sprintf("--env=%.*s", (int)strcspn(text, "="), text));
        }
        json_decref(env);
        for (k = 0; k < s->mount_count; k++) {
            if (mount_parse(s->mounts[k], source, target, sizeof(source), &readonly) < 0) {
                json_decref(argv);
                return error_set(err, -EINVAL, "mount '%s': expected /SOURCE:/TARGET[:ro]", s->mounts[k]);
            }
            (void)json_array_append_new(argv, json_string("--volume"));
            (void)json_array_append_new(argv, json_string(s->mounts[k]));
        }
        devices = devices_list(task);
        json_array_foreach(devices, k, value)(void)
            json_array_append_new(argv, json_sprintf("--device=%s", json_string_value(value)));
        json_decref(devices);
        if (s->dir)
            (void)json_array_append_new(argv, json_sprintf("--workdir=%s", s->dir));
        if (s->shm)
            (void)json_array_append_new(argv, json_sprintf("--shm-size=%llu", (unsigned long long)s->shm));
        (void)json_array_append_new(argv, json_string(proc_image(task, i)));
        (void)json_array_extend(argv, json_object_get(proc, "argv"));
        (void)json_object_set_new(proc, "argv", argv);
    }
    /* It maps users by set-user-id programs; inside the container there are none that count. */
    (void)json_object_set_new(plan, "no_new_privs", json_false());
    /* podman keeps its locks there, those of all its stores together, and one that is killed gives none back. */
    (void)json_object_set_new(plan, "private_shm", json_boolean(geteuid() == 0));
    return 0;
}

bool container_used(const struct task *task)
{
    const struct agent *agent = task->agent;

    return roles_image(&task->launch.spec) != NULL && !(agent->config.bare_images && agent->gpus->fake);
}

void container_skip(const struct task *task, json_t *plan)
{
    static const char words[] = "echo \"muster: image $1 is not used: this node runs jobs without containers\" >&2; "
                                "shift; exec \"$@\"";
    json_t *proc;
    size_t i;

    json_array_foreach(json_object_get(plan, "procs"), i, proc)
    {
        json_t *argv = json_pack("[s, s, s, s, s]", "/bin/sh", "-c", words, "muster", proc_image(task, i));

        (void)json_array_extend(argv, json_object_get(proc, "argv"));
        (void)json_object_set_new(proc, "argv", argv);
    }
}

int container_wrap(const struct task *task, const char *dir, json_t *plan, struct error *err)
{
    const struct submission *s = &task->launch.spec;
    const char *image = roles_image(s); /* the others are of the same kind */
    bool rootfs = image[0] == '/';
    const char *wanted = s->runtime && *s->runtime ? s->runtime : rootfs ? "runc" : "podman";
    const char *missing;
    char path[64];

    for (size_t i = 0; i < json_array_size(json_object_get(plan, "procs")); i++)
        if (proc_image(task, i) && proc_image(task, i)[0] == '-')
            return error_set(err, -EINVAL, "image '%s': the name of an image does not begin with a dash",
                             proc_image(task, i));
    if (strcmp(wanted, "none") == 0)
        return error_set(err, -EINVAL, "image '%s' with runtime none", image);
    if (strcmp(wanted, "runc") != 0 && strcmp(wanted, "podman") != 0)
        return error_set(err, -EOPNOTSUPP, "runtime '%s' is not known here; there are runc (a directory) and podman",
                         wanted);
    missing = strcmp(wanted, "podman") == 0 ? podman_short() : program_find(wanted, path, sizeof(path)) ? NULL : wanted;
    if (missing)
        return error_set(err, -EOPNOTSUPP, "image '%s' needs %s, which is not on node %s", image, missing,
                         task->agent->config.node);
    (void)program_find(wanted, path, sizeof(path));
    if (strcmp(wanted, "podman") == 0)
        return podman_wrap(task, dir, plan, path, err);
    if (geteuid() != 0)
        return error_set(err, -EOPNOTSUPP, "runc needs an agent that runs as root");
    for (size_t i = 0; i < json_array_size(json_object_get(plan, "procs")); i++) {
        image = proc_image(task, i);
        if (!rootfs || !user_reaches(plan, image, O_DIRECTORY))
            return error_set(err, -EINVAL, "image '%s': runc takes a directory with a root file system", image);
    }
    return runc_wrap(task, dir, plan, path, err);
}
