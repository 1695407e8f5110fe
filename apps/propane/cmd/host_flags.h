/* SPDX-License-Identifier: MIT
 * Flags for the part of the work that this machine's processor does, and the messages about it.
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

/* Writes what a cpu device opened now would use for large matrix products ("own kernels", ...), or the
 * reason why it cannot. */
void host_products_words(char *out, size_t size);
/* Prints after a run how many large matrix products the library and our kernels did. Prints nothing if no library
 * was requested. */
void host_products_print(bool json);

#endif
