/* SPDX-License-Identifier: MIT
 * Calls the kernel's driver or the node in this process. Only Linux has the kernel's driver.
 */
#include "ane/accel/accel_node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/memory.h"

enum { NODES = 16 };

struct accel_node {
    int fd; /* -1 for the node in this process */
    accel_registers *registers;
    char name[128];
};

typedef struct accel_bo_init {
    uint32_t handle, pad;
    uint64_t size, offset;
} accel_bo_init;

typedef struct accel_bo_free {
    uint32_t handle, pad;
} accel_bo_free;

typedef struct accel_version { /* struct drm_version of 64-bit systems */
    int major, minor, patch, hole;
    uint64_t name_length;
    char *name;
    uint64_t date_length;
    char *date;
    uint64_t about_length;
    char *about;
} accel_version;

_Static_assert(sizeof(accel_bo_init) == 24 && sizeof(accel_bo_free) == 8 && sizeof(accel_submit) == 152,
               "the kernel's sizes");

#define ACCEL_CALL(number, type) _IOWR('d', number, type)
#define CALL_VERSION             ACCEL_CALL(0x00, accel_version)
#define CALL_BO_INIT             ACCEL_CALL(0x41, accel_bo_init)
#define CALL_BO_FREE             ACCEL_CALL(0x42, accel_bo_free)
#define CALL_SUBMIT              ACCEL_CALL(0x43, accel_submit)

static propane_status accel_node_fail(const accel_node *n, const char *call, int number, propane_error *err) {
    propane_status status = number == ENOMEM || number == ENOSPC  ? PROPANE_ERR_MEMORY
                            : number == EACCES || number == EPERM ? PROPANE_ERR_IO
                                                                  : PROPANE_ERR_DEVICE;
    const char *hint = number == ETIMEDOUT ? "; the engine did not finish within the driver's second" : "";
    return propane_fail(err, status, "%s: %s: %s%s", n->name, call, strerror(number), hint);
}

/* Checks that the open node belongs to the Neural Engine's driver, with ABI 1. */
static propane_status accel_node_version(const accel_node *n, propane_error *err) {
    char name[32] = "";
    accel_version v = {.name = name, .name_length = sizeof name - 1};
    if (ioctl(n->fd, CALL_VERSION, &v) != 0) return accel_node_fail(n, "DRM_IOCTL_VERSION", errno, err);
    if (strncmp(name, "ane", sizeof name) != 0)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s belongs to the driver '%.30s', not to 'ane'", n->name,
                            name);
    if (v.major == 2)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: ABI 2 (M2) is not supported, because the section format of its firmware is unknown; "
                            "'registers:target=m2' runs programs for M2 in software",
                            n->name);
    if (v.major != 1)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: unknown driver version %d.%d; only ABI 1 (M1) is supported", n->name, v.major,
                            v.minor);
    return PROPANE_OK;
}

static propane_status accel_node_try(accel_node *n, const char *path, propane_error *err) {
    snprintf(n->name, sizeof n->name, "%s", path);
    n->fd = open(path, O_RDWR | O_CLOEXEC);
    if (n->fd < 0 && errno == ENOENT) return propane_fail(err, PROPANE_ERR_NOT_FOUND, "there is no %s", path);
    if (n->fd < 0) return accel_node_fail(n, "open", errno, err);
    propane_status status = accel_node_version(n, err);
    if (status) {
        close(n->fd);
        n->fd = -1;
    }
    return status;
}

static propane_status accel_node_first(accel_node *n, propane_error *err) {
    char path[64];
    propane_error seen = {0};
    for (int i = 0; i < NODES; i++) {
        propane_error why = {0};
        snprintf(path, sizeof path, "/dev/accel/accel%d", i);
        propane_status status = accel_node_try(n, path, &why);
        if (!status) return PROPANE_OK;
        if (status != PROPANE_ERR_NOT_FOUND && !seen.status) seen = why;
    }
    if (seen.status) return propane_fail(err, seen.status, "%s", seen.text);
    return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                        "no /dev/accel/accelN belongs to a Neural Engine; this needs an M1 with Linux, a kernel with "
                        "CONFIG_DRM_ACCEL, and the ane driver (docs/asahi.md)");
}

/* Opens the node in this process. `rest` holds any of ",arithmetic=0|1", ",fail=N" and ",target=m1|m2". */
static propane_status accel_node_inside(accel_node *n, const char *rest, propane_error *err) {
    enum { FAIL, ARITHMETIC, TARGET, NAMES };
    static const char *const names[NAMES] = {",fail=", ",arithmetic=", ",target=m"};
    static const long least[NAMES] = {0, 0, 1}, most[NAMES] = {LONG_MAX, 1, 2};
    long values[NAMES] = {0, 0, 1};
    for (char *end = NULL; *rest; rest = end) {
        int i = 0;
        while (i < NAMES - 1 && strncmp(rest, names[i], strlen(names[i])) != 0) i++;
        size_t length = strlen(names[i]);
        end = NULL;
        if (strncmp(rest, names[i], length) == 0) values[i] = strtol(rest + length, &end, 10);
        if (!end || end == rest + length || (*end && *end != ',') || values[i] < least[i] || values[i] > most[i])
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "device registers: unknown option '%.40s'; the options are arithmetic=0, arithmetic=1, "
                                "fail=N, target=m1 and target=m2",
                                rest + (*rest == ','));
    }
    n->registers = accel_registers_open(values[TARGET] == 2 ? ENGINE_H14 : ENGINE_H13, (int)values[FAIL],
                                        values[ARITHMETIC] ? ENGINE_ACCUMULATOR : ENGINE_WIDE);
    return n->registers ? PROPANE_OK : propane_fail_memory(err, 1 << 22);
}

