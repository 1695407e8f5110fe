/* SPDX-License-Identifier: MIT
 * Owns non-maximum suppression, the model at the end of detectors, as MIL operations. Every box below the confidence
 * threshold is replaced by the same box of confidence 0, which keeps the suppression fast. Selected boxes come first,
 * the other rows are zeros, and an extra result counts the boxes, so the program has fixed shapes. Thresholds that are
 * inputs of the pipeline become inputs of the program if values may be known only at run time; otherwise the model's
 * thresholds apply. Refuses boxes whose number is not known.
 */
#include "core/mil/coreml/package_suppression.h"

#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

typedef struct suppression {
    package_parts *parts;
    package_ops *ops;
    const Coreml__Suppression *model;
    const char *prefix;
    bool boxes_last;                            /* the operation's layout since ios17 */
    int64_t least, most;                        /* bounds on the number of output rows */
    mil_dtype dtype;                            /* of the confidences; boxes are cast to this type */
    const char *confidence_at, *coordinates_at; /* values: [boxes, classes], [boxes, 4] */
    const char *iou, *threshold;                /* thresholds that are inputs; NULL means the model's numbers */
} suppression;

/* ---- names and operations --------------------------------------------------------------------------------------------------- */

static const char *suppression_name(suppression *s, const char *name) {
    const char *out = arena_printf(s->ops->arena, "%s%s", s->prefix, name);
    s->ops->failed |= !out;
    return out ? out : name;
}

/* Adds an operation with operands "x" and "y". If y is NULL, there is no second operand, or the caller adds it. */
static const char *suppression_do(suppression *s, const char *type, const char *name, mil_dtype dtype, int rank,
                                  const char *x, const char *y) {
    const char *result = suppression_name(s, name);
    Coreml__Operation *op = package_message_op(s->ops, type, result, dtype, rank);
    package_message_arg(s->ops, op, "x", x);
    if (y) package_message_arg(s->ops, op, "y", y);
    return result;
}

static Coreml__Operation *suppression_last(const suppression *s) {
    return s->ops->count ? s->ops->list[s->ops->count - 1] : NULL;
}

static const char *suppression_cast(suppression *s, const char *name, mil_dtype dtype, int rank, const char *x) {
    const char *out = suppression_do(s, "cast", name, dtype, rank, x, NULL);
    package_message_text(s->ops, suppression_last(s), "dtype", mil_dtype_get(dtype)->name);
    return out;
}

/* Computes as bool whether the best class of each row reaches the threshold. */
static const char *suppression_reaches(suppression *s, const char *name, const char *rows, bool keep) {
    char inner[60];
    const int32_t classes = 1;
    (void)snprintf(inner, sizeof inner, "%s_best", name);
    const char *best = suppression_do(s, "reduce_max", inner, s->dtype, 1 + keep, rows, NULL);
    package_message_ints(s->ops, suppression_last(s), "axes", &classes, 1);
    package_message_bool(s->ops, suppression_last(s), "keep_dims", keep);
    (void)snprintf(inner, sizeof inner, "%s_best_fp32", name);
    best = suppression_cast(s, inner, MIL_fp32, 1 + keep, best);
    const char *out = suppression_do(s, "greater_equal", name, MIL_bool, 1 + keep, best, s->threshold);
    if (!s->threshold) package_message_float(s->ops, suppression_last(s), "y", s->model->confidence_threshold);
    return out;
}

/* ---- steps ------------------------------------------------------------------------------------------------------------------ */

/* Reshapes [boxes, each] to the form that the operation requires. */
static const char *suppression_batch(suppression *s, const char *name, const char *x) {
    static const int32_t first = 0, turn[3] = {0, 2, 1};
    char inner[60];
    (void)snprintf(inner, sizeof inner, "%s_batch", name);
    const char *out = suppression_do(s, "expand_dims", inner, s->dtype, 3, x, NULL);
    package_message_ints(s->ops, suppression_last(s), "axes", &first, 1);
    if (!s->boxes_last) return out;
    (void)snprintf(inner, sizeof inner, "%s_across", name);
    out = suppression_do(s, "transpose", inner, s->dtype, 3, out, NULL);
    package_message_ints(s->ops, suppression_last(s), "perm", turn, 3);
    return out;
}

