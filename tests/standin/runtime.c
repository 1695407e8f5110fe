/* SPDX-License-Identifier: MIT
 * Owns objects, classes, selectors, autorelease pools and objc_msgSend. A selector is the address of its name; each
 * name exists once. objc_msgSend keeps all argument registers, looks up the code and jumps there, so that a method is
 * an ordinary C function; a message to nil returns 0. A call through a variadic prototype would pass its arguments in
 * other places on arm64, and it fails here too.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin/standin.h"

enum { ALIVE = 0x0b7ec7u, DEAD = 0xdeadu, CLASS_MAGIC = 0xc1a55u, MAX_SELECTORS = 300, MAX_CLASSES = 60, POOL = 4096 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- classes and selectors ------------------------------------------------------------------------------------------------ */

static const class meta = {NULL, CLASS_MAGIC, "class"};
static class classes[MAX_CLASSES];
static char *selectors[MAX_SELECTORS];

static const method *const tables[] = {standin_foundation_methods, standin_model_methods, standin_client_methods,
                                       standin_request_methods, standin_metal_methods};
enum { TABLES = sizeof tables / sizeof tables[0] };

/* Finds or creates a class. Only classes with methods exist. */
static class *find_class(const char *name) {
    for (int i = 0; i < MAX_CLASSES; i++) {
        if (!classes[i].name) {
            classes[i] = (class){&meta, CLASS_MAGIC, strdup(name)};
            return &classes[i];
        }
        if (strcmp(classes[i].name, name) == 0) return &classes[i];
    }
    abort();
}

EXPORT const class *objc_getClass(const char *name) {
    if (standin_is("hide_class", name)) return NULL;
    for (int t = 0; t < TABLES; t++)
        for (const method *m = tables[t]; m->class_name; m++)
            if (strcmp(m->class_name, name) == 0) {
                pthread_mutex_lock(&mutex);
                class *found = find_class(name);
                pthread_mutex_unlock(&mutex);
                return found;
            }
    return NULL;
}

EXPORT const char *sel_registerName(const char *name) {
    const char *found = NULL;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < MAX_SELECTORS && !found; i++) {
        if (!selectors[i]) selectors[i] = strdup(name);
        if (strcmp(selectors[i], name) == 0) found = selectors[i];
    }
    pthread_mutex_unlock(&mutex);
    if (!found) abort();
    return found;
}

static const method *find_method(const class *c, char level, const char *selector) {
    if (standin_is("hide_method", selector)) return NULL;
    for (int t = 0; t < TABLES; t++)
        for (const method *m = tables[t]; m->class_name; m++)
            if (m->level == level && strcmp(m->selector, selector) == 0 && strcmp(m->class_name, c->name) == 0)
                return m;
    return NULL;
}

EXPORT const method *class_getInstanceMethod(const class *c, const char *selector) {
    return find_method(c, '-', selector);
}
EXPORT const method *class_getClassMethod(const class *c, const char *selector) {
    return find_method(c, '+', selector);
}

EXPORT const char *method_getTypeEncoding(const method *m) {
    return standin_is("encoding", m->selector) ? "{strange=dd}24@0:8f16" : m->encoding;
}

/* Code that replaces a method; the original code stays in the table. */
static struct {
    const method *of;
    void (*code)(void);
} replaced[MAX_SELECTORS];

static void (*code_of(const method *m))(void) {
    for (int i = 0; i < MAX_SELECTORS && replaced[i].of; i++)
        if (replaced[i].of == m) return replaced[i].code;
    return m->code;
}

EXPORT void (*method_setImplementation(const method *m, void (*code)(void)))(void) {
    void (*before)(void) = code_of(m);
    for (int i = 0; i < MAX_SELECTORS; i++)
        if (!replaced[i].of || replaced[i].of == m) {
            replaced[i].code = code;
            replaced[i].of = m;
            break;
        }
    return before;
}

EXPORT method **class_copyMethodList(const class *c, unsigned *count) {
    method **list = calloc(MAX_SELECTORS, sizeof *list);
    *count = 0;
    for (int t = 0; t < TABLES; t++)
        for (const method *m = tables[t]; m->class_name; m++)
            if (m->level == '-' && strcmp(m->class_name, c->name) == 0) list[(*count)++] = (method *)(uintptr_t)m;
    return list;
}

/* ---- messages ---------------------------------------------------------------------------------------------------------------- */

static long answer_nothing(void) { return 0; }

