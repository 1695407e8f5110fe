/* SPDX-License-Identifier: MIT
 *
 * propane.h - train, run and check neural networks on the Apple Neural Engine, and run the very same programs on any
 * other machine.
 *
 * One pipeline: MIL text becomes a module, a device compiles it to a program, buffers are bound to its inputs and
 * outputs by name, and a request is submitted and waited for.
 *
 *     propane_error err;
 *     propane_module *module = NULL;
 *     propane_device *device = NULL;
 *     propane_program *program = NULL;
 *     if (propane_module_read("add.mil", &module, &err) ||
 *         propane_device_open("cpu", &device, &err) ||
 *         propane_program_compile(device, module, NULL, &program, &err))
 *         fprintf(stderr, "%s\n", err.text);
 *
 * examples/run_mil.c goes on from here; it is compiled and run as a test.
 *
 * Errors: every call that can fail returns a propane_status and fills `err` (which may be NULL) with one sentence: what,
 * where, which value, what to do. Nothing in the library prints, exits or aborts on bad input.
 * Ownership: what a _create, _open, _read, _parse or _compile call gives is yours to _free or _close; a _free call takes
 * NULL. What an accessor returns belongs to the object it came from. A child (program, buffer, request) is freed before
 * its device.
 * Threads: a device and what belongs to it may be used from several threads unless a call says otherwise. Sessions,
 * generators, trainers and builders are for one thread at a time; different ones do not know of each other. A propane_error
 * is one thread's.
 * Stable: calls, enumerators and the order of members stay within a major version (0: within a minor one). A structure that
 * begins with `size` may get members at its end, and the library looks at what the caller's size covers; the other
 * structures stay as they are. The words of messages, tables and profiles may change at any time; the keys of JSON may be
 * added to.
 */
#ifndef PROPANE_H
#define PROPANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default) /* the library is compiled with everything else hidden */
#endif

#define PROPANE_VERSION       "0.1.0"
#define PROPANE_VERSION_MAJOR 0
#define PROPANE_VERSION_MINOR 1
#define PROPANE_VERSION_PATCH 0

#if defined(__GNUC__)
#define PROPANE_CHECK __attribute__((warn_unused_result))
#else
#define PROPANE_CHECK
#endif

/* ---- status and error -------------------------------------------------------------------------------------------- */

typedef enum propane_status {
    PROPANE_OK = 0,
    PROPANE_ERR_INVALID,     /* the input is wrong: a flag, a shape, a malformed file */
    PROPANE_ERR_UNSUPPORTED, /* the input is right, but this cannot be done here (op, gradient, driver) */
    PROPANE_ERR_NOT_FOUND,   /* a file, a name or a device does not exist */
    PROPANE_ERR_IO,          /* the system refused to read or write */
    PROPANE_ERR_MEMORY,      /* no memory */
    PROPANE_ERR_LIMIT,       /* a budget or a size limit is used up (compiles, queue depth) */
    PROPANE_ERR_DEVICE,      /* the device failed while it worked */
    PROPANE_ERR_CANCELLED    /* stopped on request */
} propane_status;

/* Lives on the caller's stack; the text is always terminated. */
typedef struct propane_error {
    propane_status status;
    char text[1000];
} propane_error;

const char *propane_version(void); /* of the library that is linked, which may be newer than this header */
int propane_version_number(void);  /* the same: 10000 * major + 100 * minor + patch */
const char *propane_status_name(propane_status status); /* "invalid", "unsupported", ... */

/* Memory that a call gives as a text or an array. Takes NULL. */
void propane_free(void *memory);

/* What a call that prints gives: for people, for programs, for a page. */
typedef enum propane_form { PROPANE_TEXT, PROPANE_JSON, PROPANE_MARKDOWN, PROPANE_SARIF, PROPANE_GITHUB } propane_form;
/* How a text for people looks. NULL stands for plain lines of any length. */
typedef struct propane_look {
    size_t size; /* sizeof(propane_look) */
    bool styled; /* with a terminal's colours */
    int width;   /* columns that lines and tables keep to; 0: any */
} propane_look;

/* ---- the process ------------------------------------------------------------------------------------------------------ */

/* Threads that computations share, one pool a process; 0 sets as many as there are usable cores. PROPANE_ERR_INVALID
 * outside 0..256, and when it works with another number already: set it before anything is computed. */
PROPANE_CHECK propane_status propane_set_threads(int threads, propane_error *err);
int propane_threads(void);

/* Who does the large products of cpu devices that are opened from now on: "off", "auto", "auto:LIBRARY" or LIBRARY, a CBLAS
 * that is loaded at run time (docs/blas.md). NULL: what PROPANE_BLAS says, else "auto" on Apple's systems and "off"
 * elsewhere. What cannot be used is told when a device is opened. */
PROPANE_CHECK propane_status propane_set_blas(const char *how, propane_error *err);

/* Large products run so far in this process, and their arithmetic. They are counted where a library was asked for. */
typedef struct propane_products {
    size_t size; /* sizeof(propane_products), set by the caller */
    const char *
        library; /* what a device that is opened now would use; NULL: the own kernels alone. Lives as long as the process */
    bool measured; /* the library does what it was measured to do faster */
    int64_t own_calls, library_calls;
    double own_flops, library_flops;
} propane_products;
/* Fails as opening a cpu device would. */
PROPANE_CHECK propane_status propane_products_get(propane_products *out, propane_error *err);

/* Things worth knowing that are no error: one sentence, without an end of line. From any thread, also from several at once.
 * NULL: nobody is told, as at first. Set it before anything else is called. */
typedef void (*propane_log)(void *context, const char *sentence);
void propane_set_log(propane_log log, void *context);

/* Whether work that takes long should end, as after Ctrl-C in an interpreter. Asked at most every 50 ms, in the thread that made
 * the call, while a session runs, a generator reads ids or a trainer works. True: that call ends with PROPANE_ERR_CANCELLED,
 * between two steps of a plan on cpu and sim devices; states, what a generator has read, weights and moments are as before the
 * run, the chunk, the training step. It must not call the library. NULL: nobody is asked, as at first. Set it before anything
 * else is called. */
typedef bool (*propane_asked)(void *context);
void propane_set_interrupt(propane_asked asked, void *context);

/* The memory that the library asks for, but for tensors (pages of the system) and what other libraries ask for. `size` is
 * sizeof(propane_allocator). `allocate` need not clear; what `resize` gets is its own or NULL. From any thread. NULL: the
 * system's, as at first. PROPANE_ERR_INVALID when something of the library's is alive. */
typedef struct propane_allocator {
    size_t size;
    void *context;
    void *(*allocate)(void *context, size_t bytes);
    void *(*resize)(void *context, void *memory, size_t bytes);
    void (*release)(void *context, void *memory);
} propane_allocator;
PROPANE_CHECK propane_status propane_set_allocator(const propane_allocator *allocator, propane_error *err);

/* ---- modules: MIL programs ------------------------------------------------------------------------------------------ */

typedef struct propane_module propane_module;

typedef enum propane_dtype {
    PROPANE_FP16,
    PROPANE_FP32,
    PROPANE_INT32,
    PROPANE_BOOL,
    PROPANE_INT8,
    PROPANE_UINT8,
    PROPANE_INT16,
    PROPANE_UINT16,
    PROPANE_BF16,           /* of inputs; engines are not known to take it */
    PROPANE_DTYPE_NONE = -1 /* a type that no buffer holds: a string, int64, ... */
} propane_dtype;

#define PROPANE_MAX_RANK 8

/* The shape to take for an input that a file leaves open. */
typedef struct propane_shape {
    const char *name;
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
} propane_shape;

/* Parses MIL text. `name` stands for the text in messages ("file:line:column: ..."); BLOBFILE paths that start with
 * @model_path are looked up in `model_dir` (NULL: such a path is an error). The module is verified. */
PROPANE_CHECK propane_status propane_module_parse(const char *text, size_t length, const char *name,
                                                  const char *model_dir, propane_module **out, propane_error *err);
/* Reads a .mil file (its own folder is the model_dir), a Core ML package (.mlpackage), a compiled model (.mlmodelc) or a
 * model file (.mlmodel). Dimensions that a file leaves open get its default shape. Those that follow from values of a run stay open:
 * such a module can be printed and run by a session, not compiled. */
PROPANE_CHECK propane_status propane_module_read(const char *path, propane_module **out, propane_error *err);
/* The same with chosen shapes for inputs that the file leaves open. A shape that the file does not allow, or a name that it
 * does not have, is PROPANE_ERR_INVALID. */
PROPANE_CHECK propane_status propane_module_read_shaped(const char *path, const propane_shape *shapes, int count,
                                                        propane_module **out, propane_error *err);
/* "NAME=1,3,224,224" as a shape; its name is yours to propane_free. */
PROPANE_CHECK propane_status propane_shape_parse(const char *given, propane_shape *out, propane_error *err);
/* A module of its own with the same functions and constants; what a package says around them stays behind. Constants that are
 * still in files are read. */
PROPANE_CHECK propane_status propane_module_copy(const propane_module *module, propane_module **out,
                                                 propane_error *err);
void propane_module_free(propane_module *module);

typedef enum propane_dialect {
    PROPANE_MIL_SHORT,    /* program(1.3), literals in arguments */
    PROPANE_MIL_CANONICAL /* program(1.0), as Core ML's own tools write it */
} propane_dialect;

/* The program as text, terminated; propane_free it. Constants that came from a weight file are printed as references. */
PROPANE_CHECK propane_status propane_module_print(const propane_module *module, propane_dialect dialect, char **out,
                                                  size_t *length, propane_error *err);
/* The name tells the form: NAME.mlpackage is a Core ML package with its weights, NAME.mil text (with weights/weight.bin
 * beside it where there are large constants that do not come from a file beside it), anything else a folder with model.mil
 * and weights/weight.bin. Written whole or not at all. Not from two threads for one module. */
PROPANE_CHECK propane_status propane_module_write(propane_module *module, const char *path, propane_dialect dialect,
                                                  propane_error *err);

/* Its functions in their order; NULL where there is none of that index. Everywhere else `function` NULL stands for the
 * default function, "main" or the only one. */
