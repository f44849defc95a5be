/* SPDX-License-Identifier: Apache-2.0 */
/* Constraints on nodes: any text is refused with a column, or holds or does not; turned round term by term it does the
 * opposite where there is one term. */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "wire/constraint.h"

static const char *label(void *arg, const char *name)
{
    (void)arg;
    return name[0] & 1 ? name : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = fuzz_copy(data, size);
    struct error err = { 0 };
    char turned[CONSTRAINT_MAX + 4];
    int r = constraint_check(text.data, &err);

    if (r < 0) {
        fuzz_check_error(r, &err);
    } else if (!strpbrk(text.data, "&|,") && strlen(text.data) < CONSTRAINT_MAX) {
        (void)snprintf(turned, sizeof(turned), "%s%s", text.data[0] == '!' ? "" : "!",
                       text.data + (text.data[0] == '!'));
        CHECK(constraint_check(turned, &err) == 0);
        CHECK(constraint_holds(text.data, label, NULL) != constraint_holds(turned, label, NULL));
    } else {
        (void)constraint_holds(text.data, label, NULL);
    }
    bytes_done(&text);
    return 0;
}