/* Called by objc_msgSend below. */
void (*standin_lookup(const object *self, const char *selector))(void);
void (*standin_lookup(const object *self, const char *selector))(void) {
    if (!self) return (void (*)(void))answer_nothing;
    bool is_class = self->magic == CLASS_MAGIC;
    if (!is_class && self->magic != ALIVE) {
        standin_violation("'%s' is sent to %s", selector,
                          self->magic == DEAD ? "an object that was released" : "something that is no object");
        return (void (*)(void))answer_nothing;
    }
    const class *c = is_class ? (const class *)(const void *)self : self->isa;
    const method *m = find_method(c, is_class ? '+' : '-', selector);
    if (m) return code_of(m);
    standin_violation("%c[%s %s]: unrecognized selector", is_class ? '+' : '-', c->name, selector);
    return (void (*)(void))answer_nothing;
}

#if defined(__x86_64__)
__asm__(
    ".text\n.globl objc_msgSend\n.type objc_msgSend, @function\n"
    "objc_msgSend:\n"
    "    pushq %rbp\n    movq %rsp, %rbp\n    subq $192, %rsp\n"
    "    movq %rdi, 0(%rsp)\n    movq %rsi, 8(%rsp)\n    movq %rdx, 16(%rsp)\n    movq %rcx, 24(%rsp)\n"
    "    movq %r8, 32(%rsp)\n    movq %r9, 40(%rsp)\n    movq %rax, 48(%rsp)\n"
    "    movups %xmm0, 64(%rsp)\n    movups %xmm1, 80(%rsp)\n    movups %xmm2, 96(%rsp)\n    movups %xmm3, 112(%rsp)\n"
    "    movups %xmm4, 128(%rsp)\n    movups %xmm5, 144(%rsp)\n    movups %xmm6, 160(%rsp)\n    movups %xmm7, "
    "176(%rsp)\n"
    "    call standin_lookup\n    movq %rax, %r11\n"
    "    movq 0(%rsp), %rdi\n    movq 8(%rsp), %rsi\n    movq 16(%rsp), %rdx\n    movq 24(%rsp), %rcx\n"
    "    movq 32(%rsp), %r8\n    movq 40(%rsp), %r9\n    movq 48(%rsp), %rax\n"
    "    movups 64(%rsp), %xmm0\n    movups 80(%rsp), %xmm1\n    movups 96(%rsp), %xmm2\n    movups 112(%rsp), %xmm3\n"
    "    movups 128(%rsp), %xmm4\n    movups 144(%rsp), %xmm5\n    movups 160(%rsp), %xmm6\n    movups 176(%rsp), "
    "%xmm7\n"
    "    leave\n    jmp *%r11\n"
    ".size objc_msgSend, . - objc_msgSend\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n.globl objc_msgSend\n.type objc_msgSend, %function\n"
    "objc_msgSend:\n"
    "    stp x29, x30, [sp, #-224]!\n    mov x29, sp\n"
    "    stp x0, x1, [sp, #16]\n    stp x2, x3, [sp, #32]\n    stp x4, x5, [sp, #48]\n    stp x6, x7, [sp, #64]\n"
    "    str x8, [sp, #80]\n"
    "    stp q0, q1, [sp, #96]\n    stp q2, q3, [sp, #128]\n    stp q4, q5, [sp, #160]\n    stp q6, q7, [sp, #192]\n"
    "    bl standin_lookup\n    mov x16, x0\n"
    "    ldp x0, x1, [sp, #16]\n    ldp x2, x3, [sp, #32]\n    ldp x4, x5, [sp, #48]\n    ldp x6, x7, [sp, #64]\n"
    "    ldr x8, [sp, #80]\n"
    "    ldp q0, q1, [sp, #96]\n    ldp q2, q3, [sp, #128]\n    ldp q4, q5, [sp, #160]\n    ldp q6, q7, [sp, #192]\n"
    "    ldp x29, x30, [sp], #224\n    br x16\n"
    ".size objc_msgSend, . - objc_msgSend\n");
#else
#error "objc_msgSend is written for x86-64 and arm64"
#endif

/* ---- objects --------------------------------------------------------------------------------------------------------------------- */

static object *all;

object *standin_new(const char *class_name, object_kind kind, void *memory, long count) {
    object *o = calloc(1, sizeof *o);
    if (!o) abort();
    pthread_mutex_lock(&mutex);
    *o = (object){find_class(class_name), ALIVE, 1, kind, memory, count, all};
    all = o;
    pthread_mutex_unlock(&mutex);
    standin_count("objects", 1);
    if (kind == KIND_SURFACE) standin_count("surfaces", 1);
    return o;
}

