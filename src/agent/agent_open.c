/* SPDX-License-Identifier: Apache-2.0 */
/* agent_open.c - what an agent finds or makes before it dials: its configuration, state directory, lease, GPUs and
 * groups.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/util.h"
#include "base/alloc.h"
#include "io/beneath.h"
#include "io/log.h"

static int lease_open(struct agent *agent, struct error *err)
{
    int fd = openat(agent->dir, "lease", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *map;

    if (fd < 0 || ftruncate(fd, sizeof(int64_t)) < 0) {
        int r = error_set(err, -errno, "%s/lease: %s", agent->state_path, strerror(errno));

        if (fd >= 0)
            close(fd);
        return r;
    }
    map = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return error_set(err, -errno, "%s/lease: %s", agent->state_path, strerror(errno));
    agent->lease_until = map;
    return 0;
}

/* Only one agent at a time may own the state. */
static int state_lock(struct agent *agent, struct error *err)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int fd = openat(agent->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        return error_set(err, -errno, "%s/lock: %s", agent->state_path, strerror(errno));
    if (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
        close(fd);
        return error_set(err, -EBUSY, "%s: another agent uses this directory", agent->state_path);
    }
    agent->lock = fd;
    return 0;
}

static bool private_tmp_wanted(const struct agent *agent)
{
    bool emulated = agent->config.fake && !agent->config.real_defaults;

    return geteuid() == 0 && (agent->config.private_tmp > 0 || (agent->config.private_tmp < 0 && !emulated));
}

const char *agent_tmp_name(const struct agent *agent)
{
    return agent->private_tmp ? "private" : "tmp";
}

/* Where each task has its own /tmp its folder is reached there: others may not enter on the way to it. */
static int folders_open(struct agent *agent)
{
    int r = beneath_dir_ensure(agent->dir, "logs", 0700);

    if (r < 0)
        return r;
    agent->private_tmp = private_tmp_wanted(agent);
    agent->tmp_dir = beneath_dir_make(agent->dir, agent_tmp_name(agent), 0711);
    agent->tmp_other = beneath_open(agent->dir, agent->private_tmp ? "tmp" : "private", O_RDONLY | O_DIRECTORY, 0);
    if (agent->tmp_dir < 0)
        return agent->tmp_dir;
    return agent->private_tmp && fchmod(agent->tmp_dir, 0700) < 0 ? -errno : 0;
}

static int dirs_open(struct agent *agent, struct error *err)
{
    char path[PATH_MAX];
    const char *state = agent->config.state;
    int r;

    for (const char *p = state; (p = strchr(p + 1, '/'));) {
        (void)snprintf(path, sizeof(path), "%.*s", (int)(p - state), state);
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return error_set(err, -errno, "%s: %s", path, strerror(errno));
    }
    if (mkdir(state, 0755) < 0 && errno != EEXIST)
        return error_set(err, -errno, "%s: %s", state, strerror(errno));
    if (!realpath(state, path) || strlen(path) >= sizeof(agent->state_path))
        return error_set(err, -ENAMETOOLONG, "%s: %s", state, strerror(errno));
    memcpy(agent->state_path, path, strlen(path) + 1);
    agent->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (agent->dir < 0)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    r = folders_open(agent);
    if (r < 0)
        return error_set(err, r, "%s/logs or %s/%s: %s", path, path, agent_tmp_name(agent), strerror(-r));
    r = state_lock(agent, err);
    if (r < 0)
        return r;
    r = place_open(agent);
    return r < 0 ? error_set(err, r, "%s/tasks: %s", path, strerror(-r)) : 0;
}

static void boot_read(struct agent *agent)
{
    CLEANUP_BYTES struct bytes text = { 0 };

    if (util_file_get(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &text, NULL) == 0)
        (void)snprintf(agent->boot, sizeof(agent->boot), "%.36s", text.data);
}

