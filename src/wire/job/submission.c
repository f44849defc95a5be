/* SPDX-License-Identifier: Apache-2.0 */
/* submission.c - see submission.h. JSON and YAML become the same tree of values, which is read by the table of keys;
 * where that fails in a YAML file, the path of the value leads back to its line. */
#include "wire/job/submission.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/job/roles.h"
#include "wire/job/submission_internal.h"
#include "wire/text/json_read.h"
#include "wire/text/json_write.h"
#include "wire/text/yaml_doc.h"
#include "wire/text/yaml_json.h"

const struct submission *submission_defaults(void)
{
    static const struct submission defaults = {
        .priority = 100,
        .gpu_share = MGPU_ONE,
        .preempt = PREEMPT_REQUEUE,
        .requeue = true,
    };

    return &defaults;
}

void submission_init(struct submission *s)
{
    *s = *submission_defaults();
}

static void texts_done(char **list, size_t count)
{
    for (size_t i = 0; list && i < count; i++)
        mem_free(list[i]);
    mem_free(list);
}

static void pairs_done(struct env_pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mem_free(pairs[i].key);
        mem_free(pairs[i].value);
    }
    mem_free(pairs);
}

void submission_done(struct submission *s)
{
    char *texts[] = { s->name,   s->vc,           s->account,     s->comment,  s->image,    s->runtime, s->dir,
                      s->output, s->error,        s->reservation, s->compat,   s->nodelist, s->exclude, s->constraint,
                      s->run,    s->gpu_selector, s->topo_level,  s->ckpt_dir, s->ckpt_cmd, s->cells,   s->model };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        mem_free(texts[i]);
    texts_done(s->args, s->arg_count);
    texts_done(s->mounts, s->mount_count);
    texts_done(s->secrets, s->secret_count);
    texts_done(s->notify, s->notify_count);
    texts_done(s->array_values, s->array_count * s->array_key_count);
    texts_done(s->array_keys, s->array_key_count);
    pairs_done(s->env, s->env_count);
    pairs_done(s->tags, s->tag_count);
    pairs_done(s->licenses, s->license_count);
    pairs_done(s->progress, s->progress_count);
    roles_done(s);
    mem_free(s->array);
    mem_free(s->after);
    *s = (struct submission){ 0 };
}

/* How many tasks it has at the most; 0: that is known when it is placed. */
static int64_t tasks_most(const struct submission *s)
{
    if (s->role_count || s->nodes != s->nodes_max)
        return 0;
    if (s->launch == LAUNCH_TASK)
        return s->tasks_per_node ? (int64_t)s->tasks_per_node * s->nodes : s->tasks;
    if (s->launch == LAUNCH_NODE && !s->nodes && !s->gpus_per_node && s->gpus == s->gpus_max &&
        !s->cells) /* no node without a GPU */
        return s->gpus;
    return s->launch == LAUNCH_ONCE ? 1 : s->nodes;
}

int submission_check(struct submission_reader *rd)
{
    const struct submission *s = rd->s;

    if (s->role_count && (s->run || s->arg_count || s->nodes || s->gpus || s->no_gpus || s->cells || s->cpus ||
                          s->memory || s->tasks || s->tasks_per_node || s->cpus_per_task || s->memory_per_gpu ||
                          s->exclusive || s->splice || s->launch != LAUNCH_NODE || s->emulate_run))
        return reader_fail(rd, "with roles, each role says what it runs and needs: run, args, nodes, gpus, per_node, "
                               "cells, tasks, launch and the like are not given beside them");
    if (!s->role_count && !s->run && s->arg_count == 0 && s->emulate_run == 0)
        return reader_fail(rd, "nothing to run: expected 'run' or 'args'");
    if (s->time && s->time_min > s->time)
        return reader_fail(rd, "time_min is longer than time");
    if (s->keep_on_fail > KEEP_ON_FAIL_MAX)
        return reader_fail(rd, "keep_on_fail is longer than 7 days");
    if (s->begin && s->deadline && s->deadline <= s->begin)
        return reader_fail(rd, "deadline is not after begin");
    if (s->gpu_share < MGPU_ONE && s->nodes > 1)
        return reader_fail(rd, "a share of one GPU is on one node");
    if (s->no_gpus && (s->cells || s->topo_level || s->exclusive || s->memory_per_gpu))
        return reader_fail(rd, "a job with 0 GPUs has no cells, topology, exclusive or memory_per_gpu");
    if (s->no_gpus && s->cpus == 0 && s->cpus_per_task == 0)
        return reader_fail(rd, "a job with 0 GPUs says how many CPUs it needs: per_node.cpu, cpus_per_task or --cpus");
    if (s->cells && (s->gpus || s->nodes))
        return reader_fail(rd, "give either cells, or gpus and nodes");
    if (s->input > 0 && tasks_most(s) && s->input > tasks_most(s))
        return reader_fail(rd, "input: there is no task %d; the job has %lld at the most, from 0 on", s->input - 1,
                           (long long)tasks_most(s));
    if (s->input != INPUT_NONE && s->array)
        return reader_fail(rd, "the elements of an array have no input");
    if (s->topo_must && !s->topo_level)
        return reader_fail(rd, "topology.policy needs topology.level");
    if (s->mount_count && !roles_image(s))
        return reader_fail(rd, "mounts go with an image");
    if (training_check(rd) < 0)
        return -EINVAL;
    return roles_check(rd);
}

