/* SPDX-License-Identifier: MIT
 * Runs an arm64 Mach-O program (as tools/macos.sh links it) on aarch64 Linux, so that code compiled to Apple's calling
 * conventions can be executed where there is no Mac. What the program asks of libSystem is bound to glibc; where a
 * name, a structure, a constant or the convention differs, to a shim that converts. A name that has neither is an error
 * that is told when it is called.
 */
#ifndef MACHOLOAD_H
#define MACHOLOAD_H

#include <stddef.h>
#include <stdint.h>

/* The address for "_name"; never NULL. */
void *bind_symbol(const char *name);
/* From the shims; NULL: no shim of that name. */
void *shim_find(const char *name);
/* The path of the loaded program: starting it again means starting this loader again. */
extern const char *loaded_path;
extern char **loaded_environ;

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Thread-local variables: a descriptor's first word is tlv_get (machoload.S), which calls tlv_address. */
typedef struct tlv_descriptor {
    void *get;
    uint64_t key, offset;
} tlv_descriptor;
void tlv_get(void);
void *tlv_address(const tlv_descriptor *d);

#endif
