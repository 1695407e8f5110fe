/* SPDX-License-Identifier: MIT
 * Owns the types and shapes of resizing, cropping by boxes and sampling, and the sampling grids.
 */
#include <math.h>
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

#define BAD(...) mil_op_fail(op, err, PROPANE_ERR_INVALID, __VA_ARGS__)

static const mil_type *shape_image_x_of(const mil_op *op) { return &mil_in(op, "x")->type; }

/* Returns the index of `text` in a list of names that ends in NULL, or -1 if the list does not contain it. */
static int shape_image_one_of(const char *text, const char *const *names) {
    for (int k = 0; names[k]; k++)
        if (!strcmp(text, names[k])) return k;
    return -1;
}

/* ---- grids ---------------------------------------------------------------------------------------------------------------- */

static propane_status shape_image_sampling_mode(const mil_op *op, mil_grid *out, propane_error *err) {
    static const char *const names[] = {"DEFAULT",        "STRICT_ALIGN_CORNERS", "ALIGN_CORNERS",
                                        "OFFSET_CORNERS", "UNALIGN_CORNERS",      NULL};
    const char *mode = NULL;
    PROPANE_TRY(mil_attr_text(op, "sampling_mode", &mode, err));
    const int k = shape_image_one_of(mode, names);
    if (k < 0)
        return BAD("sampling_mode is \"%.40s\"; it must be DEFAULT, STRICT_ALIGN_CORNERS, ALIGN_CORNERS, "
                   "OFFSET_CORNERS or UNALIGN_CORNERS",
                   mode);
    *out = (mil_grid)k;
    return PROPANE_OK;
}

double mil_grid_point(mil_grid grid, double in, int64_t out, int64_t i) {
    double at = 0.0;
    switch (grid) {
    case MIL_GRID_DEFAULT: at = (double)i * (in / (double)out); break;
    case MIL_GRID_ALIGN:
        if (out == 1) return (in - 1.0) / 2.0;
        at = (double)i * ((in - 1.0) / (double)(out - 1));
        break;
    case MIL_GRID_STRICT_ALIGN: at = out == 1 ? 0.0 : (double)i * ((in - 1.0) / (double)(out - 1)); break;
    case MIL_GRID_OFFSET: at = ((double)i + 0.5) * (fmax(1.0, in - 1.0) / (double)out); break;
    case MIL_GRID_UNALIGN: at = ((double)i + 0.5) * (in / (double)out) - 0.5; break;
    }
    return at < 0.0 ? 0.0 : at > in - 1.0 ? in - 1.0 : at;
}

/* Returns floor(of * top / below). The result is exact if `of` and `top` are below 2^31. */
static int64_t shape_image_part(int64_t of, int64_t top, int64_t below) {
    const bool fits = of >> 31 == 0 && top >> 31 == 0;
    return fits ? (int64_t)((uint64_t)of * (uint64_t)top / (uint64_t)below)
                : (int64_t)floor((double)of * (double)top / (double)below);
}

/* Returns the integer nearest to of * top / below, or the upper of two equally near ones. `below` is even. */
static int64_t shape_image_rounded(int64_t of, int64_t top, int64_t below) {
    const bool fits = of >> 31 == 0 && top >> 31 == 0;
    return fits ? (int64_t)(((uint64_t)of * (uint64_t)top + (uint64_t)below / 2) / (uint64_t)below)
                : (int64_t)floor((double)of * (double)top / (double)below + 0.5);
}

int64_t mil_resize_nearest(const mil_resize *r, int64_t in, int64_t out, int64_t i) {
    int64_t at = i;
    if (r->below) return shape_image_part(i, in, out);
    switch (r->grid) {
    case MIL_GRID_DEFAULT:
    case MIL_GRID_UNALIGN: at = shape_image_part(2 * i + 1, in, 2 * out); break;
    case MIL_GRID_STRICT_ALIGN:
    case MIL_GRID_ALIGN:
        if (out == 1) return r->grid == MIL_GRID_ALIGN ? in / 2 : 0;
        at = shape_image_rounded(2 * i, in - 1, 2 * (out - 1));
        break;
    case MIL_GRID_OFFSET: at = shape_image_rounded(2 * i + 1, in > 1 ? in - 1 : 1, 2 * out); break;
    }
    return at > in - 1 ? in - 1 : at;
}

