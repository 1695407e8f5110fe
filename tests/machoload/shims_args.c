/* SPDX-License-Identifier: MIT
 * Owns the functions with variable arguments. On Apple's arm64 all of these are on the stack, and a va_list is a plain
 * pointer to 8-byte places; machoload.S passes that pointer as the last argument.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "machoload.h"

/* Makes glibc's va_list for arguments that are all on the stack. */
static va_list *as_va_list(va_list *out, void *stack) {
    struct {
        void *stack, *gr_top, *vr_top;
        int gr_offs, vr_offs;
    } fields = {stack, NULL, NULL, 0, 0};
    _Static_assert(sizeof fields == sizeof(va_list), "the layout of AAPCS64's va_list");
    memcpy(out, &fields, sizeof fields);
    return out;
}

#define WITH_ARGS(stack, ...)                                                                                          \
    va_list args;                                                                                                      \
    as_va_list(&args, stack);                                                                                          \
    return __VA_ARGS__

int shim_printf(const char *format, void *stack) { WITH_ARGS(stack, vprintf(format, args)); }
int shim_fprintf(FILE *f, const char *format, void *stack) { WITH_ARGS(stack, vfprintf(f, format, args)); }
int shim_dprintf(int fd, const char *format, void *stack) { WITH_ARGS(stack, vdprintf(fd, format, args)); }
int shim_snprintf(char *out, size_t n, const char *format, void *stack) {
    WITH_ARGS(stack, vsnprintf(out, n, format, args));
}
int shim_snprintf_chk(char *out, size_t n, int flag, size_t room, const char *format, void *stack) {
    (void)flag;
    if (n > room) fail("snprintf beyond its buffer");
    WITH_ARGS(stack, vsnprintf(out, n, format, args));
}
int shim_asprintf(char **out, const char *format, void *stack) { WITH_ARGS(stack, vasprintf(out, format, args)); }
int shim_sscanf(const char *text, const char *format, void *stack) { WITH_ARGS(stack, vsscanf(text, format, args)); }
int shim_fscanf(FILE *f, const char *format, void *stack) { WITH_ARGS(stack, vfscanf(f, format, args)); }
int shim_vsnprintf_chk(char *out, size_t n, int flag, size_t room, const char *format, void *stack) {
    return shim_snprintf_chk(out, n, flag, room, format, stack);
}
void shim_syslog(int priority, const char *format, void *stack) {
    (void)priority, (void)format, (void)stack; /* the log has no reader here */
}

/* Functions of Linux libraries with variable arguments, called through their va_list forms. */
void *shim_json_pack(const char *format, void *stack) {
    void *(*pack)(void *, size_t, const char *, va_list) =
        (void *(*)(void *, size_t, const char *, va_list))dlsym(RTLD_DEFAULT, "json_vpack_ex");
    WITH_ARGS(stack, pack(NULL, 0, format, args));
}
void *shim_json_sprintf(const char *format, void *stack) {
    void *(*print)(const char *, va_list) = (void *(*)(const char *, va_list))dlsym(RTLD_DEFAULT, "json_vsprintf");
    WITH_ARGS(stack, print(format, args));
}
extern void _ck_assert_failed(const char *file, int line, const char *expr, const char *msg, ...)
    __attribute__((noreturn, weak));
void shim__ck_assert_failed(const char *file, int line, const char *expression, const char *format, void *stack) {
    char text[2000] = "";
    va_list args;
    if (format) vsnprintf(text, sizeof text, format, *as_va_list(&args, stack));
    _ck_assert_failed(file, line, expression, format ? "%s" : NULL, text);
}