int propane_module_function_count(const propane_module *module);
const char *propane_module_function(const propane_module *module, int index);
const char *propane_module_default_function(const propane_module *module); /* NULL: none of several is it */

typedef enum propane_role { PROPANE_INPUT, PROPANE_OUTPUT, PROPANE_STATE } propane_role;
typedef enum propane_feature_kind {
    PROPANE_ARRAY,
    PROPANE_IMAGE,        /* an array that stands for an image */
    PROPANE_LABEL,        /* a classifier's best class; a session tells it */
    PROPANE_PROBABILITIES /* of its classes by name; a session gives them as an array */
} propane_feature_kind;

/* One input, output or state of a function, as the program declares it. Strings belong to the module. */
typedef struct propane_feature {
    size_t size; /* sizeof(propane_feature), set by the caller */
    const char *name;
    propane_feature_kind kind;
    const char *description; /* NULL: none */
    const char *type;        /* of its elements: "fp16" */
    propane_dtype dtype;     /* PROPANE_DTYPE_NONE: `type` is none of the buffers' types */
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    int64_t least[PROPANE_MAX_RANK], most[PROPANE_MAX_RANK]; /* what the file allows; most < 0: any; both dim: fixed */
    int shape_count;                                         /* enumerated shapes: propane_module_shape; 0: none */
    bool optional;
    const char *colour; /* of an image: "gray", "gray_fp16", "rgb", "bgr"; NULL otherwise */
    bool has_standard;  /* an input that may be left out: it is `standard` then, in a session too */
    double standard;
    /* The output that counts how many leading rows of this one are results, the others being zeros; NULL: all are. */
    const char *rows;
} propane_feature;

/* Negative: there is no such function. */
int propane_module_feature_count(const propane_module *module, const char *function, propane_role role);
PROPANE_CHECK propane_status propane_module_feature(const propane_module *module, const char *function,
                                                    propane_role role, int index, propane_feature *out,
                                                    propane_error *err);
/* One of the enumerated shapes of an input. */
PROPANE_CHECK propane_status propane_module_shape(const propane_module *module, const char *function, const char *input,
                                                  int index, propane_shape *out, propane_error *err);
/* Classes of a classifier; 0: it is none. The label is written as snprintf does; the length it needs is returned. */
int64_t propane_module_label_count(const propane_module *module, const char *function);
size_t propane_module_label(const propane_module *module, const char *function, int64_t index, char *out, size_t room);
/* What the package says about the model: "author", "description", "version", "license", or a key of its own; NULL: nothing. */
const char *propane_module_metadata(const propane_module *module, const char *key);

/* What the operations of a function make, in the program's order: the first with `after` NULL, NULL after the last. What
 * stands in blocks is not among it. The values belong to the module and are gone when it is changed. */
typedef struct propane_value propane_value;
const propane_value *propane_module_next_value(const propane_module *module, const char *function,
                                               const propane_value *after);
const char *propane_value_name(const propane_value *value);
const char *propane_value_op(const propane_value *value); /* the operation that makes it; NULL: an input */

/* Reverse mode. The new module has one function, `name`: the parameters of `function` and d_RESULT for each of its float
 * results (the adjoint that comes in); its results, and d_PARAM for each of the inputs named in `wrt` (NULL: every float
 * input). An operation without a gradient is PROPANE_ERR_UNSUPPORTED and named. `module` stays as it is. */
PROPANE_CHECK propane_status propane_module_gradient(propane_module *module, const char *function, const char *name,
                                                     const char *const *wrt, int wrt_count, propane_module **out,
                                                     propane_error *err);
/* Every fp16 of the function becomes fp32, its inputs, outputs and constants included. Changes the module. */
PROPANE_CHECK propane_status propane_module_widen(propane_module *module, const char *function, propane_error *err);
/* Each state becomes an input NAME and, where it is written, an output NAME_out: what a device can compile. (A session does
 * that by itself.) Changes the module. */
PROPANE_CHECK propane_status propane_module_open_states(propane_module *module, const char *function,
                                                        propane_error *err);

/* The rows of the operation table; `index` from 0, NULL after the last one. Static. */
typedef struct propane_op_info {
    size_t size;              /* sizeof(propane_op_info), set by the caller */
    const char *name, *since; /* the first opset that has it: "ios15" */
    const char *gradient;     /* the rule's name; "none" */
    const char *cpu;          /* how the cpu driver runs it; "none", "reference", "fold" */
    bool evaluated;           /* the reference can compute it */
    bool stateful;            /* on states: passes take it away before a device sees it */
    int parameter_count;
} propane_op_info;
typedef struct propane_op_parameter {
    size_t size; /* sizeof(propane_op_parameter), set by the caller */
    const char *name, *class_name,
        *need;            /* "float", "const ints", ...; "required", "optional", "variadic", "captured" (by blocks) */
    const char *standard; /* the default as text; NULL: none */
} propane_op_parameter;
int propane_op_count(void);
bool propane_op_get(int index, propane_op_info *out);
bool propane_op_get_parameter(int index, int parameter, propane_op_parameter *out);

/* ---- building a module ---------------------------------------------------------------------------------------------- */

/* One function, operation by operation. The first error stays in the builder and all later calls do nothing and give NULL,
 * so that a program is written as straight code and checked once, at propane_builder_finish. One thread. */
typedef struct propane_builder propane_builder;

/* An argument of an operation: one value (a builder's values belong to it), or `count` of them for a list such as concat's. */
typedef struct propane_argument {
    const char *name;
    propane_value *value;
    propane_value *const *values;
    int count; /* of values; 0: `value` alone, and that may be NULL: left out */
} propane_argument;

PROPANE_CHECK propane_status propane_builder_create(const char *function, propane_builder **out, propane_error *err);
void propane_builder_free(propane_builder *builder);
propane_value *propane_build_input(propane_builder *b, const char *name, propane_dtype dtype, int rank,
                                   const int64_t *dim);
/* Dense elements of that type, copied. */
propane_value *propane_build_constant(propane_builder *b, const char *name, propane_dtype dtype, int rank,
                                      const int64_t *dim, const void *data);
propane_value *propane_build_int(propane_builder *b, int32_t value);
propane_value *propane_build_ints(propane_builder *b, const int64_t *values, int count);
propane_value *propane_build_bool(propane_builder *b, bool value);
propane_value *propane_build_text(propane_builder *b, const char *value);
propane_value *propane_build_real(propane_builder *b, propane_dtype dtype, double value);
/* `op` as in the operation table ("matmul"); `name` is the result's, or NULL. The first result; the others are
 * propane_build_result. Operations with blocks (cond, while_loop) are written as text. */
propane_value *propane_build_op(propane_builder *b, const char *op, const char *name, const propane_argument *arguments,
                                int count);
propane_value *propane_build_result(propane_builder *b, propane_value *first, int index);
/* Makes a value an output of the function. */
void propane_build_output(propane_builder *b, propane_value *value);
/* Verifies; tells the first error. The builder is empty afterwards and can only be freed. */
PROPANE_CHECK propane_status propane_builder_finish(propane_builder *builder, propane_module **out, propane_error *err);

/* ---- files: what is in them ------------------------------------------------------------------------------------------- */

/* "program", "weights" (of programs), "compiled" (registers of an engine), "gguf", "tokens", "examples" (instruction data),
 * "folder" (of a model); NULL: its first bytes do not say, or it cannot be read. Static. */
const char *propane_file_kind(const char *path);
typedef struct propane_show_options {
    size_t size;       /* sizeof(propane_show_options) */
    propane_form form; /* PROPANE_TEXT or PROPANE_JSON (docs/coreml.md has its keys) */
    bool words;        /* of compiled programs every register by field */
    bool styled;       /* of examples: with a terminal's styles */
    const char *model,
        *chat; /* of examples: the model that would learn from them; the chat format, NULL: the model's */
} propane_show_options;
/* What is in a file of any kind that Propane knows, as `propane show` prints it; terminated, propane_free it. After an error
 * *out is what was read before it, or NULL. `options` may be NULL. */
PROPANE_CHECK propane_status propane_file_show(const char *path, const propane_show_options *options, char **out,
                                               size_t *length, propane_error *err);

/* A program as registers of an engine (.hwx, .anec). Nothing that the compiler writes has run on a device yet. */
typedef struct propane_object propane_object;
typedef struct propane_object_info {
    size_t size; /* sizeof(propane_object_info), set by the caller */
    int tasks;
    uint64_t constant_bytes, scratch_bytes;
} propane_object_info;
/* `target`: "m1" (NULL). The module is simplified on the way. `report` (may be NULL): a line for each operation;
 * propane_free it. */
PROPANE_CHECK propane_status propane_object_compile(propane_module *module, const char *function, const char *target,
                                                    char **report, propane_object **out, propane_error *err);
PROPANE_CHECK propane_status propane_object_open(const char *path, propane_object **out, propane_error *err);
void propane_object_free(propane_object *object);
bool propane_object_describe(const propane_object *object, propane_object_info *out);
/* The name tells the form: NAME.anec (Linux) or NAME.hwx. */
PROPANE_CHECK propane_status propane_object_write(const propane_object *object, const char *path, propane_error *err);
/* Names the fields that differ (propane_free the text) and counts the words that do. */
PROPANE_CHECK propane_status propane_object_compare(const propane_object *a, const propane_object *b, int *differences,
                                                    char **out, propane_error *err);

/* ---- checking: which known rules of the Neural Engines a program violates ------------------------------------------ */

/* By weight: PROPANE_NOTE, PROPANE_WARNING, PROPANE_FALLBACK (Core ML runs it, but not on the engine), PROPANE_REFUSED. */
typedef enum propane_severity { PROPANE_NOTE, PROPANE_WARNING, PROPANE_REFUSED, PROPANE_FALLBACK } propane_severity;
typedef struct propane_check_options {
    size_t size;        /* sizeof(propane_check_options) */
    const char *target; /* "m1,m4-max", "all" (NULL), "all-a" (phones) */
    const char *os;     /* macOS version, "26.3"; NULL: not known, rules about versions warn only */
    int per_rule;       /* findings kept for each rule; 0: 20 */
    const char
        *path; /* how the program reaches the engine: "direct", "coreml"; NULL: "coreml" for Core ML's files and modules
                           read from them, else "direct" */
} propane_check_options;

