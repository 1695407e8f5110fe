/* SPDX-License-Identifier: MIT
 * Owns the meanings of resizing, cropping by boxes and sampling. Every element of the result is read at a fractional
 * position of x, either interpolated between neighbours (bilinear) or copied from the nearest element.
 */
#include <math.h>

#include "core/base/memory.h"
#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

/* ---- resizing, one dimension after the other --------------------------------------------------------------------- */

/* Interpolates between two neighbours. A neighbour of weight 0 is not used, because it may be infinite. */
static double eval_image_between(double low, double high, double part) {
    return part == 0.0 ? low : low * (1.0 - part) + high * part;
}

static double eval_image_along(const double *x, int64_t step, int64_t size, double at) {
    const int64_t low = (int64_t)floor(at), high = low + 1 < size ? low + 1 : low;
    const double part = at - (double)low;
    return eval_image_between(x[low * step], x[high * step], part);
}

propane_status mil_eval_resize(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    mil_resize r;
    PROPANE_TRY(mil_resize_read(a->op, &r, err));
    mil_type type = x->type;
    int64_t most = mil_type_count(&type);
    for (int d = type.rank - 1; d >= 0; d--) {
        type.dim[d] = r.result.dim[d];
        if (mil_type_count(&type) > most) most = mil_type_count(&type);
    }
    double *from = mem_array((size_t)most * 2, sizeof *from), *to = from + most, *memory = from;
    if (!from) return propane_fail_memory(err, (size_t)most * 2 * sizeof *from);
    type = x->type;
    for (int64_t i = 0; i < mil_type_count(&type); i++) from[i] = x->data[i];
    for (int d = type.rank - 1; d >= r.first; d--) {
        const int64_t in = type.dim[d], out = r.result.dim[d];
        int64_t outer = 1, inner = 1;
        if (in == out && r.grid != MIL_GRID_OFFSET) continue; /* for other grids, the same size is the identity */
        for (int k = 0; k < d; k++) outer *= type.dim[k];
        for (int k = d + 1; k < type.rank; k++) inner *= type.dim[k];
        for (int64_t o = 0; o < outer; o++)
            for (int64_t s = 0; s < out; s++) {
                const double at =
                    r.nearest ? (double)mil_resize_nearest(&r, in, out, s) : mil_grid_point(r.grid, (double)in, out, s);
                for (int64_t i = 0; i < inner; i++)
                    to[(o * out + s) * inner + i] = eval_image_along(from + o * in * inner + i, inner, in, at);
            }
        type.dim[d] = out;
        double *swap = from;
        from = to, to = swap;
    }
    for (int64_t i = 0; i < mil_type_count(&type); i++) a->out[0].data[i] = from[i];
    mem_free(memory);
    return PROPANE_OK;
}

/* ---- sampling at positions --------------------------------------------------------------------------------------- */

/* Interpolates bilinearly at a position inside [0, h-1] x [0, w-1]. */
static double eval_image_inside(const double *plane, int64_t h, int64_t w, double y, double x) {
    const int64_t y0 = (int64_t)floor(y), x0 = (int64_t)floor(x), y1 = y0 + 1 < h ? y0 + 1 : y0,
                  x1 = x0 + 1 < w ? x0 + 1 : x0;
    const double py = y - (double)y0, px = x - (double)x0;
    return eval_image_between(eval_image_between(plane[y0 * w + x0], plane[y0 * w + x1], px),
                              eval_image_between(plane[y1 * w + x0], plane[y1 * w + x1], px), py);
}

static propane_status eval_image_crop_image(const mil_eval_args *a, const mil_crop_resize *c, const double box[4],
                                            double image, double *out, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    const int64_t *dim = x->type.dim, size[2] = {dim[2], dim[3]};
    double start[2], end[2];
    if (!(image >= 0 && image < (double)dim[0]))
        return mil_op_fail(a->op, err, PROPANE_ERR_INVALID, "a box refers to image %.0f, but there are %lld", image,
                           (long long)dim[0]);
    mil_crop_range(c, box, size, start, end);
    for (int64_t k = 0; k < dim[1]; k++) {
        const double *plane = x->data + ((int64_t)image * dim[1] + k) * size[0] * size[1];
        for (int64_t i = 0; i < c->target[0]; i++)
            for (int64_t j = 0; j < c->target[1]; j++) {
                const double y = mil_crop_point(c, start, end, 0, i), z = mil_crop_point(c, start, end, 1, j);
                const bool in = y >= 0 && y <= (double)(size[0] - 1) && z >= 0 && z <= (double)(size[1] - 1);
                *out++ = in ? eval_image_inside(plane, size[0], size[1], y, z) : c->pad_value;
            }
    }
    return PROPANE_OK;
}

