/* SPDX-License-Identifier: Apache-2.0 */
/* AMD's GPUs as their driver's files tell: a tree of two of them, linked, beside a processor and a display. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "gpu/gpu.h"

#define NODES "sys/class/kfd/kfd/topology/nodes/"
#define DRM "sys/class/drm/"

static char root[64];

static const struct {
    const char *path, *text;
} tree[] = {
    { NODES "0/gpu_id", "0\n" },
    { NODES "0/properties", "cpu_cores_count 64\nsimd_count 0\nvendor_id 0\n" },
    { NODES "1/gpu_id", "51245\n" },
    { NODES "1/properties", "cpu_cores_count 0\nsimd_count 1216\nvendor_id 4098\ndevice_id 29857\nlocation_id 49408\n"
                            "domain 0\ndrm_render_minor 128\nunique_id 13840182150858194142\n" },
    { NODES "1/io_links/0/properties", "type 2\nnode_from 1\nnode_to 0\n" },
    { NODES "1/io_links/1/properties", "type 11\nnode_from 1\nnode_to 3\n" },
    { NODES "2/gpu_id", "9999\n" }, /* no device: a driver that is not there for it */
    { NODES "2/properties", "drm_render_minor 130\n" },
    { NODES "3/gpu_id", "8327\n" },
    { NODES "3/properties", "simd_count 1216\nvendor_id 4098\ndevice_id 29857\nlocation_id 12291\ndomain 1\n"
                            "drm_render_minor 129\nunique_id 0\n" },
    { DRM "renderD128/device/vendor", "0x1002\n" },
    { DRM "renderD128/device/mem_info_vram_total", "206141652992\n" },
    { DRM "renderD128/device/mem_info_vram_used", "1073741824\n" },
    { DRM "renderD128/device/gpu_busy_percent", "37\n" },
    { DRM "renderD128/device/numa_node", "1\n" },
    { DRM "renderD128/device/hwmon/hwmon7/power1_average", "140000000\n" },
    { DRM "renderD128/device/hwmon/hwmon7/temp1_input", "41000\n" },
    { DRM "renderD128/device/ras/umc_err_count", "ue: 0\nce: 3\n" },
    { DRM "renderD129/device/vendor", "0x1002\n" },
    { DRM "renderD129/device/mem_info_vram_total", "206141652992\n" },
    { DRM "renderD129/device/mem_info_vram_used", "0\n" },
    { DRM "renderD129/device/numa_node", "-1\n" },
    { "sys/class/kfd/kfd/proc/4711/vram_51245", "536870912\n" },
    { "sys/class/kfd/kfd/proc/4711/vram_8327", "0\n" },
};

static void file_put(const char *name, const char *text)
{
    char path[512];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0755);
        *slash = '/';
    }
    file = fopen(path, "we");
    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int tree_make(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof(root), "/tmp/muster-amd-XXXXXX");
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < sizeof(tree) / sizeof(tree[0]); i++)
        file_put(tree[i].path, tree[i].text);
    return 0;
}

static int tree_drop(void **state)
{
    char command[128];

    (void)state;
    (void)snprintf(command, sizeof(command), "rm -rf -- '%s'", root);
    return system(command); /* NOLINT(cert-env33-c,concurrency-mt-unsafe): a path of mkdtemp's */
}

static void test_found(void **state)
{
    struct error err = { 0 };
    struct gpus *gpus;

    (void)state;
    assert_int_equal(gpus_open_amd(root, &gpus, &err), 0);
    assert_int_equal(gpus->count, 2);
    assert_true(gpus->amd && !gpus->fake);
    assert_string_equal(gpus->sku, "MI300X");
    assert_int_equal(gpus->memory_mib, 196592);
    assert_string_equal(gpus->info[0].uuid, "GPU-c0123456789abcde");
    assert_string_equal(gpus->info[0].bus, "0000:c1:00.0");
    assert_int_equal(gpus->info[0].minor, 128);
    assert_int_equal(gpus->info[0].numa, 1);
    assert_string_equal(gpus->info[1].bus, "0001:30:00.3");
    assert_string_equal(gpus->info[1].uuid, "GPU-0001:30:00.3");
    assert_int_equal(gpus->info[1].minor, 129);
    assert_int_equal(gpus->info[1].numa, -1);
    assert_int_equal(gpus->info[0].link, gpus->info[1].link); /* XGMI */
    gpus_close(gpus);
}

static void test_told(void **state)
{
    struct gpu_sample sample;
    struct gpu_health health;
    struct gpus *gpus;
    char path[256];

    (void)state;
    assert_int_equal(gpus_open_amd(root, &gpus, NULL), 0);
    assert_int_equal(gpus->ops->sample(gpus, 0, &sample), 0);
    assert_int_equal(sample.memory_mib, 1024);
    assert_int_equal(sample.util, 37);
    assert_int_equal(sample.power_w, 140);
    assert_int_equal(sample.temp, 41);
    assert_int_equal(sample.pid_count, 1);
    assert_int_equal(sample.pids[0], 4711);
    assert_int_equal(sample.pid_mib[0], 512);
    assert_int_equal(gpus->ops->sample(gpus, 1, &sample), 0);
    assert_int_equal(sample.pid_count, 0); /* with nothing of it */
    assert_int_equal(sample.power_w, 0);
    gpus->ops->health(gpus, 0, &health);
    assert_true(health.ok); /* what was corrected is no illness */
    file_put(DRM "renderD128/device/ras/umc_err_count", "ue: 2\nce: 3\n");
    gpus->ops->health(gpus, 0, &health);
    assert_false(health.ok);
    assert_string_equal(health.reason, "2 uncorrectable memory errors");
    (void)snprintf(path, sizeof(path), "%s/%s", root, DRM "renderD129/device/mem_info_vram_total");
    assert_int_equal(unlink(path), 0);
    gpus->ops->health(gpus, 1, &health);
    assert_false(health.ok);
    assert_string_equal(health.reason, "the GPU fell off the bus");
    gpus_close(gpus);
}

/* Files with nonsense are as if they were not there. */
static void test_none(void **state)
{
    struct error err = { 0 };
    struct gpus *gpus;

    (void)state;
    file_put(DRM "renderD128/device/vendor", "0x10de\n");
    file_put(NODES "3/properties", "drm_render_minor x\n\nlocation_id\n-\n");
    assert_int_equal(gpus_open_amd(root, &gpus, &err), 0);
    assert_int_equal(gpus->count, 0);
    assert_int_equal(err.code, -ENODEV);
    gpus_close(gpus);
    assert_int_equal(gpus_open_amd("/no/such/root", &gpus, &err), 0);
    assert_int_equal(gpus->count, 0);
    gpus_close(gpus);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_found, tree_make, tree_drop),
        cmocka_unit_test_setup_teardown(test_told, tree_make, tree_drop),
        cmocka_unit_test_setup_teardown(test_none, tree_make, tree_drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
