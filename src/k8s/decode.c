/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c - pods, nodes and pod groups from JSON; see objects.h.
 *
 * What a pod requests is the larger of what its containers request together and what each of its init containers
 * requests with the sidecars (init containers with restartPolicy Always) started before it, plus its overhead.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects.h"
#include "k8s/quantity.h"
#include "wire/hived/hived_spec.h"
#include "wire/text/decimal.h"

#define HIVED "hivedscheduler.microsoft.com/"

static const char *const mark_names[GANG_MARKS] = {
    "none",
    "spec.schedulingGroup",
    "scheduling.x-k8s.io/pod-group",
    "scheduling.k8s.io/group-name",
    "Kueue pod group",
    "HiveD affinity group",
    "JobSet",
    "indexed Job",
};

const char *gang_mark_name(enum gang_mark mark)
{
    return mark_names[mark];
}

const json_t *json_at(const json_t *object, const char *path)
{
    while (object && *path) {
        size_t length = strcspn(path, "|");

        object = json_object_getn(object, path, length);
        path += length + (path[length] == '|');
    }
    return object;
}

const char *json_at_text(const json_t *object, const char *path)
{
    const char *text = json_string_value(json_at(object, path));

    return text ? text : "";
}

static int copy_text(char *to, size_t size, const json_t *object, const char *path, struct error *err)
{
    const char *text = json_at_text(object, path);

    if (strlen(text) >= size)
        return error_set(err, -EINVAL, "%s: longer than %zu bytes", path, size - 1);
    memcpy(to, text, strlen(text) + 1);
    return 0;
}

/* ---- what containers request ---- */

struct wanted {
    int64_t mcpus, memory, gpus; /* thousandths of CPUs, thousandths of bytes, thousandths of GPUs */
    uint32_t extra_count;
    struct amount extra[EXTRA_MAX];
};

static int64_t add_up(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static bool gpu_resource(const struct gpu_resources *gpus, const char *name)
{
    for (uint32_t i = 0; i < gpus->count; i++)
        if (strcmp(gpus->name[i], name) == 0)
            return true;
    return false;
}

static int64_t *extra_of(struct wanted *wanted, const char *name)
{
    for (uint32_t i = 0; i < wanted->extra_count; i++)
        if (strcmp(wanted->extra[i].name, name) == 0)
            return &wanted->extra[i].milli;
    if (wanted->extra_count == EXTRA_MAX || strlen(name) > NAME_MAX_K8S)
        return NULL;
    (void)snprintf(wanted->extra[wanted->extra_count].name, sizeof(wanted->extra[0].name), "%s", name);
    wanted->extra[wanted->extra_count].milli = 0;
    return &wanted->extra[wanted->extra_count++].milli;
}

static int amount_read(const json_t *value, int64_t *ret)
{
    if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= INT64_MAX / 1000) {
        *ret = json_integer_value(value) * 1000;
        return 0;
    }
    return json_is_string(value) ? quantity_parse(json_string_value(value), ret) : -EINVAL;
}

static int wanted_add(struct wanted *wanted, const struct gpu_resources *gpus, const json_t *resources,
                      struct error *err)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)resources, name, value)
    {
        int64_t amount, *to;

        if (amount_read(value, &amount) < 0)
            return error_set(err, -EINVAL, "resources: '%.100s' is not an amount", name);
        if (strncmp(name, HIVED, sizeof(HIVED) - 1) == 0)
            continue; /* marks the pods that an extender is to see, and is no resource of nodes */
        if (strcmp(name, "cpu") == 0)
            to = &wanted->mcpus;
        else if (strcmp(name, "memory") == 0)
            to = &wanted->memory;
        else if (gpu_resource(gpus, name))
            to = &wanted->gpus;
        else
            to = extra_of(wanted, name);
        if (!to)
            return error_set(err, -EINVAL, "resources: more than %d others than CPU, memory and GPUs", EXTRA_MAX);
        *to = add_up(*to, amount);
    }
    return 0;
}

/* Extended resources may be told as limits alone; the API server then fills in the requests. */
static int container_add(struct wanted *wanted, const struct gpu_resources *gpus, const json_t *container,
                         struct error *err)
{
    const json_t *requests = json_at(container, "resources|requests"), *limits = json_at(container, "resources|limits");
    json_t *both = json_object();
    int r;

