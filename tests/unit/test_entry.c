/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the log by their declaration: every kind has a whole row; whatever a field may hold is written, measured
 * and read back as it was; bytes that are cut, changed or of another version are refused or mean just what they say. */
#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ctl/log/entry_json.h"
#include "ctl/state/state_internal.h"
#include "ctl_play.h"
#include "entry_random.h"

enum { ROUNDS = 200, BYTES_MAX = 1 << 20 };

static void put(struct buf *out, const struct entry *entry)
{
    buf_clear(out);
    batch_encode_begin(out, 12345, 1);
    batch_encode_entry(out, entry);
    assert_int_equal(out->error, 0);
}

static void test_rows(void **state)
{
    (void)state;
    for (int i = 0; i < ENTRY_COUNT; i++) {
        enum entry_kind kind = (enum entry_kind)i;
        const struct entry_row *row = entry_row(kind);
        const struct field_list *list = entry_fields(kind);

        assert_non_null(row->apply);
        assert_int_equal(entry_find(row->name), i);
        assert_int_equal(entry_of_number(entry_number(kind)), i);
        assert_true(list->count > 0);
        for (size_t f = 0; f < list->count; f++) {
            const struct entry_field *field = &list->fields[f];

            assert_true(field->name[0] != '\0');
            assert_true(field->since >= 1 && field->since <= ENTRY_VERSION);
            assert_true(field->tag > (f ? list->fields[f - 1].tag : 0));
            assert_true(field->type == FIELD_WORD || field->least <= field->most);
        }
    }
}

/* These are in logs that have been written: they may be added to, and nothing else. */
static void test_numbers_stay(void **state)
{
    static const char *const names[] = { "submit",  "cancel", "hold",   "release", "requeue", "suspend", "resume",
                                         "signal",  "set",    "join",   "silent",  "lost",    "report",  "drain",
                                         "undrain", "forget", "config", "vc",      "limits",  "secret",  "hook",
                                         "label",   "resv",   "token",  "untoken", "solved",  "pause",   "lease" };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        assert_int_equal(entry_number((enum entry_kind)entry_find(names[i])), i + 1);
}

static void check_printed(const struct entry *entry)
{
    struct buf text = BUF_INIT(BYTES_MAX);
    json_t *tree;

    entry_print(entry, &text);
    tree = json_loadb(text.data, text.size, 0, NULL);
    assert_non_null(tree);
    assert_string_equal(json_string_value(json_array_get(tree, 0)), entry_name(entry->kind));
    json_decref(tree);
    buf_done(&text);
}

static void test_round_trip(void **state)
{
    struct buf first = BUF_INIT(BYTES_MAX), again = BUF_INIT(BYTES_MAX);
    struct rng rng;

    (void)state;
    rng_seed(&rng, 7);
    for (int i = 0; i < ENTRY_COUNT * ROUNDS; i++) {
        struct entry entry, *read = NULL;
        struct error err = { 0 };
        size_t count = 0, head;
        usec_t at = 0;

        random_entry(&rng, (enum entry_kind)(i % ENTRY_COUNT), &entry);
        assert_int_equal(entry_check(&entry, &err), 0);
        put(&first, &entry);
        buf_clear(&again);
        batch_encode_begin(&again, 12345, 1);
        head = again.size + 5; /* number of the kind, length */
        assert_int_equal(first.size, head + entry_size(&entry));
        if (batch_decode(first.data, first.size, &at, &read, &count, &err) < 0)
            fail_msg("%s: %s", entry_name(entry.kind), err.text);
        assert_int_equal(at, 12345);
        assert_int_equal(count, 1);
        put(&again, read);
        assert_int_equal(again.size, first.size);
        assert_memory_equal(again.data, first.data, first.size);
        check_printed(read);
        entries_free(read, count);
        entry_done(&entry);
    }
    buf_done(&first);
    buf_done(&again);
}

