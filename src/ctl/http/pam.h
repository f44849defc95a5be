/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* pam.h - `musterd login-check SERVICE`: is this the password of that user? Asked of PAM, in a process of its own.
 *
 * What modules of PAM do (wait, fork, talk to servers, keep locks) is nothing for the controller's process. Reads
 * "USER\nPASSWORD" from standard input. SERVICE is a file of /etc/pam.d, or the path of one elsewhere.
 */
enum { PAM_CHECK_GOOD = 0, PAM_CHECK_WRONG = 1, PAM_CHECK_BROKEN = 2, PAM_CHECK_BYTES = 1024 };

int pam_check_run(const char *service); /* the exit status; words on standard error */
