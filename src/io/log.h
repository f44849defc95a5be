/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* log.h - one event a line, a constant message and facts as pairs: log_info("job started", "job", id, "node", name).
 *
 * Values are texts and are quoted where they have to be. Goes to standard error; with priorities for journald where
 * that is what standard error is, with the time elsewhere. Lines below "err" are limited in rate: what is dropped is
 * counted and told. Layers below io never log. Any thread may call it.
 */
#include <stdbool.h>
#include <stdint.h>

enum log_level { LOGLEVEL_ERR, LOGLEVEL_WARN, LOGLEVEL_INFO, LOGLEVEL_DEBUG, LOGLEVEL_COUNT };

/* What is told; LOGLEVEL_INFO at first. */
void log_level_set(enum log_level level);
int log_level_find(const char *name); /* -ENOENT */
bool log_wants(enum log_level level);

void log_put(enum log_level level, const char *message, ...) __attribute__((sentinel));

#define log_err(...) log_put(LOGLEVEL_ERR, __VA_ARGS__, (const char *)0)
#define log_warn(...) log_put(LOGLEVEL_WARN, __VA_ARGS__, (const char *)0)
#define log_info(...) log_put(LOGLEVEL_INFO, __VA_ARGS__, (const char *)0)
/* Its values are not even made where nobody wants them. */
#define log_debug(...) (log_wants(LOGLEVEL_DEBUG) ? log_put(LOGLEVEL_DEBUG, __VA_ARGS__, (const char *)0) : (void)0)

/* A number as a value: log_info("listening", "port", LOG_I64(port)). Lives until the end of the block. */
#define LOG_I64(value) log_i64((value), (char[24]){ 0 })
const char *log_i64(int64_t value, char *out);
