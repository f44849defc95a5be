/* SPDX-License-Identifier: Apache-2.0 */
/* A state as the former version left it: read once, kept beside. One of a later version is refused as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/store.h"

static char directory[64];

static void path_of(const char *name, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/%s", directory, name);
}

static void sql(const char *text)
{
    char path[160];
    sqlite3 *db;

    path_of("muster.db", path, sizeof(path));
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static uint64_t mixed(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
    return sum ^ sum >> 29;
}

/* Batches of eight bytes, as the former version wrote them beside the database. */
static void tail_make(const char *name, uint64_t from, uint64_t to)
{
    char path[160];
    FILE *f;

    path_of(name, path, sizeof(path));
    f = fopen(path, "wb");
    assert_non_null(f);
    for (uint64_t seq = from; seq <= to; seq++) {
        uint64_t head[3] = { seq, 8, 0 }, word;
        char text[9];

        (void)snprintf(text, sizeof(text), "batch%03u", (unsigned)seq);
        memcpy(&word, text, 8);
        head[2] = mixed(mixed(mixed(mixed(0, seq), 8), word), 0);
        assert_int_equal(fwrite(head, sizeof(head), 1, f), 1);
        assert_int_equal(fwrite(text, 8, 1, f), 1);
    }
    (void)fclose(f);
    assert_int_equal(truncate(path, 512 << 10), 0);
}

static void former_make(void)
{
    sql("PRAGMA journal_mode=WAL;"
        "CREATE TABLE IF NOT EXISTS log(seq INTEGER PRIMARY KEY, data BLOB NOT NULL);"
        "CREATE TABLE IF NOT EXISTS snapshot(one INTEGER PRIMARY KEY, seq INTEGER NOT NULL, data BLOB NOT NULL);"
        "CREATE TABLE IF NOT EXISTS history(id INTEGER PRIMARY KEY, submit INTEGER, ended INTEGER, user TEXT, vc TEXT, "
        "state TEXT, name TEXT, gpu_seconds INTEGER, json TEXT);"
        "CREATE INDEX IF NOT EXISTS history_ended ON history(ended);"
        "CREATE INDEX IF NOT EXISTS history_user ON history(user, id);"
        "PRAGMA user_version=1;"
        "INSERT INTO snapshot VALUES(1, 3, CAST('three' AS BLOB));"
        "INSERT INTO log VALUES(4, CAST('four' AS BLOB)), (5, CAST('five' AS BLOB));"
        "INSERT INTO history VALUES(1, 10, 20, 'ann', 'v', 's', 'n', 7, '{}'), (2, 11, 21, 'bob', 'v', 's', NULL, 0, "
        "'[]')");
    tail_make("tail", 6, 7);
    tail_make("tail-map", 6, 8);
}

static int hear(void *arg, uint64_t seq, const char *data, size_t size, struct error *err)
{
    char *out = arg;

    (void)err;
    (void)snprintf(out + strlen(out), 512 - strlen(out), "%llu=%.*s ", (unsigned long long)seq, (int)size, data);
    return 0;
}

static int hear_job(void *arg, const struct store_job *job, struct error *err)
{
    char *out = arg;

    (void)err;
    (void)snprintf(out + strlen(out), 512 - strlen(out), "%lld:%s:%lld:%s:%s ", (long long)job->id, job->user,
                   (long long)job->gpu_seconds, job->name, job->json);
    return 0;
}

static void expect(const char *content, const char *past)
{
    char text[512] = "";
    struct store *store;
    struct error err = { 0 };

    if (store_open(directory, &store, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(store_load(store, hear, hear, text, &err), 0);
    assert_string_equal(text, content);
    text[0] = '\0';
    assert_int_equal(store_history(store, &(struct store_query){ 0 }, hear_job, text, &err), 0);
    assert_string_equal(text, past);
    store_close(store);
}

static int there(const char *name)
{
    char path[160];

    path_of(name, path, sizeof(path));
    return access(path, F_OK) == 0;
}

static void test_former(void **state)
{
    static const char content[] = "3=three 4=four 5=five 6=batch006 7=batch007 8=batch008 ";
    static const char past[] = "2:bob:0::[] 1:ann:7:n:{} ";
    struct store_fsck how = { 0 };
    struct error err = { 0 };

    (void)state;
    former_make();
    assert_int_equal(store_fsck(directory, &how, &err), 0); /* which says that it is of the former version */
    expect(content, past);
    assert_true(there("muster.db.v1") && there("tail.v1") && !there("tail"));
    expect(content, past);
    assert_int_equal(store_fsck(directory, &how, &err), 0);
}

/* A backup of the former version is restored as it is, and read at the start. */
static void test_backup(void **state)
{
    char from[160], to[160];
    struct error err = { 0 };

    (void)state;
    former_make();
    sql("PRAGMA journal_mode=DELETE");
    path_of("muster.db", from, sizeof(from));
    path_of("again", to, sizeof(to));
    if (store_restore(from, to, &err) < 0)
        fail_msg("%s", err.text);
    (void)strcat(directory, "/again");
    expect("3=three 4=four 5=five ", "2:bob:0::[] 1:ann:7:n:{} ");
    *strrchr(directory, '/') = '\0';
}

static void test_refused(void **state)
{
    struct store *store;
    struct error err = { 0 };

    (void)state;
    former_make();
    sql("DELETE FROM log WHERE seq = 4");
    assert_int_equal(store_open(directory, &store, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "batches 4 to 4 are missing"));
    sql("INSERT INTO log VALUES(4, 'four'); PRAGMA user_version=3");
    assert_int_equal(store_open(directory, &store, &err), -EPROTONOSUPPORT);
    assert_non_null(strstr(err.text, "another version"));
    sql("PRAGMA user_version=1");
    expect("3=three 4=four 5=five 6=batch006 7=batch007 8=batch008 ", "2:bob:0::[] 1:ann:7:n:{} ");
}

/* Where its tail ends is not known any more, but what it had is there: a crash in the middle of it changes nothing. */
static void test_twice(void **state)
{
    char path[160];
    FILE *f;

    (void)state;
    former_make();
    path_of("muster.db.new", path, sizeof(path));
    f = fopen(path, "wb");
    assert_non_null(f);
    (void)fputs("half of one", f);
    (void)fclose(f);
    expect("3=three 4=four 5=five 6=batch006 7=batch007 8=batch008 ", "2:bob:0::[] 1:ann:7:n:{} ");
}

static int setup(void **state)
{
    (void)state;
    (void)strcpy(directory, "/tmp/muster-upgrade-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[100];

    (void)state;
    (void)snprintf(command, sizeof(command), "rm -rf %s", directory);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_former, setup, teardown),
        cmocka_unit_test_setup_teardown(test_backup, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_twice, setup, teardown),
    };

    return cmocka_run_group_tests_name("store_upgrade", tests, NULL, NULL);
}
