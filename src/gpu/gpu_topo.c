/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_topo.c - where the GPUs sit: sockets, PCIe switches, memory nodes, from hwloc.
 *
 * A socket's GPUs are those whose CPU package is the same; a group's those below the same outermost PCIe switch, or all
 * of the socket where there are none. The core wants every socket to have as many GPUs, in as many groups, as the
 * others, numbered one after the other; a machine that is not so regular is described as one socket with one group,
 * which promises nothing.
 */
#include <errno.h>
#include <hwloc.h>
#include <stdio.h>
#include <string.h>

#include "gpu/gpu.h"

struct place {
    unsigned int socket;
    uint64_t group; /* of the switch; 0 = none */
};

static hwloc_obj_t device_find(hwloc_topology_t topology, const char *bus)
{
    unsigned int domain, number, device, function;
    hwloc_obj_t object = NULL;

    if (sscanf(bus, "%x:%x:%x.%x", &domain, &number, &device, &function) != 4) /* NOLINT(cert-err34-c) */
        return NULL;
    while ((object = hwloc_get_next_pcidev(topology, object))) {
        const struct hwloc_pcidev_attr_s *pci = &object->attr->pcidev;

        if (pci->domain == domain && pci->bus == number && pci->dev == device && pci->func == function)
            return object;
    }
    return NULL;
}

static int numa_of(hwloc_obj_t device)
{
    hwloc_obj_t above = device->parent;

    while (above && hwloc_obj_type_is_io(above->type))
        above = above->parent;
    return above && above->nodeset && hwloc_bitmap_weight(above->nodeset) == 1 ? hwloc_bitmap_first(above->nodeset)
                                                                               : -1;
}

static struct place place_of(hwloc_topology_t topology, hwloc_obj_t device)
{
    struct place place = { 0 };
    hwloc_obj_t above = device->parent, package;

    /* The outermost bridge but one hangs off the host: GPUs below the same of them share a switch. */
    for (; above && above->type == HWLOC_OBJ_BRIDGE; above = above->parent)
        if (above->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
            place.group = above->gp_index + 1;
    while (above && hwloc_obj_type_is_io(above->type))
        above = above->parent;
    package = above && above->type != HWLOC_OBJ_PACKAGE
                  ? hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, above)
                  : above;
    if (!package && above && above->cpuset)
        package = hwloc_get_next_obj_covering_cpuset_by_type(topology, above->cpuset, HWLOC_OBJ_PACKAGE, NULL);
    place.socket = package ? package->logical_index + 1 : 0;
    return place;
}

/* Equal runs of equal values: how many, or 1 when it is not so regular. `same` says whether two neighbours are one. */
static uint32_t runs(const struct place *places, uint32_t count, bool by_group)
{
    uint32_t found = 1, length = 0, first = 0;

    for (uint32_t i = 0; i < count; i++) {
        bool cut =
            i > 0 && (places[i].socket != places[i - 1].socket || (by_group && places[i].group != places[i - 1].group));

        if (cut) {
            if (first && length != first)
                return 1;
            first = length;
            length = 0;
            found++;
        }
        length++;
    }
    return first && length != first ? 1 : found;
}

static int topology_read(struct gpus *gpus, hwloc_topology_t topology)
{
    struct place places[GPU_NODE_MAX] = { 0 };
    uint32_t all;

    for (uint32_t i = 0; i < gpus->count; i++) {
        hwloc_obj_t device = device_find(topology, gpus->info[i].bus);

        if (!device)
            return -ENOENT;
        gpus->info[i].numa = numa_of(device);
        places[i] = place_of(topology, device);
    }
    gpus->sockets = runs(places, gpus->count, false);
    all = runs(places, gpus->count, true);
    gpus->groups = gpus->count && all % gpus->sockets == 0 && gpus->count % all == 0 ? all / gpus->sockets : 1;
    if (gpus->groups == 0 || gpus->count % (gpus->sockets * gpus->groups) != 0)
        gpus->groups = 1;
    return 0;
}

int gpu_topology(struct gpus *gpus, const char *xml, struct error *err)
{
    hwloc_topology_t topology;
    int r = hwloc_topology_init(&topology) < 0 ? -ENOMEM : 0;

    if (r < 0)
        return error_set(err, r, "hwloc: no memory");
    if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) < 0 ||
        (xml && hwloc_topology_set_xml(topology, xml) < 0) || hwloc_topology_load(topology) < 0)
        r = error_set(err, -EINVAL, "hwloc cannot read %s", xml ? xml : "this machine");
    else if (topology_read(gpus, topology) < 0)
        r = error_set(err, -ENOENT, "hwloc does not know all GPUs");
    hwloc_topology_destroy(topology);
    return r;
}