/* Every beginning of a batch, and every batch with one byte changed: refused, or written again as the same bytes. */
static void test_damaged(void **state)
{
    struct buf bytes = BUF_INIT(BYTES_MAX), again = BUF_INIT(BYTES_MAX);
    struct rng rng;

    (void)state;
    rng_seed(&rng, 11);
    for (int i = 0; i < ENTRY_COUNT * 4; i++) {
        struct entry entry, *read = NULL;
        struct error err = { 0 };
        size_t count = 0;
        usec_t at = 0;

        random_entry(&rng, (enum entry_kind)(i % ENTRY_COUNT), &entry);
        put(&bytes, &entry);
        entry_done(&entry);
        for (size_t cut = 0; cut < bytes.size; cut++)
            assert_true(batch_decode(bytes.data, cut, &at, &read, &count, &err) < 0);
        for (size_t k = 0; k < bytes.size; k++) {
            char was = bytes.data[k];

            bytes.data[k] = (char)(was ^ (1 << rng_below(&rng, 8)));
            if (batch_decode(bytes.data, bytes.size, &at, &read, &count, &err) == 0) {
                buf_clear(&again);
                batch_encode_begin(&again, at, count);
                for (size_t e = 0; e < count; e++)
                    batch_encode_entry(&again, &read[e]);
                assert_int_equal(again.size, bytes.size);
                assert_memory_equal(again.data, bytes.data, bytes.size);
                entries_free(read, count);
            } else {
                assert_true(err.text[0] != '\0');
            }
            bytes.data[k] = was;
        }
    }
    buf_done(&bytes);
    buf_done(&again);
}

static void test_versions(void **state)
{
    struct entry entry = { .kind = ENTRY_LOST, .lost = { .node = entry_text("n1") } }, *read = NULL;
    struct buf bytes = BUF_INIT(BYTES_MAX);
    struct error err = { 0 };
    size_t count = 0;
    usec_t at = 0;

    (void)state;
    put(&bytes, &entry);
    bytes.data[1] = ENTRY_VERSION + 1;
    assert_int_equal(batch_decode(bytes.data, bytes.size, &at, &read, &count, &err), -EPROTONOSUPPORT);
    assert_non_null(strstr(err.text, "newer version"));
    bytes.data[1] = ENTRY_VERSION;
    bytes.data[bytes.size - 4] = 31 << 2 | 1; /* another field than node */
    assert_int_equal(batch_decode(bytes.data, bytes.size, &at, &read, &count, &err), -EBADMSG);
    assert_string_equal(err.text, "lost: field 31 is not known, or not in its place");
    entry_done(&entry);
    entry_init(&entry, ENTRY_LOST);
    assert_int_equal(record_decode(entry_fields(ENTRY_LOST), 0, "\x05\x02n1", 4, entry_record(&entry), &err), -EBADMSG);
    assert_string_equal(err.text, "node: no field of version 0");
    assert_int_equal(record_decode(entry_fields(ENTRY_LOST), 1, "\x05\x02n1", 4, entry_record(&entry), &err), 0);
    assert_string_equal(entry.lost.node, "n1");
    entry_done(&entry);
    buf_done(&bytes);
}

/* Well-formed bytes of a value that the declaration does not allow are refused as well. */
static void test_limits(void **state)
{
    struct entry signal = { .kind = ENTRY_SIGNAL, .signal = { .job = 1, .signal = 65 } };
    struct entry lost = { .kind = ENTRY_LOST, .lost = { .node = entry_text("a\xff") } };
    struct entry set = { .kind = ENTRY_SET, .set = { .job = 1, .comment = { GIVEN_VALUE, NULL } } }, *read = NULL;
    struct buf bytes = BUF_INIT(BYTES_MAX);
    struct error err = { 0 };
    size_t count = 0;
    usec_t at = 0;

    (void)state;
    put(&bytes, &signal);
    assert_int_equal(batch_decode(bytes.data, bytes.size, &at, &read, &count, &err), -EBADMSG);
    assert_string_equal(err.text, "signal: signal: expected 1 to 64");
    put(&bytes, &lost);
    assert_int_equal(batch_decode(bytes.data, bytes.size, &at, &read, &count, &err), -EBADMSG);
    assert_string_equal(err.text, "lost: node: not a value of this field");
    assert_int_equal(entry_check(&set, &err), -EINVAL);
    assert_string_equal(err.text, "comment: expected words, or null");
    set.set.comment = (struct opt_text){ .given = GIVEN_NULL };
    assert_int_equal(entry_check(&set, &err), 0);
    entry_done(&lost);
    buf_done(&bytes);
}

