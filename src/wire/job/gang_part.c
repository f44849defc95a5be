/* SPDX-License-Identifier: Apache-2.0 */
/* gang_part.c - see gang_part.h. */
#include "wire/job/gang_part.h"

#include <errno.h>
#include <string.h>

#include "model/cluster.h"
#include "wire/text/decimal.h"

/* The text up to `stop` or its end; *at goes behind it. */
static size_t piece(const char **at, const char *end, char stop, const char **ret_text)
{
    const char *found = memchr(*at, stop, (size_t)(end - *at));

    *ret_text = *at;
    *at = found ? found + 1 : end;
    return (size_t)((found ? found : end) - *ret_text);
}

static int types_add(struct gang_side *side, struct names *names, const char *text, size_t length)
{
    const char *at = text, *end = text + length, *name;

    while (at < end) {
        size_t size = piece(&at, end, '|', &name);
        uint32_t type;
        int r;

        if (size == 0 || size > NAME_LENGTH_MAX || memchr(name, '\0', size))
            return -EINVAL;
        r = names_put(names, name, size, &type);
        if (r < 0)
            return r;
        if (type >= SKUS_MAX)
            return -E2BIG;
        side->sku_mask |= 1u << type;
    }
    return side->sku_mask ? 0 : -EINVAL;
}

int side_add(struct jobspec *spec, struct names *names, const char *text, size_t length)
{
    const int64_t most[] = { GANG_GPUS_MAX, NODE_GPUS_MAX, (int64_t)1 << 26, (int64_t)1 << 26 };
    const char *at = text, *end = text + length, *part;
    int64_t values[4] = { 0 };
    struct gang_side side = { 0 };
    size_t size = piece(&at, end, ':', &part), count = 0;
    int r;

    if (spec->side_count == SIDES_MAX)
        return -E2BIG;
    r = types_add(&side, names, part, size);
    if (r < 0)
        return r;
    for (; at < end && count < 4; count++) {
        size = piece(&at, end, ':', &part);
        if (decimal_parse(part, size, count == 2 ? 1000 : 1, &values[count]) < 0 || values[count] < 0 ||
            values[count] > most[count])
            return -EINVAL;
    }
    if (at < end || count < 2 || values[0] < 1 || values[1] < 1 || values[0] % values[1])
        return -EINVAL;
    side.gpus = (int32_t)values[0];
    side.per_node = (uint16_t)values[1];
    side.mcpus = (uint32_t)values[2];
    side.host_mib = (uint32_t)values[3];
    spec->sides[spec->side_count++] = side;
    return 0;
}

/* By name, so that the text does not depend on the order in which the types were met. */
static void types_put(struct buf *out, const struct names *names, uint32_t mask)
{
    for (bool more = false; mask; more = true) {
        uint32_t first = (uint32_t)__builtin_ctz(mask);

        for (uint32_t t = first + 1; t < names->count && t < SKUS_MAX; t++)
            if (mask >> t & 1 && strcmp(names_get(names, t), names_get(names, first)) < 0)
                first = t;
        mask &= ~(1u << first);
        buf_printf(out, "%s%s", more ? "|" : "", names_get(names, first));
    }
}

void sides_put(struct buf *out, const struct names *names, const struct jobspec *spec)
{
    for (uint32_t i = 0; i < spec->side_count; i++) {
        const struct gang_side *side = &spec->sides[i];

        if (i)
            buf_char(out, ';');
        types_put(out, names, side->sku_mask);
        buf_printf(out, ":%d:%u", side->gpus, side->per_node);
        if (side->mcpus || side->host_mib) {
            buf_char(out, ':');
            decimal_put(out, side->mcpus, 1000);
        }
        if (side->host_mib)
            buf_printf(out, ":%u", side->host_mib);
    }
}
