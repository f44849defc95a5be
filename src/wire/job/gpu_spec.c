/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_spec.c - see gpu_spec.h. */
#include "wire/job/gpu_spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "model/jobspec.h"
#include "wire/text/decimal.h"
#include "wire/text/duration.h"
#include "wire/text/suggest.h"

static const char *dots_find(const char *text, size_t length)
{
    return memmem(text, length, "..", 2);
}

static bool count_take(const char *text, size_t length, int32_t *ret_count)
{
    int64_t value;

    if (length == 0 || !isdigit((unsigned char)*text) || decimal_parse_i64(text, length, &value) < 0 || value < 1 ||
        value > GANG_GPUS_MAX)
        return false;
    *ret_count = (int32_t)value;
    return true;
}

static bool count_parse(const char *text, size_t length, struct gpu_spec *spec)
{
    const char *dots = dots_find(text, length);
    int64_t share;

    spec->share = MGPU_ONE;
    if (dots) {
        size_t head = (size_t)(dots - text);

        return count_take(text, head, &spec->count) && count_take(dots + 2, length - head - 2, &spec->count_max) &&
               spec->count_max >= spec->count;
    }
    if (memchr(text, '.', length)) {
        if (decimal_parse(text, length, MGPU_ONE, &share) < 0 || share < 1 || share >= MGPU_ONE)
            return false;
        spec->share = (mgpu_t)share;
        spec->count = spec->count_max = 1;
        return true;
    }
    if (!count_take(text, length, &spec->count))
        return false;
    spec->count_max = spec->count;
    return true;
}

static bool selector_check(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("-_.|+ ", text[i]))
            return false;
    return length > 0 && text[0] != '|' && text[length - 1] != '|';
}

int gpu_spec_parse(const char *text, size_t length, struct gpu_spec *ret_spec, struct error *err)
{
    struct gpu_spec spec = { 0 };
    const char *count = text, *colon;
    size_t head = 0;
    char shown[SHOWN_MAX];

    if (length >= 4 && strncasecmp(text, "gpu:", 4) == 0) {
        text += 4;
        length -= 4;
        count = text;
    }
    colon = memrchr(text, ':', length);
    if (colon) {
        head = (size_t)(colon - text);
        count = colon + 1;
    }
    if (memchr(text, '/', head))
        return error_set(err, -EINVAL, "parts of a GPU by MIG ('%s') are not supported; ask for a share such as 0.5",
                         suggest_shown(text, head, shown));
    if (head >= sizeof(spec.selector) || (colon && !selector_check(text, head)))
        return error_set(err, -EINVAL, "expected a type such as H100, H100|A100 or 40G.., got '%s'",
                         suggest_shown(text, head, shown));
    memcpy(spec.selector, text, head);
    if (!count_parse(count, length - (size_t)(count - text), &spec))
        return error_set(err, -EINVAL, "expected GPUs as [TYPE:]COUNT such as 8, H100:8, 4..16 or 0.5, got '%s'",
                         suggest_shown(text, length, shown));
    *ret_spec = spec;
    return 0;
}

void gpu_spec_put(struct buf *out, const struct gpu_spec *spec)
{
    if (spec->selector[0])
        buf_printf(out, "%s:", spec->selector);
    if (spec->share < MGPU_ONE)
        decimal_put(out, spec->share, MGPU_ONE);
    else if (spec->count_max > spec->count)
        buf_printf(out, "%d..%d", spec->count, spec->count_max);
    else
        buf_printf(out, "%d", spec->count);
}

static bool word_means(const char *word, size_t length, const struct cluster_spec *cluster, const struct sku_spec *sku)
{
    const char *name = names_get(&cluster->names, sku->name);
    const char *dots = dots_find(word, length);
    uint64_t bytes;

    if (strlen(name) == length && strncasecmp(name, word, length) == 0)
        return true;
    return dots == word + length - 2 && length > 2 && size_parse_bytes(word, length - 2, &bytes) == 0 &&
           (uint64_t)sku->memory_mib << 20 >= bytes;
}

uint32_t gpu_selector_mask(const char *selector, const struct cluster_spec *cluster)
{
    uint32_t mask = 0;

    if (!selector || !*selector)
        return (uint32_t)((UINT64_C(1) << cluster->sku_count) - 1);
    for (const char *word = selector; word;) {
        const char *bar = strchr(word, '|');
        size_t length = bar ? (size_t)(bar - word) : strlen(word);

        for (uint32_t i = 0; i < cluster->sku_count; i++)
            if (word_means(word, length, cluster, &cluster->skus[i]))
                mask |= UINT32_C(1) << i;
        word = bar ? bar + 1 : NULL;
    }
    return mask;
}