/* ---- resizing ------------------------------------------------------------------------------------------------------------- */

/* Scales dimension d of the result by a factor. The product is rounded to fp32, as PyTorch and coremltools do: 10 times
 * fp32's 2.3 is 23. coremltools with NumPy 1 wrote floor(22.9999995) instead, so such a size counts if the result is
 * declared with it. */
static propane_status shape_image_scaled(const mil_op *op, const char *param, mil_type *result, int d,
                                         propane_error *err) {
    const mil_value *v = mil_in(op, param);
    if (!v) return PROPANE_OK;
    char text[160];
    int64_t *dim = &result->dim[d];
    const mil_type *said = op->result_count == 1 && op->results[0] ? &op->results[0]->type : NULL;
    if (v->type.rank != 0 || (v->type.dtype != MIL_int32 && v->type.dtype != MIL_fp32 && v->type.dtype != MIL_fp16))
        return BAD("%s is %s; it must be one int32 or fp32", param, mil_type_print(text, &v->type));
    const double exact = (double)*dim * mil_const_f64(v->constant, 0);
    double size = floor((double)(float)exact);
    if (said && said->rank == result->rank && (double)said->dim[d] == floor(exact)) size = floor(exact);
    if (!(size >= 1.0 && size <= (double)INT32_MAX))
        return BAD("%s %g makes %lld elements %g", param, mil_const_f64(v->constant, 0), (long long)*dim, size);
    *dim = (int64_t)size;
    return PROPANE_OK;
}

static propane_status shape_image_upsampled(const mil_op *op, mil_resize *out, propane_error *err) {
    const int last = out->result.rank - 1;
    PROPANE_TRY(shape_image_scaled(op, "scale_factor_height", &out->result, last - 1, err));
    PROPANE_TRY(shape_image_scaled(op, "scale_factor_width", &out->result, last, err));
    if (out->nearest) return PROPANE_OK;
    bool align = true, half = false;
    PROPANE_TRY(mil_attr_bool(op, "align_corners", &align, err));
    half = !align;
    if (mil_in(op, "half_pixel_centers")) PROPANE_TRY(mil_attr_bool(op, "half_pixel_centers", &half, err));
    if (align && half) return BAD("align_corners and half_pixel_centers are both true");
    out->grid = align ? MIL_GRID_STRICT_ALIGN : half ? MIL_GRID_UNALIGN : MIL_GRID_DEFAULT;
    return PROPANE_OK;
}

static propane_status shape_image_targeted(const mil_op *op, mil_resize *out, propane_error *err) {
    int64_t *dim = &out->result.dim[out->result.rank - 2];
    PROPANE_TRY(mil_attr_int(op, "target_size_height", &dim[0], err));
    PROPANE_TRY(mil_attr_int(op, "target_size_width", &dim[1], err));
    return out->nearest ? PROPANE_OK : shape_image_sampling_mode(op, &out->grid, err);
}

/* Gives the last resized_dims of x the sizes at the end of `shape`; a 0 in `shape` keeps the size of x. */
static propane_status shape_image_reshaped(const mil_op *op, mil_resize *out, propane_error *err) {
    const char *mode = NULL;
    int64_t shape[MIL_MAX_RANK], dims = 0;
    int count = 0;
    PROPANE_TRY(mil_attr_vector(op, "shape", MIL_MAX_RANK, shape, &count, err));
    PROPANE_TRY(mil_attr_int(op, "resized_dims", &dims, err));
    PROPANE_TRY(mil_attr_text(op, "interpolation_mode", &mode, err));
    PROPANE_TRY(shape_image_sampling_mode(op, &out->grid, err));
    out->nearest = !strcmp(mode, "NEAREST_NEIGHBOR");
    if (!out->nearest && strcmp(mode, "LINEAR") != 0)
        return BAD("interpolation_mode is \"%.40s\"; it must be LINEAR or NEAREST_NEIGHBOR", mode);
    if (dims < 1 || dims > count || count > out->result.rank)
        return BAD("resized_dims is %lld and shape has %d entries, but x has rank %d", (long long)dims, count,
                   out->result.rank);
    out->first = out->result.rank - (int)dims;
    for (int k = 0; k < dims; k++) {
        int64_t *dim = &out->result.dim[out->result.rank - 1 - k];
        if (shape[count - 1 - k] != 0) *dim = shape[count - 1 - k];
    }
    return PROPANE_OK;
}