/* The number of the board, which a copy of its disk does not have. Root may read it; a virtual machine has one too. */
static void machine_read(struct agent *agent)
{
    CLEANUP_BYTES struct bytes text = { 0 };

    if (util_file_get(AT_FDCWD, "/sys/class/dmi/id/product_uuid", 64, &text, NULL) == 0 && text.data)
        (void)snprintf(agent->machine, sizeof(agent->machine), "%.*s", (int)strcspn(text.data, " \n"), text.data);
}

static void instance_draw(struct agent *agent)
{
    uint64_t words[2] = { 0 };

    (void)!getrandom(words, sizeof(words), 0);
    (void)snprintf(agent->instance, sizeof(agent->instance), "%016llx%016llx", (unsigned long long)words[0],
                   (unsigned long long)words[1]);
}

static int gpus_find(struct agent *agent, struct error *err)
{
    char health[PATH_MAX];
    struct error why = { 0 };
    int r;

    if (agent->config.fake) {
        (void)snprintf(health, sizeof(health), "%s/gpu-health", agent->state_path);
        return gpus_open_fake(agent->config.fake, health, &agent->gpus, err);
    }
    r = gpus_open_nvml(&agent->gpus, &why);
    if (r == 0 && agent->gpus->count == 0) {
        struct gpus *amd = NULL;

        if (gpus_open_amd("", &amd, NULL) == 0 && amd->count > 0) {
            gpus_close(agent->gpus);
            agent->gpus = take(amd);
            why.code = 0;
        }
        gpus_close(amd);
    }
    if (r == 0 && why.code)
        log_warn("no GPUs", "node", agent->config.node, "why", why.text);
    if (r == 0 && agent->gpus->count && gpu_topology(agent->gpus, NULL, &why) < 0)
        log_warn("topology is not known", "node", agent->config.node, "why", why.text);
    return r < 0 ? error_set(err, r, "%s", why.text) : 0;
}

void agent_groups(struct agent *agent)
{
    char name[128];
    uint32_t hash = 2166136261U;

    for (const char *p = agent->state_path; *p; p++)
        hash = (hash ^ (uint8_t)*p) * 16777619U;
    (void)snprintf(name, sizeof(name), "%.80s-%08x", agent->config.node, hash);
    cgroup_find(agent->config.cgroup, name, &agent->cgroup);
    if (agent->cgroup.path[0])
        cgroup_own(agent->cgroup.path, agent->state_path, agent->set->count == 0);
    if (agent->cgroup.why[0] && !agent->config.fake)
        log_warn("limits", "node", agent->config.node, "why", agent->cgroup.why);
}

/* One block holds all texts of the configuration. */
int agent_configure(struct agent *agent, const struct agent_config *config)
{
    const char **texts[] = { &agent->config.url,    &agent->config.node,    &agent->config.state,
                             &agent->config.fake,   &agent->config.address, &agent->config.labels,
                             &agent->config.cgroup, &agent->config.reboot,  &agent->config.tls_name };
    size_t size = 0;
    char *at;

    agent->config = *config;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        size += *texts[i] ? strlen(*texts[i]) + 1 : 0;
    agent->strings = at = mem_zalloc(size + 1, 1);
    if (!at)
        return -ENOMEM;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (*texts[i]) {
            size = strlen(*texts[i]) + 1;
            memcpy(at, *texts[i], size);
            *texts[i] = at;
            at += size;
        }
    return 0;
}

int agent_open(struct agent *agent, struct error *err)
{
    struct conn_target target;
    int r = conn_target_parse(agent->config.url, &target, err);

    if (r == 0)
        r = dirs_open(agent, err);
    if (r == 0)
        r = lease_open(agent, err);
    boot_read(agent);
    machine_read(agent);
    instance_draw(agent);
    if (r == 0)
        r = journal_open(&agent->journal, agent->dir, agent->config.durable ? agent->boot : NULL, err);
    if (r == 0 && agent->journal.damaged)
        log_err("the journal of reports was damaged; it is kept as journal.damaged, and tasks are reported anew",
                "node", agent->config.node, "lines", LOG_I64((int64_t)agent->journal.damaged));
    if (r == 0)
        r = gpus_find(agent, err);
    return r;
}
