/* SPDX-License-Identifier: MIT
 * Owns reading pictures through libpng and libjpeg. One idea: whatever the file holds becomes rows of 8-bit gray or RGB.
 * Refuses pictures of more than 2^28 pixels. libjpeg reports errors by a long jump, which ends here.
 */
#include "cli/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* jpeglib.h wants stdio.h in front of it. */
#include <jpeglib.h>
#include <png.h>

#include "base/file.h"
#include "base/memory.h"

enum { MAX_PIXELS = 1 << 28 };

static bool ends_with(const char *path, const char *end) {
    size_t n = strlen(path), m = strlen(end);
    return n > m && strcasecmp(path + n - m, end) == 0;
}

bool image_is_name(const char *path) {
    return ends_with(path, ".png") || ends_with(path, ".jpg") || ends_with(path, ".jpeg");
}

static propane_status make(const char *path, int64_t height, int64_t width, int channels, npy *out,
                           propane_error *err) {
    if (height < 1 || width < 1 || height > MAX_PIXELS / width)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%s: %lld x %lld pixels; at most 2^28 are read", path,
                            (long long)width, (long long)height);
    *out =
        (npy){.kind = 'u', .size = 1, .rank = 3, .dim = {height, width, channels}, .count = height * width * channels};
    out->data = mem_alloc((size_t)out->count);
    return out->data ? PROPANE_OK : propane_fail_memory(err, (size_t)out->count);
}

static propane_status read_png(const char *path, const file_map *map, int channels, npy *out, propane_error *err) {
    png_image image = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_memory(&image, map->data, map->bytes))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: not a readable PNG file: %s", path, image.message);
    image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    propane_status status = make(path, image.height, image.width, channels, out, err);
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

static void on_error(j_common_ptr info) {
    jpeg_trap *trap = (jpeg_trap *)info->err;
    info->err->format_message(info, trap->text);
    longjmp(trap->place, 1);
}
static void on_message(j_common_ptr info) { (void)info; }

/* Rows into `out`, whose data is there after the first step; false: the trap tells why. */
static bool decode(struct jpeg_decompress_struct *j, jpeg_trap *trap, const file_map *map, const char *path,
                   int channels, npy *out, propane_error *err, propane_status *status) {
    if (setjmp(trap->place)) return false;
    jpeg_create_decompress(j);
    jpeg_mem_src(j, map->data, (unsigned long)map->bytes);
    jpeg_read_header(j, TRUE);
    j->out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(j);
    *status = make(path, j->output_height, j->output_width, channels, out, err);
    if (*status) return true;
    while (j->output_scanline < j->output_height) {
        JSAMPROW row = (JSAMPROW)out->data + (size_t)j->output_scanline * j->output_width * (size_t)channels;
        jpeg_read_scanlines(j, &row, 1);
    }
    jpeg_finish_decompress(j);
    return true;
}

static propane_status read_jpeg(const char *path, const file_map *map, int channels, npy *out, propane_error *err) {
    struct jpeg_decompress_struct j = {0};
    jpeg_trap trap = {0};
    propane_status status = PROPANE_OK;
    j.err = jpeg_std_error(&trap.base);
    trap.base.error_exit = on_error;
    trap.base.output_message = on_message;
    if (!decode(&j, &trap, map, path, channels, out, err, &status))
        status = propane_fail(err, PROPANE_ERR_INVALID, "%s: not a readable JPEG file: %s", path, trap.text);
    jpeg_destroy_decompress(&j);
    if (status) npy_free(out);
    return status;
}

propane_status image_read(const char *path, int channels, npy *out, propane_error *err) {
    file_map map;
    *out = (npy){0};
    PROPANE_TRY(file_map_open(path, &map, err));
    const bool png = map.bytes >= 8 && memcmp(map.data, "\x89PNG\r\n\x1a\n", 8) == 0;
    const bool jpeg = map.bytes >= 3 && memcmp(map.data, "\xff\xd8\xff", 3) == 0;
    propane_status status = png    ? read_png(path, &map, channels, out, err)
                            : jpeg ? read_jpeg(path, &map, channels, out, err)
                                   : propane_fail(err, PROPANE_ERR_INVALID, "%s: neither PNG nor JPEG", path);
    file_map_close(&map);
    return status;
}
