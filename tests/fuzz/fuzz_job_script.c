/* SPDX-License-Identifier: Apache-2.0 */
/* A script with #MUSTER and #SBATCH lines; and any line as a list of nodes. */
#include "fuzz_submission.h"
#include "wire/job/job_request.h"
#include "wire/text/hostlist.h"

static usec_t zone_ahead(usec_t now)
{
    (void)now;
    return USEC_HOUR;
}

static int nothing(void *arg, const char *name)
{
    CHECK(name[0]);
    ++*(size_t *)arg;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = fuzz_copy(data, size);
    struct job_request request;
    struct submission s;
    struct error err = { 0 };
    char text[256];
    size_t names = 0;
    int r;

    CHECK(job_request_init(&request, INT64_C(1769860800) * USEC_SEC, zone_ahead, &err) == 0);
    r = job_request_script(&request, "f", input.data, input.size, &err);
    if (r == 0)
        r = job_request_finish(&request, &s, &err);
    if (r < 0)
        fuzz_check_error(r, &err);
    else
        fuzz_check_submission(&s);
    job_request_done(&request);
    (void)snprintf(text, sizeof(text), "%.*s", (int)(size < 255 ? size : 255), input.data);
    (void)hostlist_each(text, nothing, &names, &err);
    bytes_done(&input);
    return 0;
}