    (void)json_object_update(both, (json_t *)(uintptr_t)(json_is_object(limits) ? limits : NULL));
    (void)json_object_update(both, (json_t *)(uintptr_t)(json_is_object(requests) ? requests : NULL));
    r = wanted_add(wanted, gpus, both, err);
    json_decref(both);
    return r;
}

static int wanted_max(struct wanted *to, const struct wanted *other)
{
    if (other->mcpus > to->mcpus)
        to->mcpus = other->mcpus;
    if (other->memory > to->memory)
        to->memory = other->memory;
    if (other->gpus > to->gpus)
        to->gpus = other->gpus;
    for (uint32_t i = 0; i < other->extra_count; i++) {
        int64_t *amount = extra_of(to, other->extra[i].name);

        if (!amount)
            return -EINVAL;
        if (other->extra[i].milli > *amount)
            *amount = other->extra[i].milli;
    }
    return 0;
}

static int init_wanted(struct wanted *wanted, const struct gpu_resources *gpus, const json_t *spec, struct error *err)
{
    struct wanted sidecars = { 0 }, most = { 0 };
    json_t *container;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)json_object_get(spec, "initContainers"), i, container)
    {
        bool sidecar = strcmp(json_at_text(container, "restartPolicy"), "Always") == 0;
        struct wanted here = sidecars;

        if (container_add(&here, gpus, container, err) < 0)
            return -EINVAL;
        if (sidecar)
            sidecars = here;
        if (wanted_max(&most, &here) < 0)
            return error_set(err, -EINVAL, "resources: more than %d others than CPU, memory and GPUs", EXTRA_MAX);
    }
    /* Sidecars run beside the containers as well. */
    wanted->mcpus = add_up(wanted->mcpus, sidecars.mcpus);
    wanted->memory = add_up(wanted->memory, sidecars.memory);
    wanted->gpus = add_up(wanted->gpus, sidecars.gpus);
    return wanted_max(wanted, &most) < 0
               ? error_set(err, -EINVAL, "resources: more than %d others than CPU, memory and GPUs", EXTRA_MAX)
               : 0;
}

static int requests_read(struct k8s_pod *pod, const struct gpu_resources *gpus, const json_t *spec, struct error *err)
{
    struct wanted wanted = { 0 };
    json_t *container;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)json_object_get(spec, "containers"), i, container)
    {
        if (container_add(&wanted, gpus, container, err) < 0)
            return -EINVAL;
    }
    if (init_wanted(&wanted, gpus, spec, err) < 0 ||
        wanted_add(&wanted, gpus, json_object_get(spec, "overhead"), err) < 0)
        return -EINVAL;
    if (wanted.gpus % 1000 || wanted.gpus / 1000 > DEVICES_MAX)
        return error_set(err, -EINVAL, "resources: expected 0 to %d whole GPUs, got %lld/1000", DEVICES_MAX,
                         (long long)wanted.gpus);
    pod->gpus = (uint32_t)(wanted.gpus / 1000);
    pod->mcpus = wanted.mcpus;
    pod->memory = wanted.memory / 1000 + (wanted.memory % 1000 != 0);
    pod->extra_count = wanted.extra_count;
    memcpy(pod->extra, wanted.extra, sizeof(pod->extra));
    return 0;
}

/* ---- what is not honoured is refused ---- */

static const char *unsupported(const json_t *spec)
{
    json_t *constraint;
    size_t i;

    if (json_array_size(json_at(spec, "affinity|podAffinity|requiredDuringSchedulingIgnoredDuringExecution")))
        return "required podAffinity is not supported";
    if (json_array_size(json_at(spec, "affinity|podAntiAffinity|requiredDuringSchedulingIgnoredDuringExecution")))
        return "required podAntiAffinity is not supported";
    json_array_foreach((json_t *)(uintptr_t)json_object_get(spec, "topologySpreadConstraints"), i, constraint)
    {
        if (strcmp(json_at_text(constraint, "whenUnsatisfiable"), "DoNotSchedule") == 0)
            return "topologySpreadConstraints with DoNotSchedule are not supported";
    }
    if (json_array_size(json_object_get(spec, "resourceClaims")))
        return "resourceClaims (DRA) are not supported";
    return NULL;
}

