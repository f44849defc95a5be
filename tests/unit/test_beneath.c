/* SPDX-License-Identifier: Apache-2.0 */
/* Work in folders that others can write: nothing leaves the folder, whatever is put in the way. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_dir.h"
#include "io/beneath.h"

enum { ROUNDS = 3000, STRANGER = 64123 };

static void file_make(int at, const char *name, const char *text)
{
    int fd = openat(at, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void a_path_stays_below_its_folder(void **state)
{
    static const char *const bad[] = {
        "/etc/passwd", "..", "a/..", "a/../..", "../a", "link/file", "link", "a/up/kept"
    };
    int fd;

    (void)state;
    assert_int_equal(mkdirat(dir, "a", 0700), 0);
    assert_int_equal(mkdirat(dir, "kept", 0700), 0);
    file_make(dir, "kept/file", "x");
    file_make(dir, "a/file", "x");
    assert_int_equal(symlinkat("kept", dir, "link"), 0);
    assert_int_equal(symlinkat("..", dir, "a/up"), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_true(beneath_open(dir, bad[i], O_RDONLY, 0) < 0);
    assert_int_equal(beneath_open(dir, "link", O_RDONLY, 0), -ELOOP);
    assert_int_equal(beneath_open(dir, "link", O_WRONLY | O_CREAT, 0600), -ELOOP);
    fd = beneath_open(dir, "a/file", O_RDONLY, 0);
    assert_true(fd >= 0);
    close(fd);
    assert_true(beneath_open(dir, "..a", O_RDONLY, 0) == -ENOENT); /* a name as any other */
}

static void what_was_opened_is_checked(void **state)
{
    const struct beneath_expected folder = { .kind = S_IFDIR, .owner = geteuid(), .without = S_IWOTH };
    int file, open_to_all;

    (void)state;
    file_make(dir, "file", "x");
    assert_int_equal(mkdirat(dir, "all", 0700), 0);
    assert_int_equal(fchmodat(dir, "all", 0777, 0), 0);
    file = beneath_open(dir, "file", O_RDONLY, 0);
    open_to_all = beneath_open(dir, "all", O_RDONLY, 0);
    assert_int_equal(beneath_check(dir, &folder), 0);
    assert_int_equal(beneath_check(file, &folder), -ENOTDIR);
    assert_int_equal(beneath_check(open_to_all, &folder), -EPERM);
    assert_int_equal(beneath_check(dir, &(struct beneath_expected){ .kind = S_IFDIR, .owner = STRANGER }), -EPERM);
    assert_int_equal(beneath_dir_make(dir, "all", 0700), -EPERM); /* it is there, and not ours alone */
    assert_int_equal(beneath_dir_new(dir, "all", 0700), -EEXIST);
    close(file);
    close(open_to_all);
}

static void a_file_has_its_mode_before_its_name(void **state)
{
    const struct beneath_content content = { "text", 4, 0640, false };
    struct stat st;

    (void)state;
    file_make(dir, "kept", "kept");
    assert_int_equal(symlinkat("kept", dir, "new"), 0);
    assert_int_equal(symlinkat("kept", dir, ".new.new"), 0); /* where it is written first */
    assert_int_equal(beneath_file_put(dir, "new", &content), 0);
    assert_int_equal(fstatat(dir, "new", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(fstatat(dir, "kept", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 4);
}

/* Swaps "swapped" between a folder, a link to what must be kept, and a file. */
static void *swap(void *arg)
{
    atomic_bool *over = arg;

    while (!atomic_load(over)) {
        (void)mkdirat(dir, "one", 0700);
        (void)renameat2(dir, "one", dir, "swapped", RENAME_EXCHANGE);
        (void)renameat(dir, "one", dir, "swapped");
        (void)!symlinkat("kept", dir, "two");
        (void)renameat2(dir, "two", dir, "swapped", RENAME_EXCHANGE);
        (void)unlinkat(dir, "two", 0);
        (void)unlinkat(dir, "two", AT_REMOVEDIR);
    }
    return NULL;
}

/* Random orders while another thread swaps what the name leads to: the folder behind the link never changes. */
static void nobody_wins_a_race(void **state)
{
    atomic_bool over = false;
    unsigned int seed = 7;
    pthread_t racer;
    struct stat st;

    (void)state;
    assert_int_equal(mkdirat(dir, "kept", 0700), 0);
    file_make(dir, "kept/file", "kept");
    assert_int_equal(pthread_create(&racer, NULL, swap, &over), 0);
    for (int i = 0; i < ROUNDS; i++) {
        const struct beneath_content content = { "gained", 6, 0666, false };
        int fd = -1;

        switch (rand_r(&seed) % 5) {
        case 0:
            fd = beneath_open(dir, "swapped/file", O_WRONLY | O_CREAT | O_TRUNC, 0666);
            break;
        case 1:
            (void)beneath_tree_remove(dir, "swapped");
            break;
        case 2:
            fd = beneath_dir_path_make(dir, "swapped/below", 0777);
            break;
        case 3:
            (void)beneath_file_put(dir, "swapped", &content);
            break;
        default:
            fd = beneath_open(dir, "swapped", O_RDONLY | O_DIRECTORY, 0);
            if (fd >= 0)
                (void)beneath_tree_empty(fd);
        }
        if (fd >= 0)
            close(fd);
    }
    atomic_store(&over, true);
    (void)pthread_join(racer, NULL);
    assert_int_equal(fstatat(dir, "kept", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(st.st_nlink, 2);
    assert_int_equal(fstatat(dir, "kept/file", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(st.st_size, 4);
}

static void what_is_anothers_stays(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdirat(dir, "job", 0700), 0);
    assert_int_equal(mkdirat(dir, "job/own", 0700), 0);
    assert_int_equal(mkdirat(dir, "job/moved", 0777), 0);
    file_make(dir, "job/moved/work", "x");
    file_make(dir, "job/own/work", "x");
    assert_int_equal(fchownat(dir, "job/moved", STRANGER, STRANGER, 0), 0);
    assert_int_equal(fchownat(dir, "job/own", STRANGER + 1, STRANGER + 1, 0), 0);
    assert_int_equal(fchownat(dir, "job", STRANGER + 1, STRANGER + 1, 0), 0);
    assert_int_equal(beneath_tree_remove(dir, "job"), -EPERM);
    assert_int_equal(faccessat(dir, "job/moved/work", F_OK, 0), 0);
    assert_int_equal(faccessat(dir, "job/own", F_OK, 0), -1);
    assert_int_equal(fchownat(dir, "job/moved", STRANGER + 1, STRANGER + 1, 0), 0);
    assert_int_equal(beneath_tree_remove(dir, "job"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_path_stays_below_its_folder, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(what_was_opened_is_checked, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(a_file_has_its_mode_before_its_name, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(nobody_wins_a_race, dir_open, dir_close),
        cmocka_unit_test_setup_teardown(what_is_anothers_stays, dir_open, dir_close),
    };

    return cmocka_run_group_tests_name("beneath", tests, NULL, NULL);
}
