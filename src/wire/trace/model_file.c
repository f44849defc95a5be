/* SPDX-License-Identifier: Apache-2.0 */
/* model_file.c - see model_file.h. */
#include "wire/trace/model_file.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

#define MAGIC "MUSTERFC"
enum { HEAD_BYTES = 8 + 4 + 8 + 8 };

/* ---- out ---- */

static void put_u32(struct buf *out, uint32_t value)
{
    unsigned char bytes[4];

    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    buf_put(out, bytes, sizeof(bytes));
}

static void put_u64(struct buf *out, uint64_t value)
{
    put_u32(out, (uint32_t)value);
    put_u32(out, (uint32_t)(value >> 32));
}

static void put_float(struct buf *out, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    put_u32(out, bits);
}

static void put_name(struct buf *out, const char *name)
{
    uint32_t length = (uint32_t)strlen(name);

    put_u32(out, length);
    buf_put(out, name, length);
}

static void put_tree(struct buf *out, const struct forest_tree *tree)
{
    put_u32(out, tree->node_count);
    put_u32(out, tree->leaf_count);
    for (uint32_t i = 0; i < tree->node_count; i++) {
        put_float(out, tree->nodes[i].cut);
        put_u32(out, tree->nodes[i].next);
        put_u32(out, (uint32_t)tree->nodes[i].feature);
    }
    for (size_t i = 0; i < (size_t)tree->leaf_count * FOREST_LEAF_VALUES; i++)
        put_float(out, tree->values[i]);
}

static void put_forest(struct buf *out, const struct estimator *e, const struct forest *forest)
{
    put_name(out, forest->name);
    put_u32(out, forest->log);
    put_float(out, forest->mean);
    put_float(out, forest->low);
    put_float(out, forest->high);
    for (uint32_t f = 0; f < e->feature_count; f++) {
        put_u32(out, forest->word_count[f]);
        for (uint32_t i = 0; i < forest->word_count[f]; i++) {
            put_u64(out, forest->words[f][i].hash);
            put_float(out, forest->words[f][i].value);
        }
    }
    put_u32(out, forest->tree_count);
    for (uint32_t i = 0; i < forest->tree_count; i++)
        put_tree(out, &forest->trees[i]);
}

static void put_body(struct buf *out, const struct estimator *estimator)
{
    put_u64(out, estimator->rows);
    put_u64(out, estimator->seed);
    put_u32(out, estimator->feature_count);
    for (uint32_t i = 0; i < estimator->feature_count; i++) {
        put_name(out, estimator->features[i]);
        put_u32(out, estimator->text[i]);
    }
    put_u32(out, estimator->target_count);
    for (uint32_t i = 0; i < estimator->target_count; i++)
        put_forest(out, estimator, &estimator->forests[i]);
}

void model_file_write(const struct estimator *estimator, struct buf *out)
{
    CLEANUP_BUF struct buf body = BUF_INIT(out->max);

    put_body(&body, estimator);
    buf_put(out, MAGIC, 8);
    put_u32(out, MODEL_FILE_VERSION);
    put_u64(out, body.size);
    put_u64(out, feature_hash(body.data, body.size));
    buf_put(out, body.data, body.size);
    if (body.error)
        out->error = body.error;
}

/* ---- in ---- */

struct reader {
    const char *file;
    const unsigned char *at, *end;
    struct error *err;
    int failed; /* the first failure sticks */
};

static void fail(struct reader *in, int code, const char *words)
{
    if (!in->failed)
        in->failed = error_set(in->err, code, "%s: %s", in->file, words);
}

static uint32_t get_u32(struct reader *in)
{
    uint32_t value = 0;

    if (in->end - in->at < 4) {
        fail(in, -EBADMSG, "the model ends in the middle of a number");
        in->at = in->end;
        return 0;
    }
    for (int i = 0; i < 4; i++)
        value |= (uint32_t)*in->at++ << (8 * i);
    return value;
}

static uint64_t get_u64(struct reader *in)
{
    uint64_t low = get_u32(in);

    return low | (uint64_t)get_u32(in) << 32;
}

static float get_float(struct reader *in)
{
    uint32_t bits = get_u32(in);
    float value;

    memcpy(&value, &bits, sizeof(value));
    if (!isfinite(value)) {
        fail(in, -EBADMSG, "a number of the model is not finite");
        return 0;
    }
    return value;
}