static void wants_read(struct k8s_pod *pod, const json_t *spec)
{
    static const char *const keys[] = { "nodeSelector", "tolerations" };
    const json_t *affinity = json_at(spec, "affinity|nodeAffinity|requiredDuringSchedulingIgnoredDuringExecution");
    const char *refused = unsupported(spec);

    pod->wants = json_object();
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (json_object_get(spec, keys[i]))
            (void)json_object_set(pod->wants, keys[i], json_object_get(spec, keys[i]));
    if (affinity)
        (void)json_object_set(pod->wants, "affinity", (json_t *)(uintptr_t)affinity);
    if (refused)
        pod->refused = json_string(refused);
}

/* ---- the gang ---- */

static int gang_set(struct k8s_pod *pod, enum gang_mark mark, const char *name, uint32_t pods, struct error *err)
{
    if (strlen(name) >= sizeof(pod->gang))
        return error_set(err, -EINVAL, "%s: longer than %zu bytes", gang_mark_name(mark), sizeof(pod->gang) - 1);
    memcpy(pod->gang, name, strlen(name) + 1);
    pod->mark = mark;
    pod->gang_pods = pods;
    return 0;
}

static uint32_t count_read(const char *text)
{
    int64_t value;

    return decimal_parse_i64(text, strlen(text), &value) == 0 && value > 0 && value <= 100000 ? (uint32_t)value : 0;
}

static int hived_read(struct k8s_pod *pod, const char *text, struct error *err)
{
    struct bytes bytes = { .data = (char *)(uintptr_t)text, .size = strlen(text) };
    struct hived_spec *spec = calloc(1, sizeof(*spec));
    uint32_t pods = 0;
    int r = spec ? hived_spec_read("pod-scheduling-spec", &bytes, spec, err) : -ENOMEM;

    if (r == 0 && spec->tree_count)
        r = error_set(err, -EINVAL, "pod-scheduling-spec: version 2 is not supported");
    if (r == 0 && spec->leaves > DEVICES_MAX)
        r = error_set(err, -EINVAL, "pod-scheduling-spec: more than %d devices", DEVICES_MAX);
    for (uint32_t i = 0; r == 0 && i < spec->member_count; i++)
        pods += spec->members[i].pods;
    if (r == 0) {
        pod->hived = true;
        pod->gpus = spec->leaves;
        pod->opportunistic = spec->priority < 0;
        pod->priority = spec->priority;
        pod->priority_hived = true;
        (void)snprintf(pod->vc, sizeof(pod->vc), "%.253s", spec->vc);
        (void)snprintf(pod->sku, sizeof(pod->sku), "%.253s", spec->leaf_type);
        if (!pod->mark && spec->group[0])
            r = gang_set(pod, GANG_HIVED, spec->group, pods, err);
    }
    free(spec);
    return r;
}

static const json_t *controller_of(const json_t *meta)
{
    json_t *owner;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)json_object_get(meta, "ownerReferences"), i, owner)
    {
        if (json_is_true(json_object_get(owner, "controller")))
            return owner;
    }
    return NULL;
}

static int gang_read(struct k8s_pod *pod, const json_t *object, struct error *err)
{
    const json_t *meta = json_object_get(object, "metadata"), *labels = json_object_get(meta, "labels");
    const json_t *notes = json_object_get(meta, "annotations"), *owner = controller_of(meta);
    const char *name;

    name = json_at_text(object, "spec|schedulingGroup|podGroupName");
    if (*name)
        return gang_set(pod, GANG_SCHEDULING, name, 0, err);
    name = json_at_text(labels, "scheduling.x-k8s.io/pod-group");
    if (*name)
        return gang_set(pod, GANG_COSCHED, name, 0, err);
    name = json_at_text(notes, "scheduling.k8s.io/group-name");
    if (*name)
        return gang_set(pod, GANG_VOLCANO, name, 0, err);
    name = json_at_text(labels, "kueue.x-k8s.io/pod-group-name");
    if (*name)
        return gang_set(pod, GANG_KUEUE, name, count_read(json_at_text(notes, "kueue.x-k8s.io/pod-group-total-count")),
                        err);
    if (*json_at_text(notes, HIVED "pod-scheduling-spec"))
        return 0; /* told there, or it is alone */
    name = json_at_text(labels, "jobset.sigs.k8s.io/jobset-name");
    if (*name)
        return gang_set(pod, GANG_JOBSET, name, 0, err);
    name = owner && strcmp(json_at_text(owner, "kind"), "Job") == 0 ? json_at_text(owner, "name") : "";
    if (*name && *json_at_text(notes, "batch.kubernetes.io/job-completion-index"))
        return gang_set(pod, GANG_JOB, name, 0, err);
    return 0;
}

