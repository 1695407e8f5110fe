/* SPDX-License-Identifier: MIT
 * Calls of Apple's classes without Propane's driver: the tests use them to query the stand-in, as another program
 * would. Objects made by a function whose name begins with `new_` belong to the caller until the process ends (each
 * test is one process).
 */
#ifndef TESTS_DRIVERS_APPLE_CALLS_H
#define TESTS_DRIVERS_APPLE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void *id;
typedef const char *SEL;

/* CALL(bool, (id, SEL, id *), object, "selector:", &error) */
#define CALL(result, types, self, ...) ((result(*) types)calls_send())(self, CALLS_SELECTOR(__VA_ARGS__))
#define CALLS_SELECTOR(...)            CALLS_FIRST(__VA_ARGS__)
#define GET(self, selector)            ((id(*)(id, SEL))calls_send())(self, calls_selector(selector))
#define CALLS_FIRST(selector, ...)     calls_selector(selector), __VA_ARGS__

void (*calls_send(void))(void); /* objc_msgSend */
SEL calls_selector(const char *name);
void *calls_find(const char *symbol);
id calls_class(const char *name);

void standin_to(const char *key, const char *value); /* sets a switch */
long standin_counter(const char *name);
const char *standin_complaint(void); /* returns the last violation */

id new_string(const char *text);
id new_number(int64_t value);
id new_data(const void *bytes, size_t length);
id new_array(int count, const id *values);
id new_dictionary(int count, const id *keys, const id *values);
id new_url(const char *path);
id new_surface(size_t bytes);
id calls_retain(id object);
void calls_release(id object);
void *calls_pool(void);
void calls_drain(void *pool);

const char *text_of(id string);
int64_t number_of(id number);
id entry_of(id dictionary, const char *key);
int count_of(id array);
id element_of(id array, int index);
id temporary_directory(void);

void put_halves(id surface, int count, float first, float step); /* from its beginning */
float half_at(id surface, int index);

long code_of(id error);
const char *error_text(id error);
/* Returns the number in the user info; -1 if there is none. */
int64_t underlying_of(id error);

/* Makes a descriptor for the text, whose dictionary has one entry per element of `files`. */
typedef struct file_entry {
    const char *path; /* after @model_path/ */
    const void *bytes;
    size_t length;
} file_entry;
id new_descriptor(const char *text, const file_entry *files, int count);
/* Writes `model.mil` and the files to the folder. */
void write_bundle(const char *folder, const char *text, const file_entry *files, int count);
void remove_folder(const char *folder);

bool memory_compile(id model, id *error);
bool memory_load(id model, id *error);
bool memory_evaluate(id model, id request, id options, id *error);
bool memory_unload(id model, id *error);

/* Makes a request for surfaces with indices from 0, with seven arguments. */
id new_request(int inputs, const id *input, int outputs, const id *output, int procedure);
id wrap_surface(id surface);

/* Makes a weight file of `count` records of `halves` fp16 values; record k holds value[k]. `place` is the offset that
 * each record claims for its payload; 0 means the right one. `headers` puts a file header before each record. The file
 * is kept until the process ends. */
typedef struct weight_file {
    unsigned char *bytes;
    size_t length;
    unsigned offset[32]; /* offsets of the records */
} weight_file;
weight_file make_weights(int count, int halves, const float *value, uint64_t place, bool headers);

#endif
