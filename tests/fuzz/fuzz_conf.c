/* SPDX-License-Identifier: Apache-2.0 */
/* muster.yaml: any bytes are read or refused with words; what is read is within its limits. */
#include "ctl/daemon/conf.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = fuzz_copy(data, size);
    struct error err = { 0 };
    struct conf conf;
    int r;

    conf_init(&conf);
    r = conf_parse("f.yaml", text.data, text.size, &conf, &err);
    if (r < 0) {
        fuzz_check_error(r, &err);
    } else {
        CHECK(conf.listen_count <= CONF_LISTEN_MAX);
        CHECK(conf.admin_count <= CONF_ADMINS_MAX);
        CHECK(conf.jobs_max >= 1 && conf.body_max >= 65536);
        for (size_t i = 0; i < conf.listen_count; i++)
            CHECK(conf.listen[i] && conf.listen[i][0]);
        r = conf_check(&conf, &err);
        if (r < 0)
            fuzz_check_error(r, &err);
    }
    conf_done(&conf);
    bytes_done(&text);
    return 0;
}