/* ---- pods ---- */

static enum pod_phase phase_read(const char *text)
{
    static const char *const names[] = { "Pending", "Running", "Succeeded", "Failed" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], text) == 0)
            return (enum pod_phase)i;
    return *text ? POD_UNKNOWN : POD_PENDING;
}

/* "0,1,5": the devices that a bound pod has. */
static int devices_read(struct k8s_pod *pod, const char *text, struct error *err)
{
    while (*text) {
        size_t length = strcspn(text, ",");
        int64_t value;

        if (decimal_parse_i64(text, length, &value) < 0 || value < 0 || value > UINT16_MAX)
            return error_set(err, -EINVAL, "muster.io/gpus: expected numbers with commas, got '%.40s'", text);
        if (pod->device_count == DEVICES_MAX)
            return error_set(err, -EINVAL, "muster.io/gpus: more than %d devices", DEVICES_MAX);
        pod->devices[pod->device_count++] = (uint16_t)value;
        text += length + (text[length] == ',');
    }
    return 0;
}

static int notes_read(struct k8s_pod *pod, const json_t *object, struct error *err)
{
    const json_t *notes = json_at(object, "metadata|annotations"), *labels = json_at(object, "metadata|labels");
    const char *text = json_at_text(notes, HIVED "pod-scheduling-spec");
    int r = 0;

    pod->placed = json_is_string(json_object_get(notes, "muster.io/gpus"));
    if (pod->placed)
        r = devices_read(pod, json_at_text(notes, "muster.io/gpus"), err);
    if (r == 0 && *json_at_text(notes, "muster.io/gang-plan"))
        pod->plan = json_loads(json_at_text(notes, "muster.io/gang-plan"), JSON_REJECT_DUPLICATES, NULL);
    pod->whole = *json_at_text(notes, "muster.io/gang-bound") != '\0';
    if (r == 0 && *text)
        r = hived_read(pod, text, err);
    if (r == 0 && *json_at_text(labels, "muster.io/vc"))
        r = copy_text(pod->vc, sizeof(pod->vc), labels, "muster.io/vc", err);
    text = json_at_text(labels, "muster.io/class");
    if (*text && strcmp(text, "opportunistic") != 0 && strcmp(text, "guaranteed") != 0)
        r = error_set(err, -EINVAL, "muster.io/class: expected guaranteed or opportunistic, got '%.60s'", text);
    if (*text)
        pod->opportunistic = strcmp(text, "opportunistic") == 0;
    return r;
}

static int names_read(struct k8s_pod *pod, const json_t *object, struct error *err)
{
    if (copy_text(pod->name, sizeof(pod->name), object, "metadata|name", err) < 0 ||
        copy_text(pod->namespace, sizeof(pod->namespace), object, "metadata|namespace", err) < 0 ||
        copy_text(pod->uid, sizeof(pod->uid), object, "metadata|uid", err) < 0 ||
        copy_text(pod->node, sizeof(pod->node), object, "spec|nodeName", err) < 0 ||
        copy_text(pod->scheduler, sizeof(pod->scheduler), object, "spec|schedulerName", err) < 0)
        return -EINVAL;
    if (!pod->name[0] || !pod->namespace[0] || !pod->uid[0])
        return error_set(err, -EINVAL, "metadata: expected name, namespace and uid");
    return 0;
}

int pod_decode(const json_t *object, const struct gpu_resources *gpus, struct k8s_pod *ret_pod, struct error *err)
{
    const json_t *spec = json_object_get(object, "spec");
    struct k8s_pod pod = { 0 };
    struct error why = { 0 };
    int64_t priority = json_integer_value(json_object_get(spec, "priority"));

    if (names_read(&pod, object, err) < 0)
        return -EINVAL;
    if (time_parse(json_at_text(object, "metadata|creationTimestamp"), &pod.created) < 0)
        return error_set(err, -EINVAL, "metadata.creationTimestamp: expected a time");
    pod.phase = phase_read(json_at_text(object, "status|phase"));
    pod.deleting = json_is_string(json_at(object, "metadata|deletionTimestamp"));
    pod.gated = json_array_size(json_object_get(spec, "schedulingGates")) > 0;
    pod.priority = priority < INT32_MIN || priority > INT32_MAX ? 0 : (int32_t)priority;
    pod.deadline_span = json_integer_value(json_object_get(spec, "activeDeadlineSeconds"));
    pod.deadline_span = pod.deadline_span < 0 || pod.deadline_span > INT32_MAX ? 0 : pod.deadline_span * USEC_SEC;
    wants_read(&pod, spec);
    /* What is wrong with its request is told to whoever made the pod: it is known, and waits with that reason. */
    if (requests_read(&pod, gpus, spec, &why) < 0 || gang_read(&pod, object, &why) < 0 ||
        notes_read(&pod, object, &why) < 0) {
        json_decref(pod.refused);
        pod.refused = json_string(why.text);
    }
    *ret_pod = pod;
    return 0;
}

