/* SPDX-License-Identifier: MIT
 * Samples from pictures in class folders: DIR/train/CLASS/ and DIR/val/CLASS/, or DIR/CLASS/ with a part held out.
 */
#ifndef TRAIN_DATA_IMAGE_FOLDERS_H
#define TRAIN_DATA_IMAGE_FOLDERS_H

#include "train/import/imported_step.h"

typedef struct tune_images_options {
    double held_out;
    bool resize; /* pictures of another size are scaled to the input's */
    const char *mean,
        *std; /* of the channels, "0.5" or "0.485,0.456,0.406", for inputs that are arrays; NULL: 0 and 1 */
} tune_images_options;

typedef struct tune_images tune_images;

/* The program's only input must be a picture: [1, 1 or 3, height, width]. Inputs that the file calls images get the numbers
 * 0 to 255, arrays (number / 255 - mean) / std. Classes are numbered as the program's own labels, where all folders are
 * called like labels, else by name. */
PROPANE_CHECK propane_status tune_images_open(const char *dir, const tune_model *m, const tune_images_options *options,
                                              tune_images **out, propane_error *err);
void tune_images_close(tune_images *t);
const tune_source *tune_images_source(const tune_images *t);
int tune_images_classes(const tune_images *t);

#endif
