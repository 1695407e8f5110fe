/* SPDX-License-Identifier: MIT
 * Owns loading: segments to memory, chained fixups (pointers of formats 2 and 6, which lld writes), thread-local
 * variables, initialisers, and the call of main. Usage: machoload PROGRAM [ARGUMENT...]
 */
#include "machoload.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *loaded_path;
char **loaded_environ;

void fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "machoload: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    _exit(126);
}

enum { SEGMENTS = 32, DYLIBS = 64 };

typedef struct segment {
    uint64_t address, size, offset, file_size;
    uint32_t protection;
} segment;

typedef struct program {
    const uint8_t *file;
    size_t bytes;
    segment segments[SEGMENTS];
    int count;
    uint64_t low, high; /* addresses as linked */
    uint8_t *memory;    /* the address of `low` now */
    uint64_t entry;     /* offset of main; 0 if there is none */
    const uint8_t *fixups;
    struct {
        uint64_t address, size;
        uint32_t type;
    } sections[128];
    int section_count;
} program;

static program loaded;

static uint16_t u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t u32(const uint8_t *p) { return u16(p) | (uint32_t)u16(p + 2) << 16; }
static uint64_t u64(const uint8_t *p) { return u32(p) | (uint64_t)u32(p + 4) << 32; }

static void *at(const program *p, uint64_t address) { return p->memory + (address - p->low); }

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static void read_segment(program *p, const uint8_t *c) {
    if (p->count == SEGMENTS) fail("more than %d segments", SEGMENTS);
    if (strncmp((const char *)c + 8, "__PAGEZERO", 16) == 0) {
        p->segments[p->count++] = (segment){0}; /* fixups count this segment too */
        return;
    }
    segment s = {u64(c + 24), u64(c + 32), u64(c + 40), u64(c + 48), u32(c + 60)};
    p->segments[p->count++] = s;
    if (s.address < p->low) p->low = s.address;
    if (s.address + s.size > p->high) p->high = s.address + s.size;
    for (uint32_t i = 0; i < u32(c + 64) && p->section_count < 128; i++) {
        const uint8_t *section = c + 72 + (size_t)80 * i;
        p->sections[p->section_count].address = u64(section + 32);
        p->sections[p->section_count].size = u64(section + 40);
        p->sections[p->section_count++].type = u32(section + 64) & 0xff;
    }
}

static void read_commands(program *p) {
    if (p->bytes < 32 || u32(p->file) != 0xfeedfacf || u32(p->file + 4) != 0x0100000c)
        fail("%s is not an arm64 Mach-O file", loaded_path);
    const uint8_t *c = p->file + 32;
    p->low = UINT64_MAX;
    for (uint32_t i = 0; i < u32(p->file + 16); i++, c += u32(c + 4)) {
        if (u32(c) == 0x19) read_segment(p, c);
        if (u32(c) == 0x80000028) p->entry = u64(c + 8);
        if (u32(c) == 0x80000034) p->fixups = p->file + u32(c + 8);
        if (u32(c) == 0x80000022) fail("%s has classic fixups; link it for macOS 13 or later", loaded_path);
    }
}

/* ---- laying out ---------------------------------------------------------------------------------------------------- */

static void map_segments(program *p) {
    p->memory = mmap(NULL, p->high - p->low, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p->memory == MAP_FAILED) fail("no memory for %s", loaded_path);
    for (int i = 0; i < p->count; i++)
        memcpy(at(p, p->segments[i].size ? p->segments[i].address : p->low), p->file + p->segments[i].offset,
               p->segments[i].size ? p->segments[i].file_size : 0);
}

static void protect_segments(const program *p) {
    for (int i = 0; i < p->count; i++) {
        const segment *s = &p->segments[i];
        if (s->size && mprotect(at(p, s->address), s->size, (int)(s->protection & 7)) != 0)
            fail("segment %d cannot be protected", i);
    }
    __builtin___clear_cache((char *)p->memory, (char *)p->memory + (p->high - p->low));
}

