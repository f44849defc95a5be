/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/rest.h"

void rest_job_exec(struct request *request)
{
    reply_problem(request, 501, "NotThere", NULL, "not there yet");
}
