/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cuda_abi.h - the part of the CUDA driver's binary interface the runtime speaks.
 *
 * Written from the public manual so that nothing of the CUDA toolkit is needed to build. Handles keep the driver's
 * own structure tags; enumerations are plain int, as in the binary interface. tests/gpu/abi_check.py compares every
 * signature of hooks.def with the toolkit's header where one is installed.
 */
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned int CUdeviceptr_v1;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUfunc_st *CUfunction;
typedef struct CUkern_st *CUkernel;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUgreenCtx_st *CUgreenCtx;

#define CU_STREAM_LEGACY ((CUstream)(uintptr_t)1)
#define CU_STREAM_PER_THREAD ((CUstream)(uintptr_t)2)

/* Structures the runtime never looks into; only their addresses pass through. */
struct cuda_opaque;

struct cuda_uuid {
    char bytes[16];
};

/* Passed by value by the IPC calls. */
struct cuda_ipc_mem {
    char reserved[64];
};

struct cuda_location {
    int type;
    int id;
};

struct cuda_mem_prop {
    int type;
    int handle_types;
    struct cuda_location location;
    void *win32;
    struct {
        unsigned char compression;
        unsigned char rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
};

struct cuda_access {
    struct cuda_location location;
    int flags;
};

struct cuda_launch_config {
    unsigned int grid_x, grid_y, grid_z;
    unsigned int block_x, block_y, block_z;
    unsigned int shared_bytes;
    CUstream stream;
    void *attrs;
    unsigned int attr_count;
};

struct cuda_array_desc {
    size_t width, height;
    int format;
    unsigned int channels;
};

struct cuda_array3d_desc {
    size_t width, height, depth;
    int format;
    unsigned int channels;
    unsigned int flags;
};

struct cuda_array_need {
    size_t size, alignment;
    unsigned int reserved[4];
};

struct cuda_ckpt_lock {
    unsigned int timeout_ms;
    unsigned int reserved0;
    uint64_t reserved1[7];
};

struct cuda_ckpt_pair {
    struct cuda_uuid from, to;
};

struct cuda_ckpt_restore {
    struct cuda_ckpt_pair *pairs;
    unsigned int pair_count;
    char reserved[64 - sizeof(void *) - sizeof(unsigned int)];
    uint64_t reserved1;
};

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
    CUDA_ERROR_CAPTURED_EVENT = 907,
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,

    CU_MEM_ALLOCATION_TYPE_PINNED = 1,
    CU_MEM_LOCATION_TYPE_DEVICE = 1,
    CU_MEM_LOCATION_TYPE_HOST = 2,
    CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
    CU_MEM_HANDLE_POSIX_FILE = 1,
    CU_MEM_ACCESS_READWRITE = 3,
    CU_MEMPOOL_ATTR_RESERVED_CURRENT = 5,
    CU_GRAPH_MEM_ATTR_RESERVED_CURRENT = 2,
    CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10,
    CU_LIMIT_STACK_SIZE = 0,
    CU_LIMIT_PRINTF_FIFO_SIZE = 1,
    CU_LIMIT_MALLOC_HEAP_SIZE = 2,
    CU_STREAM_NON_BLOCKING = 1,
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
    CU_STREAM_CAPTURE_STATUS_NONE = 0,
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
    CU_EVENT_DEFAULT = 0,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_MEMHOSTREGISTER_PORTABLE = 1,
    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
    CU_POINTER_ATTRIBUTE_IS_LEGACY_IPC_CAPABLE = 10,
    CU_POINTER_ATTRIBUTE_RANGE_START = 11,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
    CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
    CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
    CU_DEVICE_ATTRIBUTE_RDMA_WITH_VMM = 110,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134,
};
