/* SPDX-License-Identifier: MIT
 * Declares the flags about work on this machine's processor (--verify, --blas), and messages about matrix products.
 */
#ifndef APPS_PROPANE_CMD_HOST_FLAGS_H
#define APPS_PROPANE_CMD_HOST_FLAGS_H

#include <stdbool.h>

#include "apps/propane/cli.h"

extern const char *host_blas_standard;
extern bool host_verify_standard;
propane_status host_blas_set(void *object, const char *name, const char *value, propane_error *err);

propane_status host_verify_set(void *object, const char *name, const char *value, propane_error *err);

#define HOST_VERIFY_FLAG                                                                                               \
    {"--verify", CLI_SWITCH, &host_verify_standard, .help = "verify weights against the checksums in their file",      \
     .set = host_verify_set}
#define HOST_BLAS_FLAG                                                                                                 \
    {"--blas",                                                                                                         \
     CLI_TEXT,                                                                                                         \
     &host_blas_standard,                                                                                              \
     .words = "auto|off|LIBRARY",                                                                                      \
     .help = "library for large matrix products on the CPU: path of a CBLAS; off: Propane's kernels; auto: the "       \
             "faster of the two",                                                                                      \
     .set = host_blas_set}

/* Writes what a cpu device that is opened now would use for large matrix products ("built-in kernels", ...), or the
 * reason why none can be opened. */
void host_products_words(char *out, size_t size);
/* Prints after a run how many large matrix products the library computed, and how many Propane's kernels. Prints
 * nothing if no library was requested or no such product has run. */
void host_products_print(bool json);

#endif
