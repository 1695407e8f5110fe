/* SPDX-License-Identifier: MIT
 * Owns image layers: borders, crops, sizes. One idea: the last three axes are [channel, height, width], and everything
 * before them is a batch.
 */
#include <string.h>

#include "core/mil/neural_network/network.h"

#define X(value) NETWORK_IN("x", value)

static bool images_borders(network *n, const network_layer *l, wire_view borders, int64_t out[4]) {
    wire_view edge;
    memset(out, 0, 4 * sizeof *out);
    for (int i = 0; i < 2 && wire_each(&borders, 10, &edge); i++) {
        out[2 * i] = wire_whole(edge, 1, 0);
        out[2 * i + 1] = wire_whole(edge, 2, 0);
    }
    for (int i = 0; i < 4; i++)
        if (out[i] < 0 || out[i] > INT32_MAX) {
            network_fail(n, l, "a border of %lld", (long long)out[i]);
            return false;
        }
    return true;
}

void network_padding(network *n, network_layer *l) {
    int64_t amounts[4], pad[MIL_MAX_RANK * 2] = {0};
    wire_view borders, constant, unused;
    const int rank = network_rank(l->in[0]);
    (void)wire_part(l->params, 10, &borders);
    l->out_count = 1;
    if (!images_borders(n, l, borders, amounts)) return;
    const bool reflect = wire_part(l->params, 2, &unused), replicate = wire_part(l->params, 3, &unused);
    if (rank < 2) network_fail(n, l, "its input has %d dimensions; it must have at least 2", rank);
    if (network_failed(n)) return;
    (void)wire_part(l->params, 1, &constant);
    memcpy(pad + 2 * (rank - 2), amounts, sizeof amounts);
    const bool border = reflect || replicate;
    l->out[0] =
        NETWORK_DO(n, pad, X(l->in[0]),
                   NETWORK_IN("pad", border ? mil_build_ints(&n->b, amounts, 4) : mil_build_ints(&n->b, pad, 2 * rank)),
                   NETWORK_IN("mode", mil_build_text(&n->b, reflect     ? "reflect"
                                                            : replicate ? "replicate"
                                                                        : "constant")),
                   NETWORK_IN("constant_val", network_real(n, wire_real(constant, 1, 0))));
}

static mil_value *images_cut(network *n, const network_layer *l, mil_value *x, int64_t top, int64_t left,
                             int64_t height, int64_t width) {
    int64_t begin[MIL_MAX_RANK] = {0}, size[MIL_MAX_RANK];
    const int rank = network_rank(x);
    for (int i = 0; i < rank; i++) size[i] = x->type.dim[i];
    if (rank < 2 || top < 0 || left < 0 || height < 1 || width < 1 || height > size[rank - 2] - top ||
        width > size[rank - 1] - left) {
        network_fail(n, l, "a crop of %lld x %lld is outside its input", (long long)height, (long long)width);
        return NULL;
    }
    begin[rank - 2] = top, begin[rank - 1] = left;
    size[rank - 2] = height, size[rank - 1] = width;
    return mil_build_slice(&n->b, x, begin, size);
}

void network_crop(network *n, network_layer *l) {
    int64_t amounts[4], offset[2] = {0, 0};
    wire_view borders;
    const int64_t height = network_dim(l->in[0], -2), width = network_dim(l->in[0], -1);
    l->out_count = 1;
    if (l->in_count == 2) {
        (void)wire_wholes(l->params, 5, offset, 2);
        l->out[0] =
            images_cut(n, l, l->in[0], offset[0], offset[1], network_dim(l->in[1], -2), network_dim(l->in[1], -1));
        return;
    }
    (void)wire_part(l->params, 1, &borders);
    if (!images_borders(n, l, borders, amounts)) return;
    l->out[0] = images_cut(n, l, l->in[0], amounts[0], amounts[2], height - amounts[0] - amounts[1],
                           width - amounts[2] - amounts[3]);
}

