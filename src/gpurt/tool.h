/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tool.h - a tool's side of the node's socket: where it is, whether somebody is there, one question, one answer. */
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define TOOL_PATH_MAX 108
#define TOOL_RUN_DIR_MOST 85 /* of its path: sockets are made in it, "/guard-2147483647.sock" */

/* The run directory (made when missing, private) and the socket in it. MUSTER_GPU_SOCKET overrides the socket. */
int tool_paths(char *run_dir, char *socket_path, struct error *err);

/* Sends one line; waits `wait_s` for the answer, put into text[size]. -ECONNREFUSED: nobody is there. */
int tool_ask(const char *socket_path, const char *line, unsigned int wait_s, char *text, size_t size,
             struct error *err);

/* Is a node side there? Does not wait for one that is busy. */
bool tool_answers(const char *socket_path);

/* Starts `PROGRAM gpu agent` unless one answers already. */
int tool_start(const char *socket_path, const char *program, struct error *err);