bool standin_check(const object *o, object_kind kind, const char *what) {
    if (!o) {
        standin_violation("%s: nil", what);
        return false;
    }
    if (o->magic == CLASS_MAGIC && kind == KIND_NONE) return true;
    if (o->magic != ALIVE) {
        standin_violation("%s: %s", what, o->magic == DEAD ? "the object was released" : "this is no object");
        return false;
    }
    if (kind == KIND_NONE || o->kind == kind) return true;
    standin_violation("%s: an object of class %s is not what is wanted", what, o->isa->name);
    return false;
}

bool standin_is_class(const object *o, const char *class_name) {
    return o && o->magic == ALIVE && strcmp(o->isa->name, class_name) == 0;
}

object *standin_retain(object *o) {
    if (!o || o->magic == CLASS_MAGIC || !standin_check(o, KIND_NONE, "retain")) return o;
    __atomic_add_fetch(&o->references, 1, __ATOMIC_SEQ_CST);
    return o;
}

void standin_release(object *o) {
    if (!o || o->magic == CLASS_MAGIC || !standin_check(o, KIND_NONE, "release")) return;
    if (__atomic_sub_fetch(&o->references, 1, __ATOMIC_SEQ_CST) > 0) return;
    if (o->kind == KIND_ARRAY || o->kind == KIND_DICTIONARY) {
        long count = o->kind == KIND_ARRAY ? o->count : 2 * o->count;
        for (long i = 0; i < count; i++) standin_release(((object **)o->memory)[i]);
        free(o->memory);
    } else if (o->kind == KIND_STRING || o->kind == KIND_DATA || o->kind == KIND_URL || o->kind == KIND_INDEX_SET) {
        free(o->memory);
    } else if (o->kind == KIND_OTHER || o->kind == KIND_SURFACE) {
        standin_destroy(o);
    }
    if (o->kind == KIND_SURFACE) standin_count("surfaces", -1);
    o->memory = NULL;
    o->magic = DEAD;
    standin_count("objects", -1);
}

EXPORT object *objc_retain(object *o) { return standin_retain(o); }
EXPORT void objc_release(object *o) { standin_release(o); }
EXPORT void CFRelease(object *o) {
    if (standin_check(o, KIND_NONE, "CFRelease")) standin_release(o);
}
EXPORT object *CFRetain(object *o) { return standin_check(o, KIND_NONE, "CFRetain") ? standin_retain(o) : o; }

/* ---- exceptions ---------------------------------------------------------------------------------------------------------------- */

static void (*uncaught)(object *exception);

EXPORT void NSSetUncaughtExceptionHandler(void (*handler)(object *exception)) { uncaught = handler; }
EXPORT void (*NSGetUncaughtExceptionHandler(void))(object *exception) { return uncaught; }

/* Name and reason are in a dictionary, so that they are released with it. */
void standin_raise(const char *name, const char *format, ...) {
    char reason[500];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    object *keys[] = {standin_string("name"), standin_string("reason")};
    object *values[] = {standin_string(name), standin_string(reason)};
    object *exception = standin_new("NSException", KIND_OTHER, standin_make_dictionary(keys, values, 2), 0);
    if (uncaught) uncaught(exception);
    fprintf(stderr, "*** Terminating app due to uncaught exception '%s', reason: '%s'\n", name, reason);
    abort();
}

/* ---- autorelease pools: one stack per thread
 * --------------------------------------------------------------------------------- */

static __thread object *pool[POOL];
static __thread int pool_size;

EXPORT void *objc_autoreleasePoolPush(void) {
    if (pool_size == POOL) abort();
    pool[pool_size++] = NULL; /* a mark */
    standin_count("pools", 1);
    return &pool[pool_size - 1];
}

EXPORT void objc_autoreleasePoolPop(void *mark) {
    object **bottom = mark;
    if (bottom < pool || bottom >= pool + pool_size || *bottom) {
        standin_violation("objc_autoreleasePoolPop: this pool was not pushed by this thread");
        return;
    }
    while (pool + pool_size > bottom) {
        object *o = pool[--pool_size];
        if (o)
            standin_release(o);
        else
            standin_count("pools", -1);
    }
}

object *standin_autorelease(object *o) {
    if (!o) return NULL;
    if (pool_size == 0) {
        standin_violation("an object of class %s is autoreleased and there is no pool: it leaks", o->isa->name);
        return o;
    }
    if (pool_size == POOL) abort();
    pool[pool_size++] = o;
    return o;
}
