/* SPDX-License-Identifier: MIT
 * Samples from images in class folders: DIR/train/CLASS/ and DIR/val/CLASS/, or DIR/CLASS/ with a part held out.
 */
#ifndef TRAIN_DATA_IMAGE_FOLDERS_H
#define TRAIN_DATA_IMAGE_FOLDERS_H

#include "train/import/imported_step.h"

typedef struct image_folders_options {
    double held_out;
    bool resize; /* scale images to the input's size */
    const char *mean,
        *std; /* per channel, "0.5" or "0.485,0.456,0.406", for inputs that are arrays; NULL means 0 and 1 */
} image_folders_options;

typedef struct image_folders image_folders;

/* The program's only input must be an image: [1, 1 or 3, height, width]. Inputs declared as images receive the numbers
 * 0 to 255, arrays receive (number / 255 - mean) / std. Classes are numbered by the program's labels if all folders are
 * named after labels, otherwise by name. */
PROPANE_CHECK propane_status image_folders_open(const char *dir, const imported_model *m,
                                                const image_folders_options *options, image_folders **out,
                                                propane_error *err);
void image_folders_close(image_folders *t);
const sample_source *image_folders_source(const image_folders *t);
int image_folders_classes(const image_folders *t);

#endif
