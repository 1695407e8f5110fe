/* SPDX-License-Identifier: MIT
 * Owns reading and resizing images. libpng and libjpeg decode files to rows of 8-bit gray or RGB. Images of more than
 * 2^28 pixels are refused. libjpeg's errors leave the decoder by longjmp, but never this file. Without these libraries
 * no image can be read, but resizing and file names still work.
 */
#include "core/base/image.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#ifdef PROPANE_IMAGES
/* jpeglib.h requires stdio.h before it. */
#include <jpeglib.h>
#include <png.h>
#endif

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"

enum { MAX_PIXELS = 1 << 28 };

bool picture_is_name(const char *path) {
    return text_ends_with(path, ".png") || text_ends_with(path, ".jpg") || text_ends_with(path, ".jpeg");
}

typedef struct bytes {
    const uint8_t *data;
    size_t count;
} bytes;

static propane_status image_make(const char *path, int64_t height, int64_t width, int channels, npy *out,
                                 propane_error *err) {
    if (height < 1 || width < 1 || height > MAX_PIXELS / width)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%s: %lld x %lld pixels; at most 2^28 pixels are supported", path,
                            (long long)width, (long long)height);
    *out =
        (npy){.kind = 'u', .size = 1, .rank = 3, .dim = {height, width, channels}, .count = height * width * channels};
    out->data = mem_alloc((size_t)out->count);
    return out->data ? PROPANE_OK : propane_fail_memory(err, (size_t)out->count);
}

#ifdef PROPANE_IMAGES

static propane_status image_read_png(const char *path, const bytes *in, int channels, npy *out, propane_error *err) {
    png_image image = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_memory(&image, in->data, in->count))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: not a readable PNG file: %s", path, image.message);
    image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* without it, 16-bit samples are treated as linear light */
    image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    propane_status status = image_make(path, image.height, image.width, channels, out, err);
    if (!status && !png_image_finish_read(&image, NULL, out->data, 0, NULL))
        status = propane_fail(err, PROPANE_ERR_INVALID, "%s: not a readable PNG file: %s", path, image.message);
    png_image_free(&image);
    if (status) npy_free(out);
    return status;
}

typedef struct jpeg_trap {
    struct jpeg_error_mgr base;
    jmp_buf place;
    char text[JMSG_LENGTH_MAX];
} jpeg_trap;

static void image_on_error(j_common_ptr info) {
    jpeg_trap *trap = (jpeg_trap *)info->err;
    info->err->format_message(info, trap->text);
    longjmp(trap->place, 1);
}
static void image_on_message(j_common_ptr info) { (void)info; }

/* Decodes a JPEG file into `out`. Returns false if libjpeg fails, with the reason in the trap. If the image is too
 * large for memory or for Propane, returns true and sets *status. */
static bool image_decode(struct jpeg_decompress_struct *j, jpeg_trap *trap, const bytes *in, const char *path,
                         int channels, npy *out, propane_error *err, propane_status *status) {
    if (setjmp(trap->place)) return false;
    jpeg_create_decompress(j);
    jpeg_mem_src(j, in->data, (unsigned long)in->count);
    jpeg_read_header(j, TRUE);
    j->out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(j);
    *status = image_make(path, j->output_height, j->output_width, channels, out, err);
    if (*status) return true;
    while (j->output_scanline < j->output_height) {
        JSAMPROW row = (JSAMPROW)out->data + (size_t)j->output_scanline * j->output_width * (size_t)channels;
        jpeg_read_scanlines(j, &row, 1);
    }
    jpeg_finish_decompress(j);
    return true;
}

static propane_status image_read_jpeg(const char *path, const bytes *in, int channels, npy *out, propane_error *err) {
    struct jpeg_decompress_struct j = {0};
    jpeg_trap trap = {0};
    propane_status status = PROPANE_OK;
    j.err = jpeg_std_error(&trap.base);
    trap.base.error_exit = image_on_error;
    trap.base.output_message = image_on_message;
    if (!image_decode(&j, &trap, in, path, channels, out, err, &status))
        status = propane_fail(err, PROPANE_ERR_INVALID, "%s: not a readable JPEG file: %s", path, trap.text);
    jpeg_destroy_decompress(&j);
    if (status) npy_free(out);
    return status;
}

