/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* fsck.h - `musterd fsck [--repair] DIR`. */

int fsck_run(int argc, char **argv);
