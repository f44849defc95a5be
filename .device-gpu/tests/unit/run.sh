#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh PROGRAM - runs a cmocka program that prints TAP. cmocka 1.1 writes a skipped case as `not ok N # SKIP name`,
# which meson takes for a failure; here it becomes the `ok N # SKIP name` of the standard, and a line that says why a
# comment. The status is the program's.
exec 4>&1
status=$({ { "$@" 3>&- 4>&-; echo $? >&3; } | sed 's/^not ok \([0-9]*\) # SKIP/ok \1 # SKIP/; s/^SKIP/# SKIP/' >&4; } 3>&1)
exit "$status"
