/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* entry_kinds.h - the entries of the log and their fields, each declared once.
 *
 * F(struct, type, member, name outside, tag, since, least, most, what is expected). Tags and numbers of kinds are
 * durable: a new field takes the next tag and the next version (ENTRY_VERSION), and no tag is used again (ADR 52).
 */
#include "ctl/state/entry/entry_field.h"

#define NODE_FIELD(F, S)                                                                                               \
    F(S, TEXT, node, "node", 1, 1, 0, ENTRY_NAME_MAX, "a name has letters, digits, '.', '-' and '_'")
#define BY_FIELD(F, S, tag) F(S, TEXT, by, "by", tag, 1, 0, ENTRY_NAME_MAX, NULL)
#define ACT_FIELDS(F, S)                                                                                               \
    F(S, NUMBER, job, "job", 1, 1, INT64_MIN, INT64_MAX, "expected the number of a job")                               \
    BY_FIELD(F, S, 2)

/* A job or an array of jobs. The spec is canonical. */
#define SUBMIT_FIELDS(F, S)                                                                                            \
    F(S, TEXT, user, "user", 1, 1, 0, 128, NULL)                                                                       \
    F(S, NUMBER, uid, "uid", 2, 1, 0, UINT32_MAX, NULL)                                                                \
    F(S, NUMBER, gid, "gid", 3, 1, 0, UINT32_MAX, NULL)                                                                \
    F(S, DOC, spec, "spec", 4, 1, 0, ENTRY_DOC_MAX, NULL)                                                              \
    F(S, TEXT, key, "key", 5, 1, 0, 128, NULL)                                                                         \
    F(S, SCALED, run, "predicted.run_seconds", 6, 1, 1000000, INT64_MAX / 4, NULL)                                     \
    F(S, SCALED, memory_mib, "predicted.memory_mib", 7, 1, 1, 1 << 24, NULL)                                           \
    F(S, SCALED, util, "predicted.utilisation", 8, 1, 100, 10001, NULL)                                                \
    F(S, SCALED, util_dev, "predicted.utilisation_dev", 9, 1, 100, 10001, NULL)                                        \
    F(S, SCALED, gpus_pay, "predicted.gpus_pay", 10, 1, 1, 1 << 20, NULL)                                              \
    F(S, DOC, wants, "wants", 11, 1, 0, ENTRY_DOC_MAX, NULL)

#define CANCEL_FIELDS(F, S)                                                                                            \
    ACT_FIELDS(F, S)                                                                                                   \
    F(S, TEXT, why, "why", 3, 1, 0, ENTRY_WORDS_MAX, NULL)                                                             \
    F(S, FLAG, now, "now", 4, 1, 0, 1, NULL)
#define HOLD_FIELDS(F, S) ACT_FIELDS(F, S)
#define RELEASE_FIELDS(F, S) ACT_FIELDS(F, S)
#define REQUEUE_FIELDS(F, S) ACT_FIELDS(F, S)
#define SUSPEND_FIELDS(F, S) ACT_FIELDS(F, S)
#define RESUME_FIELDS(F, S) ACT_FIELDS(F, S)
#define SIGNAL_FIELDS(F, S)                                                                                            \
    ACT_FIELDS(F, S)                                                                                                   \
    F(S, NUMBER, signal, "signal", 3, 1, 1, 64, "expected 1 to 64")
#define SET_FIELDS(F, S)                                                                                               \
    ACT_FIELDS(F, S)                                                                                                   \
    F(S, OPT_NUMBER, priority, "priority", 3, 1, INT32_MIN, INT32_MAX, "expected a class or a number")                 \
    F(S, OPT_NUMBER, time, "time", 4, 1, 0, INT64_MAX, "expected a span")                                              \
    F(S, OPT_NUMBER, size, "size", 5, 1, INT32_MIN, INT32_MAX, "expected a number of GPUs, or null")                   \
    F(S, TEXT, vc, "vc", 6, 1, 0, ENTRY_NAME_MAX, "expected a name")                                                   \
    F(S, OPT_TEXT, comment, "comment", 7, 1, 0, ENTRY_DOC_MAX, "expected words, or null")                              \
    F(S, CHANGES, tags, "tags", 8, 1, 0, ENTRY_VALUES_MAX, "expected {NAME: VALUE}, null for one that goes")