int submission_from_tree(struct submission_reader *rd, json_t *tree)
{
    size_t count;
    const struct submission_key *keys = submission_keys(&count);
    json_t *converted = NULL;
    int r;

    if (!json_is_object(tree))
        return reader_fail(rd, "expected a mapping");
    if (json_object_get(tree, "protocolVersion")) {
        r = job_pai_convert(rd, tree, &converted);
        if (r < 0)
            return r;
        tree = converted;
    }
    r = reader_object(rd, keys, count, tree);
    if (r == 0)
        r = gang_split(rd);
    if (r == 0)
        r = submission_check(rd);
    json_decref(converted);
    return r;
}

/* "per_node.gpu" of the path that failed. */
static void path_show(const struct submission_reader *rd, char shown[SUBMISSION_PATH_MAX])
{
    size_t length = 0;

    for (; rd->path[length]; length++)
        shown[length] = rd->path[length] == '\x1f' ? '.' : (rd->path[length] & 0x60) == 0 ? '?' : rd->path[length];
    if (length && shown[length - 1] == '.')
        length--;
    shown[length] = '\0';
}

int submission_from_value(json_t *tree, struct submission *ret, struct error *err)
{
    struct submission s;
    struct submission_reader rd = { .s = &s, .err = err };
    int r;

    submission_init(&s);
    r = submission_from_tree(&rd, tree);
    if (r == 0) {
        *ret = s;
        return 0;
    }
    submission_done(&s);
    if (rd.failed && rd.path_length) {
        char shown[SUBMISSION_PATH_MAX];

        path_show(&rd, shown);
        return error_prefix(err, r, "%s", shown);
    }
    return r;
}

int submission_from_json(const char *text, size_t size, struct submission *ret, struct error *err)
{
    json_t *tree = NULL;
    int r;

    if (size > SUBMISSION_BYTES_MAX)
        return error_set(err, -E2BIG, "larger than %d bytes", SUBMISSION_BYTES_MAX);
    r = json_read("job", text, size, &tree, err);
    if (r == 0)
        r = submission_from_value(tree, ret, err);
    json_decref(tree);
    return r;
}

int submission_from_doc(const char *text, size_t size, struct submission *ret, struct error *err)
{
    json_t *tree = NULL;
    int r = json_read("spec", text, size, &tree, err);

    if (r == 0)
        r = submission_from_value(tree, ret, err);
    json_decref(tree);
    return r;
}

/* The node a path leads to, or the last one there is on the way. */
static yaml_node_t *path_node(struct yaml_doc *doc, const struct submission_reader *rd)
{
    yaml_node_t *node = yaml_top(doc), *key, *value, *found = node;

    for (const char *part = rd->path; *part && strchr(part, '\x1f'); part = strchr(part, '\x1f') + 1) {
        size_t length = strcspn(part, "\x1f");
        bool last = part[length + 1] == '\0', hit = false;

        if (node->type == YAML_SEQUENCE_NODE) {
            size_t index = strtoul(part, NULL, 10);

            hit = yaml_item(doc, node, index, &value);
            found = hit ? value : found;
        } else if (node->type == YAML_MAPPING_NODE) {
            for (size_t i = 0; !hit && yaml_pair(doc, node, i, &key, &value); i++)
                hit = key->data.scalar.length == length && memcmp(key->data.scalar.value, part, length) == 0;
            if (hit)
                found = rd->at_key && last ? key : value;
        }
        if (!hit)
            break;
        node = value;
    }
    return found;
}

static int yaml_read_into(struct submission *s, struct yaml_doc *doc, struct error *err)
{
    struct submission_reader rd = { .s = s, .err = err };
    struct error words = { 0 };
    char shown[SUBMISSION_PATH_MAX];
    json_t *json = NULL;
    int r = yaml_tree(doc, &json, err);

    if (r < 0)
        return r;
    rd.err = &words;
    r = submission_from_tree(&rd, json);
    json_decref(json);
    if (r == 0)
        return 0;
    path_show(&rd, shown);
    if (!rd.failed)
        return error_set(err, r, "%s", words.text);
    return yaml_fail(doc, path_node(doc, &rd), err, "%s%s%s", rd.at_key ? "" : shown,
                     rd.at_key || !shown[0] ? "" : ": ", words.text);
}

int submission_from_yaml(const char *file, const char *text, size_t size, struct submission *ret, struct error *err)
{
    char *copy = mem_zalloc(size + 1, 1);
    struct bytes bytes = { copy, size };
    struct submission s;
    struct yaml_doc doc;
    int r;

    if (!copy)
        return error_set(err, -ENOMEM, "out of memory");
    memcpy(copy, text, size);
    r = yaml_open_within(file, &bytes, SUBMISSION_VALUES_MAX, &doc, err);
    if (r == 0) {
        submission_init(&s);
        r = yaml_read_into(&s, &doc, err);
        yaml_close(&doc);
        if (r == 0)
            *ret = s;
        else
            submission_done(&s);
    }
    mem_free(copy);
    return r;
}

void submission_write(struct json_write *out, const struct submission_key *keys, size_t count,
                      const struct submission *s)
{
    for (size_t i = 0; i < count; i++)
        if (keys[i].write)
            keys[i].write(out, &keys[i], s);
}

int submission_to_json(const struct submission *s, struct buf *out, struct error *err)
{
    struct json_write json;
    size_t count;
    const struct submission_key *keys = submission_keys(&count);

    json_write_init(&json, out, false);
    json_write_object(&json, NULL);
    submission_write(&json, keys, count, s);
    json_write_close(&json);
    return out->error ? error_set(err, out->error, "the submission is too large") : 0;
}
