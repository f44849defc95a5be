/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cgroup_device.h - which GPUs the processes of a group may open.
 *
 * A small program of the kernel's, loaded and attached to the group: opening /dev/nvidiaN, or of AMD's anything below
 * /dev/dri, is refused unless its number is among those given. Everything else is left as it is: it is a fence between
 * jobs, not a list of harmless devices.
 */
#include <stdbool.h>
#include <stdint.h>

bool cgroup_device_works(const char *path);
int cgroup_device_fence(const char *path, bool amd, const int *minors, uint32_t count);
