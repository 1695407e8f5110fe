/* SPDX-License-Identifier: MIT
 * Owns JSON's grammar, as a state machine with a stack of bits.
 */
#include "lm/infer/json_text.h"

#include <string.h>

enum {
    AT_BEGIN,     /* beginning of the whole text: an object */
    AT_FIRST_KEY, /* the first key, or the object's end */
    AT_KEY,
    AT_COLON,
    AT_VALUE,
    AT_FIRST_ITEM, /* the first item, or the list's end */
    AT_STRING,
    AT_CHARACTER, /* inside a character of several bytes */
    AT_ESCAPE,
    AT_HEX,
    AT_LITERAL,
    AT_NUMBER,
    AT_AFTER, /* after a value: comma or end */
    AT_DONE
};

/* States within a number; json_text_number_ends marks those in which it may end. */
enum {
    NUMBER_SIGN,
    NUMBER_ZERO,
    NUMBER_WHOLE,
    NUMBER_POINT,
    NUMBER_FRACTION,
    NUMBER_E,
    NUMBER_E_SIGN,
    NUMBER_EXPONENT
};

static const char *const json_text_literals[] = {"true", "false", "null"};

static bool json_text_in_list(const json_text *s) { return s->lists >> (s->depth - 1) & 1; }

static bool json_text_open(json_text *s, bool list) {
    if (s->depth == JSON_TEXT_DEPTH) return false;
    s->lists &= ~((uint64_t)1 << s->depth);
    s->lists |= (uint64_t)list << s->depth++;
    s->at = list ? AT_FIRST_ITEM : AT_FIRST_KEY;
    return true;
}

static bool json_text_close(json_text *s, bool list) {
    if (json_text_in_list(s) != list) return false;
    s->at = --s->depth ? AT_AFTER : AT_DONE;
    return true;
}

static bool json_text_begin_string(json_text *s, bool key) {
    s->at = AT_STRING;
    s->key = key;
    return true;
}

static bool json_text_begin_value(json_text *s, unsigned char c) {
    if (c == '"') return json_text_begin_string(s, false);
    if (c == '{' || c == '[') return json_text_open(s, c == '[');
    for (uint8_t i = 0; i < 3; i++)
        if (c == (unsigned char)json_text_literals[i][0]) {
            s->at = AT_LITERAL;
            s->kind = i;
            s->part = 1;
            return true;
        }
    if (c != '-' && (c < '0' || c > '9')) return false;
    s->at = AT_NUMBER;
    s->part = 1;
    s->kind = c == '-' ? NUMBER_SIGN : c == '0' ? NUMBER_ZERO : NUMBER_WHOLE;
    return true;
}

static bool json_text_after(json_text *s, unsigned char c) {
    if (c == '}' || c == ']') return json_text_close(s, c == ']');
    if (c != ',') return false;
    s->at = json_text_in_list(s) ? AT_VALUE : AT_KEY;
    return true;
}

/* ---- strings ---------------------------------------------------------------------------------------------------------------- */

static bool json_text_string(json_text *s, unsigned char c) {
    if (c == '"') {
        s->at = s->key ? AT_COLON : AT_AFTER;
    } else if (c == '\\') {
        s->at = AT_ESCAPE;
    } else if (c >= 0x80) {
        if (c < 0xc2 || c > 0xf4) return false;
        s->at = AT_CHARACTER;
        s->kind = c;
        s->part = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    }
    return c >= 0x20;
}

/* Adds a byte after a lead byte. The first such byte is checked: the encoding must be the shortest, not a surrogate,
 * and below 0x110000. */
static bool json_text_character(json_text *s, unsigned char c) {
    const unsigned char low = s->kind == 0xe0 ? 0xa0 : s->kind == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = s->kind == 0xed ? 0x9f : s->kind == 0xf4 ? 0x8f : 0xbf;
    if (c < low || c > high) return false;
    s->kind = 0;
    if (--s->part == 0) s->at = AT_STRING;
    return true;
}

static bool json_text_escape(json_text *s, unsigned char c) {
    if (c == 'u') {
        s->at = AT_HEX;
        s->part = 4;
        s->kind = 0;
        return true;
    }
    s->at = AT_STRING;
    return c && strchr("\"\\/bfnrt", c);
}

static bool json_text_hex(json_text *s, unsigned char c) {
    const bool digit = c >= '0' && c <= '9', letter = (c | 32) >= 'a' && (c | 32) <= 'f';
    if (!digit && !letter) return false;
    if (s->part == 4) s->kind = (c | 32) == 'd' ? 1 : c == '0' ? 2 : 0;
    if (s->part == 3 && s->kind == 1 && (letter || c > '7')) return false; /* half of a surrogate pair */
    if (c != '0' && s->part < 4 && s->kind == 2) s->kind = 0;
    if (s->part == 1 && s->kind == 2) return false; /* \u0000, which C texts cannot hold */
    if (--s->part == 0) s->at = AT_STRING;
    return true;
}