/* A count of things that take at least `bytes` each: no more than the rest of the file can hold. */
static uint32_t get_count(struct reader *in, uint32_t most, size_t bytes, const char *what)
{
    uint32_t count = get_u32(in);

    if (!in->failed && (count > most || count > (size_t)(in->end - in->at) / bytes)) {
        fail(in, -EBADMSG, what);
        return 0;
    }
    return in->failed ? 0 : count;
}

static void get_name(struct reader *in, char name[FOREST_NAME_MAX])
{
    uint32_t length = get_count(in, FOREST_NAME_MAX - 1, 1, "a name of the model is too long");

    for (uint32_t i = 0; i < length; i++) {
        name[i] = (char)*in->at++;
        if ((unsigned char)name[i] < ' ')
            fail(in, -EBADMSG, "a name of the model has a control character");
    }
    if (!in->failed && length == 0)
        fail(in, -EBADMSG, "a name of the model is empty");
}

static bool get_flag(struct reader *in)
{
    uint32_t flag = get_u32(in);

    if (flag > 1)
        fail(in, -EBADMSG, "a switch of the model is neither on nor off");
    return flag == 1;
}

/* Children come after their parent, so a walk from the root ends; every node but the root has one parent, since they
 * are handed out two by two in the order in which they are asked for. */
static void check_tree(struct reader *in, const struct estimator *e, const struct forest_tree *tree, uint8_t *seen)
{
    uint32_t leaves = 0;

    seen[0] = 1;
    for (uint32_t i = 0; i < tree->node_count; i++) {
        const struct forest_node *n = &tree->nodes[i];

        if (n->feature < 0) {
            leaves++;
            if (n->next >= tree->leaf_count || n->feature != -1)
                fail(in, -EBADMSG, "a leaf of the model has no values");
            continue;
        }
        if ((uint32_t)n->feature >= e->feature_count || n->next <= i || n->next >= tree->node_count - 1 ||
            seen[n->next] || seen[n->next + 1]) {
            fail(in, -EBADMSG, "a branch of the model leads nowhere");
            return;
        }
        seen[n->next] = seen[n->next + 1] = 1;
    }
    if (leaves != tree->leaf_count || tree->node_count != 2 * leaves - 1)
        fail(in, -EBADMSG, "a tree of the model does not hang together");
}

static void get_tree(struct reader *in, const struct estimator *e, struct forest_tree *tree)
{
    uint8_t *seen;

    tree->node_count = get_count(in, FOREST_NODES_MAX, 12, "a tree of the model has more nodes than the file");
    tree->leaf_count =
        get_count(in, FOREST_NODES_MAX, 4 * FOREST_LEAF_VALUES, "a tree of the model has more leaves than the file");
    if (in->failed || tree->node_count == 0 || tree->leaf_count == 0) {
        fail(in, -EBADMSG, "a tree of the model is empty");
        return;
    }
    tree->nodes = mem_zalloc(tree->node_count, sizeof(*tree->nodes));
    tree->values = mem_zalloc((size_t)tree->leaf_count * FOREST_LEAF_VALUES, sizeof(float));
    seen = mem_zalloc(tree->node_count, 1);
    if (!tree->nodes || !tree->values || !seen) {
        mem_free(seen);
        fail(in, -ENOMEM, "no memory for the model");
        return;
    }
    for (uint32_t i = 0; i < tree->node_count && !in->failed; i++) {
        tree->nodes[i].cut = get_float(in);
        tree->nodes[i].next = get_u32(in);
        tree->nodes[i].feature = (int32_t)get_u32(in);
    }
    for (size_t i = 0; i < (size_t)tree->leaf_count * FOREST_LEAF_VALUES && !in->failed; i++)
        tree->values[i] = get_float(in);
    if (!in->failed)
        check_tree(in, e, tree, seen);
    mem_free(seen);
}

