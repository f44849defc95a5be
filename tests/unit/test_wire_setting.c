/* SPDX-License-Identifier: Apache-2.0 */
/* What people and nodes have said, as plain structs: settings, inventories, changes of a submission's words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/agent/inventory.h"
#include "wire/cluster/setting.h"
#include "wire/job/submission.h"

static void expect_doc(const struct setting_value *settings, const char *want)
{
    char *doc = setting_doc(settings);

    assert_string_equal(doc, want);
    mem_free(doc);
}

static void read_doc(const char *doc, struct setting_value *ret)
{
    struct error err = { 0 };

    if (setting_read(doc, ret, &err) < 0)
        fail_msg("%s", err.text);
}

static void test_settings(void **state)
{
    static const char doc[] =
        "{\"vcs\":{\"b\":{\"quota\":{\"H100\":4},\"borrow\":\"50%\"},\"a\":{\"closed\":true,\"set\":{}}},"
        "\"policy\":\"las\",\"x\":null,\"y\":[1,{\"z\":2.5}],\"n\":false,\"r\":1.5}";
    struct setting_value settings, copy, *vcs;

    (void)state;
    read_doc(doc, &settings);
    expect_doc(&settings, doc);
    assert_string_equal(setting_text(setting_find(&settings, "policy")), "las");
    assert_null(setting_text(setting_find(&settings, "vcs")));
    assert_null(setting_find(setting_find(&settings, "policy"), "none"));
    assert_null(setting_find(NULL, "none"));
    assert_int_equal(setting_count(setting_find(&settings, "vcs")), 2);
    assert_int_equal(setting_count(setting_find(&settings, "y")), 0);

    /* A copy is another; what is put again keeps its place. */
    assert_int_equal(setting_copy(&settings, &copy), 0);
    vcs = setting_find(&copy, "vcs");
    assert_int_equal(setting_put_number(setting_put(vcs, "b"), "gpus", 7), 0);
    setting_remove(vcs, "a");
    setting_remove(vcs, "nothing");
    assert_int_equal(setting_put_copy(vcs, "c", setting_find(&settings, "y")), 0);
    assert_int_equal(setting_put_text(&copy, "policy", "fifo"), 0);
    setting_remove(&copy, "x");
    expect_doc(&copy, "{\"vcs\":{\"b\":{\"gpus\":7},\"c\":[1,{\"z\":2.5}]},\"policy\":\"fifo\",\"y\":[1,{\"z\":2.5}],"
                      "\"n\":false,\"r\":1.5}");
    expect_doc(&settings, doc);
    setting_done(&copy);
    setting_done(&settings);
}

static void test_settings_refused(void **state)
{
    struct setting_value settings;
    struct error err = { 0 };
    char deep[256] = "";

    (void)state;
    assert_int_equal(setting_read("[1]", &settings, &err), -EINVAL);
    assert_true(setting_read("{\"a\":1,\"a\":2}", &settings, &err) < 0);
    assert_true(setting_read(NULL, &settings, NULL) < 0);
    for (int i = 0; i <= SETTING_DEPTH_MAX; i++)
        (void)strcat(deep, "{\"a\":");
    (void)strcat(deep, "1");
    for (int i = 0; i <= SETTING_DEPTH_MAX; i++)
        (void)strcat(deep, "}");
    assert_int_equal(setting_read(deep, &settings, &err), -EINVAL);
    assert_non_null(strstr(err.text, "more than"));
    assert_int_equal(settings.count, 0);
}

static void test_inventory(void **state)
{
    static const char doc[] =
        "{\"sku\":\"H100\",\"memory_mib\":81920,\"sockets\":2,\"cpus\":96,\"labels\":{\"rack\":\"r1\","
        "\"zone\":\"a\"},\"fake\":true,\"fences\":[\"cpu\"],\"gpus\":[{\"uuid\":\"u0\"},{\"bad\":true}]}";
    struct inventory one, other;
    struct buf text = BUF_INIT(65536);
    struct error err = { 0 };

    (void)state;
    assert_int_equal(inventory_read(doc, &one, &err), 0);
    assert_int_equal(inventory_number(one.groups, 1), 1);
    assert_int_equal(inventory_number(one.sockets, 1), 2);
    assert_string_equal(inventory_label(&one, "zone"), "a");
    assert_null(inventory_label(&one, "none"));
    assert_true(one.gpus[1].bad && !one.gpus[0].bad && !one.gpus[1].uuid);
    inventory_put(&one, &text);
    assert_string_equal(text.data, doc);
    assert_int_equal(inventory_read(text.data, &other, &err), 0);
    assert_true(inventory_like(&one, &other));
    inventory_done(&other);

    /* Other labels, in whatever order, and other sizes make another; its GPUs' health does not. */
    assert_int_equal(
        inventory_read("{\"sku\":\"H100\",\"memory_mib\":81920,\"sockets\":2,\"cpus\":96,\"labels\":{\"zone\":"
                       "\"a\",\"rack\":\"r1\"},\"gpus\":[{},{}]}",
                       &other, &err),
        0);
    assert_true(inventory_like(&one, &other));
    other.cpus = 95;
    assert_false(inventory_like(&one, &other));
    other.cpus = 96;
    other.labels[0].text[0] = 'b';
    assert_false(inventory_like(&one, &other));
    inventory_done(&other);
    inventory_done(&one);

    /* What is of another type was not told. */
    assert_int_equal(inventory_read("{\"sku\":7,\"cpus\":\"many\",\"labels\":{\"a\":1}}", &one, &err), 0);
    assert_null(one.sku);
    assert_int_equal(inventory_number(one.cpus, 3), 3);
    assert_int_equal(one.label_count, 0);
    inventory_done(&one);
    assert_int_equal(inventory_read("[]", &one, &err), -EINVAL);
    assert_true(inventory_read(NULL, &one, NULL) < 0);
    buf_done(&text);
}

static void expect_edit(const char *doc, const struct submission_edit *edit, const char *want)
{
    char *text = submission_edit(doc, edit);

    assert_string_equal(text, want);
    mem_free(text);
}

static void test_submission_edit(void **state)
{
    static const char doc[] = "{\"run\":\"x\",\"comment\":\"c\",\"time\":\"2h\",\"tags\":{\"a\":\"1\"}}";
    const struct env_pair change[] = { { (char *)"b", (char *)"2" }, { (char *)"a", NULL } };
    const struct env_pair gone[] = { { (char *)"a", NULL } };

    (void)state;
    expect_edit(doc, &(struct submission_edit){ 0 }, doc);
    expect_edit(doc, &(struct submission_edit){ .comment = "d", .tags = change, .tag_count = 2 },
                "{\"run\":\"x\",\"comment\":\"d\",\"time\":\"2h\",\"tags\":{\"b\":\"2\"}}");
    expect_edit(doc, &(struct submission_edit){ .drop_comment = true, .tags = gone, .tag_count = 1 },
                "{\"run\":\"x\",\"time\":\"2h\"}");
    expect_edit(
        doc, &(struct submission_edit){ .vc = "v", .time = &(usec_t){ 90 * USEC_SEC }, .priority = &(int){ -1 } },
        "{\"run\":\"x\",\"comment\":\"c\",\"time\":\"90s\",\"tags\":{\"a\":\"1\"},\"priority\":-1,\"vc\":\"v\"}");
    assert_null(submission_edit("{", &(struct submission_edit){ 0 }));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_settings), cmocka_unit_test(test_settings_refused),
                                        cmocka_unit_test(test_inventory), cmocka_unit_test(test_submission_edit) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
