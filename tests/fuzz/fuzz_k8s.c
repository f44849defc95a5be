/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of Kubernetes: pods, nodes, pod groups, and whether the one may be on the other. A text is one object, or an
 * array of a pod and a node. What was decoded keeps its limits. */
#include "fuzz.h"
#include "k8s/match.h"
#include "k8s/quantity.h"
#include "wire/text/json_read.h"

static const struct gpu_resources gpus = { .name = { "nvidia.com/gpu", "amd.com/gpu" }, .count = 2 };

static void check_pod(const struct k8s_pod *pod)
{
    CHECK(pod->gpus <= DEVICES_MAX && pod->device_count <= DEVICES_MAX && pod->extra_count <= EXTRA_MAX);
    CHECK(pod->mcpus >= 0 && pod->memory >= 0 && pod->name[0] && pod->namespace[0] && pod->uid[0]);
    CHECK(pod->mark < GANG_MARKS && (pod->mark == GANG_NONE || pod->gang[0]));
    CHECK(json_is_object(pod->wants) && (!pod->refused || json_is_string(pod->refused)));
    for (uint32_t i = 0; i < pod->extra_count; i++)
        CHECK(pod->extra[i].milli >= 0 && pod->extra[i].name[0]);
}

static void check_node(const struct k8s_node *node)
{
    CHECK(node->name[0] && node->gpus >= node->gpus_good && node->gpus <= 256 && node->extra_count <= NODE_EXTRA_MAX);
    CHECK(node->mcpus >= 0 && node->memory >= 0 && json_is_object(node->labels));
}

static void try_object(const json_t *object, const json_t *other)
{
    struct k8s_pod pod = { 0 };
    struct k8s_node node = { 0 };
    struct error err = { 0 };
    uint32_t least = 0;
    int r = pod_decode(object, &gpus, &pod, &err), n;

    if (r < 0)
        CHECK(err.text[0]);
    else
        check_pod(&pod);
    n = node_decode(other, &gpus, &node, &err);
    if (n == 0)
        check_node(&node);
    if (r == 0 && n == 0)
        CHECK(match_node(pod.wants, &node) < MATCH_COUNT);
    if (pod_group_decode(object, &least, &err) == 0)
        CHECK(least <= 100000);
    if (r == 0)
        pod_done(&pod);
    if (n == 0)
        node_done(&node);
}

/* A quantity or a time that was read is one that can be. */
static void try_text(const char *text)
{
    int64_t value = -1, again = -1;
    char out[TIME_TEXT_MAX];

    if (quantity_parse(text, &value) == 0)
        CHECK(value >= 0);
    if (time_parse(text, &value) == 0) {
        time_print(value, out);
        CHECK(time_parse(out, &again) == 0 && again == value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = fuzz_copy(data, size);
    struct error err = { 0 };
    json_t *json = NULL;

    if (json_read("object", text.data, text.size, &json, &err) == 0) {
        if (json_is_array(json) && json_array_size(json) == 2)
            try_object(json_array_get(json, 0), json_array_get(json, 1));
        else if (json_is_string(json))
            try_text(json_string_value(json));
        else
            try_object(json, json);
    }
    json_decref(json);
    bytes_done(&text);
    return 0;
}