static void get_words(struct reader *in, const struct estimator *e, struct forest *forest, uint32_t feature)
{
    uint32_t count = get_count(in, FOREST_WORDS_MAX, 12, "the model has more texts than the file");

    if (count == 0)
        return;
    if (!e->text[feature]) {
        fail(in, -EBADMSG, "the model has texts for a feature of numbers");
        return;
    }
    forest->words[feature] = mem_zalloc(count, sizeof(struct forest_word));
    if (!forest->words[feature]) {
        fail(in, -ENOMEM, "no memory for the model");
        return;
    }
    forest->word_count[feature] = count;
    for (uint32_t i = 0; i < count && !in->failed; i++) {
        struct forest_word *word = &forest->words[feature][i];

        word->hash = get_u64(in);
        word->value = get_float(in);
        if (i > 0 && word->hash <= word[-1].hash)
            fail(in, -EBADMSG, "the texts of the model are out of order");
    }
}

static void get_forest(struct reader *in, const struct estimator *e, struct forest *forest)
{
    uint32_t trees;

    get_name(in, forest->name);
    forest->log = get_flag(in);
    forest->mean = get_float(in);
    forest->low = get_float(in);
    forest->high = get_float(in);
    for (uint32_t f = 0; f < e->feature_count && !in->failed; f++)
        get_words(in, e, forest, f);
    trees = get_count(in, FOREST_TREES_MAX, 8 + 12 + 4 * FOREST_LEAF_VALUES, "the model has more trees than the file");
    if (!in->failed && (trees == 0 || forest->low > forest->high))
        fail(in, -EBADMSG, "a forest of the model is empty");
    if (in->failed)
        return;
    forest->trees = mem_zalloc(trees, sizeof(*forest->trees));
    if (!forest->trees) {
        fail(in, -ENOMEM, "no memory for the model");
        return;
    }
    forest->tree_count = trees;
    for (uint32_t i = 0; i < trees && !in->failed; i++)
        get_tree(in, e, &forest->trees[i]);
}

static void get_body(struct reader *in, struct estimator *e)
{
    uint32_t targets;

    e->rows = get_u64(in);
    e->seed = get_u64(in);
    e->feature_count = get_count(in, FOREST_FEATURES_MAX, 8, "the model has too many features");
    for (uint32_t i = 0; i < e->feature_count && !in->failed; i++) {
        get_name(in, e->features[i]);
        e->text[i] = get_flag(in);
    }
    targets = get_count(in, FOREST_TARGETS_MAX, 8, "the model has too many targets");
    if (!in->failed && (targets == 0 || e->feature_count == 0))
        fail(in, -EBADMSG, "the model has no features or no targets");
    if (in->failed)
        return;
    e->forests = mem_zalloc(targets, sizeof(*e->forests));
    if (!e->forests) {
        fail(in, -ENOMEM, "no memory for the model");
        return;
    }
    e->target_count = targets;
    for (uint32_t i = 0; i < targets && !in->failed; i++)
        get_forest(in, e, &e->forests[i]);
    if (!in->failed && in->at != in->end)
        fail(in, -EBADMSG, "something follows the end of the model");
}

int model_file_read(const char *file, const void *data, size_t size, struct estimator *ret_estimator, struct error *err)
{
    struct reader in = { .file = file, .at = data, .end = (const unsigned char *)data + size, .err = err };
    struct estimator estimator = { 0 };
    uint64_t body, sum;
    uint32_t version;

    if (size < HEAD_BYTES || memcmp(data, MAGIC, 8) != 0)
        return error_set(err, -EBADMSG, "%s: not a model of muster estimate (%zu bytes)", file, size);
    in.at += 8;
    version = get_u32(&in);
    if (version != MODEL_FILE_VERSION)
        return error_set(err, -EPROTO,
                         "%s: a model of version %u; this program reads version %d: train it anew "
                         "(muster estimate train)",
                         file, version, MODEL_FILE_VERSION);
    body = get_u64(&in);
    sum = get_u64(&in);
    if (body != size - HEAD_BYTES)
        return error_set(err, -EBADMSG, "%s: the model is cut short: %llu bytes expected, %zu are there", file,
                         (unsigned long long)body, size - HEAD_BYTES);
    if (sum != feature_hash((const char *)in.at, (size_t)body))
        return error_set(err, -EBADMSG, "%s: the model is damaged: its checksum is wrong", file);
    get_body(&in, &estimator);
    if (in.failed) {
        estimator_done(&estimator);
        return in.failed;
    }
    *ret_estimator = estimator;
    return 0;
}
