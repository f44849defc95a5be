/* SPDX-License-Identifier: Apache-2.0 */
/* cli.c - see cli.h. */
#include "cli/cli.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>

int cli_fail(int code, const struct error *err)
{
    fprintf(stderr, "muster: error: %s\n", err->text);
    switch (code) {
    case -EINVAL:
    case -EBADMSG:
        return CODE_USAGE;
    case -ENOENT:
        return CODE_NOT_FOUND;
    case -ERANGE:
        return CODE_REFUSED;
    default:
        return CODE_FAILED;
    }
}

int cli_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    argp_err_exit_status = CODE_USAGE;
    return argp_parse(argp, argc, argv, 0, NULL, input) ? CODE_USAGE : CODE_DONE;
}