void network_upsample(network *n, network_layer *l) {
    int64_t whole[2] = {1, 1};
    float real[2] = {1, 1};
    const bool bilinear = wire_whole(l->params, 5, 0) == 1;
    const int64_t corners = wire_whole(l->params, 6, 0);
    const bool fractions = wire_floats(l->params, 7, real, 2) == 2;
    (void)wire_wholes(l->params, 1, whole, 2);
    mil_value *x = network_four(n, l->in[0]), *height, *width;
    height = fractions ? network_real(n, (double)real[0]) : network_int(n, whole[0]);
    width = fractions ? network_real(n, (double)real[1]) : network_int(n, whole[1]);
    l->out_count = 1;
    if (bilinear && corners == 0) { /* has a special grid, which only resizing offers */
        const double by[2] = {fractions ? (double)real[0] : (double)whole[0],
                              fractions ? (double)real[1] : (double)whole[1]};
        x = NETWORK_DO(
            n, resize_bilinear, X(x),
            NETWORK_IN("target_size_height", network_int(n, (int64_t)(float)((double)network_dim(x, 2) * by[0]))),
            NETWORK_IN("target_size_width", network_int(n, (int64_t)(float)((double)network_dim(x, 3) * by[1]))),
            NETWORK_IN("sampling_mode", mil_build_text(&n->b, "DEFAULT")));
    } else if (bilinear) {
        x = NETWORK_DO(n, upsample_bilinear, X(x), NETWORK_IN("scale_factor_height", height),
                       NETWORK_IN("scale_factor_width", width),
                       NETWORK_IN("align_corners", mil_build_bool(&n->b, corners == 1)));
    } else {
        x = NETWORK_DO(n, upsample_nearest_neighbor, X(x), NETWORK_IN("scale_factor_height", height),
                       NETWORK_IN("scale_factor_width", width));
    }
    l->out[0] = network_lead(n, x, l->in[0]);
}

/* Reads a SamplingMode in `field`. */
static mil_value *images_sampling(network *n, const network_layer *l, uint32_t field) {
    static const char *const modes[] = {"STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS"};
    wire_view mode;
    (void)wire_part(l->params, field, &mode);
    const int64_t method = wire_whole(mode, 1, 0);
    if (method < 0 || method > 3) network_refuse(n, l, "sampling method %lld", (long long)method);
    return mil_build_text(&n->b, modes[method & 3]);
}

void network_resize_bilinear(network *n, network_layer *l) {
    int64_t size[2] = {1, 1};
    (void)wire_wholes(l->params, 1, size, 2);
    mil_value *x = NETWORK_DO(n, resize_bilinear, X(network_four(n, l->in[0])),
                              NETWORK_IN("target_size_height", network_int(n, size[0])),
                              NETWORK_IN("target_size_width", network_int(n, size[1])),
                              NETWORK_IN("sampling_mode", images_sampling(n, l, 2)));
    l->out[0] = network_lead(n, x, l->in[0]);
    l->out_count = 1;
}

/* The image is [1, B, C, H, W], the boxes are [N, 1, 4 or 5, 1, 1]. */
void network_crop_resize(network *n, network_layer *l) {
    static const char *const modes[] = {"CORNERS_HEIGHT_FIRST", "CORNERS_WIDTH_FIRST", "CENTER_SIZE_HEIGHT_FIRST",
                                        "CENTER_SIZE_WIDTH_FIRST"};
    int64_t size[2] = {1, 1};
    wire_view how;
    (void)wire_wholes(l->params, 1, size, 2);
    (void)wire_part(l->params, 4, &how);
    const int64_t mode = wire_whole(how, 1, 0);
    const double scale = wire_real(l->params, 5, 0);
    mil_value *x = network_four(n, l->in[0]), *boxes = network_five(n, l->in[1]);
    if (mode < 0 || mode > 3) network_refuse(n, l, "unknown box kind %lld", (long long)mode);
    if (network_dim(x, 0) != 1 && network_dim(boxes, -3) == 4)
        network_refuse(n, l, "boxes for each image of a batch of %lld are not supported", (long long)network_dim(x, 0));
    l->out_count = 1;
    if (network_failed(n)) return;
    mil_value *y =
        NETWORK_DO(n, crop_resize, X(x), NETWORK_IN("roi", boxes), NETWORK_IN("target_height", network_int(n, size[0])),
                   NETWORK_IN("target_width", network_int(n, size[1])),
                   NETWORK_IN("normalized_coordinates", mil_build_bool(&n->b, wire_whole(l->params, 2, 0))),
                   NETWORK_IN("spatial_scale", network_real(n, scale == 0 ? 1 : scale)),
                   NETWORK_IN("box_coordinate_mode", mil_build_text(&n->b, modes[mode])),
                   NETWORK_IN("sampling_mode", images_sampling(n, l, 3)));
    l->out[0] = network_fold(n, y);
}

void network_reorganize(network *n, network_layer *l) {
    const int64_t mode = wire_whole(l->params, 1, 0);
    mil_value *size = network_int(n, wire_whole(l->params, 2, 0)), *x = network_four(n, l->in[0]);
    x = mode == 0   ? NETWORK_DO(n, space_to_depth, X(x), NETWORK_IN("block_size", size))
        : mode == 1 ? NETWORK_DO(n, depth_to_space, X(x), NETWORK_IN("block_size", size))
                    : NETWORK_DO(n, pixel_shuffle, X(x), NETWORK_IN("upscale_factor", size));
    l->out[0] = network_lead(n, x, l->in[0]);
    l->out_count = 1;
}