typedef struct propane_finding {
    size_t size;      /* sizeof(propane_finding), set by the caller; strings belong to the report */
    const char *rule; /* "C13" */
    propane_severity severity;
    const char *file;
    int line, column;                 /* 0: not from text */
    const char *function, *op, *name; /* NULL where it is about something larger; name: of the op's first result */
    const char *message, *sentence;   /* what is wrong here; what the rule says */
    const char *evidence, *source;    /* "measured", ...; by whom */
    const char *fix;
} propane_finding;

typedef struct propane_verdict { /* on one chip */
    size_t size;                 /* sizeof(propane_verdict), set by the caller */
    const char *chip;
    int refusals, warnings, notes;
    int fallbacks;           /* findings of operations that leave the engine */
    int segments, switches;  /* of the program between the engine and the CPU; 0 unless the path is "coreml" */
    double switch_ms;        /* what the switches cost: estimated, not measured */
    const char *switches_at; /* the first of them, "topk 'v', conv 'y'"; belongs to the report */
} propane_verdict;

typedef struct propane_report propane_report;

/* A program in any form, a folder with model.mil or a weight file, told by its content. That no known rule refuses it does
 * not mean that it runs. `options` may be NULL. An error is about the checker's own work (a file that cannot be read). */
PROPANE_CHECK propane_status propane_check_file(const char *path, const propane_check_options *options,
                                                propane_report **out, propane_error *err);
/* Whether the options have a meaning; a message begins with the member's name. */
PROPANE_CHECK propane_status propane_check_options_test(const propane_check_options *options, propane_error *err);
PROPANE_CHECK propane_status propane_check_module(const propane_module *module, const propane_check_options *options,
                                                  propane_report **out, propane_error *err);
void propane_report_free(propane_report *report);
int propane_report_count(const propane_report *report);
bool propane_report_get(const propane_report *report, int index, propane_finding *out); /* false: no such row */
int propane_report_chips(const propane_report *report);
bool propane_report_verdict(const propane_report *report, int index, propane_verdict *out);
/* The worst on any chip: PROPANE_NOTE also where nothing was found. */
propane_severity propane_report_worst(const propane_report *report);
const char *propane_report_path(const propane_report *report); /* "direct", "coreml" */
/* PROPANE_TEXT, PROPANE_JSON, PROPANE_SARIF (a log of SARIF 2.1.0) or PROPANE_GITHUB (workflow commands, which become
 * annotations), as `propane check` prints it; terminated, propane_free it. */
PROPANE_CHECK propane_status propane_report_print(const propane_report *report, propane_form form, char **out,
                                                  propane_error *err);
/* PROPANE_TEXT for a terminal. */
PROPANE_CHECK propane_status propane_report_print_look(const propane_report *report, const propane_look *look,
                                                       char **out, propane_error *err);
/* All rules; propane_free it. */
PROPANE_CHECK propane_status propane_rules_print(propane_form form, char **out, propane_error *err);

/* ---- estimating: time and energy on a Neural Engine ----------------------------------------------------------------- */

typedef struct propane_estimate_options {
    size_t size;        /* sizeof(propane_estimate_options) */
    const char *target; /* as above; NULL: "m4" */
    const char *path;   /* how the engine is called: "direct" (NULL), "e5rt", "coreml", "linux" */
} propane_estimate_options;

/* Of one function on one chip. Estimated by a model that is fitted to published measurements; nothing is measured. */
typedef struct propane_estimate_row {
    size_t size; /* sizeof(propane_estimate_row), set by the caller; strings belong to the estimate */
    const char *chip, *function;
    double ms, low_ms, high_ms; /* nine of ten published points lie within such a band */
    double fixed_ms, io_ms;     /* of that: the call; inputs and outputs */
    double flops, bytes, weight_bytes, utilisation, energy_mj, compile_ms;
    int op_count;
} propane_estimate_row;

typedef struct propane_estimate_op {
    size_t size;           /* sizeof(propane_estimate_op), set by the caller */
    const char *op, *name; /* name: of its first result; NULL: none */
    const char *bound;     /* "arithmetic", "weights", "memory", "overhead", ... */
    double ms, flops, bytes, energy_mj;
} propane_estimate_op;

typedef struct propane_estimate propane_estimate;

/* One row a chip and function, chips first. The module must outlive the estimate. `options` may be NULL. */
PROPANE_CHECK propane_status propane_estimate_module(const propane_module *module,
                                                     const propane_estimate_options *options, propane_estimate **out,
                                                     propane_error *err);
void propane_estimate_free(propane_estimate *estimate);
int propane_estimate_count(const propane_estimate *estimate);
bool propane_estimate_get(const propane_estimate *estimate, int index, propane_estimate_row *out);
bool propane_estimate_get_op(const propane_estimate *estimate, int index, int op, propane_estimate_op *out);
/* PROPANE_JSON, or PROPANE_TEXT with a row for each operation if `ops`; terminated, propane_free it. */
PROPANE_CHECK propane_status propane_estimate_print(const propane_estimate *estimate, propane_form form, bool ops,
                                                    char **out, propane_error *err);

/* ---- pages: a program's graph for a browser --------------------------------------------------------------------------- */

/* What was measured of the value of that name in the function that is shown. */
typedef struct propane_page_value {
    size_t size; /* sizeof(propane_page_value) of the first; all have the same */
    const char *name;
    double us;                   /* the operation that makes it takes so long; negative: not measured */
    bool compared, broken;       /* the next three hold; not a number on one side only */
    double largest, mean, scale; /* largest and mean difference; the largest value */
} propane_page_value;
typedef struct propane_page_options {
    size_t size;                    /* sizeof(propane_page_options) */
    const char *title;              /* NULL: the module's file */
    const char *lead;               /* a sentence under it; NULL: none */
    const char *function;           /* shown first; NULL: the default function or the first */
    const char *target, *os, *path; /* as in propane_check_options; target NULL: "m1,m4" */
    const char *colour;             /* "kind" (NULL), "verdict", "cost", "time", "error" */
    const propane_page_value *values;
    int value_count;
    double tolerance; /* a larger relative difference is marked */
} propane_page_options;
/* One HTML page that loads nothing from elsewhere: the graph of each function, with shapes, types, work, estimates, what
 * `propane check` says of each operation, and what `values` hold. Names out of the file are data in it, never markup.
 * Terminated, propane_free it. `options` may be NULL. */
PROPANE_CHECK propane_status propane_module_page(const propane_module *module, const propane_page_options *options,
                                                 char **out, size_t *length, propane_error *err);

/* ---- training steps on a Neural Engine: how they are cut, and what they would cost -------------------------------------- */

/* The chips that a list names ("m1,m4-max", "all", "all-a"), at most `room` of them into `names`; static. */
#define PROPANE_MAX_CHIPS 64
PROPANE_CHECK propane_status propane_chips(const char *target, const char **names, int room, int *count,
                                           propane_error *err);
/* "inputs|packed|...": how a step's programs may get their weights. Static. */
const char *propane_weight_modes(void);

/* The kernels of a training step as they are cut out of the differentiated forward functions: where each runs and what passes
 * between them. */
typedef struct propane_plan propane_plan;
typedef struct propane_plan_options {
    size_t size;           /* sizeof(propane_plan_options) */
    const char *plan;      /* NULL: "layer"; "six", "ten" */
    const char *precision; /* of the device's programs: NULL: "fp32"; "fp16" */
    int64_t batch;         /* sequences at a time; 0: 1 */
    int64_t context;       /* positions of a sequence; 0: 256 */
    const char *head;      /* the vocabulary's product: NULL: "auto", as the plan has it; "host", "device" */
} propane_plan_options;
/* Does the path name a model, in any form, its config.json or a model that is known by name ("stories110m")? */
bool propane_plan_takes(const char *model);
/* `model` NULL: the standard small one. `options` may be NULL. A message about an option begins with the member's name. */
PROPANE_CHECK propane_status propane_plan_create(const char *model, const propane_plan_options *options,
                                                 propane_plan **out, propane_error *err);
void propane_plan_free(propane_plan *plan);
/* For people: a line for each kernel, with place, inputs, outputs, bytes and floating-point operations. */
PROPANE_CHECK propane_status propane_plan_print(const propane_plan *plan, char **out, size_t *length,
                                                propane_error *err);
/* Whether no known rule of the chip refuses its device kernels, with weights in that mode (NULL: "inputs"); `why` tells. */
propane_status propane_plan_supported(const propane_plan *plan, const char *chip, const char *weights,
                                      propane_error *why);
/* The kernels as functions; the plan's. */
propane_module *propane_plan_module(propane_plan *plan);

typedef struct propane_training_estimate_options {
    size_t size;            /* sizeof(propane_training_estimate_options) */
    const char *target;     /* as above; NULL: "m4" */
    const char *plan;       /* NULL: "six" */
    const char *weights;    /* NULL: "inputs" */
    int64_t batch, context; /* 0: 1 and 256 */
    int64_t accumulate;     /* batches to an update; 0: 1 */
    bool compare;           /* plans, weights and batches side by side, the fastest first */
    bool ops;               /* a row for each kernel, too (PROPANE_TEXT) */
    /* Workers that share a training over a network, a row for each way to do so: data-parallel, outer steps, these streamed,
     * adapters averaged by a server. 0: one machine, and what follows says nothing. */
    int64_t workers;
    double bandwidth;        /* bits a second that a worker sends, and gets at the same time; 0: 1e9 */
    double latency_ms;       /* until a message is there, one way */
    const char *wire;        /* NULL: "fp32"; "bf16", "fp16", "int4" */
    int64_t outer;           /* steps between two outer ones, or rounds; 0: 500 */
    int64_t outer_fragments; /* of a streamed outer step; 0: 4 */
    int64_t lora_rank;       /* of the adapters; 0: 8 */
    const char *head;        /* as in propane_plan_options */
    const char *moments;     /* of AdamW: NULL: "fp32"; "bf16", "int8" */
    const char *clipping;    /* by which norm: NULL: "exact"; "lagged" (train --clip-norm) */
    bool search;  /* all plans, heads, weight modes and forms of moments that are not given (NULL), and every way to
                             * divide batch x accumulate sequences: the fastest with its parts, the runners-up */
    bool sources; /* where each assumption comes from (PROPANE_TEXT) */
    /* A report of `propane devices --probe`, whose figures of the host replace the assumed ones; NULL: none. Not with workers. */
    const char *rates;
    int64_t outer_warmup; /* data-parallel steps before the outer ones; 0: none */
    const char
        *overlap; /* of updates: NULL: "on"; "early" (train --overlap), not with workers: all guesses are right */
} propane_training_estimate_options;
/* What training steps of a model (propane_plan_takes) would cost; estimated, nothing is measured. PROPANE_TEXT or
 * PROPANE_JSON; terminated, propane_free it. `options` may be NULL. */
