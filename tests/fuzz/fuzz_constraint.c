/* SPDX-License-Identifier: Apache-2.0 */
/* Constraints on nodes: any text is refused with a column, or holds or does not; turned round term by term it does the
 * opposite where there is one term. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "wire/job/constraint.h"

static const char *label(void *arg, const char *name)
{
    (void)arg;
    return name[0] & 1 ? name : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size); /* ends in a zero, as all texts do that come this far */
    struct error err = { 0 };
    char turned[CONSTRAINT_MAX + 4];
    int r = text ? constraint_check(text, &err) : -1;

    if (!text)
        return 0;

    if (r < 0) {
        fuzz_check_error(r, &err);
    } else if (!strpbrk(text, "&|,") && strlen(text) < CONSTRAINT_MAX) {
        (void)snprintf(turned, sizeof(turned), "%s%s", text[0] == '!' ? "" : "!", text + (text[0] == '!'));
        CHECK(constraint_check(turned, &err) == 0);
        CHECK(constraint_holds(text, label, NULL) != constraint_holds(turned, label, NULL));
    } else {
        (void)constraint_holds(text, label, NULL);
    }
    free(text);
    return 0;
}