#else

static propane_status image_none(const char *path, propane_error *err) {
    return propane_fail(
        err, PROPANE_ERR_UNSUPPORTED,
        "%s: this propane was built without libpng and libjpeg and cannot read images; give an array (.npy)", path);
}

static propane_status image_read_png(const char *path, const bytes *in, int channels, npy *out, propane_error *err) {
    return image_none(path, err);
}

static propane_status image_read_jpeg(const char *path, const bytes *in, int channels, npy *out, propane_error *err) {
    return image_none(path, err);
}

#endif

propane_status picture_parse(const uint8_t *data, size_t count, const char *source, int channels, npy *out,
                             propane_error *err) {
    const bytes in = {data, count};
    *out = (npy){0};
    if (count >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0) return image_read_png(source, &in, channels, out, err);
    if (count >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0) return image_read_jpeg(source, &in, channels, out, err);
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: neither a PNG nor a JPEG file", source);
}

propane_status picture_read(const char *path, int channels, npy *out, propane_error *err) {
    file_map map;
    *out = (npy){0};
    PROPANE_TRY(file_map_open(path, &map, err));
    propane_status status = picture_parse(map.data, map.bytes, path, channels, out, err);
    file_map_close(&map);
    return status;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* Resamples a line of `n` pixels, `step` elements apart, to `m` pixels, `to_step` elements apart. The filter is a
 * triangle whose half width is one new pixel, or one old pixel if that is larger. */
static void image_resize_line(const float *from, int64_t n, int64_t step, float *to, int64_t m, int64_t to_step) {
    const double scale = (double)n / (double)m, reach = scale > 1 ? scale : 1;
    for (int64_t i = 0; i < m; i++) {
        const double centre = ((double)i + 0.5) * scale;
        int64_t first = (int64_t)floor(centre - reach), last = (int64_t)ceil(centre + reach);
        double sum = 0, weights = 0;
        first = first < 0 ? 0 : first;
        last = last > n - 1 ? n - 1 : last;
        for (int64_t k = first; k <= last; k++) {
            const double weight = 1 - fabs((double)k + 0.5 - centre) / reach;
            if (weight <= 0) continue;
            sum += weight * (double)from[k * step];
            weights += weight;
        }
        to[i * to_step] = (float)(sum / weights);
    }
}

propane_status picture_resize(const npy *from, int64_t height, int64_t width, npy *out, propane_error *err) {
    const int64_t h = from->dim[0], w = from->dim[1], c = from->dim[2];
    const uint8_t *source = from->data;
    PROPANE_TRY(image_make("a resized image", height, width, (int)c, out, err));
    uint8_t *target = out->data;
    float *plain = mem_array((size_t)from->count, sizeof *plain);
    float *narrow = mem_array((size_t)(h * width * c), sizeof *narrow);
    float *done = mem_array((size_t)out->count, sizeof *done);
    const bool ok = plain && narrow && done;
    for (int64_t i = 0; ok && i < from->count; i++) plain[i] = source[i];
    for (int64_t y = 0; ok && y < h; y++)
        for (int64_t k = 0; k < c; k++)
            image_resize_line(plain + y * w * c + k, w, c, narrow + y * width * c + k, width, c);
    for (int64_t i = 0; ok && i < width * c; i++)
        image_resize_line(narrow + i, h, width * c, done + i, height, width * c);
    for (int64_t i = 0; ok && i < out->count; i++) target[i] = (uint8_t)lrintf(done[i]);
    mem_free(plain);
    mem_free(narrow);
    mem_free(done);
    if (ok) return PROPANE_OK;
    npy_free(out);
    return propane_fail_memory(err, (size_t)out->count * sizeof(float));
}
