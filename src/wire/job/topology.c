/* SPDX-License-Identifier: Apache-2.0 */
/* topology.c - see topology.h. */
#include "wire/job/topology.h"

#include <errno.h>
#include <string.h>

#include "model/cluster.h"
#include "wire/text/decimal.h"

static const struct {
    const char *name;
    uint8_t level;
} words[] = {
    { "group", WITHIN_GROUP }, { "socket", WITHIN_SOCKET }, { "node", WITHIN_NODE },
    { "rack", WITHIN_RACK },   { "domain", WITHIN_DOMAIN }, { "nvlink", WITHIN_GROUP },
    { "numa", WITHIN_SOCKET }, { "pod", WITHIN_DOMAIN },    { "switch", WITHIN_GROUP },
};

uint8_t topology_find(const char *text, size_t length)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (strlen(words[i].name) == length && memcmp(words[i].name, text, length) == 0)
            return words[i].level;
    return WITHIN_ANY;
}

const char *topology_level(uint8_t level)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (words[i].level == level)
            return words[i].name;
    return "any";
}

int topology_parse(const char *text, size_t length, uint8_t *ret_within, bool *ret_must)
{
    const char *colon = memchr(text, ':', length);
    size_t word = colon ? (size_t)(colon - text) : length;
    uint8_t level = topology_find(text, word);

    if (level == WITHIN_ANY)
        return -EINVAL;
    *ret_must = colon && length - word == 5 && memcmp(colon, ":must", 5) == 0;
    if (colon && !*ret_must && !(length - word == 7 && memcmp(colon, ":prefer", 7) == 0))
        return -EINVAL;
    *ret_within = level;
    return 0;
}

int cells_parse(const char *text, size_t length, uint8_t *ret_unit, uint16_t *ret_gpus)
{
    const char *colon = memchr(text, ':', length);
    uint8_t level = topology_find(text, colon ? (size_t)(colon - text) : 0);
    int64_t gpus;

    if (level == WITHIN_ANY || level > WITHIN_NODE ||
        decimal_parse_i64(colon + 1, length - (size_t)(colon - text) - 1, &gpus) < 0 || gpus < 1 ||
        gpus > NODE_GPUS_MAX)
        return -EINVAL;
    *ret_unit = level;
    *ret_gpus = (uint16_t)gpus;
    return 0;
}