/* ---- numbers ------------------------------------------------------------------------------------------------------------------ */

static bool json_text_number_ends(const json_text *s) {
    return s->kind == NUMBER_ZERO || s->kind == NUMBER_WHOLE || s->kind == NUMBER_FRACTION ||
           s->kind == NUMBER_EXPONENT;
}

/* Returns the state within a number after the byte `c`, or -1 if `c` is not allowed. */
static int json_text_number_next(const json_text *s, unsigned char c) {
    const bool digit = c >= '0' && c <= '9', e = c == 'e' || c == 'E';
    switch (s->kind) {
    case NUMBER_SIGN: return digit ? (c == '0' ? NUMBER_ZERO : NUMBER_WHOLE) : -1;
    case NUMBER_ZERO: return c == '.' ? NUMBER_POINT : e ? NUMBER_E : -1;
    case NUMBER_WHOLE: return digit && s->part < 18 ? NUMBER_WHOLE : c == '.' ? NUMBER_POINT : e ? NUMBER_E : -1;
    case NUMBER_POINT: return digit ? NUMBER_FRACTION : -1;
    case NUMBER_FRACTION: return digit && s->part < JSON_TEXT_NUMBER ? NUMBER_FRACTION : e ? NUMBER_E : -1;
    case NUMBER_E: return c == '+' || c == '-' ? NUMBER_E_SIGN : digit ? NUMBER_EXPONENT : -1;
    case NUMBER_E_SIGN: return digit ? NUMBER_EXPONENT : -1;
    default: return digit && s->part < 2 ? NUMBER_EXPONENT : -1;
    }
}

static bool json_text_number(json_text *s, unsigned char c) {
    const int next = json_text_number_next(s, c);
    if (next < 0) return false;
    s->part = next == NUMBER_EXPONENT && s->kind != NUMBER_EXPONENT ? 1 : (uint8_t)(s->part + 1);
    s->kind = (uint8_t)next;
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------------ */

static bool json_text_literal(json_text *s, unsigned char c) {
    const char *word = json_text_literals[s->kind];
    if (c != (unsigned char)word[s->part]) return false;
    if (!word[++s->part]) s->at = AT_AFTER;
    return true;
}

static bool json_text_between(json_text *s, unsigned char c) {
    switch (s->at) {
    case AT_BEGIN: return c == '{' && json_text_open(s, false);
    case AT_FIRST_KEY: return c == '"' ? json_text_begin_string(s, true) : c == '}' && json_text_close(s, false);
    case AT_KEY: return c == '"' && json_text_begin_string(s, true);
    case AT_COLON: s->at = AT_VALUE; return c == ':';
    case AT_VALUE: return json_text_begin_value(s, c);
    case AT_FIRST_ITEM: return c == ']' ? json_text_close(s, true) : json_text_begin_value(s, c);
    case AT_AFTER: return json_text_after(s, c);
    default: return false;
    }
}

bool json_text_take(json_text *s, unsigned char c) {
    switch (s->at) {
    case AT_STRING: return json_text_string(s, c);
    case AT_CHARACTER: return json_text_character(s, c);
    case AT_ESCAPE: return json_text_escape(s, c);
    case AT_HEX: return json_text_hex(s, c);
    case AT_LITERAL: return json_text_literal(s, c);
    case AT_DONE: return false;
    case AT_NUMBER:
        if (json_text_number(s, c)) return true;
        if (!json_text_number_ends(s)) return false;
        s->at = AT_AFTER; /* the number has ended before this byte */
        break;
    default: break;
    }
    const bool blank = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (blank) return s->blanks++ < JSON_TEXT_BLANKS; /* a model may prefer blanks for ever */
    s->blanks = 0;
    return json_text_between(s, c);
}

bool json_text_take_all(json_text *s, const char *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!json_text_take(s, (unsigned char)bytes[i])) return false;
    return true;
}

bool json_text_is_done(const json_text *s) { return s->at == AT_DONE; }

int json_text_left(const json_text *s) {
    const int string = s->key ? 3 : 1; /* ":0 or " */
    switch (s->at) {
    case AT_BEGIN: return 2;
    case AT_KEY: return s->depth + 4;
    case AT_COLON: return s->depth + 2;
    case AT_VALUE: return s->depth + 1;
    case AT_STRING: return s->depth + string;
    case AT_CHARACTER: return s->depth + string + s->part;
    case AT_ESCAPE: return s->depth + string + 1;
    case AT_HEX: return s->depth + string + s->part;
    case AT_LITERAL: return s->depth + (int)strlen(json_text_literals[s->kind]) - s->part;
    case AT_NUMBER: return s->depth + !json_text_number_ends(s);
    default: return s->depth;
    }
}