PROPANE_CHECK propane_status propane_estimate_training(const char *model,
                                                       const propane_training_estimate_options *options,
                                                       propane_form form, char **out, propane_error *err);

/* ---- devices --------------------------------------------------------------------------------------------------------- */

typedef struct propane_device propane_device;
typedef struct propane_program propane_program;
typedef struct propane_buffer propane_buffer;
typedef struct propane_event propane_event;
typedef struct propane_request propane_request;

typedef struct propane_device_info {
    size_t size;          /* of what the library filled */
    const char *uri;      /* "cpu", "null", "sim:m4", "ane" */
    const char *summary;  /* one line for people */
    int queue_depth;      /* requests that may be in flight */
    int compile_limit;    /* programs one process may compile; 0: no limit */
    bool simulated;       /* its figures are a model's, not a clock's */
    bool shares_compiles; /* programs that are compiled at once may count as one compile */
    const char *note;     /* what was chosen when it was opened, and why; NULL: nothing was */
    bool unproven;        /* nobody has seen its results agree: check before relying on them */
    bool patches;         /* propane_program_patch works on its programs */
} propane_device_info;

/* Drivers that this build knows, in the order they are listed; `why` tells why one cannot be opened here, or is NULL. */
int propane_driver_count(void);
const char *propane_driver_name(int index);
const char *propane_driver_summary(int index);
propane_status propane_driver_probe(int index, propane_error *why);

/* Does a device's uri name that driver? "ane?statistics=on" names "ane". */
bool propane_uri_names(const char *uri, const char *driver);
/* Opens "cpu", "null", ... Unknown names are PROPANE_ERR_NOT_FOUND and name the known ones. */
PROPANE_CHECK propane_status propane_device_open(const char *uri, propane_device **out, propane_error *err);
/* Returns when what was submitted has run; a request that would have to wait for an event ends as PROPANE_ERR_CANCELLED,
 * so it may also be called before requests are freed that would never run. */
void propane_device_close(propane_device *device);
const propane_device_info *propane_device_describe(const propane_device *device);

/* ---- programs -------------------------------------------------------------------------------------------------------- */

typedef enum propane_precision {
    PROPANE_PRECISION_AS_TYPED, /* as the program's types say: fp16 values are rounded to fp16 */
    PROPANE_PRECISION_BF16      /* matrix products may round their fp32 operands to bfloat16; sums stay fp32 */
} propane_precision;

typedef struct propane_compile_options {
    size_t size;          /* sizeof(propane_compile_options) */
    const char *function; /* NULL: "main", or the only function */
    propane_precision precision;
    int threads; /* the most that compute at once; 0: the device's own choice */
    /* A program of the same device and the same text with other constants: its compiled form is used again with the new
     * ones, which is not a compile. NULL: compile. PROPANE_ERR_UNSUPPORTED where a device cannot do that. */
    const propane_program *donor;
    bool reloadable; /* it may become a donor, or has one, or will be patched: constants are laid out for that */
} propane_compile_options;

/* One input or output. Strides are in bytes: element (i0, i1, ...) lies at sum(i_k * stride[k]). Rows may be padded. */
typedef struct propane_io {
    const char *name;
    propane_dtype dtype;
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    int64_t stride[PROPANE_MAX_RANK];
    size_t bytes; /* the smallest buffer that may be bound to it */
} propane_io;

/* Says whether the device takes the program; `why` explains a no (op, line, reason). */
propane_status propane_program_supported(propane_device *device, const propane_module *module,
                                         const propane_compile_options *options, propane_error *why);
/* `options` may be NULL. The module may be freed afterwards: its constants are the program's own by then. */
PROPANE_CHECK propane_status propane_program_compile(propane_device *device, const propane_module *module,
                                                     const propane_compile_options *options, propane_program **out,
                                                     propane_error *err);

/* One of several programs that are compiled at once; `program` is filled. */
typedef struct propane_compile_item {
    const propane_module *module;
    const char *function; /* as in the options */
    propane_program *program;
} propane_compile_item;

typedef struct propane_compile_report {
    size_t size;    /* sizeof(propane_compile_report), set by the caller */
    int compiles;   /* that count against the device's limit */
    int procedures; /* how many of the programs share a compiled program with others */
    int failed;     /* the item that could not be compiled; negative: not known which */
    char how[300];  /* in words, with the reason where programs do not share */
} propane_compile_report;

/* As many calls of propane_program_compile, but a device that can do so makes the programs procedures of one compiled
 * program. The options' function, donor and reloadable are not looked at. All or none; `report` may be NULL. */
PROPANE_CHECK propane_status propane_program_compile_all(propane_device *device, propane_compile_item *items, int count,
                                                         const propane_compile_options *options,
                                                         propane_compile_report *report, propane_error *err);
/* Overwrites a constant of a compiled program in place, packed as the device wants it: `count` values of fp16 or fp32, dense,
 * in the constant's order; the device reads fp16. The program was compiled with options.reloadable, and none of its requests is in
 * flight. Any thread. PROPANE_ERR_UNSUPPORTED: the device has no such thing (propane_device_info.patches), or the constant has no
 * place of its own; PROPANE_ERR_INVALID: another number of values. After a failure the program is as before. */
PROPANE_CHECK propane_status propane_program_patch(propane_program *program, const char *constant, propane_dtype dtype,
                                                   const void *values, int64_t count, propane_error *err);
void propane_program_free(propane_program *program);
int propane_program_input_count(const propane_program *program);
int propane_program_output_count(const propane_program *program);
const propane_io *propane_program_input(const propane_program *program, int index);
const propane_io *propane_program_output(const propane_program *program, int index);
/* NULL if there is no input or output of that name. */
const propane_io *propane_program_find(const propane_program *program, const char *name);
/* Its elements: the product of its dimensions. */
int64_t propane_io_count(const propane_io *io);

/* Where the time of a program goes: a row for each step that the device runs, in their order. */
typedef struct propane_profile_row {
    size_t size;         /* sizeof(propane_profile_row), set by the caller; strings belong to the program */
    const char *kind;    /* the kernel: "gemm", "tile", "copy", ... */
    const char *name;    /* of the value that the step makes */
    const char *stage;   /* NULL: none */
    double flops, bytes; /* of one run; bytes: operands and results once */
    int64_t runs, ns;    /* since it was switched on, all together */
    int64_t engine_ns;   /* likewise by the engine's own clock; negative: not given */
    int64_t repeats;     /* runs that the device cancelled and got again (propane_completion) */
} propane_profile_row;

/* Switches the record on, with all counts at 0, or off, as it is at first. PROPANE_ERR_UNSUPPORTED: the device keeps none.
 * Not while a request of the program is in flight. */
PROPANE_CHECK propane_status propane_program_profile(propane_program *program, bool on, propane_error *err);
int propane_program_profile_count(const propane_program *program);
bool propane_program_profile_get(const propane_program *program, int index, propane_profile_row *out);
/* What the device made one step of when it compiled: the rule's name and how often it was applied; NULL after the last.
 * Static. */
const char *propane_program_fusion(const propane_program *program, int index, int *count);

/* ---- buffers: memory that the host and the device share ---------------------------------------------------------- */

/* Zeroed. May be bound to several programs at once, without a copy. */
PROPANE_CHECK propane_status propane_buffer_create(propane_device *device, size_t bytes, propane_buffer **out,
                                                   propane_error *err);
/* A buffer over the caller's memory, which must be aligned to 16 bytes and outlive it. Only on devices that are the host
 * itself (cpu); elsewhere PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status propane_buffer_wrap(propane_device *device, void *memory, size_t bytes,
                                                 propane_buffer **out, propane_error *err);
void propane_buffer_free(propane_buffer *buffer);
size_t propane_buffer_bytes(const propane_buffer *buffer);
/* The host may touch the memory between lock and unlock only, and the device must not be using it then. */
PROPANE_CHECK propane_status propane_buffer_lock(propane_buffer *buffer, bool for_writing, void **out,
                                                 propane_error *err);
void propane_buffer_unlock(propane_buffer *buffer);

/* The system's own object behind a buffer, for other libraries of that system: a Metal program can use an IOSurface without
 * a copy. It lives as long as the buffer. False: there is none. */
typedef struct propane_native {
    size_t size;     /* sizeof(propane_native), set by the caller */
    void *iosurface; /* an IOSurfaceRef; NULL: none */
    int fd;          /* a file descriptor of the memory; -1: none */
    /* Of the device: an id<MTLSharedEvent> that orders its runs with a GPU (docs/apple.md: events=); NULL: none. It lives as
     * long as the device. */
    void *shared_event;
} propane_native;
bool propane_buffer_native(const propane_buffer *buffer, propane_native *out);

/* Copies a dense array in or out of a buffer that is laid out as `io` says, converting between `dtype` and io->dtype
 * (round to nearest even; float to integer conversions are refused). `count` must be the product of io->dim. */
PROPANE_CHECK propane_status propane_buffer_write(propane_buffer *buffer, const propane_io *io, propane_dtype dtype,
                                                  const void *source, int64_t count, propane_error *err);
PROPANE_CHECK propane_status propane_buffer_read(propane_buffer *buffer, const propane_io *io, propane_dtype dtype,
                                                 void *target, int64_t count, propane_error *err);

/* ---- events: counters that only grow ------------------------------------------------------------------------------- */

