/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* ask.h - the questions that a running muster-k8s answers: `muster-k8s why NAMESPACE/POD`, `muster-k8s queue`, and the
 * same as a plug-in of kubectl (`kubectl muster why POD`). */
#include <stdbool.h>

bool ask_wanted(int argc, char **argv);
int ask_run(int argc, char **argv); /* the exit status */
