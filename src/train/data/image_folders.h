/* SPDX-License-Identifier: MIT
 * Samples from images in class folders: DIR/train/CLASS/ and DIR/val/CLASS/, or DIR/CLASS/, of which a part is held
 * out.
 */
#ifndef TRAIN_DATA_IMAGE_FOLDERS_H
#define TRAIN_DATA_IMAGE_FOLDERS_H

#include "train/import/imported_step.h"

typedef struct image_folders_options {
    double held_out;
    bool resize; /* scale images to the input's size */
    const char *mean,
        /* one number, or one per channel ("0.485,0.456,0.406"), for inputs that are arrays; NULL means 0 for `mean` and
         * 1 for `std` */
        *std;
} image_folders_options;

typedef struct image_folders image_folders;

/* The program's only input must be an image: [1, 1 or 3, height, width]. An input that is declared as an image receives
 * pixel values from 0 to 255; an input that is an array receives (value / 255 - mean) / std. Classes are numbered by
 * the program's labels if all folders are named after labels, otherwise in the order of the folders' names. */
PROPANE_CHECK propane_status image_folders_open(const char *dir, const imported_model *m,
                                                const image_folders_options *options, image_folders **out,
                                                propane_error *err);
void image_folders_close(image_folders *t);
const sample_source *image_folders_source(const image_folders *t);
int image_folders_classes(const image_folders *t);

#endif
