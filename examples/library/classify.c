/* SPDX-License-Identifier: MIT
 * Classifies an image: classify MODEL PICTURE. MODEL is a classifier with one image as its input, PICTURE a .png or
 * .jpg of any size.
 */
#include <stdio.h>
#include <stdlib.h>

#include "propane.h"

/* Sets the image as the first input, whatever its name. */
static propane_status set_picture(propane_session *s, const char *path, propane_error *err) {
    const char *name = propane_session_input(s, 0)->name;
    const int length = snprintf(NULL, 0, "%s=%s", name, path);
    char *given = malloc((size_t)length + 1);
    if (!given) {
        snprintf(err->text, sizeof err->text, "no memory for the image's name");
        return err->status = PROPANE_ERR_MEMORY;
    }
    snprintf(given, (size_t)length + 1, "%s=%s", name, path);
    propane_status status = propane_session_set_file(s, given, err);
    free(given);
    return status;
}

int main(int argc, char **argv) {
    const propane_session_options options = {.size = sizeof options, .device = "cpu", .resize = true};
    propane_error err = {0};
    propane_session *s = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: classify MODEL PICTURE\n");
        return 2;
    }
    propane_status status = propane_session_open(argv[1], &options, &s, &err);
    if (!status) status = set_picture(s, argv[2], &err);
    if (!status) status = propane_session_run(s, NULL, &err);
    const int64_t classes = status ? 0 : propane_module_label_count(propane_session_module(s), NULL);
    for (int rank = 0; rank < 5 && (rank < classes || !rank) && !status; rank++) {
        char label[200];
        double probability = 0;
        status = propane_session_label(s, rank, label, sizeof label, &probability, &err);
        if (!status) printf("%6.2f %%  %s\n", 100 * probability, label);
    }
    propane_session_close(s);
    if (status) fprintf(stderr, "classify: %s\n", err.text);
    return status != PROPANE_OK;
}