propane_status mil_resize_read(const mil_op *op, mil_resize *out, propane_error *err) {
    const mil_opcode code = op->info->code;
    int64_t count = 1;
    char text[160];
    *out = (mil_resize){.result = *shape_image_x_of(op),
                        .nearest = code == MIL_OP_upsample_nearest_neighbor || code == MIL_OP_resize_nearest_neighbor,
                        .below = code == MIL_OP_upsample_nearest_neighbor};
    if (out->result.rank < (code == MIL_OP_resize ? 1 : 3))
        return BAD("x is %s; it must have at least rank %d", mil_shape_print(text, shape_image_x_of(op)),
                   code == MIL_OP_resize ? 1 : 3);
    out->first = out->result.rank - 2;
    if (code == MIL_OP_resize)
        PROPANE_TRY(shape_image_reshaped(op, out, err));
    else if (mil_op_param(op->info, "scale_factor_height") >= 0)
        PROPANE_TRY(shape_image_upsampled(op, out, err));
    else
        PROPANE_TRY(shape_image_targeted(op, out, err));
    for (int d = 0; d < out->result.rank; d++) {
        const int64_t dim = out->result.dim[d];
        if (dim < 1) return BAD("dimension %d of the result would be %lld", d, (long long)dim);
        if (dim > MIL_MAX_COUNT / count) return BAD("the result would have more than 2^40 elements");
        count *= dim;
    }
    return PROPANE_OK;
}