/* An agent has said hello. */
#define JOIN_FIELDS(F, S)                                                                                              \
    NODE_FIELD(F, S)                                                                                                   \
    F(S, TEXT, agent, "agent", 2, 1, 0, ENTRY_WORDS_MAX, NULL)                                                         \
    F(S, TEXT, boot, "boot", 3, 1, 0, ENTRY_WORDS_MAX, NULL)                                                           \
    F(S, TEXT, address, "address", 4, 1, 0, ENTRY_WORDS_MAX, NULL)                                                     \
    F(S, TEXT, version, "version", 5, 1, 0, ENTRY_WORDS_MAX, NULL)                                                     \
    F(S, DOC, inventory, "inventory", 6, 1, 0, ENTRY_DOC_MAX, NULL)                                                    \
    F(S, NUMBER, lease, "lease", 7, 2, 0, INT64_MAX / 4, NULL)                                                         \
    F(S, TEXT, machine, "machine", 8, 2, 0, ENTRY_WORDS_MAX, NULL)
/* For how long tasks of a node go on when its agent hears nobody, as it has said; 0: as long as they like. */
#define LEASE_FIELDS(F, S)                                                                                             \
    NODE_FIELD(F, S)                                                                                                   \
    F(S, NUMBER, lease, "lease", 2, 2, 0, INT64_MAX / 4, NULL)
/* A node is not heard of, with launches that no agent was told: job, attempt, rank (undelivered.c); or it is back. */
#define SILENT_FIELDS(F, S)                                                                                            \
    NODE_FIELD(F, S)                                                                                                   \
    F(S, FLAG, back, "back", 2, 1, 0, 1, NULL)                                                                         \
    F(S, OPT_NUMBER, joins, "joins", 3, 1, 0, UINT32_MAX, NULL)                                                        \
    F(S, NUMBERS, untold, "untold", 4, 1, 0, ENTRY_VALUES_MAX, NULL)
#define LOST_FIELDS(F, S)                                                                                              \
    NODE_FIELD(F, S)                                                                                                   \
    F(S, TEXT, why, "why", 2, 2, 0, ENTRY_NAME_MAX + 64, NULL)
/* What an agent reports. ended: roles whose tasks have ended, and for each three numbers: index, exit code, signal. */
#define REPORT_FIELDS(F, S)                                                                                            \
    NODE_FIELD(F, S)                                                                                                   \
    F(S, TEXT, agent, "agent", 2, 1, 0, ENTRY_WORDS_MAX, NULL)                                                         \
    F(S, NUMBER, seq, "seq", 3, 1, INT64_MIN, INT64_MAX, NULL)                                                         \
    F(S, NUMBER, job, "job", 4, 1, INT64_MIN, INT64_MAX, NULL)                                                         \
    F(S, NUMBER, attempt, "attempt", 5, 1, INT64_MIN, INT64_MAX, NULL)                                                 \
    F(S, NUMBER, rank, "rank", 6, 1, INT64_MIN, INT64_MAX, NULL)                                                       \
    F(S, WORD, state, "state", 7, 1, WORDS_TASK_STATE, 0, NULL)                                                        \
    F(S, TEXT, cause, "cause", 8, 1, 0, ENTRY_WORDS_MAX, NULL)                                                         \
    F(S, NUMBER, exit, "exit", 9, 1, INT64_MIN, INT64_MAX, NULL)                                                       \
    F(S, NUMBER, signal, "signal", 10, 1, INT64_MIN, INT64_MAX, NULL)                                                  \
    F(S, FLAG, oom, "oom", 11, 1, 0, 1, NULL)                                                                          \
    F(S, FLAG, silent, "silent", 12, 1, 0, 1, NULL)                                                                    \
    F(S, FLAG, ran, "ran", 13, 1, 0, 1, NULL)                                                                          \
    F(S, WORD, blame, "blame", 14, 1, WORDS_BLAME, 0, NULL)                                                            \
    F(S, NUMBER, started, "started", 15, 1, INT64_MIN, INT64_MAX, NULL)                                                \
    F(S, NUMBER, at, "at", 16, 1, INT64_MIN, INT64_MAX, NULL)                                                          \
    F(S, OPT_NUMBER, progress, "progress", 17, 1, INT64_MIN, INT64_MAX, NULL)                                          \
    F(S, OPT_NUMBER, rate, "rate", 18, 1, INT64_MIN, INT64_MAX, NULL)                                                  \
    F(S, NUMBER, used_samples, "used.samples", 19, 1, INT64_MIN, INT64_MAX, NULL)                                      \
    F(S, NUMBER, used_memory_mib, "used.memory_mib", 20, 1, INT64_MIN, INT64_MAX, NULL)                                \
    F(S, SCALED, used_util, "used.util", 21, 1, 100, 10001, NULL)                                                      \
    F(S, SCALED, used_util_dev, "used.util_dev", 22, 1, 100, 10001, NULL)                                              \
    F(S, TEXTS, ended_roles, "ended.roles", 23, 1, 0, ENTRY_VALUES_MAX, NULL)                                          \
    F(S, NUMBERS, ended_values, "ended.values", 24, 1, 0, ENTRY_VALUES_MAX, NULL)                                      \
    F(S, FLAG, gpu, "gpu", 25, 1, 0, 1, NULL)                                                                          \
    F(S, NUMBER, gpu_index, "gpu.index", 26, 1, INT64_MIN, INT64_MAX, NULL)                                            \
    F(S, OPT_NUMBER, gpu_ok, "gpu.ok", 27, 1, 0, 1, NULL)                                                              \
    F(S, OPT_NUMBER, gpu_foreign, "gpu.foreign", 28, 1, 0, 1, NULL)                                                    \
    F(S, NUMBER, gpu_pid, "gpu.pid", 29, 1, INT64_MIN, INT64_MAX, NULL)                                                \
    F(S, TEXT, gpu_user, "gpu.user", 30, 1, 0, ENTRY_WORDS_MAX, NULL)                                                  \
    F(S, TEXT, gpu_reason, "gpu.reason", 31, 1, 0, ENTRY_WORDS_MAX, NULL)                                              \
    F(S, FLAG, reboot, "reboot", 32, 1, 0, 1, NULL)                                                                    \
    F(S, TEXT, reboot_reason, "reboot.reason", 33, 1, 0, ENTRY_WORDS_MAX, NULL)                                        \
    F(S, FLAG, measure, "measure", 34, 1, 0, 1, NULL)                                                                  \
    F(S, NUMBER, measure_kind, "measure.kind", 35, 1, INT64_MIN, INT64_MAX, NULL)                                      \
    F(S, NUMBER, measure_rate, "measure.rate", 36, 1, INT64_MIN, INT64_MAX, NULL)                                      \
    F(S, OPT_NUMBER, measure_progress, "measure.progress", 37, 1, INT64_MIN, INT64_MAX, NULL)                          \
    F(S, NUMBERS, measure_values, "measure.values", 38, 1, 0, ENTRY_VALUES_MAX, NULL)                                  \
    F(S, DOC, ckpt, "ckpt", 39, 1, 0, ENTRY_DOC_MAX, NULL)