PROPANE_CHECK propane_status propane_event_create(propane_device *device, propane_event **out, propane_error *err);
void propane_event_free(propane_event *event);
uint64_t propane_event_value(const propane_event *event);
/* From the host. A value that is not larger than the present one changes nothing. */
void propane_event_signal(propane_event *event, uint64_t value);
/* timeout_ms < 0: for ever; PROPANE_ERR_LIMIT when the time is over. */
PROPANE_CHECK propane_status propane_event_wait(propane_event *event, uint64_t value, int timeout_ms,
                                                propane_error *err);

/* ---- requests ---------------------------------------------------------------------------------------------------------- */

typedef struct propane_binding {
    const char *name;
    propane_buffer *buffer;
} propane_binding;

typedef struct propane_event_point {
    propane_event *event;
    uint64_t value;
} propane_event_point;

typedef struct propane_completion {
    size_t size; /* sizeof(propane_completion), set by the caller */
    propane_status status;
    int64_t device_ns; /* time on the device, by the host's clock around the call */
    int64_t engine_ns; /* by the engine's own clock; negative: it was not asked for or is not given */
    double energy_j;   /* negative: not known */
    bool simulated;    /* device_ns and energy_j come from a model */
    int repeats;       /* the device cancelled it so often before it began, and it was given to it again */
} propane_completion;

/* Checks the bindings once (every input and output exactly once, sizes); may then be submitted any number of times, but
 * not while it is in flight. An output may be bound to an input's buffer only where the program says that it reads that
 * input before it writes that output (the cpu driver allows it for same-shaped accumulation inputs). */
PROPANE_CHECK propane_status propane_request_create(propane_program *program, const propane_binding *bindings,
                                                    int count, propane_request **out, propane_error *err);
void propane_request_free(propane_request *request); /* waits if it is in flight */
/* Replaces what the request waits for before it starts and what it signals when it is done (also when it failed). Does not
 * allocate where the events stay the same and only their values are new. */
PROPANE_CHECK propane_status propane_request_events(propane_request *request, const propane_event_point *waits,
                                                    int wait_count, const propane_event_point *signals,
                                                    int signal_count, propane_error *err);
/* Queues a chain in one call; it runs in the given order, and in order with what was queued before. All or nothing:
 * PROPANE_ERR_LIMIT if fewer than `count` places of the queue are free. Does not allocate. */
PROPANE_CHECK propane_status propane_submit(propane_request *const *requests, int count, propane_error *err);
/* Waits for one request; `out` may be NULL. The status returned is the request's own. */
PROPANE_CHECK propane_status propane_wait(propane_request *request, propane_completion *out, propane_error *err);

/* ---- sessions: running a model ---------------------------------------------------------------------------------------- */

/* One function of a model on one device, with its buffers: arrays and images in by name, arrays and labels out. States
 * keep what they hold from one run to the next. Another function of the model is another session. */
typedef struct propane_session propane_session;

typedef struct propane_session_options {
    size_t size;           /* sizeof(propane_session_options) */
    const char *function;  /* NULL: the default one */
    const char *device;    /* NULL: "cpu" */
    const char *precision; /* NULL, "typed", "fp16": as the program says; "fp32": every fp16 becomes fp32; "bf16" */
    int threads;           /* 0: the device's own choice */
    bool keep;             /* every value that the program computes becomes an output */
    bool resize;           /* images of another size are scaled */
    const propane_shape *shapes; /* of inputs that the file leaves open */
    int shape_count;
    /* Another session, whose states of the same name and type are this one's, too, as functions of one model share them: each
     * run goes on from the last one's, whichever it was. Its device is used. It outlives this one. NULL: none. */
    const propane_session *shares;
    /* "NAME=FILE" or "FILE.npz", set as propane_session_set_file does it. An input that the model's file leaves open, and that
     * `shapes` does not name, takes its shape from the array (of an image, its height and width, unless `resize`). */
    const char *const *files;
    int file_count;
    /* Where the device refuses the program: parts of it are compiled until the operation is known, which the error names with
     * the rule that covers it. The smallest program that is refused becomes this folder (FOLDER-2, ... where there is one). A
     * device that waits after a refusal takes minutes. NULL: the error is the device's own. */
    const char *bisect;
} propane_session_options;

/* `options` may be NULL. A model in any form that propane_module_read takes. */
PROPANE_CHECK propane_status propane_session_open(const char *path, const propane_session_options *options,
                                                  propane_session **out, propane_error *err);
/* The module becomes the session's, also after a failure: do not free it. Its shapes are chosen already; files must fit them. */
PROPANE_CHECK propane_status propane_session_open_module(propane_module *module, const propane_session_options *options,
                                                         propane_session **out, propane_error *err);
void propane_session_close(propane_session *session);
/* Inputs and outputs without states, in the program's order. NULL: there is none of that index. */
int propane_session_input_count(const propane_session *session);
int propane_session_output_count(const propane_session *session);
int propane_session_state_count(const propane_session *session);
const propane_io *propane_session_input(const propane_session *session, int index);
const propane_io *propane_session_output(const propane_session *session, int index);
const propane_io *propane_session_state(const propane_session *session, int index);

/* A dense array into an input or a state, as propane_buffer_write does; it stays for later runs. */
PROPANE_CHECK propane_status propane_session_set(propane_session *session, const char *name, propane_dtype dtype,
                                                 const void *values, int64_t count, propane_error *err);
/* An input or output lies in the caller's memory of `bytes` bytes, laid out as its propane_io says, from now on: nothing is
 * copied. The memory is propane_buffer_wrap's and must stay until another is lent; NULL: the session has its own again, with
 * nothing in it. PROPANE_ERR_UNSUPPORTED: for a state, and where propane_buffer_wrap is. */
PROPANE_CHECK propane_status propane_session_lend(propane_session *session, const char *name, void *memory,
                                                  size_t bytes, propane_error *err);
/* An input holds nothing again: a run asks for it, or takes the value that the model's file has for it when it is left out. NULL:
 * every input. States are propane_session_reset's. */
PROPANE_CHECK propane_status propane_session_clear(propane_session *session, const char *name, propane_error *err);
/* An image, rows of RGB bytes, into an input [1, 1 or 3, height, width], in the order of colours that the model wants. */
PROPANE_CHECK propane_status propane_session_set_image(propane_session *session, const char *name, const uint8_t *rgb,
                                                       int64_t height, int64_t width, propane_error *err);
/* "NAME=FILE" (.npy, .png, .jpg) or "FILE.npz", as propane run's --input. An array with one more dimension in front holds a
 * value for each of several runs; the first is set, and the session keeps the array for propane_session_step. */
PROPANE_CHECK propane_status propane_session_set_file(propane_session *session, const char *given, propane_error *err);
/* How many runs such arrays are for; 0: there are none. */
int64_t propane_session_steps(const propane_session *session);
/* Sets the inputs that have such an array to its value for run `step`, from 0. */
PROPANE_CHECK propane_status propane_session_step(propane_session *session, int64_t step, propane_error *err);
/* Remembers what that run gave: propane_session_write puts the values of all steps into one array, in front. */
PROPANE_CHECK propane_status propane_session_keep(propane_session *session, int64_t step, propane_error *err);
/* PROPANE_ERR_INVALID names the inputs that nothing was set for, with `advice` (NULL: "set them first") behind. */
PROPANE_CHECK propane_status propane_session_ready(propane_session *session, const char *advice, propane_error *err);
/* Random numbers, the same for the same seed, into every input that was not set. */
PROPANE_CHECK propane_status propane_session_randomize(propane_session *session, uint64_t seed, propane_error *err);
/* Every input must have been set. `out` may be NULL. Where shapes follow from the inputs' values (the end of a slice, the count of
 * a range), the program is planned here, and again when those values change; such a session has outputs after its first run, and
 * what propane_session_output gave is valid until the next. */
PROPANE_CHECK propane_status propane_session_run(propane_session *session, propane_completion *out, propane_error *err);
/* The same, and what of the outputs and states that it gives is NaN or infinite. In a session that keeps every value, the
 * operation is named where such numbers begin; only those that reach an output count, so a mask's infinity that a softmax
 * takes away is none. */
typedef struct propane_nonfinite {
    size_t size; /* sizeof(propane_nonfinite), set by the caller */
    int64_t numbers, nan, infinite;
    bool
        made; /* by an operation, or held by a constant; false: they come from the inputs alone, or were not looked for */
    const char *from; /* "operation", "constant" or "input": what the first of them come from; NULL: not known */
    const char *name,
        *op; /* its name; the operation's kind, NULL for constants and inputs. The session's, till its next run */
    char text[500]; /* a sentence; "" where all is finite */
} propane_nonfinite;
PROPANE_CHECK propane_status propane_session_run_counted(propane_session *session, propane_nonfinite *out,
                                                         propane_error *err);
/* Whether an output is one only because the session keeps every value. */
bool propane_session_keeps(const propane_session *session, const char *output);
/* An output or a state as a dense array; count is the product of its dimensions. */
PROPANE_CHECK propane_status propane_session_get(propane_session *session, const char *name, propane_dtype dtype,
                                                 void *values, int64_t count, propane_error *err);
/* `batch` runs one after the other: inputs hold `batch` values of an input each, one after the other; so will outputs.
 * States go on from run to run. What was in `inputs` holds nothing after it; what was set before stays. */
typedef struct propane_array {
    const char *name;
    propane_dtype dtype;
    void *values;
} propane_array;
PROPANE_CHECK propane_status propane_session_run_batch(propane_session *session, const propane_array *inputs,
                                                       int input_count, const propane_array *outputs, int output_count,
                                                       int64_t batch, propane_error *err);
/* States hold zeros again. */
PROPANE_CHECK propane_status propane_session_reset(propane_session *session, propane_error *err);
/* Of a classifier's last run: the class at `rank` (0: the likeliest) and its probability (may be NULL); the label as
 * snprintf writes it. PROPANE_ERR_UNSUPPORTED: it is no classifier. */
PROPANE_CHECK propane_status propane_session_label(propane_session *session, int rank, char *label, size_t room,
                                                   double *probability, propane_error *err);
