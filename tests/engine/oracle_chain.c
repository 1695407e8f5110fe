/* SPDX-License-Identifier: MIT
 * Builds chains of published programs as MIL from one text per operation: "name = op(value, value[dims], number,
 * key=value)". Values with dimensions are constants. Names that no operation makes are inputs, whose shapes are in the
 * description.
 */
#include "oracle_chain.h"

#include <ctype.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/mil/build.h"
#include "support/test.h"

enum { CHAIN_VALUES = 32, CHAIN_ARGUMENTS = 8, CHAIN_WORD = 64 };

typedef struct chain {
    const oracle *o;
    mil_builder b;
    const char *names[CHAIN_VALUES];
    mil_value *values[CHAIN_VALUES];
    int count;
} chain;

static mil_type chain_shape(const json_t *list) {
    int64_t dim[MIL_MAX_RANK];
    int rank = (int)json_array_size(list);
    for (int i = 0; i < rank; i++) dim[i] = json_integer_value(json_array_get(list, (size_t)i));
    return mil_type_tensor(MIL_fp16, rank, dim);
}

/* Finds a value by name. Inputs are named one after the other, in the order of first use. */
static mil_value *chain_value(chain *c, const char *name) {
    for (int i = 0; i < c->count; i++)
        if (strcmp(c->names[i], name) == 0) return c->values[i];
    EXPECT_MSG(false, "%s: '%s' is not made by an operation and no input", c->o->id, name);
    return NULL;
}

/* Makes a constant such as "c1[1024,256]". Every element is 1/1024; the number does not affect the words. */
static mil_value *chain_constant(chain *c, const char *text) {
    int64_t dim[MIL_MAX_RANK];
    int rank = 0;
    char name[CHAIN_WORD];
    size_t length = strcspn(text, "[");
    memcpy(name, text, length);
    name[length] = 0;
    for (const char *at = text + length; *at && *at != ']'; rank++) dim[rank] = strtoll(at + 1, (char **)&at, 10);
    mil_type type = mil_type_tensor(MIL_fp16, rank, dim);
    int64_t count = mil_type_count(&type);
    uint16_t *data = mem_array((size_t)count, 2);
    for (int64_t i = 0; i < count; i++) data[i] = 0x1400;
    mil_value *v = mil_build_const(&c->b, name, &type, data);
    mem_free(data);
    return v;
}

/* Makes the value of "key=value", a flag or a number. */
static mil_value *chain_attribute(chain *c, const char *value) {
    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) return mil_build_bool(&c->b, *value == 't');
    return mil_build_int(&c->b, (int32_t)strtol(value, NULL, 10));
}

static mil_value *chain_argument(chain *c, char *text, int position, const char **param) {
    char *equals = strchr(text, '=');
    static const char *const places[] = {"x", "y"};
    if (equals) {
        *equals = 0;
        *param = text;
        return chain_attribute(c, equals + 1);
    }
    EXPECT_MSG(position < 2, "%s: more than two operands", c->o->id);
    *param = places[position];
    if (strchr(text, '[')) return chain_constant(c, text);
    if (isdigit((unsigned char)*text)) return mil_build_scalar(&c->b, MIL_fp16, strtod(text, NULL));
    if (isupper((unsigned char)*text)) return *param = "mode", mil_build_text(&c->b, text);
    return chain_value(c, text);
}

/* Returns the next argument of a list, without leading spaces, or NULL at the end. Commas within brackets belong to
 * an argument. */
static char *chain_next(char **list) {
    char *at = *list + strspn(*list, " "), *end = at;
    if (!*at) return NULL;
    for (bool inside = false; *end && (inside || *end != ','); end++) inside = *end == '[' || (inside && *end != ']');
    *list = *end ? end + 1 : end;
    *end = 0;
    return at;
}

static void chain_operation(chain *c, char *text) {
    mil_argument list[CHAIN_ARGUMENTS];
    mil_value *values[CHAIN_ARGUMENTS];
    int count = 0;
    char *equals = strstr(text, " = "), *open = strchr(text, '('), *close = strrchr(text, ')');
    EXPECT_MSG(equals && open && close && c->count < CHAIN_VALUES, "%s: '%s' is not an operation", c->o->id, text);
    *equals = *open = *close = 0;
    const mil_op_info *info = mil_op_find(equals + 3, strlen(equals + 3));
    EXPECT_MSG(info, "%s: no operation '%s'", c->o->id, equals + 3);
    for (char *rest = open + 1, *at; (at = chain_next(&rest)) && count < CHAIN_ARGUMENTS; count++) {
        list[count] = (mil_argument){NULL, 1, &values[count]};
        values[count] = chain_argument(c, at, count, &list[count].param);
    }
    mil_op *op = mil_build_op(&c->b, info->code, text, list, count);
    c->names[c->count] = text;
    c->values[c->count++] = op ? op->results[0] : NULL;
}

mil_module *oracle_chain(const oracle *o, propane_error *err) {
    chain c = {.o = o};
    const json_t *mil = json_object_get(o->json, "mil"), *value;
    char *texts[CHAIN_VALUES];
    size_t i, made = 0;
    const char *key;
    mil_module *m = mil_module_create(o->id);
    mil_build_begin(&c.b, m, "main", MIL_IOS18);
    json_object_foreach((json_t *)mil, key, value) if (json_is_array(value) && strcmp(key, "ops") != 0 &&
                                                       strcmp(key, "out") != 0 && c.count < CHAIN_VALUES) {
        c.names[c.count] = key;
        c.values[c.count++] = mil_build_param(&c.b, key, chain_shape(value));
    }
    json_array_foreach(json_object_get(mil, "ops"), i, value) {
        if (made == CHAIN_VALUES) break;
        texts[made] = mem_copy_string(json_string_value(value));
        chain_operation(&c, texts[made++]);
    }
    if (c.count && c.values[c.count - 1]) mil_build_result(&c.b, c.values[c.count - 1]);
    propane_status status = mil_build_end(&c.b, err);
    while (made) mem_free(texts[--made]);
    if (status == PROPANE_OK) return m;
    mil_module_free(m);
    return NULL;
}