/* Reshapes selected rows back to [most, each]. */
static const char *suppression_rows(suppression *s, const char *name, const char *x) {
    static const int32_t first = 0, turn[3] = {0, 2, 1};
    char inner[60];
    if (s->boxes_last) {
        (void)snprintf(inner, sizeof inner, "%s_down", name);
        x = suppression_do(s, "transpose", inner, s->dtype, 3, x, NULL);
        package_message_ints(s->ops, suppression_last(s), "perm", turn, 3);
    }
    (void)snprintf(inner, sizeof inner, "%s_rows", name);
    const char *out = suppression_do(s, "squeeze", inner, s->dtype, 2, x, NULL);
    package_message_ints(s->ops, suppression_last(s), "axes", &first, 1);
    return out;
}

/* Replaces boxes below the threshold by the box (1, 1, 1, 1) of confidence 0. */
static void suppression_mask(suppression *s, const char **confidence, const char **coordinates) {
    const char *reaches = suppression_reaches(s, "reaches", *confidence, true);
    const char *mask = suppression_cast(s, "mask", s->dtype, 2, reaches);
    const char *below = suppression_do(s, "logical_not", "below", MIL_bool, 2, reaches, NULL);
    const char *rest = suppression_cast(s, "rest", s->dtype, 2, below);
    *confidence = suppression_do(s, "mul", "confidence_masked", s->dtype, 2, *confidence, mask);
    *coordinates = suppression_do(s, "mul", "coordinates_masked", s->dtype, 2, *coordinates, mask);
    *coordinates = suppression_do(s, "add", "coordinates_or_one", s->dtype, 2, *coordinates, rest);
}

/* Adds the suppression and sets `out` to the names of the selected boxes, confidences and indices. Rows after the last
 * selected box are zeros, with index -1. */
static void suppression_choose(suppression *s, const char *boxes, const char *scores, const char *out[3]) {
    static const char *const names[] = {"chosen_boxes", "chosen_scores", "chosen"};
    for (int i = 0; i < 3; i++) out[i] = suppression_name(s, names[i]);
    Coreml__Operation *op = package_message_op(s->ops, "non_maximum_suppression", out[0], s->dtype, 3);
    package_message_result(s->ops, op, out[1], s->dtype, 3);
    package_message_result(s->ops, op, out[2], MIL_int32, 2);
    if (!s->boxes_last) package_message_result(s->ops, op, suppression_name(s, "chosen_count"), MIL_int32, 1);
    package_message_arg(s->ops, op, "boxes", boxes);
    package_message_arg(s->ops, op, "scores", scores);
    if (s->iou)
        package_message_arg(s->ops, op, "iou_threshold", s->iou);
    else
        package_message_float(s->ops, op, "iou_threshold", s->model->iou_threshold);
    package_message_int(s->ops, op, "max_boxes", (int32_t)s->most);
    package_message_bool(s->ops, op, "per_class_suppression", s->model->pick_top && s->model->pick_top->per_class);
}

/* Computes as bool [most] which rows are real boxes that reach the threshold. */
static const char *suppression_valid(suppression *s, const char *scores, const char *indices) {
    static const int32_t first = 0;
    const char *flat = suppression_do(s, "squeeze", "chosen_rows", MIL_int32, 1, indices, NULL);
    package_message_ints(s->ops, suppression_last(s), "axes", &first, 1);
    const char *there = suppression_do(s, "greater_equal", "there", MIL_bool, 1, flat, NULL);
    package_message_int(s->ops, suppression_last(s), "y", 0);
    return suppression_do(s, "logical_and", "valid", MIL_bool, 1, there,
                          suppression_reaches(s, "stays", scores, false));
}

static const char *suppression_count(suppression *s, const char *valid) {
    static const int32_t rows = 0;
    const char *ones = suppression_cast(s, "valid_int32", MIL_int32, 1, valid);
    const char *count = suppression_do(s, "reduce_sum", "rows", MIL_int32, 1, ones, NULL);
    package_message_ints(s->ops, suppression_last(s), "axes", &rows, 1);
    package_message_bool(s->ops, suppression_last(s), "keep_dims", true);
    if (!s->least) return count;
    count = suppression_do(s, "maximum", "rows_at_least", MIL_int32, 1, count, NULL);
    package_message_int(s->ops, suppression_last(s), "y", (int32_t)s->least);
    return count;
}