/* What the label is called; NULL: it is no classifier. */
const char *propane_session_label_name(const propane_session *session);
/* The output that holds a classifier's probabilities in the order of its labels; NULL: it is none. */
const char *propane_session_probabilities(const propane_session *session);
/* Each output as DIR/NAME.npy in its own element type; states under their own names. */
PROPANE_CHECK propane_status propane_session_write(propane_session *session, const char *dir, propane_error *err);
/* What it runs, for its profile and its device; the session's own. */
propane_program *propane_session_program(propane_session *session);
propane_device *propane_session_device(propane_session *session);
const propane_module *propane_session_module(const propane_session *session);

/* ---- language models ---------------------------------------------------------------------------------------------------- */

typedef struct propane_model propane_model;
typedef struct propane_tokenizer propane_tokenizer; /* does not change: threads may share it */
typedef struct propane_generator propane_generator;

/* "folder" (Hugging Face's, or a run's), "safetensors", "gguf", "llama2c"; NULL: no language model is there. Static. */
const char *propane_model_form(const char *path);
/* The weights in fp32, with those of a LoRA adapter's folder (NULL: none) added. */
PROPANE_CHECK propane_status propane_model_open(const char *path, const char *adapter, propane_model **out,
                                                propane_error *err);
void propane_model_free(propane_model *model);
typedef struct propane_model_info {
    size_t size;              /* sizeof(propane_model_info), set by the caller */
    const char *architecture; /* the model's */
    int64_t layers, width, hidden, heads, kv_heads, vocabulary, context, parameters;
} propane_model_info;
bool propane_model_describe(const propane_model *model, propane_model_info *out);
/* The name tells the form: NAME.safetensors, NAME.gguf, NAME.bin (llama2.c), anything else a folder. `dtype`: "f32" (NULL),
 * "f16", "bf16", for GGUF "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "q6_k", "q4_k". The tokenizer, which must fit the model
 * (NULL: the model's own, where there is one), goes into folders and GGUF files; one that the form cannot say is left out and
 * the log told. Written whole or not at all. */
PROPANE_CHECK propane_status propane_model_save(const propane_model *model, const propane_tokenizer *tokenizer,
                                                const char *path, const char *dtype, propane_error *err);
/* All words that `dtype` may be, with `between` between them, in `out`; 200 bytes are enough. */
const char *propane_model_types(const char *between, char *out, size_t room);

typedef struct propane_export_options {
    size_t size;     /* sizeof(propane_export_options) */
    bool wide;       /* fp32 instead of fp16 */
    int64_t context; /* positions of its cache; 0: the model's own, at most 2048 */
    const int64_t
        *lengths; /* tokens that one call may take, at most 8 of them, the first the default; NULL: 1 and 64 */
    int length_count;
    int64_t stateless; /* tokens of every call of a program without a cache; 0: with one */
} propane_export_options;
/* The model as one program with a cache in states, for Core ML or a session. `options` may be NULL. */
PROPANE_CHECK propane_status propane_model_export(propane_model *model, const propane_export_options *options,
                                                  propane_module **out, propane_error *err);

/* A vocabulary's file (Propane's, tokenizer.json, tokenizer.model, llama2.c's, a GGUF file), or the folder of a model with one. */
PROPANE_CHECK propane_status propane_tokenizer_open(const char *path, propane_tokenizer **out, propane_error *err);
/* The model's own vocabulary, from its folder or file, or from beside it. */
PROPANE_CHECK propane_status propane_model_tokenizer(const propane_model *model, propane_tokenizer **out,
                                                     propane_error *err);
/* Whether a vocabulary can be the model's: its ids are rows of the embedding, which may have some more. */
PROPANE_CHECK propane_status propane_model_takes(const propane_model *model, const propane_tokenizer *tokenizer,
                                                 propane_error *err);
/* Learnt from a text: "bpe" with up to `vocabulary` ids (257 to 65536), "chars", or "bytes" (of no text). */
PROPANE_CHECK propane_status propane_tokenizer_train(const char *kind, const char *text, size_t length, int vocabulary,
                                                     propane_tokenizer **out, propane_error *err);
PROPANE_CHECK propane_status propane_tokenizer_write(const propane_tokenizer *tokenizer, const char *path,
                                                     propane_error *err);
void propane_tokenizer_free(propane_tokenizer *tokenizer);
typedef struct propane_tokenizer_info {
    size_t size;            /* sizeof(propane_tokenizer_info), set by the caller */
    const char *kind;       /* "bpe", "chars", "bytes", "llama", "hf" */
    const char *hash;       /* SHA-256 of all that changes what it does */
    int size_of_vocabulary; /* ids are 0 .. that - 1 */
    int bos, eos;           /* in front of a text, after it; negative: none */
} propane_tokenizer_info;
bool propane_tokenizer_describe(const propane_tokenizer *tokenizer, propane_tokenizer_info *out);
/* The ids of a text, without bos; propane_free them. */
PROPANE_CHECK propane_status propane_tokenizer_encode(const propane_tokenizer *tokenizer, const char *text,
                                                      size_t length, int32_t **ids, int64_t *count, propane_error *err);
/* The bytes of ids, terminated; propane_free them. */
PROPANE_CHECK propane_status propane_tokenizer_decode(const propane_tokenizer *tokenizer, const int32_t *ids,
                                                      int64_t count, char **text, size_t *length, propane_error *err);
/* The same as people read it: what is not UTF-8 appears as U+FFFD. `inside`: other text stands in front of it, so that a blank
 * at its begin stays. */
PROPANE_CHECK propane_status propane_tokenizer_show(const propane_tokenizer *tokenizer, const int32_t *ids,
                                                    int64_t count, bool inside, char **text, size_t *length,
                                                    propane_error *err);
/* The ids (propane_free them) of a file: a text, or a token file of this tokenizer, which `name` stands for in messages.
 * *bytes: of the text. */
PROPANE_CHECK propane_status propane_tokenizer_encode_file(const propane_tokenizer *tokenizer, const char *name,
                                                           const char *path, int32_t **ids, int64_t *count,
                                                           int64_t *bytes, propane_error *err);

/* A text's file as ids, with the vocabulary that was learnt from it or taken. Does not change. */
typedef struct propane_corpus propane_corpus;
typedef struct propane_corpus_options {
    size_t size;           /* sizeof(propane_corpus_options) */
    const char *tokenizer; /* a file or a model's folder; NULL: one is learnt */
    const char *kind;      /* what is learnt: NULL: "bpe"; "chars", "bytes" */
    int vocabulary;        /* most ids of bpe, 257 to 65536; 0: 4096 */
} propane_corpus_options;
/* `path`: a text, or a token file together with its tokenizer. `options` may be NULL. */
PROPANE_CHECK propane_status propane_corpus_open(const char *path, const propane_corpus_options *options,
                                                 propane_corpus **out, propane_error *err);
void propane_corpus_free(propane_corpus *corpus);
int64_t propane_corpus_count(const propane_corpus *corpus); /* ids */
int64_t propane_corpus_bytes(const propane_corpus *corpus); /* of the text */
int32_t propane_corpus_id(const propane_corpus *corpus, int64_t index);
const propane_tokenizer *propane_corpus_tokenizer(const propane_corpus *corpus);
/* As a token file, which training maps instead of encoding the text again. */
PROPANE_CHECK propane_status propane_corpus_write(const propane_corpus *corpus, const char *path, propane_error *err);

typedef struct propane_generator_options {
    size_t size;            /* sizeof(propane_generator_options) */
    propane_device *device; /* shared, outlives it; NULL: one of its own, opened by `uri` */
    const char *uri;        /* NULL: "cpu" */
    const char *precision;  /* NULL: "fp32"; "fp16" */
    const char *weights;    /* how matrices are stored: NULL: "auto"; "fp32", "bf16", "fp16", "int8", "int4" */
    int64_t context;        /* longest sequence; 0: the model's */
    int64_t chunk;          /* most positions of a prompt that are read at once; 0: 512 */
    int parallel;           /* texts that may be written at the same time; 0: 1; at most PROPANE_MAX_PARALLEL */
} propane_generator_options;
/* The words that `weights` may be: "auto|fp32|...". Static. */
const char *propane_weight_forms(void);
/* Model and tokenizer (NULL: ids alone, no text) must outlive it; the tokenizer must fit the model. What a prompt has in
 * common with the sequence before is not read again. */
PROPANE_CHECK propane_status propane_generator_create(const propane_model *model, const propane_tokenizer *tokenizer,
                                                      const propane_generator_options *options, propane_generator **out,
                                                      propane_error *err);
void propane_generator_free(propane_generator *generator);
int64_t propane_generator_context(const propane_generator *generator);

#define PROPANE_MAX_STOPS    16
#define PROPANE_MAX_LOGPROBS 20
#define PROPANE_MAX_PARALLEL 256
typedef struct propane_sampling {
    size_t size;        /* sizeof(propane_sampling) */
    int64_t count;      /* most ids to draw */
    double temperature; /* 0: always the most likely */
    int top_k;          /* only the k most likely; 0: all */
    double top_p, min_p;
    double repetition, frequency, presence; /* penalties; 1, 0, 0: none */
    uint64_t seed;
    const char *const *stops; /* the text ends in front of one of these; at most PROPANE_MAX_STOPS */
    int stop_count;
    bool ignore_end; /* goes on after the end-of-text id */
    int logprobs;    /* -1: none; N: the drawn id's, and the N most likely ids (at most PROPANE_MAX_LOGPROBS) */
    const struct propane_chat *chat; /* the text ends where its answers do; NULL: at the end-of-text id */
} propane_sampling;
/* What the command draws with: 200 ids, temperature 0.8, top_p 0.95, seed 1. Set `size` first. */
void propane_sampling_default(propane_sampling *sampling);
/* Whether temperature, cuts and penalties have a meaning. */
PROPANE_CHECK propane_status propane_sampling_check(const propane_sampling *sampling, propane_error *err);