static void fix_chain(program *p, uint8_t *at_page, uint16_t start, uint16_t format, void **imports, uint32_t count) {
    for (uint8_t *place = at_page + start;;) {
        uint64_t raw = u64(place), next = raw >> 51 & 0xfff, value;
        if (raw >> 63) {
            if ((raw & 0xffffff) >= count) fail("a bind to import %u of %u", (unsigned)(raw & 0xffffff), count);
            value = (uint64_t)imports[raw & 0xffffff] + (raw >> 24 & 0xff);
        } else {
            uint64_t target = raw & 0xfffffffff;
            value = (uint64_t)p->memory + (format == 2 ? target - p->low : target) + ((raw >> 36 & 0xff) << 56);
        }
        memcpy(place, &value, 8);
        if (!next) return;
        place += next * 4;
    }
}

static void apply_fixups(program *p) {
    const uint8_t *f = p->fixups;
    if (!f) return;
    uint32_t count = u32(f + 16);
    if (u32(f + 20) != 1) fail("imports of format %u", u32(f + 20));
    void **imports = calloc(count + 1, sizeof *imports);
    for (uint32_t i = 0; i < count; i++)
        imports[i] = bind_symbol((const char *)f + u32(f + 12) + (u32(f + u32(f + 8) + 4 * i) >> 9));
    const uint8_t *starts = f + u32(f + 4);
    for (uint32_t i = 0; i < u32(starts); i++) {
        if (!u32(starts + 4 + 4 * i)) continue;
        const uint8_t *segment_starts = starts + u32(starts + 4 + 4 * i);
        uint16_t page = u16(segment_starts + 4), format = u16(segment_starts + 6);
        if (format != 2 && format != 6) fail("chained pointers of format %u", format);
        for (uint16_t k = 0; k < u16(segment_starts + 20); k++) {
            uint16_t start = u16(segment_starts + 22 + 2 * k);
            if (start != 0xffff)
                fix_chain(p, p->memory + u64(segment_starts + 8) + (size_t)k * page, start, format, imports, count);
        }
    }
    free(imports);
}

/* ---- thread-local variables ---------------------------------------------------------------------------------------- */

static pthread_key_t tlv_key;
static uint64_t tlv_start, tlv_bytes; /* the template: initialised data, then zeroes */

void *tlv_address(const tlv_descriptor *d) {
    uint8_t *block = pthread_getspecific(tlv_key);
    if (!block) {
        block = aligned_alloc(64, (tlv_bytes + 127) & ~(uint64_t)63);
        memset(block, 0, tlv_bytes);
        for (int i = 0; i < loaded.section_count; i++)
            if (loaded.sections[i].type == 0x11) /* the initialised part */
                memcpy(block + (loaded.sections[i].address - tlv_start), at(&loaded, loaded.sections[i].address),
                       loaded.sections[i].size);
        pthread_setspecific(tlv_key, block);
    }
    return block + d->offset;
}