static void suppression_write(suppression *s) {
    static const int32_t last = 1;
    const char *confidence = s->confidence_at, *coordinates = s->coordinates_at, *chosen[3];
    suppression_mask(s, &confidence, &coordinates);
    suppression_choose(s, suppression_batch(s, "boxes", coordinates), suppression_batch(s, "scores", confidence),
                       chosen);
    const char *boxes = suppression_rows(s, "boxes", chosen[0]), *scores = suppression_rows(s, "scores", chosen[1]);
    const char *valid = suppression_valid(s, scores, chosen[2]);
    const char *factor = suppression_cast(s, "valid_factor", s->dtype, 1, valid);
    factor = suppression_do(s, "expand_dims", "valid_rows", s->dtype, 2, factor, NULL);
    package_message_ints(s->ops, suppression_last(s), "axes", &last, 1);
    Coreml__Operation *op = package_message_op(s->ops, "mul", s->model->confidence_out, s->dtype, 2);
    package_message_arg(s->ops, op, "x", scores), package_message_arg(s->ops, op, "y", factor);
    op = package_message_op(s->ops, "mul", s->model->coordinates_out, s->dtype, 2);
    package_message_arg(s->ops, op, "x", boxes), package_message_arg(s->ops, op, "y", factor);
    (void)suppression_count(s, valid);
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

static propane_status suppression_fail(const suppression *s, const char *what, const char *name) {
    char shown[80];
    return propane_fail(s->parts->err, PROPANE_ERR_UNSUPPORTED,
                        "%s: the non-maximum suppression of the pipeline: %s ('%s')", s->parts->module->source, what,
                        text_quote(shown, name, strlen(name)));
}

/* Finds an input of rank 2, or of rank 3 with one image. Sets *out to a value of rank 2 with the type of the
 * confidences, and `dim` to its shape. */
static propane_status suppression_take(suppression *s, const char *feature, const char *name, int64_t dim[2],
                                       const char **out) {
    static const int32_t first = 0;
    char inner[60];
    const package_link *link = package_parts_link(s->parts, feature);
    if (!link || !link->value || link->counted)
        return suppression_fail(s, "no earlier model produces its input", feature);
    if (link->type->kind_case != COREML__VALUE_TYPE__KIND_TENSOR || link->type->tensor->n_dimensions < 2 ||
        link->type->tensor->n_dimensions > 3)
        return suppression_fail(s, "its input must have two dimensions", feature);
    const Coreml__TensorType *t = link->type->tensor;
    const mil_dtype dtype = t->data_type == mil_dtype_get(MIL_fp16)->proto_code ? MIL_fp16 : MIL_fp32;
    const int skip = (int)t->n_dimensions - 2;
    for (int i = 0; i < 2; i++) {
        const Coreml__Dimension *d = t->dimensions[i + skip];
        if (d->kind_case != COREML__DIMENSION__KIND_CONSTANT || !d->constant->size || d->constant->size > 1 << 24)
            return suppression_fail(s, "the number of boxes or classes is unknown", feature);
        dim[i] = (int64_t)d->constant->size;
    }
    *out = link->value;
    if (skip) {
        (void)snprintf(inner, sizeof inner, "%s_flat", name);
        *out = suppression_do(s, "squeeze", inner, dtype, 2, *out, NULL);
        package_message_ints(s->ops, suppression_last(s), "axes", &first, 1);
    }
    if (!s->dtype) s->dtype = dtype;
    if (dtype != s->dtype) {
        (void)snprintf(inner, sizeof inner, "%s_cast", name);
        *out = suppression_cast(s, inner, s->dtype, 2, *out);
    }
    return PROPANE_OK;
}

/* Adds a threshold that an app may set, with the model's number as its default. Leaves *out unset if the model's number
 * applies. */
static propane_status suppression_threshold(suppression *s, const char *feature, double standard, const char **out) {
    struct mil_package *package = s->parts->module->package;
    package_link *link = feature[0] ? package_parts_link(s->parts, feature) : NULL;
    if (!link || !link->optional) return PROPANE_OK;
    mil_interface *seen = package->interface_count ? &package->interfaces[0] : NULL;
    for (int i = 0; seen && i < seen->input_count; i++)
        if (strcmp(seen->inputs[i].name, feature) == 0)
            seen->inputs[i].has_standard = true, seen->inputs[i].standard = standard;
    if (!s->parts->late) return PROPANE_OK;
    if (!link->value) PROPANE_TRY(package_parts_input(s->parts, link, package_message_type(s->ops, MIL_fp32, NULL, 0)));
    *out = link->value;
    return PROPANE_OK;
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

/* Limits the rows to the described shape of an output. */
static void suppression_limit(suppression *s, const Coreml__ModelDescription *d, const char *name) {
    for (size_t i = 0; d && i < d->n_output; i++) {
        const Coreml__FeatureType *type = d->output[i]->type;
        if (strcmp(d->output[i]->name, name) != 0 || !type || type->kind_case != COREML__FEATURE_TYPE__KIND_ARRAY)
            continue;
        const Coreml__ArrayType *a = type->array;
        int64_t least = 0, most = -1;
        if (a->range && a->range->n_sizes == 2)
            least = (int64_t)a->range->sizes[0]->lower, most = a->range->sizes[0]->upper;
        else if (a->n_shape == 2 && a->shape[0] > 0)
            least = most = a->shape[0];
        if (most > 0 && most < s->most) s->most = most;
        if (most > 0 && least == most) s->most = most; /* if there are fewer boxes, the rest are zeros */
        if (least > s->least) s->least = least;
    }
    if (s->least > s->most) s->least = s->most;
}

static propane_status suppression_link(suppression *s) {
    package_parts *p = s->parts;
    struct mil_package *package = p->module->package;
    const char *rows = suppression_name(s, s->least ? "rows_at_least" : "rows");
    const char *const names[] = {s->model->confidence_out, s->model->coordinates_out};
    const bool counted = s->least < s->most;
    for (int i = 0; i < 2; i++) {
        Coreml__ValueType *type = package_message_type(s->ops, s->dtype, NULL, 2);
        if (!type) return propane_fail_memory(p->err, 0);
        p->links[p->link_count++] = (package_link){
            .feature = names[i], .value = names[i], .type = type, .counted = true, .rows = counted && !i ? rows : NULL};
        mil_interface *seen = package->interface_count && counted ? &package->interfaces[0] : NULL;
        for (int k = 0; seen && k < seen->output_count; k++)
            if (strcmp(seen->outputs[k].name, names[i]) == 0) seen->outputs[k].rows = rows;
    }
    return PROPANE_OK;
}

propane_status package_suppression_add(package_parts *p, const Coreml__Model *model, const char *prefix,
                                       const char *opset) {
    int64_t boxes[2] = {0}, scores[2] = {0};
    suppression s = {.parts = p, .ops = &p->ops, .model = model->suppression, .prefix = prefix};
    s.boxes_last = opset && strcmp(opset, "CoreML7") >= 0;
    PROPANE_TRY(suppression_take(&s, s.model->confidence_in, "confidence", scores, &s.confidence_at));
    PROPANE_TRY(suppression_take(&s, s.model->coordinates_in, "coordinates", boxes, &s.coordinates_at));
    if (boxes[1] != 4 || boxes[0] != scores[0])
        return suppression_fail(&s, "coordinates must be [boxes, 4], with as many boxes as confidences",
                                s.model->coordinates_in);
    s.most = boxes[0];
    suppression_limit(&s, model->description, s.model->confidence_out);
    suppression_limit(&s, model->description, s.model->coordinates_out);
    suppression_limit(&s, p->described, s.model->confidence_out);
    suppression_limit(&s, p->described, s.model->coordinates_out);
    PROPANE_TRY(suppression_threshold(&s, s.model->iou_threshold_in, s.model->iou_threshold, &s.iou));
    PROPANE_TRY(
        suppression_threshold(&s, s.model->confidence_threshold_in, s.model->confidence_threshold, &s.threshold));
    suppression_write(&s);
    if (p->ops.failed) return propane_fail_memory(p->err, 0);
    return suppression_link(&s);
}