typedef struct propane_logprob {
    int32_t id;
    double logprob; /* natural, of the model itself */
} propane_logprob;
typedef struct propane_token {
    size_t size;
    int32_t id;     /* -1: no new id, only the rest of the text */
    bool end;       /* it ends the text */
    double logprob; /* where asked for */
    const propane_logprob *top;
    int top_count;
    const char *text; /* what became certain: valid UTF-8, not terminated; its ids may have come earlier */
    size_t length;
} propane_token;
/* In the thread that generates; what it gets lives until it returns. false ends the text. */
typedef bool (*propane_on_token)(void *context, const propane_token *token);

typedef enum propane_finish {
    PROPANE_FINISH_LENGTH,  /* `count` ids were drawn */
    PROPANE_FINISH_CONTEXT, /* the context is full */
    PROPANE_FINISH_END,     /* the end-of-text id */
    PROPANE_FINISH_STOP,    /* a stop string */
    PROPANE_FINISH_CALLER   /* the callback said so */
} propane_finish;
typedef struct propane_generation {
    size_t size; /* sizeof(propane_generation), set by the caller */
    propane_finish finish;
    int64_t prompt_count, made, reused; /* ids; reused: of the prompt, still in the cache */
} propane_generation;
const char *propane_finish_name(propane_finish finish); /* "length", "context", "end", "stop", "cancelled" */

/* Goes on from a prompt. sampling NULL: the default. callback, out: may be NULL. */
PROPANE_CHECK propane_status propane_generate(propane_generator *generator, const char *prompt, size_t length,
                                              const propane_sampling *sampling, propane_on_token callback,
                                              void *context, propane_generation *out, propane_error *err);
PROPANE_CHECK propane_status propane_generate_ids(propane_generator *generator, const int32_t *ids, int64_t count,
                                                  const propane_sampling *sampling, propane_on_token callback,
                                                  void *context, propane_generation *out, propane_error *err);
/* Several texts at once, each as it would be alone: the weights are read once for all of them. A stream is one text; as many
 * as the generator's `parallel` go on at the same time. Same thread as the generator. */
typedef struct propane_stream propane_stream;
int propane_generator_parallel(const propane_generator *generator);
/* Reads the prompt; ids, sampling and context must live until it is freed. PROPANE_ERR_LIMIT: as many go on already. */
PROPANE_CHECK propane_status propane_stream_begin(propane_generator *generator, const int32_t *ids, int64_t count,
                                                  const propane_sampling *sampling, propane_on_token callback,
                                                  void *context, propane_stream **out, propane_error *err);
/* Draws one id for each stream that is not done. After an error they can only be freed. */
PROPANE_CHECK propane_status propane_generator_advance(propane_generator *generator, propane_error *err);
bool propane_stream_done(const propane_stream *stream);
/* Of one that is done. PROPANE_ERR_LIMIT: the model's scores were not numbers. `out` may be NULL. */
PROPANE_CHECK propane_status propane_stream_result(const propane_stream *stream, propane_generation *out,
                                                   propane_error *err);
void propane_stream_free(propane_stream *stream); /* before its generator */

typedef struct propane_chat_message {
    const char *role, *content; /* "system", "user", "assistant"; UTF-8 */
} propane_chat_message;
/* The answer to a conversation, in the model's own chat format or that of a name ("chatml", ...; NULL: the model's). Where the
 * context is too short the oldest turns are left out. */
PROPANE_CHECK propane_status propane_generate_chat(propane_generator *generator, const char *format,
                                                   const propane_chat_message *messages, int count,
                                                   const propane_sampling *sampling, propane_on_token callback,
                                                   void *context, propane_generation *out, propane_error *err);
/* How a model talks. Does not change; model and tokenizer must outlive it. */
typedef struct propane_chat propane_chat;
PROPANE_CHECK propane_status propane_chat_open(const propane_model *model, const propane_tokenizer *tokenizer,
                                               const char *format, propane_chat **out, propane_error *err);
void propane_chat_free(propane_chat *chat);
const char *propane_chat_format(const propane_chat *chat); /* "chatml", ... */
/* The ids (propane_free them) of a conversation with what stands in front of an answer after it, at most `room` of them: the
 * oldest turns behind the system's message are left out, *dropped (may be NULL) messages. A last turn that is too long by
 * itself is PROPANE_ERR_LIMIT. */
PROPANE_CHECK propane_status propane_chat_encode(const propane_chat *chat, const propane_chat_message *messages,
                                                 int count, int64_t room, int32_t **ids, int64_t *id_count,
                                                 int *dropped, propane_error *err);

/* -log p of each id after the first, in nats: nll [count - 1]. */
PROPANE_CHECK propane_status propane_generator_score(propane_generator *generator, const int32_t *ids, int64_t count,
                                                     double *nll, propane_error *err);
/* What the model makes of a text as numbers that can be compared (cosine): the stream that the head reads, after the last norm, summed
 * over all ids and divided by its length. embedding: [width of propane_model_info]. PROPANE_ERR_LIMIT: it is not a number. */
PROPANE_CHECK propane_status propane_generator_embed(propane_generator *generator, const int32_t *ids, int64_t count,
                                                     float *embedding, propane_error *err);
/* How far a long evaluation is: `done` of `total` predictions (of examples, where those are counted), with `mean` of what is done.
 * Called from the calling thread after each window or example; false ends the call with PROPANE_ERR_CANCELLED. */
typedef bool (*propane_on_progress)(void *context, int64_t done, int64_t total, double mean);
/* For propane_generator_loss and propane_generator_loss_examples from now on; NULL: none. */
void propane_generator_on_progress(propane_generator *generator, propane_on_progress callback, void *context);
/* The mean of these over a sequence of any length, in windows of the context, each with a fresh cache. `predictions` (may be
 * NULL): how many. PROPANE_ERR_LIMIT: the loss is not a number. */
PROPANE_CHECK propane_status propane_generator_loss(propane_generator *generator, const int32_t *ids, int64_t count,
                                                    double *mean, int64_t *predictions, propane_error *err);
/* The mean over the answers of instruction data (.jsonl), read and marked as training does; each example by itself, cut where the
 * context ends. */
PROPANE_CHECK propane_status propane_generator_loss_examples(propane_generator *generator, const propane_chat *chat,
                                                             const char *path, double *mean, int64_t *predictions,
                                                             int64_t *examples, propane_error *err);
/* The logits [count, vocabulary] after each of at most `context` ids, as "logits" of a safetensors file. */
PROPANE_CHECK propane_status propane_generator_write_logits(propane_generator *generator, const int32_t *ids,
                                                            int64_t count, const char *path, propane_error *err);
typedef struct propane_gradient_options {
    size_t size;           /* sizeof(propane_gradient_options) */
    const char *uri;       /* of the device; NULL: "cpu" */
    const char *precision; /* NULL: "fp32"; "fp16" */
    const char *plan;      /* how a step is cut into programs: NULL: "layer"; "six", "ten" */
} propane_gradient_options;
/* The gradients of the mean loss of one sequence in one training step, as safetensors under the names of the model's weights;
 * *loss may be NULL. The weights stay as they are. Not from two threads for one model. */
PROPANE_CHECK propane_status propane_model_write_gradients(propane_model *model, const int32_t *ids, int64_t count,
                                                           const propane_gradient_options *options, const char *path,
                                                           double *loss, propane_error *err);

/* ---- training ------------------------------------------------------------------------------------------------------------- */

/* What a run learns, from what, how and where: options by the names of `propane train`'s flags, without "--". One thread. */
typedef struct propane_options propane_options;

typedef enum propane_training {
    PROPANE_TRAIN_LANGUAGE, /* a language model, as `propane train --data FILE` */
    PROPANE_TRAIN_PROGRAM   /* weights of a Core ML model or MIL program, as `propane train MODEL` */
} propane_training;

/* With all defaults, and no run folder: then nothing is written. */
PROPANE_CHECK propane_status propane_options_create(propane_training kind, propane_options **out, propane_error *err);
void propane_options_free(propane_options *options);
/* A value as on the command line: "lr" "3e-4"; a switch's is "true" or "false". Copied. An option of type "list" gets one
 * value more. PROPANE_ERR_NOT_FOUND: there is none of that name; PROPANE_ERR_INVALID: it has no such value. */
PROPANE_CHECK propane_status propane_options_set(propane_options *options, const char *name, const char *value,
                                                 propane_error *err);
/* The value that it has, as text; propane_free it. */
PROPANE_CHECK propane_status propane_options_get(const propane_options *options, const char *name, char **out,
                                                 propane_error *err);
/* A JSON object of names and values, {"lr": 3e-4, "shuffle": false}; lists for options of type "list". All or none. `source`
 * stands for the text in messages. */
PROPANE_CHECK propane_status propane_options_parse(propane_options *options, const char *json, size_t length,
                                                   const char *source, propane_error *err);
/* The same from a file. PROPANE_ERR_UNSUPPORTED: it is a model's config.json, which is a value of the option "config". */
PROPANE_CHECK propane_status propane_options_load(propane_options *options, const char *path, propane_error *err);
/* With "resume" set and a checkpoint in the folder "run": what was not set takes the value that the run was begun with. */
PROPANE_CHECK propane_status propane_options_recall(propane_options *options, propane_error *err);
/* What is missing, out of range or does not go together. Making a trainer recalls and checks by itself. */
PROPANE_CHECK propane_status propane_options_check(const propane_options *options, propane_error *err);

typedef struct propane_option_info {
    size_t size;       /* sizeof(propane_option_info), set by the caller; strings are static */
    const char *name;  /* "lr" */
    const char *type;  /* "int", "real", "bool", "text", "choice", "list" */
    const char *words; /* of a choice: "a|b|c"; else what stands for the value in a help, or NULL */
    double min, max;   /* of numbers, both included; a default may lie outside */
    const char *group; /* "data", "model", "learnt", "training", "machine", "ranks", "run" */
    const char *help;
    const char *standard; /* the default as text; NULL: none */
    bool fixed;           /* a resumed run must have the value that it was begun with */
    bool given;           /* it was set */
} propane_option_info;
/* The options of that kind of training, `index` from 0; false after the last one. */
bool propane_options_describe(const propane_options *options, int index, propane_option_info *out);

/* The processes that mpirun started together (Open MPI). *out NULL with PROPANE_OK: this process was not started so. Once a
 * process; all ranks make the same trainers in the same order. */