void pod_done(struct k8s_pod *pod)
{
    json_decref(pod->wants);
    json_decref(pod->refused);
    json_decref(pod->plan);
}

/* ---- nodes ---- */

static int64_t amount_of(const json_t *resources, const char *name)
{
    int64_t amount = 0;

    return amount_read(json_object_get(resources, name), &amount) < 0 ? 0 : amount;
}

static uint32_t gpus_of(const json_t *resources, const struct gpu_resources *gpus)
{
    for (uint32_t i = 0; i < gpus->count; i++) {
        int64_t amount = amount_of(resources, gpus->name[i]) / 1000;

        if (amount > 0)
            return amount > 256 ? 256 : (uint32_t)amount;
    }
    return 0;
}

static bool node_ready(const json_t *object)
{
    json_t *condition;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)json_at(object, "status|conditions"), i, condition)
    {
        if (strcmp(json_at_text(condition, "type"), "Ready") == 0)
            return strcmp(json_at_text(condition, "status"), "True") == 0;
    }
    return false;
}

int node_decode(const json_t *object, const struct gpu_resources *gpus, struct k8s_node *ret_node, struct error *err)
{
    const json_t *spec = json_object_get(object, "spec"), *have = json_at(object, "status|allocatable");
    json_t *labels = (json_t *)(uintptr_t)json_at(object, "metadata|labels"), *value;
    struct k8s_node node = { .index = UINT32_MAX };
    const char *name;

    if (copy_text(node.name, sizeof(node.name), object, "metadata|name", err) < 0)
        return -EINVAL;
    if (!node.name[0])
        return error_set(err, -EINVAL, "metadata.name: expected the name of a node");
    node.ready = node_ready(object);
    node.closed = json_is_true(json_object_get(spec, "unschedulable"));
    node.gpus = gpus_of(json_at(object, "status|capacity"), gpus);
    node.gpus_good = gpus_of(have, gpus);
    if (node.gpus < node.gpus_good)
        node.gpus = node.gpus_good;
    node.mcpus = amount_of(have, "cpu");
    node.memory = amount_of(have, "memory") / 1000;
    json_object_foreach((json_t *)(uintptr_t)have, name, value)
    {
        struct amount *extra = &node.extra[node.extra_count % NODE_EXTRA_MAX];

        if (node.extra_count == NODE_EXTRA_MAX)
            break;
        if (strcmp(name, "cpu") == 0 || strcmp(name, "memory") == 0 || gpu_resource(gpus, name) ||
            strlen(name) > NAME_MAX_K8S || amount_read(value, &extra->milli) < 0)
            continue;
        (void)snprintf(extra->name, sizeof(extra->name), "%s", name);
        node.extra_count++;
    }
    node.labels = json_is_object(labels) ? json_incref(labels) : json_object();
    node.taints = json_incref(json_object_get(spec, "taints"));
    *ret_node = node;
    return 0;
}

void node_done(struct k8s_node *node)
{
    json_decref(node->labels);
    json_decref(node->taints);
}

int pod_group_decode(const json_t *object, uint32_t *ret_least, struct error *err)
{
    const json_t *spec = json_object_get(object, "spec");
    const json_t *least = json_object_get(spec, "minMember"), *policy = json_object_get(spec, "schedulingPolicy");

    if (json_object_get(policy, "basic")) {
        *ret_least = 0;
        return 0;
    }
    if (json_at(policy, "gang|minCount"))
        least = json_at(policy, "gang|minCount");
    if (!json_is_integer(least) || json_integer_value(least) < 1 || json_integer_value(least) > 100000)
        return error_set(err, -EINVAL, "PodGroup: expected minMember or schedulingPolicy.gang.minCount, 1 to 100000");
    *ret_least = (uint32_t)json_integer_value(least);
    return 0;
}
