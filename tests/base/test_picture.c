/* SPDX-License-Identifier: MIT
 * Images: files written by the libraries are read back as their original content, for every kind of pixel; scaling
 * preserves constant areas and averages others; broken files are refused.
 */
#include <stdlib.h>

/* jpeglib.h requires stdio.h before it. */
#include <stdio.h>

#include <jpeglib.h>
#include <png.h>

#include "core/base/file.h"
#include "core/base/image.h"
#include "core/base/memory.h"
#include "support/test.h"

enum { H = 5, W = 7, PIXELS = H * W };

static propane_error err;
static unsigned char file[20000];

static unsigned sample(int pixel, int channel) { return (unsigned)(pixel * 37 + channel * 91 + 13) % 256; }

/* Writes a PNG file of `format` with samples of 8 or 16 bits, and returns its length. */
static size_t write_png(png_uint_32 format, const void *pixels) {
    png_image image = {.version = PNG_IMAGE_VERSION, .width = W, .height = H, .format = format};
    png_alloc_size_t length = sizeof file;
    image.flags = PNG_IMAGE_FLAG_COLORSPACE_NOT_sRGB;
    EXPECT_MSG(png_image_write_to_memory(&image, file, &length, 0, pixels, 0, NULL), "%s", image.message);
    return length;
}

static const unsigned char *read_back(size_t length, int channels, npy *out) {
    EXPECT_OK(picture_parse(file, length, "t", channels, out, &err));
    EXPECT(out->rank == 3 && out->dim[0] == H && out->dim[1] == W && out->dim[2] == channels && out->kind == 'u');
    return out->data;
}

TEST(png_files_of_every_kind) {
    unsigned char rgb[PIXELS * 3], gray[PIXELS], rgba[PIXELS * 4], gray_alpha[PIXELS * 2];
    for (int i = 0; i < PIXELS; i++) {
        for (int k = 0; k < 3; k++) rgb[3 * i + k] = rgba[4 * i + k] = (unsigned char)sample(i, k);
        gray[i] = gray_alpha[2 * i] = (unsigned char)sample(i, 0);
        rgba[4 * i + 3] = gray_alpha[2 * i + 1] = i % 2 ? 255 : 0;
    }
    npy got;
    const unsigned char *at = read_back(write_png(PNG_FORMAT_RGB, rgb), 3, &got);
    EXPECT(memcmp(at, rgb, sizeof rgb) == 0);
    npy_free(&got);
    at = read_back(write_png(PNG_FORMAT_GRAY, gray), 1, &got);
    EXPECT(memcmp(at, gray, sizeof gray) == 0);
    npy_free(&got);
    at = read_back(write_png(PNG_FORMAT_GRAY, gray), 3, &got);
    for (int i = 0; i < PIXELS * 3; i++) EXPECT(at[i] == gray[i / 3]);
    npy_free(&got);
    at = read_back(write_png(PNG_FORMAT_RGBA, rgba), 3, &got);
    for (int i = 0; i < PIXELS * 3; i++) EXPECT(at[i] == (i / 3 % 2 ? rgb[i] : 0)); /* blended with black */
    npy_free(&got);
    at = read_back(write_png(PNG_FORMAT_GA, gray_alpha), 1, &got);
    for (int i = 0; i < PIXELS; i++) EXPECT(at[i] == (i % 2 ? gray[i] : 0));
    npy_free(&got);
}

/* 16 bits of a file without gamma information are truncated to 8, not converted. libpng's simple writer cannot make
 * such a file. */
TEST(sixteen_bits_become_eight) {
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    char *dir = test_temp_dir(), path[500];
    unsigned char row[W * 2];
    npy got;
    snprintf(path, sizeof path, "%s/a.png", dir);
    FILE *out = fopen(path, "wb");
    EXPECT(png && info && out);
    png_init_io(png, out);
    png_set_IHDR(png, info, W, H, 16, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int y = 0; y < H; y++) {
        for (int x = 0; x < W; x++) row[2 * x] = row[2 * x + 1] = (unsigned char)sample(y * W + x, 0);
        png_write_row(png, row);
    }
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    fclose(out);
    EXPECT_OK(picture_read(path, 1, &got, &err));
    for (int i = 0; i < PIXELS; i++) EXPECT(((unsigned char *)got.data)[i] == sample(i, 0));
    npy_free(&got);
    mem_free(dir);
}