propane_status mil_shape_rule_resized(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_resize r;
    PROPANE_TRY(mil_resize_read(op, &r, err));
    out[0] = r.result;
    *out_count = 1;
    return PROPANE_OK;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------------------ */

/* Reads the boxes: in ios15 and ios16 from roi [n, 1, 4 or 5, 1, 1], since ios17 from boxes [n, 4] with box_indices
 * [n]. */
static propane_status shape_image_read_boxes(const mil_op *op, mil_crop_resize *out, propane_error *err) {
    const mil_value *roi = mil_in(op, "roi"), *boxes = mil_in(op, "boxes"), *indices = mil_in(op, "box_indices");
    char text[160];
    if (!roi == !boxes) return BAD("it needs either roi (ios15, ios16) or boxes (ios17 and later)");
    if (roi) {
        const mil_type *t = &roi->type;
        if (t->rank != 5 || t->dim[1] != 1 || (t->dim[2] != 4 && t->dim[2] != 5) || t->dim[3] != 1 || t->dim[4] != 1)
            return BAD("roi is %s; it must be [n, 1, 4, 1, 1] or [n, 1, 5, 1, 1]", mil_shape_print(text, t));
        out->boxes = t->dim[0], out->indexed = t->dim[2] == 5;
        out->box_step = t->dim[2], out->images_each = out->indexed ? 1 : shape_image_x_of(op)->dim[0];
        return PROPANE_OK;
    }
    if (boxes->type.rank != 2 || boxes->type.dim[1] != 4)
        return BAD("boxes is %s; it must be [n, 4]", mil_shape_print(text, &boxes->type));
    out->boxes = boxes->type.dim[0], out->box_step = 4, out->images_each = 1, out->flat = true;
    if (indices && (indices->type.rank != 1 || indices->type.dim[0] != out->boxes))
        return BAD("box_indices is %s; it must be [%lld]", mil_shape_print(text, &indices->type),
                   (long long)out->boxes);
    if (!indices && out->boxes > shape_image_x_of(op)->dim[0])
        return BAD("there are %lld boxes for %lld images, but no box_indices", (long long)out->boxes,
                   (long long)shape_image_x_of(op)->dim[0]);
    return PROPANE_OK;
}

propane_status mil_crop_resize_read(const mil_op *op, mil_crop_resize *out, propane_error *err) {
    static const char *const modes[] = {"CORNERS_HEIGHT_FIRST", "CORNERS_WIDTH_FIRST", "CENTER_SIZE_HEIGHT_FIRST",
                                        "CENTER_SIZE_WIDTH_FIRST", NULL};
    const mil_type *x = shape_image_x_of(op);
    const char *mode = NULL;
    char text[160];
    *out = (mil_crop_resize){0};
    if (x->rank != 4) return BAD("x is %s; it must be [n, c, height, width]", mil_shape_print(text, x));
    PROPANE_TRY(shape_image_read_boxes(op, out, err));
    PROPANE_TRY(mil_attr_int(op, "target_height", &out->target[0], err));
    PROPANE_TRY(mil_attr_int(op, "target_width", &out->target[1], err));
    PROPANE_TRY(mil_attr_bool(op, "normalized_coordinates", &out->normalized, err));
    PROPANE_TRY(mil_attr_float(op, "spatial_scale", &out->scale, err));
    PROPANE_TRY(mil_attr_float(op, "pad_value", &out->pad_value, err));
    PROPANE_TRY(mil_attr_text(op, "box_coordinate_mode", &mode, err));
    PROPANE_TRY(shape_image_sampling_mode(op, &out->grid, err));
    const int k = shape_image_one_of(mode, modes);
    if (k < 0)
        return BAD("box_coordinate_mode is \"%.40s\"; it must be CORNERS_HEIGHT_FIRST, CORNERS_WIDTH_FIRST, "
                   "CENTER_SIZE_HEIGHT_FIRST or CENTER_SIZE_WIDTH_FIRST",
                   mode);
    out->centred = k >= 2, out->width_first = k % 2;
    for (int d = 0; d < 2; d++)
        if (out->target[d] < 1 || out->target[d] > INT32_MAX)
            return BAD("target_%s is %lld; it must be at least 1", d ? "width" : "height", (long long)out->target[d]);
    return PROPANE_OK;
}

propane_status mil_shape_rule_crop_resize(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_image_x_of(op);
    mil_crop_resize c;
    PROPANE_TRY(mil_crop_resize_read(op, &c, err));
    mil_type result = {.dtype = x->dtype};
    result.dim[result.rank++] = c.boxes;
    if (!c.flat) result.dim[result.rank++] = c.images_each;
    result.dim[result.rank++] = x->dim[1];
    result.dim[result.rank++] = c.target[0];
    result.dim[result.rank++] = c.target[1];
    if ((double)c.boxes * (double)c.images_each * (double)x->dim[1] * (double)c.target[0] * (double)c.target[1] >
        (double)MIL_MAX_COUNT)
        return BAD("the result would have more than 2^40 elements");
    out[0] = result;
    *out_count = 1;
    return PROPANE_OK;
}

/* ---- sampling positions ------------------------------------------------------------------------------------------ */

void mil_crop_range(const mil_crop_resize *c, const double box[4], const int64_t size[2], double start[2],
                    double end[2]) {
    for (int d = 0; d < 2; d++) {
        const int first = c->width_first ? 1 - d : d;
        const double scale = c->scale * (c->normalized ? (double)(size[d] - 1) : 1.0);
        const double p = box[first] * scale, q = box[first + 2] * scale;
        start[d] = c->centred ? p - q / 2 : p;
        end[d] = c->centred ? p + q / 2 : q;
    }
}

double mil_crop_point(const mil_crop_resize *c, const double start[2], const double end[2], int d, int64_t i) {
    const double at = mil_grid_point(c->grid, fabs(end[d] - start[d]) + 1, c->target[d], i);
    return end[d] < start[d] ? start[d] - at : start[d] + at;
}

/* Converts a coordinate to a position along a dimension of `size` elements. */
static double shape_image_place_of(const mil_sampling *s, double at, int64_t size) {
    const double last = (double)(size - 1);
    if (!s->normalized) return at;
    const double unit = s->centred ? (at + 1.0) / 2.0 : at;
    return s->align ? unit * last : unit * (double)size - 0.5;
}

static double shape_image_folded(double at, double low, double high) {
    const double span = high - low;
    if (span <= 0.0) return low;
    at = fmod(fabs(at - low), 2.0 * span);
    return low + (at > span ? 2.0 * span - at : at);
}

/* Brings a position into [0, size-1] by the padding mode. Constant padding leaves the position unchanged. */
static double shape_image_padded_place(const mil_sampling *s, double at, int64_t size) {
    const double last = (double)(size - 1);
    if (s->pad == MIL_SAMPLING_CONSTANT) return at;
    if (s->pad == MIL_SAMPLING_REFLECTION) at = shape_image_folded(at, 0.0, last);
    if (s->pad == MIL_SAMPLING_SYMMETRIC) at = shape_image_folded(at, -0.5, last + 0.5);
    return at < 0.0 ? 0.0 : at > last ? last : at;
}

double mil_sampling_place(const mil_sampling *s, double at, int64_t size) {
    return shape_image_padded_place(s, shape_image_place_of(s, at, size), size);
}

double mil_sampling_coordinate(const mil_sampling *s, int64_t i, int64_t size) {
    if (!s->normalized) return (double)i;
    const double unit = s->align ? (size > 1 ? (double)i / (double)(size - 1) : 0.0) : ((double)i + 0.5) / (double)size;
    return s->centred ? 2.0 * unit - 1.0 : unit;
}

/* ---- sampling ---------------------------------------------------------------------------------------------------------------- */

propane_status mil_sampling_read(const mil_op *op, mil_sampling *out, propane_error *err) {
    static const char *const pads[] = {"constant", "border", "reflection", "symmetric", NULL},
                             *const coordinates[] = {"unnormalized", "normalized_minus_one_to_one",
                                                     "normalized_zero_to_one", NULL};
    const char *sampling = NULL, *pad = NULL, *mode = NULL;
    char text[160];
    if (shape_image_x_of(op)->rank != 4)
        return BAD("x is %s; it must be [n, c, height, width]", mil_shape_print(text, shape_image_x_of(op)));
    PROPANE_TRY(mil_attr_text(op, "sampling_mode", &sampling, err));
    PROPANE_TRY(mil_attr_text(op, "padding_mode", &pad, err));
    PROPANE_TRY(mil_attr_text(op, "coordinates_mode", &mode, err));
    PROPANE_TRY(mil_attr_float(op, "padding_value", &out->pad_value, err));
    PROPANE_TRY(mil_attr_bool(op, "align_corners", &out->align, err));
    out->nearest = !strcmp(sampling, "nearest");
    if (!out->nearest && strcmp(sampling, "bilinear") != 0)
        return BAD("sampling_mode is \"%.40s\"; it must be bilinear or nearest", sampling);
    const int p = shape_image_one_of(pad, pads), c = shape_image_one_of(mode, coordinates);
    if (p < 0) return BAD("padding_mode is \"%.40s\"; it must be constant, border, reflection or symmetric", pad);
    if (c < 0)
        return BAD("coordinates_mode is \"%.40s\"; it must be unnormalized, normalized_minus_one_to_one or "
                   "normalized_zero_to_one",
                   mode);
    out->pad = (mil_sampling_pad)p;
    out->normalized = c > 0, out->centred = c == 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_resample(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_image_x_of(op), *at = &mil_in(op, "coordinates")->type;
    mil_sampling s;
    char text[160];
    PROPANE_TRY(mil_sampling_read(op, &s, err));
    if (at->rank != 4 || at->dim[0] != x->dim[0] || at->dim[3] != 2)
        return BAD("coordinates is %s; it must be [%lld, height, width, 2]", mil_shape_print(text, at),
                   (long long)x->dim[0]);
    if ((double)mil_type_count(at) / 2 * (double)x->dim[1] > (double)MIL_MAX_COUNT)
        return BAD("the result would have more than 2^40 elements");
    out[0] = *x;
    out->dim[2] = at->dim[1];
    out->dim[3] = at->dim[2];
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_affine(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_image_x_of(op), *m = &mil_in(op, "transform_matrix")->type;
    mil_sampling s;
    char text[160];
    int64_t size[2];
    PROPANE_TRY(mil_sampling_read(op, &s, err));
    PROPANE_TRY(mil_attr_int(op, "output_height", &size[0], err));
    PROPANE_TRY(mil_attr_int(op, "output_width", &size[1], err));
    if (m->rank != 2 || m->dim[1] != 6 || (m->dim[0] != 1 && m->dim[0] != x->dim[0]))
        return BAD("transform_matrix is %s; it must be [1, 6] or [%lld, 6]", mil_shape_print(text, m),
                   (long long)x->dim[0]);
    for (int d = 0; d < 2; d++)
        if (size[d] < 1 || size[d] > INT32_MAX)
            return BAD("output_%s is %lld; it must be at least 1", d ? "width" : "height", (long long)size[d]);
    if ((double)x->dim[0] * (double)x->dim[1] * (double)size[0] * (double)size[1] > (double)MIL_MAX_COUNT)
        return BAD("the result would have more than 2^40 elements");
    out[0] = *x;
    out->dim[2] = size[0];
    out->dim[3] = size[1];
    *out_count = 1;
    return PROPANE_OK;
}