#define DRAIN_FIELDS(F, S)                                                                                             \
    NODE_FIELD(F, S)                                                                                                   \
    BY_FIELD(F, S, 2)                                                                                                  \
    F(S, TEXT, reason, "reason", 3, 1, 0, ENTRY_DOC_MAX, NULL)                                                         \
    F(S, OPT_NUMBER, gpu, "gpu", 4, 1, INT64_MIN, INT64_MAX, NULL)                                                     \
    F(S, NUMBER, deadline, "deadline", 5, 1, INT64_MIN, INT64_MAX, NULL)                                               \
    F(S, FLAG, reboot, "reboot", 6, 1, 0, 1, NULL)
#define UNDRAIN_FIELDS(F, S)                                                                                           \
    NODE_FIELD(F, S)                                                                                                   \
    BY_FIELD(F, S, 2)                                                                                                  \
    F(S, OPT_NUMBER, gpu, "gpu", 3, 1, INT64_MIN, INT64_MAX, NULL)
#define FORGET_FIELDS(F, S)                                                                                            \
    NODE_FIELD(F, S)                                                                                                   \
    F(S, FLAG, revoke, "revoke", 2, 1, 0, 1, NULL)

/* Virtual clusters and policies, as in the file. */
#define CONFIG_FIELDS(F, S) F(S, DOC, settings, ".", 1, 1, 1, ENTRY_DOC_MAX, "expected an object")
/* One virtual cluster is made, changed or closed. */
#define VC_FIELDS(F, S)                                                                                                \
    F(S, TEXT, name, "name", 1, 1, 0, 60, "letters, digits, '-', '.' and '_', at most 60")                             \
    F(S, DOC, set, "set", 2, 1, 0, ENTRY_DOC_MAX, NULL)                                                                \
    F(S, FLAG, create, "create", 3, 1, 0, 1, NULL)                                                                     \
    F(S, FLAG, close, "close", 4, 1, 0, 1, NULL)                                                                       \
    BY_FIELD(F, S, 5)
/* What one user may have; "*" for all who have no limits of their own. */
#define LIMITS_FIELDS(F, S)                                                                                            \
    F(S, TEXT, user, "user", 1, 1, 1, 63, "expected a name, or * for all that have no limits of their own")            \
    F(S, OPT_NUMBER, max_gpus, "max_gpus", 2, 1, 0, INT64_MAX, "expected a number from 0, or null for no limit")       \
    F(S, OPT_NUMBER, max_jobs, "max_jobs", 3, 1, 0, INT64_MAX, "expected a number from 0, or null for no limit")
