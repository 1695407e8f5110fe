/* SPDX-License-Identifier: MIT
 * Owns devices: lists the drivers, opens a device by its uri, describes and closes it. Rejects an unknown name with a
 * list of the known ones.
 */
#include "core/device/device.h"

#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/sized.h"
#include "core/base/text.h"
#include "core/device/uri.h"

enum { STANDARD_DEPTH = 127, MAX_DEPTH = 4096, MAX_PRODUCT = 1 << 30 };

int propane_driver_count(void) { return propane_drivers_count; }

static const propane_driver *device_driver_at(int index) {
    return index >= 0 && index < propane_drivers_count ? propane_drivers[index] : NULL;
}

const char *propane_driver_name(int index) {
    const propane_driver *driver = device_driver_at(index);
    return driver ? driver->name : NULL;
}

const char *propane_driver_summary(int index) {
    const propane_driver *driver = device_driver_at(index);
    return driver ? driver->summary : NULL;
}

propane_status propane_driver_probe(int index, propane_error *why) {
    const propane_driver *driver = device_driver_at(index);
    if (!driver)
        return propane_fail(why, PROPANE_ERR_INVALID, "there is no driver %d; this build has %d (0..%d)", index,
                            propane_drivers_count, propane_drivers_count - 1);
    return driver->probe ? driver->probe(why) : PROPANE_OK;
}

static propane_status device_fail_unknown(const char *uri, propane_error *err) {
    char quoted[80], known[300] = "";
    for (int i = 0; i < propane_drivers_count; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", propane_drivers[i]->name);
    }
    return propane_fail(err, PROPANE_ERR_NOT_FOUND, "unknown device '%s'; the devices are %s",
                        text_quote(quoted, uri, strlen(uri)), known);
}

/* Finds the driver for a uri. Sets *rest to the part of the uri after the name and its ':', if there is one. */
static propane_status device_find_driver(const char *uri, const propane_driver **out, const char **rest,
                                         propane_error *err) {
    if (!uri || !*uri)
        return propane_fail(err, PROPANE_ERR_INVALID, "device: the name is empty; use \"cpu\", for example");
    const char *behind = uri + device_name_length(uri);
    for (int i = 0; i < propane_drivers_count; i++) {
        if (!device_is(uri, propane_drivers[i]->name)) continue;
        *rest = behind + (*behind == ':');
        *out = propane_drivers[i];
        const propane_driver *other = (*out)->other ? (*out)->other(*rest) : NULL;
        if (other) *out = other;
        return PROPANE_OK;
    }
    return device_fail_unknown(uri, err);
}

static propane_status device_describe(propane_device *d, propane_error *err) {
    d->info = (propane_device_info){
        .size = sizeof d->info, .uri = d->uri, .summary = d->driver->summary, .queue_depth = STANDARD_DEPTH};
    d->driver->describe(d->impl, &d->info);
    if (d->info.queue_depth < 1 || d->info.queue_depth > MAX_DEPTH)
        return propane_fail(err, PROPANE_ERR_DEVICE,
                            "device '%s': its driver reports a queue depth of %d, outside 1..%d", d->uri,
                            d->info.queue_depth, MAX_DEPTH);
    return queue_init(&d->queue, d->info.queue_depth, err);
}

bool propane_uri_names(const char *uri, const char *driver) { return uri && driver && device_is(uri, driver); }

propane_status propane_device_open(const char *uri, propane_device **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, uri, out);
    const propane_driver *driver = NULL;
    const char *rest = NULL;
    PROPANE_TRY(device_find_driver(uri, &driver, &rest, err));
    if (driver->probe) PROPANE_TRY(driver->probe(err));
    propane_device *d = mem_alloc(sizeof *d);
    if (d) d->uri = mem_copy_string(uri);
    if (!d || !d->uri) {
        mem_free(d);
        return propane_fail_memory(err, sizeof *d);
    }
    d->driver = driver;
    atomic_init(&d->refs, 1);
    propane_status status = driver->open(rest, &d->impl, err);
    if (status == PROPANE_OK) {
        status = device_describe(d, err);
        if (status != PROPANE_OK) driver->close(d->impl);
    }
    if (status != PROPANE_OK) {
        mem_free(d->uri);
        mem_free(d);
        return status;
    }
    *out = d;
    return PROPANE_OK;
}

void propane_device_close(propane_device *device) {
    if (!device) return;
    queue_drain(&device->queue);
    device_release(device);
}

const propane_device_info *propane_device_describe(const propane_device *device) {
    return device ? &device->info : NULL;
}

propane_status propane_device_time_products(propane_device *device, int64_t rows, int64_t columns, int64_t positions,
                                            propane_product_times *out, propane_error *err) {
    NEED(err, device, out);
    PROPANE_TRY(sized_check(out, "propane_product_times", err));
    const int64_t sizes[] = {rows, columns, positions};
    static const char *const names[] = {"rows", "columns", "positions"};
    for (int i = 0; i < 3; i++)
        if (sizes[i] < 1 || sizes[i] > MAX_PRODUCT)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: %s is %lld; it must be from 1 to %d", __func__, names[i],
                                (long long)sizes[i], MAX_PRODUCT);
    if (!device->driver->time_products)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: device '%s' does not choose between fp32 and bf16; use 'cpu'", __func__, device->uri);
    propane_product_times own = {.size = sizeof own};
    device->driver->time_products(device->impl, rows, columns, positions, &own);
    (void)sized_give(out, &own, sizeof own);
    return PROPANE_OK;
}
