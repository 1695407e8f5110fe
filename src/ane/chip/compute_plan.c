/* SPDX-License-Identifier: MIT
 * Owns the reading of plans. It accepts the keys of coremltools' MLComputePlan as public scripts write it
 * (preferred_compute_device), of Swift's Codable structures (preferredComputeDevice), of ExecuTorch's delegate
 * (preferredComputeUnit), and of Xcode's performance reports (deviceUsage and deviceType, as in troobit/medata,
 * segmenter-foundation/artifacts). It also accepts short keys (preferred, device). One file may contain several plans,
 * each for one setting of the compute units (requestedComputeUnits, as in jvcleave/DepthStudies, compute-plans).
 */
#include "ane/chip/compute_plan.h"

#include <string.h>
#include <strings.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"

enum { PLAN_BYTES = 256 << 20, PLAN_DEPTH = 64 };

static const char *const operation_keys[] = {
    "operatorName", "operator_name", "operator_type", "operatorType", "opType", "op_type", "operation", "operator",
    "op",           "type",          "layer_type",    "layerType",    NULL};
static const char *const device_keys[] = {"preferred_compute_device",
                                          "preferredComputeDevice",
                                          "preferredComputeUnit",
                                          "preferred_compute_unit",
                                          "preferred_device",
                                          "preferredDevice",
                                          "preferred",
                                          "selectedComputeUnit",
                                          "compute_device",
                                          "computeDevice",
                                          "compute_unit",
                                          "computeUnit",
                                          "device",
                                          NULL};
static const char *const support_keys[] = {"supported_compute_devices",
                                           "supportedComputeDevices",
                                           "supportedComputeUnits",
                                           "supported_compute_units",
                                           "supported_devices",
                                           "supportedDevices",
                                           "supported",
                                           NULL};
static const char *const usage_keys[] = {"deviceUsage",          "device_usage", "computeDeviceUsage",
                                         "compute_device_usage", "usage",        NULL};
static const char *const name_keys[] = {"outputNames", "output_names", "outputs", "output_name", "output",
                                        "outputName",  "names",        "name",    "identity",    NULL};
static const char *const units_keys[] = {"requestedComputeUnits", "requested_compute_units", "computeUnits",
                                         "compute_units", NULL};
static const char *const cost_keys[] = {
    "estimated_cost_weight", "estimatedCostWeight", "estimated_cost", "estimatedCost", "cost", "weight", NULL};

static const json_t *plan_find(const json_t *object, const char *const *keys) {
    for (int i = 0; keys[i]; i++) {
        const json_t *v = json_object_get(object, keys[i]);
        if (v) return v;
    }
    return NULL;
}

static const char *plan_text(const json_t *object, const char *const *keys) {
    for (int i = 0; keys[i]; i++) {
        const char *s = json_string_value(json_object_get(object, keys[i]));
        if (s) return s;
    }
    return NULL;
}

const char *compute_device_name(compute_device device) {
    static const char *const names[] = {"none", "CPU", "GPU", "engine"};
    return names[device];
}

/* Returns the device with that name, or COMPUTE_NONE. */
static compute_device plan_device(const char *name) {
    if (strcasestr(name, "neural") || strcasecmp(name, "ne") == 0 || strcasecmp(name, "ane") == 0)
        return COMPUTE_ENGINE;
    if (strcasestr(name, "gpu") || strcasestr(name, "metal")) return COMPUTE_GPU;
    return strcasestr(name, "cpu") || strcasestr(name, "bnns") ? COMPUTE_CPU : COMPUTE_NONE;
}

/* Returns the name of a device, which is given as a name, as an object with its type, or as Swift's enumeration,
 * {"neuralEngine": {}}. Xcode's reports put the enumeration inside another object, {"deviceType": {"neuralEngine":
 * {}}}, whose innermost key is the name. */
static const char *plan_device_text(const json_t *v) {
    static const char *const keys[] = {"type", "name", "kind", "device", NULL};
    const char *name = json_string_value(v);
    for (int depth = 0; depth < PLAN_DEPTH && json_object_size(v) > 0; depth++) {
        const char *said = plan_text(v, keys);
        if (said) return said;
        void *first = json_object_iter((json_t *)(uintptr_t)v);
        name = json_object_iter_key(first);
        if (plan_device(name) != COMPUTE_NONE) return name;
        v = json_object_iter_value(first);
        if (json_is_string(v)) return json_string_value(v);
    }
    return name;
}

static const char *plan_without_opset(const char *op) {
    const char *dot = strrchr(op, '.');
    return dot && dot[1] ? dot + 1 : op;
}

static void plan_take_names(const json_t *object, compute_row *row) {
    for (int i = 0; name_keys[i]; i++) {
        const json_t *v = json_object_get(object, name_keys[i]);
        const size_t count = json_is_array(v) ? json_array_size(v) : 1;
        for (size_t k = 0; v && k < count && row->name_count < COMPUTE_NAMES; k++) {
            const json_t *one = json_is_array(v) ? json_array_get(v, k) : v;
            const char *name = json_is_object(one) ? plan_text(one, name_keys) : json_string_value(one);
            if (name) row->names[row->name_count++] = name;
        }
    }
}

