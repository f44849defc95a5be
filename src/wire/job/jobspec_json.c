/* SPDX-License-Identifier: Apache-2.0 */
/* jobspec_json.c - see jobspec_json.h. One list of fields for both directions. */
#include "wire/job/jobspec_json.h"

#include <string.h>

#include "wire/text/json_read.h"

#define FIELDS(X)                                                                                                      \
    X(id)                                                                                                              \
    X(submit)                                                                                                          \
    X(estimate)                                                                                                        \
    X(time_limit)                                                                                                      \
    X(user)                                                                                                            \
    X(vc)                                                                                                              \
    X(model)                                                                                                           \
    X(gpus)                                                                                                            \
    X(tasks)                                                                                                           \
    X(mcpus)                                                                                                           \
    X(host_mib)                                                                                                        \
    X(per_unit)                                                                                                        \
    X(unit)                                                                                                            \
    X(within)                                                                                                          \
    X(within_must)                                                                                                     \
    X(share)                                                                                                           \
    X(gpus_min)                                                                                                        \
    X(gpus_max)                                                                                                        \
    X(range_min)                                                                                                       \
    X(range_max)                                                                                                       \
    X(servers)                                                                                                         \
    X(gpu_servers)                                                                                                     \
    X(bandwidth)                                                                                                       \
    X(launch)                                                                                                          \
    X(save)                                                                                                            \
    X(memory_mib)                                                                                                      \
    X(memory_peak_mib)                                                                                                 \
    X(batch)                                                                                                           \
    X(sku_mask)                                                                                                        \
    X(utilisation)                                                                                                     \
    X(per_node)                                                                                                        \
    X(mark)                                                                                                            \
    X(kept)                                                                                                            \
    X(skew_permille)                                                                                                   \
    X(tp)                                                                                                              \
    X(pp)                                                                                                              \
    X(splice_max)                                                                                                      \
    X(priority)                                                                                                        \
    X(klass)                                                                                                           \
    X(tier)                                                                                                            \
    X(slo)                                                                                                             \
    X(deadline_count)                                                                                                  \
    X(retries)                                                                                                         \
    X(no_requeue)                                                                                                      \
    X(preempt)                                                                                                         \
    X(min_runtime)

/* Parts on other types of GPU: [gpus, types, a node, CPUs, memory]. */
static json_t *sides_json(const struct jobspec *spec)
{
    json_t *out = json_array();

    for (uint32_t i = 0; i < spec->side_count; i++) {
        const struct gang_side *side = &spec->sides[i];

        (void)json_array_append_new(out,
                                    json_pack("[i, I, i, I, I]", side->gpus, (json_int_t)side->sku_mask, side->per_node,
                                              (json_int_t)side->mcpus, (json_int_t)side->host_mib));
    }
    return out;
}

static json_t *retry_on_json(const struct jobspec *spec)
{
    json_t *out = json_array();

    for (uint32_t i = 0; i < spec->retry_on_count; i++)
        (void)json_array_append_new(out, json_integer(spec->retry_on[i]));
    return out;
}

static void retry_on_read(const json_t *codes, struct jobspec *spec)
{
    spec->retry_on_count = 0;
    for (size_t i = 0; i < json_array_size(codes) && i < RETRY_CODES_MAX; i++)
        spec->retry_on[spec->retry_on_count++] = (uint8_t)json_integer_value(json_array_get(codes, i));
}

json_t *wants_json(const struct jobspec *spec)
{
    json_t *out = json_object(), *deadlines = json_array(), *licenses = json_array();

#define X(field)                                                                                                       \
    if (spec->field)                                                                                                   \
        (void)json_object_set_new(out, #field, json_integer((json_int_t)spec->field));
    FIELDS(X)
#undef X
    for (uint32_t i = 0; i < spec->deadline_count; i++)
        (void)json_array_append_new(deadlines,
                                    json_pack("[I, i]", (json_int_t)spec->deadlines[i].at, spec->deadlines[i].value));
    (void)json_object_set_new(out, "deadlines", deadlines);
    for (uint32_t i = 0; i < spec->license_count; i++)
        (void)json_array_append_new(
            licenses, json_pack("[i, I]", spec->licenses[i].license, (json_int_t)spec->licenses[i].count));
    if (spec->license_count)
        (void)json_object_set(out, "licenses", licenses);
    json_decref(licenses);
    if (spec->side_count)
        (void)json_object_set_new(out, "sides", sides_json(spec));
    if (spec->retry_on_count)
        (void)json_object_set_new(out, "retry_on", retry_on_json(spec));
    return out;
}

static void sides_read(const json_t *sides, struct jobspec *spec)
{
    spec->side_count = 0;
    for (size_t i = 0; i < json_array_size(sides) && i < SIDES_MAX; i++) {
        const json_t *from = json_array_get(sides, i);

        spec->sides[spec->side_count++] =
            (struct gang_side){ .gpus = (int32_t)json_integer_value(json_array_get(from, 0)),
                                .sku_mask = (uint32_t)json_integer_value(json_array_get(from, 1)),
                                .per_node = (uint16_t)json_integer_value(json_array_get(from, 2)),
                                .mcpus = (uint32_t)json_integer_value(json_array_get(from, 3)),
                                .host_mib = (uint32_t)json_integer_value(json_array_get(from, 4)) };
    }
}

void wants_read(const json_t *json, struct jobspec *spec)
{
    const json_t *deadlines = json_object_get(json, "deadlines"), *licenses = json_object_get(json, "licenses");

#define X(field) spec->field = (__typeof__(spec->field))json_integer_value(json_object_get(json, #field));
    FIELDS(X)
#undef X
    if (spec->deadline_count > DEADLINES_MAX)
        spec->deadline_count = DEADLINES_MAX;
    for (uint32_t i = 0; i < spec->deadline_count; i++) {
        const json_t *from = json_array_get(deadlines, i);

        spec->deadlines[i] = (struct deadline){ json_integer_value(json_array_get(from, 0)),
                                                (int32_t)json_integer_value(json_array_get(from, 1)) };
    }
    spec->license_count = 0;
    for (size_t i = 0; i < json_array_size(licenses) && i < LICENSE_NEEDS_MAX; i++) {
        const json_t *from = json_array_get(licenses, i);

        spec->licenses[spec->license_count++] =
            (struct license_need){ .license = (uint8_t)json_integer_value(json_array_get(from, 0)),
                                   .count = (uint32_t)json_integer_value(json_array_get(from, 1)) };
    }
    sides_read(json_object_get(json, "sides"), spec);
    retry_on_read(json_object_get(json, "retry_on"), spec);
}

void wants_from_doc(const char *doc, struct jobspec *spec)
{
    json_t *tree = NULL;

    if (json_read("wants", doc, strlen(doc), &tree, NULL) < 0)
        tree = NULL;
    wants_read(tree, spec);
    json_decref(tree);
}
