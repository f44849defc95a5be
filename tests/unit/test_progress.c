/* SPDX-License-Identifier: Apache-2.0 */
/* test_progress.c - the progress line, and what is printed where there is no terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/sim/progress.h"

static void line_says_how_far(void **state)
{
    struct progress progress = { .width = 80, .done = 4, .total = 10, .begun = 0, .out = stderr };
    char line[200];

    (void)state;
    progress_render(&progress, 2 * USEC_SEC, "srtf, seed 3", line, sizeof(line));
    assert_string_equal(line, "[##########----------------] 4/10  2.0/s  ETA 3s  srtf, seed 3");
    progress.done = 0;
    progress_render(&progress, 2 * USEC_SEC, "", line, sizeof(line));
    assert_string_equal(line, "[--------------------------] 0/10");
    progress.done = 10;
    progress_render(&progress, 125 * USEC_SEC, "x", line, sizeof(line));
    assert_string_equal(line, "[##########################] 10/10  0.1/s  took 2m05s  x");
    progress.total = 0;
    progress.done = 0;
    progress_render(&progress, 0, "x", line, sizeof(line));
    assert_string_equal(line, "[##########################] 0/0  x");
}

static void line_fits(void **state)
{
    struct progress progress = { .width = 30, .done = 1, .total = 2, .out = stderr };
    char line[200];

    (void)state;
    progress_render(&progress, 4000 * USEC_SEC, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", line, sizeof(line));
    assert_true(strlen(line) <= 30);
    progress.width = 57; /* cuts inside a character */
    progress_render(&progress, 4000 * USEC_SEC, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", line, sizeof(line));
    assert_true(strlen(line) % 2 == 1 || ((unsigned char)line[strlen(line) - 1] & 0x80));
    progress.width = 120;
    progress_render(&progress, 4000 * USEC_SEC, "a\x1b[2Jb", line, sizeof(line));
    assert_string_equal(line, "[###############---------------] 1/2  0.0/s  ETA 1h06m  a?[2Jb");
}

static void without_a_terminal_a_line_each(void **state)
{
    struct progress *progress;
    char *text;
    size_t size;
    FILE *out = tmpfile();

    (void)state;
    assert_non_null(out);
    progress = progress_new(out, 2);
    assert_non_null(progress);
    assert_false(progress->terminal);
    progress_step(progress, "fifo, seed 1");
    progress_step(progress, "srtf, seed 1");
    progress_free(progress);
    progress_step(NULL, "no memory for it");
    progress_free(NULL);
    size = (size_t)ftell(out);
    text = calloc(1, size + 1);
    rewind(out);
    assert_int_equal(fread(text, 1, size, out), size);
    assert_string_equal(text, "1/2 fifo, seed 1\n2/2 srtf, seed 1\n");
    free(text);
    fclose(out);
}

static void on_a_terminal_one_line_that_goes(void **state)
{
    struct progress *progress = progress_new(stderr, 2);
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    progress->out = out;
    progress->terminal = true;
    progress->width = 60;
    progress_step(progress, "a");
    progress_step(progress, "b");
    progress_free(progress);
    fclose(out);
    assert_null(strchr(text, '\n'));
    assert_non_null(strstr(text, "\r[####################] 2/2"));
    assert_string_equal(text + strlen(text) - 4, "\r\x1b[K");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_says_how_far),
        cmocka_unit_test(line_fits),
        cmocka_unit_test(without_a_terminal_a_line_each),
        cmocka_unit_test(on_a_terminal_one_line_that_goes),
    };

    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
