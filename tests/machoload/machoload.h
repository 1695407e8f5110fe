/* SPDX-License-Identifier: MIT
 * Runs an arm64 Mach-O program (linked by tools/macos.sh) on aarch64 Linux, so that code compiled to Apple's calling
 * conventions can be executed without a Mac. The program's libSystem imports are bound to glibc, or to a shim that
 * converts if a name, a structure, a constant or the convention differs. Calling a name that has neither is an error.
 */
#ifndef MACHOLOAD_H
#define MACHOLOAD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Returns the address for "_name"; never NULL. */
void *bind_symbol(const char *name);
/* Returns a shim, or NULL if that name has none. */
void *shim_find(const char *name);
/* Those that also serve a va_list, which is the pointer itself. */
int shim_printf(const char *format, void *stack);
int shim_fprintf(FILE *f, const char *format, void *stack);
int shim_snprintf(char *out, size_t n, const char *format, void *stack);
int shim_vsnprintf_chk(char *out, size_t n, int flag, size_t room, const char *format, void *stack);
int shim_asprintf(char **out, const char *format, void *stack);
/* The path of the loaded program: to start it again, this loader must be started again. */
extern const char *loaded_path;
extern char **loaded_environ;

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Thread-local variables: the first word of a descriptor is tlv_get (machoload.S), which calls tlv_address. */
typedef struct tlv_descriptor {
    void *get;
    uint64_t key, offset;
} tlv_descriptor;
void tlv_get(void);
void *tlv_address(const tlv_descriptor *d);

#endif