/* Put into the environment of jobs that ask for it. */
#define SECRET_FIELDS(F, S)                                                                                            \
    F(S, TEXT, user, "user", 1, 1, 0, ENTRY_NAME_MAX, NULL)                                                            \
    F(S, TEXT, name, "name", 2, 1, 0, 63, "a secret is named like a variable, such as HF_TOKEN")                       \
    F(S, HIDDEN, value, "value", 3, 1, 1, 98304, "a text of at most 65536 bytes")
/* Where events are sent. */
#define HOOK_FIELDS(F, S)                                                                                              \
    F(S, TEXT, id, "id", 1, 1, 0, ENTRY_NAME_MAX, "expected an id")                                                    \
    F(S, TEXT, to, "to", 2, 1, 0, 2000, "expected http://, https:// or mailto:")                                       \
    F(S, TEXTS, kinds, "kinds", 3, 1, 0, ENTRY_VALUES_MAX,                                                             \
      "expected beginnings of kinds, such as \"job.ended\" or \"node.\"")                                              \
    F(S, FLAG, remove, "remove", 4, 1, 0, 1, NULL)
#define LABEL_FIELDS(F, S)                                                                                             \
    NODE_FIELD(F, S)                                                                                                   \
    F(S, CHANGES, labels, "set", 2, 1, 0, ENTRY_VALUES_MAX, "letters, digits and -_./, at most 63")                    \
    BY_FIELD(F, S, 3)
#define RESV_FIELDS(F, S)                                                                                              \
    F(S, TEXT, name, "name", 1, 1, 0, 60, "at most 60 letters, without blanks and slashes")                            \
    F(S, TEXT, nodes, "nodes", 2, 1, 0, ENTRY_DOC_MAX, "expected names of nodes, such as n[1-4]")                      \
    F(S, NUMBER, start, "start", 3, 1, INT64_MIN, INT64_MAX, "expected a time")                                        \
    F(S, NUMBER, end, "end", 4, 1, INT64_MIN, INT64_MAX, "expected a time")                                            \
    F(S, NUMBER, lead, "lead", 5, 1, INT64_MIN, INT64_MAX, "expected a span")                                          \
    F(S, TEXTS, users, "users", 6, 1, 0, 100, "expected a list of at most 100 names")                                  \
    F(S, TEXTS, vcs, "vcs", 7, 1, 0, 100, "expected a list of at most 100 names")                                      \
    F(S, TEXT, reason, "reason", 8, 1, 0, ENTRY_DOC_MAX, "expected a text")                                            \
    F(S, FLAG, remove, "remove", 9, 1, 0, 1, NULL)
/* Of a user or of an agent; nodes: how many may still join by it. */
#define TOKEN_FIELDS(F, S)                                                                                             \
    F(S, TEXT, id, "id", 1, 1, 0, 23, NULL)                                                                            \
    F(S, TEXT, hash, "hash", 2, 1, 0, 64, NULL)                                                                        \
    F(S, TEXT, user, "user", 3, 1, 0, 63, NULL)                                                                        \
    F(S, TEXT, role, "role", 4, 1, 0, 15, NULL)                                                                        \
    F(S, TEXT, scope, "scope", 5, 1, 0, 63, NULL)                                                                      \
    F(S, NUMBER, expires, "expires", 6, 1, INT64_MIN, INT64_MAX, NULL)                                                 \
    F(S, NUMBER, nodes, "nodes", 7, 1, 0, UINT32_MAX, NULL)
/* A token is no longer good, or a node has joined by it. */
#define UNTOKEN_FIELDS(F, S)                                                                                           \
    F(S, TEXT, id, "id", 1, 1, 0, ENTRY_NAME_MAX, NULL)                                                                \
    F(S, FLAG, joined, "joined", 2, 1, 0, 1, NULL)
/* The result of a long computation. */
#define SOLVED_FIELDS(F, S)                                                                                            \
    F(S, NUMBER, vc, "vc", 1, 1, 0, UINT32_MAX, NULL)                                                                  \
    F(S, NUMBER, ticket, "ticket", 2, 1, 0, UINT32_MAX, NULL)                                                          \
    F(S, NUMBERS, words, "words", 3, 1, 0, ENTRY_VALUES_MAX, NULL)
#define PAUSE_FIELDS(F, S)                                                                                             \
    F(S, FLAG, paused, "paused", 1, 1, 0, 1, NULL)                                                                     \
    BY_FIELD(F, S, 2)
/* What running jobs measure of themselves, as it is kept: rows of MEASURE_ROW numbers (measures.h). */
#define MEASURES_FIELDS(F, S) F(S, NUMBERS, rows, "rows", 1, 2, 0, ENTRY_VALUES_MAX, NULL)