static void prepare_tlv(program *p) {
    uint64_t from = UINT64_MAX, to = 0;
    for (int i = 0; i < p->section_count; i++) {
        if (p->sections[i].type != 0x11 && p->sections[i].type != 0x12) continue;
        if (p->sections[i].address < from) from = p->sections[i].address;
        if (p->sections[i].address + p->sections[i].size > to) to = p->sections[i].address + p->sections[i].size;
    }
    tlv_start = from;
    tlv_bytes = to > from ? to - from : 0;
    pthread_key_create(&tlv_key, free);
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

static void missing(const char *name) {
    fail("the program calls %s, which has neither a shim nor a namesake", name + 1);
}

/* Makes code that reports the missing name: ldr x0, name; ldr x16, missing; br x16. */
static void *trap(const char *name) {
    static uint32_t *page;
    static size_t used, room = 4096;
    if (!page || used + 32 > room) {
        page = mmap(NULL, room, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        used = 0;
    }
    uint32_t *code = page + used / 4;
    uint64_t words[2] = {(uint64_t)name, (uint64_t)missing};
    code[0] = 0x58000080; /* ldr x0, +16 */
    code[1] = 0x580000b0; /* ldr x16, +20 */
    code[2] = 0xd61f0200; /* br x16 */
    memcpy(code + 4, words, sizeof words);
    used += 32;
    __builtin___clear_cache((char *)code, (char *)(code + 8));
    return code;
}

/* Names with the same meaning in both systems: plain arguments, and no structure or constant that differs. */
static const char *const same[] = {
    "___memcpy_chk",
    "___memmove_chk",
    "___memset_chk",
    "___stack_chk_fail",
    "___strcat_chk",
    "___strcpy_chk",
    "__exit",
    "_abort",
    "_abs",
    "_access",
    "_acos",
    "_alarm",
    "_asin",
    "_atan",
    "_atan2",
    "_atanh",
    "_atexit",
    "_atof",
    "_atoi",
    "_atol",
    "_bsearch",
    "_bzero",
    "_calloc",
    "_cbrt",
    "_chdir",
    "_clearerr",
    "_close",
    "_closedir",
    "_cos",
    "_cosf",
    "_cosh",
    "_dup",
    "_dup2",
    "_erf",
    "_erfc",
    "_erfcf",
    "_erff",
    "_execv",
    "_exit",
    "_exp",
    "_exp2",
    "_exp2f",
    "_expf",
    "_expm1",
    "_expm1f",
    "_fclose",
    "_fdopen",
    "_feof",
    "_ferror",
    "_fflush",
    "_fgets",
    "_fileno",
    "_flock",
    "_fma",
    "_fmaf",
    "_fmax",
    "_fmaxf",
    "_fmin",
    "_fminf",
    "_fmod",
    "_fmodf",
    "_fopen",
    "_fork",
    "_fputc",
    "_fputs",
    "_fread",
    "_free",
    "_freopen",
    "_frexp",
    "_frexpf",
    "_fseek",
    "_fsync",
    "_ftell",
    "_ftruncate",
    "_fwrite",
    "_getc",
    "_getcwd",
    "_getenv",
    "_gethostname",
    "_getpid",
    "_getppid",
    "_getrlimit",
    "_getrusage",
    "_gmtime_r",
    "_hypot",
    "_isatty",
    "_kill",
    "_labs",
    "_ldexp",
    "_ldexpf",
    "_ldexpl",
    "_lgamma",
    "_link",
    "_localeconv",
    "_localtime_r",
    "_log",
    "_log10",
    "_log1p",
    "_log1pf",
    "_log2",
    "_log2f",
    "_logf",
    "_longjmp",
    "_lrint",
    "_lround",
    "_lseek",
    "_malloc",
    "_memchr",
    "_memcmp",
    "_memcpy",
    "_memmem",
    "_memmove",
    "_memset",
    "_memset_s",
    "_mkdir",
    "_mkdtemp",
    "_mkstemp",
    "_munmap",
    "_nan",
    "_nanosleep",
    "_nextafter",
    "_nextafterf",
    "_pclose",
    "_pipe",
    "_poll",
    "_popen",
    "_posix_memalign",
    "_pow",
    "_powf",
    "_pread",
    "_pthread_create",
    "_pthread_detach",
    "_pthread_equal",
    "_pthread_getspecific",
    "_pthread_join",
    "_pthread_key_create",
    "_pthread_self",
    "_pthread_setspecific",
    "_putc",
    "_putchar",
    "_putenv",
    "_puts",
    "_pwrite",
    "_qsort",
    "_rand",
    "_random",
    "_read",
    "_readlink",
    "_realloc",
    "_realpath$DARWIN_EXTSN",
    "_remove",
    "_rename",
    "_rewind",
    "_rmdir",
    "_sched_yield",
    "_setenv",
    "_setjmp",
    "_setrlimit",
    "_sigemptyset$UNIX2003",
    "_shm_open",
    "_shm_unlink",
    "_sin",
    "_sinf",
    "_sinh",
    "_sleep",
    "_srand",
    "_srandom",
    "_stpcpy",
    "_strcasecmp",
    "_strcasestr",
    "_strcat",
    "_strchr",
    "_strcmp",
    "_strcpy",
    "_strcspn",
    "_strdup",
    "_strftime",
    "_strlen",
    "_strncasecmp",
    "_strncat",
    "_strncmp",
    "_strncpy",
    "_strndup",
    "_strnlen",
    "_strpbrk",
    "_strrchr",
    "_strspn",
    "_strstr",
    "_strtod",
    "_strtof",
    "_strtok_r",
    "_strtol",
    "_strtoll",
    "_strtoul",
    "_strtoull",
    "_symlink",
    "_system",
    "_tan",
    "_tanf",
    "_tanh",
    "_tanhf",
    "_time",
    "_truncate",
    "_ungetc",
    "_unlink",
    "_unsetenv",
    "_usleep",
    "_waitpid",
    "_write",
};

/* Returns whether a name belongs to a separate library that is built for Linux. Its functions pass unchanged; those
 * with variable arguments have shims. */
static bool of_library(const char *name) {
    static const char *const prefixes[] = {"_json_",   "_jansson_",    "_pcre2_",  "_utf8proc_", "_tcase_",
                                           "_suite_",  "_srunner_",    "__tcase_", "__ck_",      "__mark_point",
                                           "_check_",  "_protobuf_c_", "_MHD_",    "_png_",      "_jpeg_",
                                           "_inflate", "_deflate",     "_crc32"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

void *bind_symbol(const char *name) {
    void *found = shim_find(name);
    if (found) return found;
    bool known = of_library(name);
    for (size_t i = 0; !known && i < sizeof same / sizeof same[0]; i++) known = strcmp(same[i], name) == 0;
    if (known) {
        char plain[200];
        snprintf(plain, sizeof plain, "%.*s", (int)strcspn(name + 1, "$"), name + 1);
        /* The variant without a signal mask: 180 bytes, while Darwin's jmp_buf has 192 and glibc's 312. */
        if (strcmp(plain, "setjmp") == 0) strcpy(plain, "_setjmp");
        found = dlsym(RTLD_DEFAULT, plain);
    }
    return found ? found : trap(name);
}

/* ---- the run ------------------------------------------------------------------------------------------------------- */

static void run_initialisers(const program *p, int argc, char **argv, char **env) {
    static const char *no_apple[] = {NULL};
    for (int i = 0; i < p->section_count; i++) {
        uint64_t address = p->sections[i].address, size = p->sections[i].size;
        if (p->sections[i].type == 0x09) /* pointers */
            for (uint64_t k = 0; k < size / 8; k++)
                ((void (*)(int, char **, char **, const char **))u64(at(p, address + 8 * k)))(argc, argv, env,
                                                                                              no_apple);
        if (p->sections[i].type == 0x16) /* offsets */
            for (uint64_t k = 0; k < size / 4; k++)
                ((void (*)(int, char **, char **, const char **))(p->memory + u32(at(p, address + 4 * k))))(
                    argc, argv, env, no_apple);
    }
}

int main(int argc, char **argv, char **env) {
    if (argc < 2) fail("usage: machoload PROGRAM [ARGUMENT...]");
    loaded_path = argv[1];
    loaded_environ = env;
    int fd = open(argv[1], O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) fail("cannot open %s", argv[1]);
    loaded.bytes = (size_t)st.st_size;
    loaded.file = mmap(NULL, loaded.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (loaded.file == MAP_FAILED) fail("cannot map %s", argv[1]);
    read_commands(&loaded);
    if (!loaded.entry) fail("%s has no main", argv[1]);
    map_segments(&loaded);
    apply_fixups(&loaded);
    protect_segments(&loaded);
    prepare_tlv(&loaded);
    run_initialisers(&loaded, argc - 1, argv + 1, env);
    int (*entry)(int, char **, char **) = (int (*)(int, char **, char **))(loaded.memory + loaded.entry);
    exit(entry(argc - 1, argv + 1, env));
}