typedef struct propane_ranks propane_ranks;
PROPANE_CHECK propane_status propane_ranks_open(propane_ranks **out, propane_error *err);
int propane_ranks_rank(const propane_ranks *ranks);
int propane_ranks_count(const propane_ranks *ranks);
/* Ends the processes of all ranks, as one that fails must, for whom the others would wait. Does not return. */
void propane_ranks_abort(propane_ranks *ranks, int code);
void propane_ranks_close(propane_ranks *ranks); /* waits for the other ranks */
/* Trainers made with these options share their work with the other ranks, which must outlive them. NULL: alone. */
void propane_options_set_ranks(propane_options *options, propane_ranks *ranks);

/* Trainers made with these options use this device, as others may, too; it must outlive them. NULL: each opens the device of
 * the option "device" for itself. */
PROPANE_CHECK propane_status propane_options_set_device(propane_options *options, propane_device *device,
                                                        propane_error *err);

/* An array of samples, dense, row major; the number of samples is dim[0]. */
typedef struct propane_tensor {
    const char *name; /* of the program's input, "x" where there is one input alone; "y": what is to come out */
    propane_dtype dtype;
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    const void *values;
} propane_tensor;

/* What to learn from, in memory instead of where the option "data" says. Outlives the trainer; not to be changed. */
typedef struct propane_data {
    size_t size;      /* sizeof(propane_data) */
    const char *text; /* a language model's: UTF-8, */
    size_t length;    /* in bytes, */
    bool examples;    /* of instruction data: one JSON object a line; */
    const int32_t *ids;
    int64_t id_count;                   /* or tokens */
    const propane_tokenizer *tokenizer; /* NULL: as the options say. Tokens need one */
    const propane_tensor *arrays;       /* a program's: its inputs and y: float (the class as an integer) */
    int array_count;
    const propane_tensor *validation; /* likewise to validate with; NULL: the part "val-fraction" of the arrays */
    int validation_count;
} propane_data;

typedef struct propane_trainer propane_trainer;

/* Reads what the options name, makes or resumes the run, compiles. `data` NULL: from the option "data". The options are
 * copied. */
PROPANE_CHECK propane_status propane_trainer_create(const propane_options *options, const propane_data *data,
                                                    propane_trainer **out, propane_error *err);
/* What was done since the last checkpoint is lost. */
void propane_trainer_free(propane_trainer *trainer);

typedef struct propane_step {
    size_t size;  /* sizeof(propane_step), set by the caller */
    int64_t step; /* 1 after the first */
    double loss;  /* mean over all that counts in its batches; a language model's in nats per token */
    double lr, loss_scale, gradient_norm;
    bool skipped; /* a gradient was not finite: the weights did not move */
    double rate;  /* tokens or samples a second */
    double device_ms, host_ms;
    const char *simulated; /* the chip whose model device_ms and what follows are by, static; NULL: measured */
    double energy_j, flops;
    double utilisation;  /* of the arithmetic that the chip can do in device_ms; 0: not known */
    int64_t outer_bytes; /* "outer": sent by this rank for an agreement that began here, or for a step of its warm-up */
    int64_t staleness;   /* "outer": steps since the oldest part of the weights was agreed on; else -1 */
    double outer_ms;     /* "outer": what agreeing took of the step, waiting for messages included */
} propane_step;

typedef struct propane_evaluation {
    size_t size; /* sizeof(propane_evaluation), set by the caller */
    int64_t step;
    double loss;          /* of the held-out data, as a step's */
    double nats_per_byte; /* negative: not known */
    double accuracy;      /* part of what was classified that is right; negative: not known */
} propane_evaluation;

/* Each may be NULL; in the thread that runs. They may cancel and ask the trainer, and do nothing else with it. */
typedef struct propane_trainer_callbacks {
    size_t size; /* sizeof(propane_trainer_callbacks) */
    void *context;
    void (*on_step)(void *context, const propane_step *step);
    void (*on_evaluation)(void *context, const propane_evaluation *evaluation);
    void (*on_checkpoint)(void *context, int64_t step, const char *path);
    /* `lost` ranks are gone, `left` go on ("outer", where Open MPI leaves the others alive); their numbers are new, and
     * another one may be the one that writes. After `step`. */
    void (*on_shed)(void *context, int64_t step, int lost, int left);
} propane_trainer_callbacks;

/* To the last step, with the validations and checkpoints that the options ask for; then the folder gets the model, the
 * adapter or the package. PROPANE_ERR_CANCELLED: stopped after a batch, the checkpoint is written; it may be called again.
 * PROPANE_ERR_LIMIT: the training has diverged; or, if propane_trainer_describe says `restart`, this process may compile
 * nothing more, the checkpoint is written and the rest is for another process with "resume". `callbacks` may be NULL. */
PROPANE_CHECK propane_status propane_trainer_run(propane_trainer *trainer, const propane_trainer_callbacks *callbacks,
                                                 propane_error *err);
/* The same, but at most `steps` steps further (0 or less: to the last one): after them it returns PROPANE_OK, and may be called
 * again. The folder gets what the run was for only after the last step of the run. */
PROPANE_CHECK propane_status propane_trainer_advance(propane_trainer *trainer, int64_t steps,
                                                     const propane_trainer_callbacks *callbacks, propane_error *err);
/* One step and nothing else, for loops of one's own. PROPANE_ERR_INVALID: all steps are done. PROPANE_ERR_CANCELLED: nothing
 * has moved. `out` may be NULL. */
PROPANE_CHECK propane_status propane_trainer_step(propane_trainer *trainer, propane_step *out, propane_error *err);
/* Of the weights as they are. PROPANE_ERR_INVALID: nothing is held out. */
PROPANE_CHECK propane_status propane_trainer_evaluate(propane_trainer *trainer, propane_evaluation *out,
                                                      propane_error *err);
/* Writes the checkpoint. PROPANE_ERR_INVALID: there is no run folder. */
PROPANE_CHECK propane_status propane_trainer_save(propane_trainer *trainer, propane_error *err);
/* The weights as they are, wherever one likes: a language model in the form that the name tells (propane_model_save), with its
 * adapters merged; a program as a package. Several ranks: by the one that writes. */
PROPANE_CHECK propane_status propane_trainer_write(propane_trainer *trainer, const char *path, propane_error *err);
/* From any thread, and from a signal's handler: the run or step at hand, or else the next one, ends as
 * PROPANE_ERR_CANCELLED after its batch. */
void propane_trainer_cancel(propane_trainer *trainer);
/* From any thread, and from a signal's handler: propane_trainer_run writes the checkpoint after the step at hand and goes on. */
void propane_trainer_ask_save(propane_trainer *trainer);

typedef struct propane_trainer_info {
    size_t size;         /* sizeof(propane_trainer_info), set by the caller */
    const char *unit;    /* what is learnt from: "tokens", "samples" */
    int64_t step, steps; /* done; in all */
    int64_t parameters;  /* that are learnt */
    int64_t held_out;    /* tokens or samples that are not learnt from */
    int64_t count;       /* tokens or samples in all */
    bool writes;         /* of several ranks: this is the one that writes files */
    bool restart;        /* see propane_trainer_run */
    int64_t best_step;   /* of the lowest validation loss; -1: there was none */
    double best_loss;
    bool kept; /* its weights are what the run writes at its end */
    bool over; /* validations have not become better for as long as the option patience says */
} propane_trainer_info;
bool propane_trainer_describe(const propane_trainer *trainer, propane_trainer_info *out);
/* All that is known of the run as a JSON object: sizes, device, kernels, data. Terminated, propane_free it. */
PROPANE_CHECK propane_status propane_trainer_facts(const propane_trainer *trainer, char **out, propane_error *err);
/* An option as the run has it: what was left to it is decided. propane_free it. */
PROPANE_CHECK propane_status propane_trainer_option(const propane_trainer *trainer, const char *name, char **out,
                                                    propane_error *err);
/* A copy of a language model's weights as they are, with its adapters merged: to let it write, or to save. */
PROPANE_CHECK propane_status propane_trainer_model(const propane_trainer *trainer, propane_model **out,
                                                   propane_error *err);
/* A tensor that is learnt: a language model's under the names of its files, with adapters those alone; a program's weight. */
typedef struct propane_learnt {
    size_t size;      /* sizeof(propane_learnt), set by the caller */
    const char *name; /* the trainer's */
    int rank;
    int64_t dim[PROPANE_MAX_RANK];
    int64_t count; /* elements: the product of them */
} propane_learnt;
/* `index` from 0; false after the last one. */
bool propane_trainer_learnt(const propane_trainer *trainer, int index, propane_learnt *out);
/* Such a tensor as it is now, fp32; `count` is its own. PROPANE_ERR_UNSUPPORTED, here and below: with the option
 * "compact-vocab", whose rows mean other ids in each run. */
PROPANE_CHECK propane_status propane_trainer_get(const propane_trainer *trainer, int index, float *values,
                                                 int64_t count, propane_error *err);
/* Other values for learnt tensors, by name, of their shapes and in fp32; moments, the data's order and the schedule stay.
 * PROPANE_ERR_NOT_FOUND, PROPANE_ERR_INVALID (another shape or type, a number that is not finite: the tensor and the place are
 * named): nothing has changed. PROPANE_ERR_UNSUPPORTED: one of several ranks. */
PROPANE_CHECK propane_status propane_trainer_set(propane_trainer *trainer, const propane_tensor *tensors, int count,
                                                 propane_error *err);
/* The trainer's own, NULL of a program. */
const propane_tokenizer *propane_trainer_tokenizer(const propane_trainer *trainer);
/* Tokens that a text may begin with which the model has not seen: prompt `index` of `count` from the held-out data, from the
 * beginning of a line or a word, up to `room` of them; of instruction data an example up to its answer. Returns how many; 0: there is none. */
int64_t propane_trainer_prompt(const propane_trainer *trainer, int index, int count, int32_t *ids, int64_t room);
/* With the option "profile": where the time went, a row a kernel or step; `stage` of a language model's says "device" or
 * "host". As propane_program_profile_get. */
int propane_trainer_profile_count(const propane_trainer *trainer);
bool propane_trainer_profile_get(const propane_trainer *trainer, int index, propane_profile_row *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
