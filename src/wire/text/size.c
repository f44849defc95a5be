/* SPDX-License-Identifier: Apache-2.0 */
/* size.c - see size.h. */
#include "wire/text/size.h"

#include <errno.h>
#include <string.h>

#include "wire/text/decimal.h"

int size_parse_mib(const char *text, size_t length, uint32_t *ret_mib)
{
    static const char letters[] = "KMGT";
    static const int64_t kib[] = { 1, 1 << 10, 1 << 20, 1 << 30 };
    const char *letter;
    int64_t scale = 1 << 10, value;

    if (length > 2 && text[length - 1] == 'B' && text[length - 2] == 'i')
        length -= 2;
    else if (length > 1 && (text[length - 1] == 'B' || text[length - 1] == 'i')) /* 54Gi, as Kubernetes has it */
        length -= 1;
    letter = length && text[length - 1] ? strchr(letters, text[length - 1]) : NULL;
    if (letter) {
        scale = kib[letter - letters];
        length--;
    }
    if (decimal_parse(text, length, scale, &value) < 0 || value < 1 << 10 || value % (1 << 10) ||
        value >> 10 > UINT32_MAX)
        return -EINVAL;
    *ret_mib = (uint32_t)(value >> 10);
    return 0;
}