propane_status mil_eval_crop_resize(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *indices = mil_eval_in(a, "box_indices");
    const int64_t *dim = mil_eval_in(a, "x")->type.dim;
    mil_crop_resize c;
    PROPANE_TRY(mil_crop_resize_read(a->op, &c, err));
    const double *box = (c.flat ? mil_eval_in(a, "boxes") : mil_eval_in(a, "roi"))->data;
    double *out = a->out[0].data;
    for (int64_t b = 0; b < c.boxes; b++, box += c.box_step)
        for (int64_t i = 0; i < c.images_each; i++, out += dim[1] * c.target[0] * c.target[1]) {
            const double image = c.indexed ? box[0] : !c.flat ? (double)i : indices ? indices->data[b] : (double)b;
            PROPANE_TRY(eval_image_crop_image(a, &c, box + c.indexed, image, out, err));
        }
    return PROPANE_OK;
}

static double eval_image_pixel(const mil_sampling *s, const double *plane, int64_t h, int64_t w, double y, double x) {
    if (!(y >= 0 && y < (double)h && x >= 0 && x < (double)w)) return s->pad_value;
    return plane[(int64_t)y * w + (int64_t)x];
}

static double eval_image_sample(const mil_sampling *s, const double *plane, int64_t h, int64_t w, double y, double x) {
    y = mil_sampling_place(s, y, h);
    x = mil_sampling_place(s, x, w);
    if (!isfinite(y) || !isfinite(x)) return s->pad_value; /* outside the image */
    if (s->nearest) return eval_image_pixel(s, plane, h, w, nearbyint(y), nearbyint(x));
    const double y0 = floor(y), x0 = floor(x), py = y - y0, px = x - x0;
    double sum = 0.0; /* a neighbour of weight 0 may be outside */
    if (px < 1.0) sum += (1 - py) * (1 - px) * eval_image_pixel(s, plane, h, w, y0, x0);
    if (px > 0.0) sum += (1 - py) * px * eval_image_pixel(s, plane, h, w, y0, x0 + 1);
    if (py > 0.0) sum += py * (1 - px) * eval_image_pixel(s, plane, h, w, y0 + 1, x0);
    if (py > 0.0 && px > 0.0) sum += py * px * eval_image_pixel(s, plane, h, w, y0 + 1, x0 + 1);
    return sum;
}

propane_status mil_eval_resample(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x"), *at = mil_eval_in(a, "coordinates");
    const int64_t *dim = x->type.dim, points = at->type.dim[1] * at->type.dim[2];
    mil_sampling s;
    PROPANE_TRY(mil_sampling_read(a->op, &s, err));
    for (int64_t n = 0; n < dim[0]; n++)
        for (int64_t c = 0; c < dim[1]; c++)
            for (int64_t i = 0; i < points; i++) {
                const double *place = at->data + (n * points + i) * 2;
                a->out[0].data[(n * dim[1] + c) * points + i] = eval_image_sample(
                    &s, x->data + (n * dim[1] + c) * dim[2] * dim[3], dim[2], dim[3], place[1], place[0]);
            }
    return PROPANE_OK;
}

propane_status mil_eval_affine(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x"), *matrix = mil_eval_in(a, "transform_matrix");
    const int64_t *dim = x->type.dim, h = a->out[0].type.dim[2], w = a->out[0].type.dim[3];
    mil_sampling s;
    double *out = a->out[0].data;
    PROPANE_TRY(mil_sampling_read(a->op, &s, err));
    for (int64_t n = 0; n < dim[0]; n++) {
        const double *m = matrix->data + (matrix->type.dim[0] == 1 ? 0 : n * 6);
        for (int64_t c = 0; c < dim[1]; c++)
            for (int64_t i = 0; i < h; i++)
                for (int64_t j = 0; j < w; j++) {
                    const double px = mil_sampling_coordinate(&s, j, w), py = mil_sampling_coordinate(&s, i, h);
                    *out++ = eval_image_sample(&s, x->data + (n * dim[1] + c) * dim[2] * dim[3], dim[2], dim[3],
                                               m[3] * px + m[4] * py + m[5], m[0] * px + m[1] * py + m[2]);
                }
    }
    return PROPANE_OK;
}
