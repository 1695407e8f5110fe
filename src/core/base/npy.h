/* SPDX-License-Identifier: MIT
 * Reads and writes NumPy's .npy files, and reads the .npz archives that np.savez and np.savez_compressed write.
 */
#ifndef CORE_BASE_NPY_H
#define CORE_BASE_NPY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

#define NPY_MAX_RANK 16

/* An array, little endian and row major. kind is 'f' float, 'i' signed, 'u' unsigned or 'b' bool; size is the bytes per
 * element. */
typedef struct npy {
    char kind;
    int size, rank;
    int64_t dim[NPY_MAX_RANK];
    int64_t count;
    void *data; /* freed by npy_free */
} npy;

PROPANE_CHECK propane_status npy_read(const char *path, npy *out, propane_error *err);
/* Reads an array from the content of a file or of an archive's entry. */
PROPANE_CHECK propane_status npy_parse(const uint8_t *data, size_t bytes, const char *source, npy *out,
                                       propane_error *err);
void npy_free(npy *a);
/* Sets kind and size. Returns false if NumPy has no such type. */
bool npy_set_type(npy *a, propane_dtype dtype);
double npy_element(const npy *a, int64_t index);
PROPANE_CHECK propane_status npy_write(const char *path, const npy *a, propane_error *err);

/* All arrays of an archive, with their names without ".npy". */
typedef struct npz {
    int count;
    char **names;
    npy *arrays;
} npz;
PROPANE_CHECK propane_status npz_read(const char *path, npz *out, propane_error *err);
PROPANE_CHECK propane_status npz_parse(const uint8_t *data, size_t bytes, const char *source, npz *out,
                                       propane_error *err);
void npz_free(npz *z);

#endif
