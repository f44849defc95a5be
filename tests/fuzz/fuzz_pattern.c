/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of a job file and what jobs say of their progress: the first line is the pattern, the rest is looked
 * through. A value that is found lies within the line; numbers are within their bounds. */
#include "fuzz.h"
#include "wire/agent/progress.h"
#include "wire/text/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\n', size);
    size_t first = end ? (size_t)(end - data) : size, rest = end ? size - first - 1 : 0;
    char *text = strndup((const char *)data, first), *line = malloc(rest ? rest : 1);
    struct progress_line said;
    struct pattern pattern;
    struct error err = { 0 };
    size_t at, length;
    int r;

    CHECK(text && line);
    if (rest)
        memcpy(line, end + 1, rest);
    r = pattern_compile(text, &pattern, &err);
    if (r < 0) {
        fuzz_check_error(r, &err);
    } else if (pattern_find(&pattern, line, rest < 512 ? rest : 512, &at, &length)) {
        CHECK(at <= rest && length <= rest - at);
        said = (struct progress_line){ 0 };
        (void)progress_set(&said, PROGRESS_STEP, line + at, length);
        CHECK(said.value[PROGRESS_STEP] >= 0 && said.value[PROGRESS_STEP] <= PROGRESS_COUNT_MAX);
    }
    if (progress_parse(line, rest, &said))
        for (int i = 0; i < PROGRESS_WORD_COUNT; i++)
            CHECK(i == PROGRESS_LOSS || said.value[i] >= 0);
    free(text);
    free(line);
    return 0;
}