/* Writes a JPEG of a smooth image in the best quality. */
static size_t write_jpeg(int channels) {
    struct jpeg_compress_struct j = {0};
    struct jpeg_error_mgr trouble;
    unsigned char *memory = NULL, row[W * 3];
    unsigned long length = 0;
    j.err = jpeg_std_error(&trouble);
    jpeg_create_compress(&j);
    jpeg_mem_dest(&j, &memory, &length);
    j.image_width = W;
    j.image_height = H;
    j.input_components = channels;
    j.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&j);
    jpeg_set_quality(&j, 100, TRUE);
    jpeg_start_compress(&j, TRUE);
    for (int y = 0; y < H; y++) {
        JSAMPROW rows[] = {row};
        for (int i = 0; i < W * channels; i++) row[i] = (unsigned char)(100 + 10 * y + i / channels);
        jpeg_write_scanlines(&j, rows, 1);
    }
    jpeg_finish_compress(&j);
    jpeg_destroy_compress(&j);
    EXPECT(length < sizeof file);
    memcpy(file, memory, length);
    free(memory); /* allocated by libjpeg */
    return length;
}

TEST(jpeg_files) {
    for (int written = 1; written <= 3; written += 2)
        for (int channels = 1; channels <= 3; channels += 2) {
            npy got;
            const unsigned char *at = read_back(write_jpeg(written), channels, &got);
            for (int i = 0; i < PIXELS * channels; i++) {
                const int pixel = i / channels, want = 100 + 10 * (pixel / W) + pixel % W;
                EXPECT_MSG(abs(at[i] - want) <= 2, "%d is %d, not %d", i, at[i], want); /* observed 1 */
            }
            npy_free(&got);
        }
}

TEST(scaling) {
    unsigned char ramp[8 * 8], even[3 * 3 * 3];
    npy from = {.kind = 'u', .size = 1, .rank = 3, .dim = {8, 8, 1}, .count = 64, .data = ramp}, got;
    for (int i = 0; i < 64; i++) ramp[i] = (unsigned char)(10 * (i % 8));
    EXPECT_OK(picture_resize(&from, 4, 4, &got, &err)); /* averages over a ramp are the ramp, except at the edges */
    for (int y = 0; y < 4; y++)
        for (int x = 1; x < 3; x++) EXPECT(((unsigned char *)got.data)[4 * y + x] == 5 + 20 * x);
    npy_free(&got);
    EXPECT_OK(picture_resize(&from, 8, 8, &got, &err));
    EXPECT(memcmp(got.data, ramp, 64) == 0);
    npy_free(&got);
    EXPECT_OK(picture_resize(&from, 8, 16, &got, &err)); /* halfway between two pixels */
    EXPECT(((unsigned char *)got.data)[3] == 13 || ((unsigned char *)got.data)[3] == 12);
    npy_free(&got);
    memset(even, 77, sizeof even);
    npy plain = {.kind = 'u', .size = 1, .rank = 3, .dim = {3, 3, 3}, .count = 27, .data = even};
    EXPECT_OK(picture_resize(&plain, 5, 2, &got, &err));
    EXPECT(got.count == 30);
    for (int i = 0; i < 30; i++) EXPECT(((unsigned char *)got.data)[i] == 77);
    npy_free(&got);
}

TEST(broken_files_are_refused) {
    npy got;
    unsigned char rgb[PIXELS * 3] = {0};
    size_t n = write_png(PNG_FORMAT_RGB, rgb);
    EXPECT_FAIL(picture_parse(file, n / 2, "t", 3, &got, &err), PROPANE_ERR_INVALID, "not a readable PNG file");
    file[18] = file[19] = 0xff; /* the width */
    EXPECT(picture_parse(file, n, "t", 3, &got, &err) != PROPANE_OK && !got.data);
    n = write_jpeg(3);
    EXPECT_FAIL(picture_parse(file, 40, "t", 3, &got, &err), PROPANE_ERR_INVALID, "not a readable JPEG file");
    EXPECT_FAIL(picture_parse((const uint8_t *)"GIF89a....", 10, "t", 3, &got, &err), PROPANE_ERR_INVALID,
                "neither a PNG nor a JPEG file");
    EXPECT_FAIL(picture_read("there/is/none.png", 3, &got, &err), PROPANE_ERR_NOT_FOUND, "none.png");
}

SUITE("base/image", T(png_files_of_every_kind), T(sixteen_bits_become_eight), T(jpeg_files), T(scaling),
      T(broken_files_are_refused))