/* What people send is refused in the words of the declaration. */
static void test_words(void **state)
{
    static const struct {
        enum entry_kind kind;
        const char *body, *words;
    } cases[] = {
        { ENTRY_LIMITS, "{\"user\":\"ann\",\"max_gpus\":-1}",
          "max_gpus: expected a number from 0, or null for no limit" },
        { ENTRY_LIMITS, "{\"user\":\"ann\",\"max_jobs\":\"2\"}",
          "max_jobs: expected a number from 0, or null for no limit" },
        { ENTRY_SECRET, "{\"user\":\"ann\",\"name\":\"A\"}", "value: a text of at most 65536 bytes" },
        { ENTRY_SECRET, "{\"user\":\"ann\",\"name\":\"A\",\"value\":\"a\\u0000b\"}",
          "value: a text of at most 65536 bytes" },
        { ENTRY_HOOK, "{\"id\":\"a\",\"to\":\"http://x\",\"kinds\":[1]}",
          "kinds: expected beginnings of kinds, such as \"job.ended\" or \"node.\"" },
        { ENTRY_LABEL, "{\"node\":\"n\",\"set\":{\"a\":1}}", "label 'a': letters, digits and -_./, at most 63" },
        { ENTRY_RESV, "{\"name\":\"r\",\"users\":[7]}", "users: expected a list of at most 100 names" },
        { ENTRY_SIGNAL, "{\"job\":1,\"signal\":65}", "signal: expected 1 to 64" },
        { ENTRY_SIGNAL, "{\"job\":1}", "signal: expected 1 to 64" },
        { ENTRY_SET, "{\"job\":1,\"comment\":7}", "comment: expected words, or null" },
        { ENTRY_PAUSE, "[]", "pause: expected an object" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        json_t *body = json_loads(cases[i].body, JSON_ALLOW_NUL, NULL);
        struct error err = { 0 };
        struct entry entry;

        assert_non_null(body);
        assert_int_equal(entry_from_json(cases[i].kind, body, &entry, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].words);
        entry_done(&entry);
        json_decref(body);
    }
}

/* Absent, null and a value are three things; reports are flat where frames are not. */
static void test_from_json(void **state)
{
    json_t *body = json_loads("{\"user\":\"ann\",\"max_gpus\":null}", 0, NULL);
    struct entry entry;

    (void)state;
    assert_int_equal(entry_from_json(ENTRY_LIMITS, body, &entry, NULL), 0);
    assert_int_equal(entry.limits.max_gpus.given, GIVEN_NULL);
    assert_int_equal(entry.limits.max_jobs.given, GIVEN_NOT);
    entry_done(&entry);
    json_decref(body);
    body =
        json_loads("{\"t\":\"report\",\"seq\":3,\"job\":7,\"state\":\"exited\",\"cause\":\"exit\",\"blame\":\"user\","
                   "\"used\":{\"samples\":4,\"memory_mib\":5,\"util\":12.5,\"util_dev\":1},"
                   "\"ended\":[[\"ps\",0,1,0],[\"bad\"],[\"worker\",2,0,9]],"
                   "\"gpu\":{\"index\":1,\"ok\":false,\"reason\":\"hot\"}}",
                   0, NULL);
    assert_int_equal(entry_from_json(ENTRY_REPORT, body, &entry, NULL), 0);
    assert_int_equal(entry.report.seq, 3);
    assert_int_equal(entry.report.state.value, TASK_EXITED);
    assert_int_equal(entry.report.blame.value, BLAME_USER);
    assert_int_equal(entry.report.used_util, 1250);
    assert_int_equal(entry.report.ended_roles.count, 2);
    assert_string_equal(entry.report.ended_roles.items[1], "worker");
    assert_int_equal(entry.report.ended_values.items[5], 9);
    assert_true(entry.report.gpu && entry.report.gpu_ok.given == GIVEN_VALUE && !entry.report.gpu_ok.value);
    entry_done(&entry);
    json_decref(body);
}

/* A log that an older controller wrote as JSON is read, and the next batch is written in the present form. */
static void test_old_log(void **state)
{
    static const char batch[] =
        "{\"at\":5000000,\"e\":[[\"join\",{\"node\":\"n0\",\"agent\":\"a\",\"boot\":\"b\",\"address\":\"\","
        "\"inventory\":{\"sku\":\"V\",\"gpus\":[{\"index\":0}]}}],"
        "[\"submit\",{\"user\":\"ann\",\"uid\":7,\"gid\":8,\"spec\":{\"gpus\":1,\"args\":[\"true\"]},\"key\":\"k\"}],"
        "[\"limits\",{\"user\":\"ann\",\"max_gpus\":4}]]}";
    struct play *play = mem_zalloc(1, sizeof(*play));
    struct store_write write = { .seq = 1, .batch = batch, .batch_size = strlen(batch) };
    const struct ctl_job *job;
    struct error err = { 0 };

    (void)state;
    play_init(play, "fifo-skip");
    assert_int_equal(store_commit(play->store, &write, &err), 0);
    play_restart(play);
    job = registry_find(ctl_registry(batcher_ctl(play->batcher)), 1);
    assert_non_null(job);
    assert_int_equal(job->uid, 7);
    assert_int_equal(limits_gpus(ctl_registry(batcher_ctl(play->batcher)), "ann"), 4);
    play_restart(play);
    assert_non_null(registry_find(ctl_registry(batcher_ctl(play->batcher)), 1));
    play_done(play);
    mem_free(play);
}

static void random_lists(struct rng *rng, struct kept_lists *lists)
{
    kept_init(lists);
    for (int i = 0; i < KEPT_COUNT; i++) {
        struct record_list *list = kept_list(lists, (enum kept_list)i);
        size_t count = rng_below(rng, 4);

        for (size_t k = 0; k < count; k++) {
            char *record = record_add(list);

            for (size_t f = 0; f < list->fields->count; f++)
                random_field(rng, &list->fields->fields[f], record + list->fields->fields[f].offset);
        }
    }
}

/* What the registry keeps of settings, with and without a copy in between; cut short it is refused. */
static void test_lists(void **state)
{
    struct buf first = BUF_INIT(BYTES_MAX), again = BUF_INIT(BYTES_MAX);
    struct rng rng;

    (void)state;
    rng_seed(&rng, 13);
    for (int i = 0; i < ROUNDS; i++) {
        struct kept_lists lists, read, copies;
        struct error err = { 0 };

        random_lists(&rng, &lists);
        kept_init(&read);
        kept_init(&copies);
        buf_clear(&first);
        kept_encode(&lists, &first);
        assert_int_equal(kept_decode(&read, ENTRY_VERSION, first.data, first.size, &err), 0);
        for (int k = 0; k < KEPT_COUNT; k++) {
            const struct record_list *from = kept_list(&read, (enum kept_list)k);
            struct record_list *to = kept_list(&copies, (enum kept_list)k);

            for (size_t n = 0; n < from->count; n++)
                assert_int_equal(record_copy(from->fields, record_add(to), record_at(from, n)), 0);
        }
        buf_clear(&again);
        kept_encode(&copies, &again);
        assert_int_equal(again.size, first.size);
        assert_memory_equal(again.data, first.data, first.size);
        kept_done(&read);
        kept_init(&read);
        assert_true(kept_decode(&read, ENTRY_VERSION, first.data, rng_below(&rng, first.size), &err) < 0);
        kept_done(&read);
        kept_done(&copies);
        kept_done(&lists);
    }
    buf_done(&first);
    buf_done(&again);
}

/* A snapshot as the first controllers wrote it: all but the core in one document. */
static void old_snapshot(const struct buf *now, struct buf *out)
{
    static const char registry[] =
        "{\"version\":1,\"seq\":1,\"now\":1000000000,\"event\":1,\"next_id\":1,\"submitted\":0,\"paused\":false,"
        "\"settings\":{},\"users\":[],\"node_names\":[\"n0\"],\"nodes\":[{\"address\":\"127.0.0.1\",\"agent\":\"a1\","
        "\"boot\":\"b1\",\"joined\":1,\"joins\":1,\"gpus\":[{\"ok\":1},{\"ok\":1}],\"inventory\":{\"sku\":\"H100\","
        "\"gpus\":[{\"index\":0},{\"index\":1}]},\"labels\":{\"zone\":\"a\"}}],\"specs\":[],\"jobs\":[],\"tokens\":[],"
        "\"ended\":[0,0],\"outcomes\":[],\"keys\":[],\"limits\":{\"ann\":{\"max_gpus\":3},\"*\":{\"max_jobs\":9}},"
        "\"secrets\":{\"ann\":{\"A\":\"x\",\"B\":\"\"}},\"hooks\":[{\"id\":\"h\",\"to\":\"http://"
        "x\",\"kinds\":[\"job.\"]}],"
        "\"choices\":[{\"nodelist\":\"n0\"},{\"constraint\":\"a\"}],\"licenses\":[\"matlab\"],"
        "\"reservations\":[{\"name\":\"r\",\"nodes\":\"n0\",\"start\":2000000000,\"end\":3000000000,\"lead\":0,"
        "\"users\":[\"ann\"],\"stage\":0,\"number\":2}]}";
    const char *at = now->data + CTL_SNAPSHOT_MAGIC_SIZE + sizeof(uint64_t);
    uint64_t length;

    for (int part = 0; part < 3; part++) {
        memcpy(&length, at, sizeof(length));
        at += sizeof(length) + length;
    }
    length = strlen(registry);
    buf_put(out, &length, sizeof(length));
    buf_put(out, registry, length);
    buf_put(out, at, (size_t)(now->data + now->size - at));
}

static void test_old_snapshot(void **state)
{
    struct play *play = mem_zalloc(1, sizeof(*play));
    struct buf now = BUF_INIT(BYTES_MAX), old = BUF_INIT(BYTES_MAX), read = BUF_INIT(BYTES_MAX),
               again = BUF_INIT(BYTES_MAX);
    const struct registry *registry;
    struct error err = { 0 };
    struct ctl *ctl = NULL;

    (void)state;
    play_init(play, "fifo-skip");
    play_join(play, "n0", 2);
    assert_int_equal(ctl_save(batcher_ctl(play->batcher), &now, &err), 0);
    old_snapshot(&now, &old);
    assert_true(ctl_snapshot_is(now.data, now.size) && !ctl_snapshot_is(old.data, old.size));
    assert_true(ctl_load(&play->config.ctl, old.data, old.size, &ctl, &err) < 0);
    if (snapshot_from_json(old.data, old.size, &read, &err) < 0 ||
        ctl_load(&play->config.ctl, read.data, read.size, &ctl, &err) < 0)
        fail_msg("%s", err.text);
    registry = ctl_registry(ctl);
    assert_int_equal(limits_gpus(registry, "ann"), 3);
    assert_int_equal(limits_jobs(registry, "bob"), 9);
    assert_int_equal(registry->kept.secrets.count, 2);
    assert_string_equal(((struct entry_hook *)record_at(&registry->kept.hooks, 0))->kinds.items[0], "job.");
    assert_int_equal(registry->kept.choices.count, 2);
    assert_int_equal(resv_find(registry, "r")->number, 2);
    assert_string_equal(resv_find(registry, "r")->users.items[0], "ann");
    assert_string_equal(((struct ctl_license *)record_at(&registry->kept.licenses, 0))->name, "matlab");
    assert_string_equal(labels_find(registry, 0)->items[0].text, "a");
    buf_clear(&now);
    assert_int_equal(ctl_save(ctl, &now, &err), 0);
    ctl_free(ctl);
    assert_int_equal(ctl_load(&play->config.ctl, now.data, now.size, &ctl, &err), 0);
    assert_int_equal(ctl_save(ctl, &again, &err), 0);
    assert_int_equal(again.size, now.size);
    assert_memory_equal(again.data, now.data, now.size);
    for (size_t cut = 0; cut < old.size; cut += 97) {
        buf_clear(&read);
        if (snapshot_from_json(old.data, cut, &read, &err) == 0) /* the core's part alone is cut */
            assert_true(cut > sizeof(uint64_t));
    }
    ctl_free(ctl);
    buf_done(&now);
    buf_done(&old);
    buf_done(&read);
    buf_done(&again);
    play_done(play);
    mem_free(play);
}

/* Settings that are nested without end are refused, of all as of one virtual cluster. */
static void test_deep(void **state)
{
    struct play *play = mem_zalloc(1, sizeof(*play));
    struct entry_result ret = { 0 };
    char deep[512] = "", text[600];

    (void)state;
    for (int i = 0; i < 30; i++)
        (void)strcat(deep, "{\"a\":");
    (void)strcat(deep, "1");
    for (int i = 0; i < 30; i++)
        (void)strcat(deep, "}");
    play_init(play, "fifo-skip");
    play_join(play, "n0", 2);
    assert_int_equal(play_offer(play, ENTRY_CONFIG, deep, &ret), -EINVAL);
    assert_non_null(strstr(ret.text.text, "levels"));
    (void)snprintf(text, sizeof(text), "{\"name\":\"a\",\"create\":true,\"set\":%s}", deep);
    assert_int_equal(play_offer(play, ENTRY_VC, text, &ret), -EINVAL);
    assert_non_null(strstr(ret.text.text, "levels"));
    play_done(play);
    mem_free(play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),         cmocka_unit_test(test_numbers_stay), cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damaged),      cmocka_unit_test(test_versions),     cmocka_unit_test(test_limits),
        cmocka_unit_test(test_words),        cmocka_unit_test(test_from_json),    cmocka_unit_test(test_lists),
        cmocka_unit_test(test_old_snapshot), cmocka_unit_test(test_deep),         cmocka_unit_test(test_old_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
