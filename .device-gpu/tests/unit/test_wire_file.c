/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files: read, unpacked, refused with the place, written so that nobody sees half of one. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "io/file.h"
#include "io/gzip.h"

static char folder[] = "/tmp/muster-test-XXXXXX";
static struct error err;

static const char *path_of(const char *name)
{
    static char path[200];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int folder_make(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int folder_remove(void **state)
{
    (void)state;
    (void)unlink(path_of("a"));
    (void)unlink(path_of("link"));
    return rmdir(folder);
}

/* One gzip member; its size. */
static size_t pack(const char *text, size_t size, unsigned char *out, size_t out_size)
{
    z_stream z = { 0 };

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)(uintptr_t)text;
    z.avail_in = (unsigned)size;
    z.next_out = out;
    z.avail_out = (unsigned)out_size;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out_size -= z.avail_out;
    assert_int_equal(deflateEnd(&z), Z_OK);
    return out_size;
}

static void unpacked(const void *data, size_t size, const char *text)
{
    struct bytes bytes = { 0 };

    assert_int_equal(gzip_inflate(data, size, 1000, &bytes, &err), 0);
    assert_int_equal(bytes.size, strlen(text));
    assert_string_equal(bytes.data, text);
    bytes_done(&bytes);
}

static void refused(const void *data, size_t size, size_t max, int code, const char *words)
{
    struct bytes bytes = { 0 };

    assert_int_equal(gzip_inflate(data, size, max, &bytes, &err), code);
    assert_string_equal(err.text, words);
    assert_null(bytes.data);
}

static void gzip_members(void **state)
{
    unsigned char data[300] = { 0 };
    size_t first = pack("hello ", 6, data, 100), all = first + pack("world", 5, data + first, 100);
    char words[100];

    (void)state;
    unpacked(data, first, "hello ");
    unpacked(data, all, "hello world");
    unpacked(data, all + 5, "hello world"); /* zeros after the last member */
    refused(data, all - 1, 1000, -EBADMSG,
            (snprintf(words, sizeof(words), "gzip data is cut short at byte %zu", all - 1), words));
    refused(data, 5, 1000, -EBADMSG, "gzip data is cut short at byte 5");
    refused(data, all, 10, -E2BIG, "inflates to more than 10 bytes");
    data[first - 8] ^= 1; /* the checksum */
    refused(data, all, 1000, -EBADMSG,
            (snprintf(words, sizeof(words), "damaged gzip data at byte %zu (incorrect data check)", first - 4), words));
    data[first - 8] ^= 1;
    data[all] = 'x';
    refused(data, all + 1, 1000, -EBADMSG,
            (snprintf(words, sizeof(words), "neither gzip data nor the end of the file at byte %zu", all), words));
    data[2] = 9;
    refused(data, all, 1000, -EBADMSG, "damaged gzip data at byte 4 (unknown compression method)");
}

static void a_bomb_is_refused(void **state)
{
    size_t size = 10000000, packed_size;
    char *zeros = calloc(size, 1);
    unsigned char packed[20000];

    (void)state;
    packed_size = pack(zeros, size, packed, sizeof(packed));
    refused(packed, packed_size, 1000000, -E2BIG, "inflates to more than 1000000 bytes");
    free(zeros);
}

static void gzip_out_of_memory(void **state)
{
    unsigned char data[100];
    size_t size = pack("hello", 5, data, sizeof(data)), n = 0;
    struct bytes bytes = { 0 };
    int r;

    (void)state;
    do {
        mem_fail_at(++n);
        r = gzip_inflate(data, size, 1000, &bytes, &err);
        mem_fail_at(0);
        assert_true(r == 0 || r == -ENOMEM);
    } while (r < 0);
    assert_true(n > 2);
    bytes_done(&bytes);
}

static void written_and_read(void **state)
{
    const char *path = path_of("a");
    struct bytes bytes;
    struct stat st;

    (void)state;
    assert_int_equal(file_write_atomic(path, "one\n", 4, &err), 0);
    assert_int_equal(file_write_atomic(path, "two\n", 4, &err), 0);
    assert_int_equal(file_read(path, 0, &bytes, &err), 0);
    assert_int_equal(bytes.size, 4);
    assert_string_equal(bytes.data, "two\n");
    bytes_done(&bytes);
    assert_int_equal(file_read(path, 4, &bytes, &err), 0);
    bytes_done(&bytes);
    assert_int_equal(file_read(path, 3, &bytes, &err), -E2BIG);
    assert_non_null(strstr(err.text, "/a: larger than 3 bytes"));
    assert_int_equal(file_write_atomic(path, "", 0, &err), 0);
    assert_int_equal(file_read(path, 0, &bytes, &err), 0);
    assert_int_equal(bytes.size, 0);
    assert_string_equal(bytes.data, "");
    bytes_done(&bytes);
    assert_int_equal(symlink("a", path_of("link")), 0);
    assert_int_equal(file_write_atomic(path_of("link"), "three", 5, &err), 0);
    assert_int_equal(lstat(path_of("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(file_read(path_of("a"), 0, &bytes, &err), 0);
    assert_string_equal(bytes.data, "three");
    bytes_done(&bytes);
    assert_int_equal(file_write_atomic("/dev/null", "x", 1, &err), 0);
    assert_int_equal(lstat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
}

static void packed_files_are_read(void **state)
{
    unsigned char data[100];
    size_t size = pack("hello", 5, data, sizeof(data));
    struct bytes bytes;

    (void)state;
    assert_int_equal(file_write_atomic(path_of("a"), data, size, &err), 0);
    assert_int_equal(file_read(path_of("a"), 0, &bytes, &err), 0);
    assert_string_equal(bytes.data, "hello");
    bytes_done(&bytes);
    assert_int_equal(file_write_atomic(path_of("a"), data, size - 3, &err), 0);
    assert_int_equal(file_read(path_of("a"), 0, &bytes, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "/a: gzip data is cut short at byte 22"));
}

static void what_cannot_be_opened(void **state)
{
    struct bytes bytes;

    (void)state;
    assert_int_equal(file_read("/nowhere/x", 0, &bytes, &err), -ENOENT);
    assert_string_equal(err.text, "/nowhere/x: No such file or directory");
    assert_int_equal(file_read("/tmp", 0, &bytes, &err), -EISDIR);
    assert_string_equal(err.text, "/tmp: Is a directory");
    assert_int_equal(file_write_atomic("/nowhere/x", "", 0, &err), -ENOENT);
    assert_string_equal(err.text, "/nowhere/x: No such file or directory");
    assert_string_equal(file_label("-"), "standard input");
}

static void read_out_of_memory(void **state)
{
    struct bytes bytes;
    size_t n = 0;
    int r;

    (void)state;
    assert_int_equal(file_write_atomic(path_of("a"), "hello", 5, &err), 0);
    do {
        mem_fail_at(++n);
        r = file_read(path_of("a"), 0, &bytes, &err);
        mem_fail_at(0);
        assert_true(r == 0 || r == -ENOMEM);
    } while (r < 0);
    assert_true(n > 2);
    bytes_done(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gzip_members),          cmocka_unit_test(a_bomb_is_refused),
        cmocka_unit_test(gzip_out_of_memory),    cmocka_unit_test(written_and_read),
        cmocka_unit_test(packed_files_are_read), cmocka_unit_test(what_cannot_be_opened),
        cmocka_unit_test(read_out_of_memory),
    };

    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
