/* SPDX-License-Identifier: Apache-2.0 */
/* golden.c - runs stories and compares what was decided with what is expected; see story.h.
 *
 *   golden FILE...           TAP, one case a file; a difference is printed as file:line, expected and got
 *   golden --bless FILE...   writes what happens now into the files as what is expected
 *
 * Every story is run twice: the two runs must agree in every decision.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/file.h"
#include "story.h"

enum { LINES_MAX = 1 << 20 };

static struct story story; /* large */

/* Word by word, whatever lies between. */
static bool same_words(const char *a, const char *b)
{
    for (;;) {
        size_t la, lb;

        a += strspn(a, " \t\r");
        b += strspn(b, " \t\r");
        la = strcspn(a, " \t\r");
        lb = strcspn(b, " \t\r");
        if (la != lb || strncmp(a, b, la) != 0)
            return false;
        if (la == 0)
            return true;
        a += la;
        b += lb;
    }
}

/* Prints from the first difference on: what is expected and what came, a few lines of each. */
static void print_difference(char **got, size_t got_count, size_t at)
{
    int line = at < story.expect_count ? story.expect_line[at] : at ? story.expect_line[at - 1] + 1 : 0;

    printf("# %s:%d: the first difference\n", story.file, line);
    for (size_t i = at > 2 ? at - 2 : 0; i < at; i++)
        printf("#     %s\n", got[i]);
    for (size_t i = at; i < story.expect_count && i < at + 4; i++)
        printf("#   - %s\n", story.expect[i]);
    for (size_t i = at; i < got_count && i < at + 4; i++)
        printf("#   + %s\n", got[i]);
}

static size_t split_lines(char *text, char **lines, size_t max)
{
    size_t count = 0;
    char *rest = NULL;

    for (char *line = strtok_r(text, "\n", &rest); line && count < max; line = strtok_r(NULL, "\n", &rest))
        lines[count++] = line;
    return count;
}

static bool compare(char *text)
{
    static char *got[STORY_EXPECT_MAX];
    size_t count = split_lines(text, got, STORY_EXPECT_MAX), at = 0;

    while (at < count && at < story.expect_count && same_words(story.expect[at], got[at]))
        at++;
    if (at == count && at == story.expect_count)
        return true;
    print_difference(got, count, at);
    return false;
}

static int run(struct buf *lines, struct error *err)
{
    struct buf again CLEANUP_BUF = BUF_INIT(LINES_MAX);
    uint64_t first, second;
    int r = story_run(&story, lines, &first, err);

    if (r == 0)
        r = story_run(&story, &again, &second, err);
    if (r < 0)
        return r;
    buf_char(lines, '\0');
    buf_char(&again, '\0');
    if (first != second || lines->size != again.size || memcmp(lines->data, again.data, lines->size) != 0)
        return error_set(err, -EIO, "%s: run twice, decided twice differently", story.file);
    return 0;
}

static int bless(const char *file, const struct buf *lines, struct error *err)
{
    struct bytes old CLEANUP_BYTES = { 0 };
    struct buf text CLEANUP_BUF = BUF_INIT(2 * LINES_MAX);
    int r = file_read(file, STORY_BYTES_MAX, &old, err);

    if (r < 0)
        return r;
    buf_put(&text, old.data, story.head_bytes);
    if (text.size && text.data[text.size - 1] != '\n')
        buf_char(&text, '\n');
    buf_text(&text, lines->data);
    if (text.error)
        return error_set(err, text.error, "%s: no room", file);
    return file_write_atomic(file, text.data, text.size, err);
}

static bool one(const char *file, int number, bool blessing)
{
    struct buf lines CLEANUP_BUF = BUF_INIT(LINES_MAX);
    const char *name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    struct error err = { 0 };
    int r = story_read(file, &story, &err);
    bool good = false;

    if (r == 0) {
        r = run(&lines, &err);
        if (r == 0 && blessing)
            r = bless(file, &lines, &err);
        good = r == 0 && (blessing || compare(lines.data));
        story_done(&story);
    }
    if (r < 0)
        printf("# %s\n", err.text);
    printf("%s %d %s\n", good ? "ok" : "not ok", number, name);
    return good;
}

int main(int argc, char **argv)
{
    bool blessing = argc > 1 && strcmp(argv[1], "--bless") == 0;
    int first = blessing ? 2 : 1, failed = 0;

    if (first >= argc) {
        fprintf(stderr, "usage: golden [--bless] FILE...\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("1..%d\n", argc - first);
    for (int i = first; i < argc; i++)
        failed += !one(argv[i], i - first + 1, blessing);
    return failed ? 1 : 0;
}
