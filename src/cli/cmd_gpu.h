/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cmd_gpu.h - muster gpu: the GPU runtime on one machine, without a cluster. */
#include <stdint.h>

#include "base/error.h"

/* argv[0] is "gpu" or what the command is called in messages; argv[1] the verb. Returns the exit code. */
int cmd_gpu(int argc, char **argv);

/* What its files share. */
enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE };
int gpu_run(int argc, char **argv);
int gpu_fail(const struct error *err);                                         /* tells it; EXIT_FAILED */
int gpu_misuse(const char *format, ...) __attribute__((format(printf, 1, 2))); /* EXIT_USAGE */
int gpu_option(const char *verb, int c, char **argv); /* what getopt did not take; EXIT_USAGE */
int gpu_size(const char *text, uint64_t *ret);        /* "20G", "512M", "300" (MiB) as bytes */
void gpu_program(char *path);                         /* of PATH_MAX: this program */