static propane_status plan_keep(compute_plan *p, const compute_row *row, propane_error *err) {
    compute_row *more = ARRAY_MORE(p->rows, p->count, err);
    if (!more) return PROPANE_ERR_MEMORY;
    p->rows = more;
    p->rows[p->count++] = *row;
    return PROPANE_OK;
}

typedef struct plan_place { /* the position of an object in a plan */
    const char *path, *function, *units;
    int depth;
} plan_place;

/* Adds a row for an object that names an operation and a device. An operation without a device is a constant, for which
 * Core ML plans no device. */
static propane_status plan_take(compute_plan *p, const plan_place *at, const json_t *object, propane_error *err) {
    const char *op = plan_text(object, operation_keys);
    const json_t *usage = plan_find(object, usage_keys);
    const json_t *from = json_is_object(usage) ? usage : object, *devices = plan_find(from, support_keys);
    const char *device = plan_device_text(plan_find(from, device_keys));
    if (!op || !device || !*device) return PROPANE_OK;
    compute_row row = {.op = plan_without_opset(op), .function = at->function, .units = at->units, .cost = -1};
    row.preferred = plan_device(device);
    if (row.preferred == COMPUTE_NONE)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: operation %d, '%.60s': unknown device '%.60s'; known devices are CPU, GPU and NeuralEngine", at->path,
            p->count + 1, op, device);
    if (json_array_size(devices)) row.supported = 1u << row.preferred;
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const char *name = plan_device_text(json_array_get(devices, i));
        if (name) row.supported |= 1u << plan_device(name);
    }
    const json_t *cost = plan_find(object, cost_keys);
    if (json_is_object(cost)) cost = plan_find(cost, cost_keys);
    if (json_is_number(cost)) row.cost = json_number_value(cost);
    plan_take_names(object, &row);
    return plan_keep(p, &row, err);
}

static propane_status plan_walk(compute_plan *p, plan_place at, const json_t *v, propane_error *err) {
    static const char *const function_keys[] = {"function", "function_name", "functionName", NULL};
    if (++at.depth > PLAN_DEPTH)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: nested more than %d deep", at.path, PLAN_DEPTH);
    for (size_t i = 0; i < json_array_size(v); i++) PROPANE_TRY(plan_walk(p, at, json_array_get(v, i), err));
    if (!json_is_object(v)) return PROPANE_OK;
    const char *named = plan_text(v, function_keys), *units = plan_text(v, units_keys), *key;
    if (named) at.function = named;
    if (units) at.units = units;
    PROPANE_TRY(plan_take(p, &at, v, err));
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)v, key, member) {
        const bool functions = strcmp(key, "functions") == 0 && json_is_object(member);
        if (!functions) {
            PROPANE_TRY(plan_walk(p, at, member, err));
            continue;
        }
        plan_place inside = at;
        inside.depth++;
        json_t *body;
        json_object_foreach(member, inside.function, body) PROPANE_TRY(plan_walk(p, inside, body, err));
    }
    return PROPANE_OK;
}

static int plan_rank(const char *units) {
    if (!units) return 0;
    if (strcasestr(units, "neural") || strcasestr(units, "and_ne") || strcasestr(units, "andne")) return 3;
    return strcasestr(units, "all") ? 2 : 1;
}

/* Keeps the rows of the best setting of the compute units, or of the first one among equal settings. */
static void plan_choose(compute_plan *p) {
    const char *best = p->count ? p->rows[0].units : NULL;
    for (int i = 0; i < p->count; i++)
        if (plan_rank(p->rows[i].units) > plan_rank(best)) best = p->rows[i].units;
    int count = 0;
    for (int i = 0; i < p->count; i++) {
        const char *units = p->rows[i].units;
        if (units == best || (units && best && strcmp(units, best) == 0)) p->rows[count++] = p->rows[i];
    }
    p->count = count;
}

static propane_status plan_load(const char *path, compute_plan *out, propane_error *err) {
    text inside = {0};
    text_printf(&inside, "%s/report.json", path);
    if (inside.failed) {
        text_deinit(&inside);
        return propane_fail_memory(err, 0);
    }
    propane_status status = json_read(file_is_dir(path) ? inside.data : path, PLAN_BYTES, &out->json, err);
    text_deinit(&inside);
    return status;
}

propane_status compute_plan_read(const char *path, compute_plan *out, propane_error *err) {
    *out = (compute_plan){0};
    propane_status status = plan_load(path, out, err);
    if (status == PROPANE_OK) status = plan_walk(out, (plan_place){.path = path}, out->json, err);
    if (status == PROPANE_OK && !out->count)
        status = propane_fail(err, PROPANE_ERR_INVALID,
                              "%s: not a compute plan: it has no object with an operation ('operator_name', 'op') and "
                              "a device ('preferred_compute_device', 'device')",
                              path);
    if (status == PROPANE_OK) plan_choose(out);
    if (status) compute_plan_deinit(out);
    return status;
}

void compute_plan_deinit(compute_plan *plan) {
    json_decref(plan->json);
    mem_free(plan->rows);
    *plan = (compute_plan){0};
}