propane_status accel_node_open(const char *which, accel_node **out, propane_error *err) {
    static const char inside[] = "registers";
    accel_node *n = *out = mem_alloc(sizeof *n);
    propane_status status = PROPANE_OK;
    if (!n) return propane_fail_memory(err, sizeof *n);
    n->fd = -1;
    if (strncmp(which, inside, strlen(inside)) == 0) {
        snprintf(n->name, sizeof n->name, "%s", inside);
        status = accel_node_inside(n, which + strlen(inside), err);
    } else if (*which && *which != '/')
        status = propane_fail(err, PROPANE_ERR_INVALID,
                              "device accel: only the path of a device node may follow the name, not '%.40s'", which);
    else
        status = *which ? accel_node_try(n, which, err) : accel_node_first(n, err);
    if (status) {
        accel_node_close(n);
        *out = NULL;
    }
    return status;
}

void accel_node_close(accel_node *n) {
    if (!n) return;
    if (n->fd >= 0) close(n->fd);
    accel_registers_close(n->registers);
    mem_free(n);
}

bool accel_node_is_hardware(const accel_node *n) { return n->fd >= 0; }

uint32_t accel_node_subtype(const accel_node *n) {
    return n->registers ? accel_registers_subtype(n->registers) : ENGINE_H13;
}

propane_status accel_buffer_make(accel_node *n, uint64_t bytes, accel_buffer *out, propane_error *err) {
    *out = (accel_buffer){.bytes = bytes};
    if (n->registers) {
        int failed = accel_registers_make(n->registers, bytes, out);
        return failed ? accel_node_fail(n, "BO_INIT", -failed, err) : PROPANE_OK;
    }
    accel_bo_init call = {.size = bytes};
    if (ioctl(n->fd, CALL_BO_INIT, &call) != 0) return accel_node_fail(n, "BO_INIT", errno, err);
    void *data = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, n->fd, (off_t)call.offset);
    out->handle = call.handle;
    out->offset = call.offset;
    if (data == MAP_FAILED) {
        int number = errno;
        accel_buffer_drop(n, out);
        return accel_node_fail(n, "mmap", number, err);
    }
    out->data = data;
    return PROPANE_OK;
}

void accel_buffer_drop(accel_node *n, accel_buffer *b) {
    if (!b->handle) return;
    if (n->registers)
        (void)accel_registers_drop(n->registers, b->handle);
    else {
        accel_bo_free call = {.handle = b->handle};
        if (b->data) munmap(b->data, (size_t)b->bytes);
        (void)ioctl(n->fd, CALL_BO_FREE, &call);
    }
    *b = (accel_buffer){0};
}

propane_status accel_run(accel_node *n, const accel_submit *s, propane_error *err) {
    accel_submit call = *s;
    if (n->registers) {
        propane_error why = {0};
        int failed = accel_registers_run(n->registers, s, &why);
        if (failed && why.status) return propane_fail(err, PROPANE_ERR_DEVICE, "%s: SUBMIT: %s", n->name, why.text);
        return failed ? accel_node_fail(n, "SUBMIT", -failed, err) : PROPANE_OK;
    }
    return ioctl(n->fd, CALL_SUBMIT, &call) != 0 ? accel_node_fail(n, "SUBMIT", errno, err) : PROPANE_OK;
}

/* Checks that the node is the one in this process, because the kernel's nodes of ABI 2 are never opened. */
static propane_status accel_node_second(const accel_node *n, const char *call, propane_error *err) {
    return n->registers ? PROPANE_OK : accel_node_fail(n, call, ENOTTY, err);
}

propane_status accel_load(accel_node *n, const accel_section *sections, int count, accel_exec *out,
                          propane_error *err) {
    *out = (accel_exec){.priority = ACCEL_PRIORITY_LEAST, .timeout_ms = ACCEL_TIMEOUT_MS};
    PROPANE_TRY(accel_node_second(n, "PROG_LOAD", err));
    int failed = accel_registers_load(n->registers, sections, count, &out->program);
    if (failed) return accel_node_fail(n, "PROG_LOAD", -failed, err);
    failed = accel_registers_procedure(n->registers, out->program, &out->procedure);
    return failed ? accel_node_fail(n, "PROC_CREATE", -failed, err) : PROPANE_OK;
}

propane_status accel_call(accel_node *n, const accel_exec *call, propane_error *err) {
    propane_error why = {0};
    PROPANE_TRY(accel_node_second(n, "EXEC", err));
    int failed = accel_registers_call(n->registers, call, &why);
    if (failed && why.status) return propane_fail(err, PROPANE_ERR_DEVICE, "%s: EXEC: %s", n->name, why.text);
    return failed ? accel_node_fail(n, "EXEC", -failed, err) : PROPANE_OK;
}
