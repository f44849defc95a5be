/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cmd_gpu.h - muster gpu: the GPU runtime on one machine, without a cluster. */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "gpurt/node.h"

#define GPU_ORDER_S 300u /* how long an order is waited for */
#define GPU_TEXT_MAX (NODE_TEXT + 1)

/* argv[0] is "gpu" or what the command is called in messages; argv[1] the verb. Returns the exit code. */
int cmd_gpu(int argc, char **argv);

/* What its files share. */
enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE };
int gpu_run(int argc, char **argv);
int gpu_signal(int argc, char **argv);
int gpu_fail(const struct error *err);                                         /* tells it; EXIT_FAILED */
int gpu_misuse(const char *format, ...) __attribute__((format(printf, 1, 2))); /* EXIT_USAGE */
int gpu_option(const char *verb, int c, char **argv);                    /* what getopt did not take; EXIT_USAGE */
int gpu_size(const char *text, uint64_t *ret);                           /* "20G", "512M", "300" (MiB) as bytes */
void gpu_program(char *path);                                            /* of PATH_MAX: this program */
int gpu_count(const char *text, unsigned long most, unsigned long *ret); /* 1..most, or -EINVAL */
bool gpu_pid_valid(const char *text);
/* One line to the node side, its answer into text[GPU_TEXT_MAX]; an error of its goes to standard error. */
int gpu_answer(const char *line, unsigned int wait_s, char *text);
int gpu_ask(const char *line, unsigned int wait_s); /* the same, with the answer on standard output */
