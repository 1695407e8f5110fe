/* SPDX-License-Identifier: MIT
 * Owns reading tokenizer.model, a protobuf message with a few fields: pieces with scores and types, and how text is
 * prepared. The message is converted to a tokenizer.json.
 *
 * BPE: two neighbours join if their combined text is a piece; the pair with the highest score joins first. All ways to
 * split a piece in two are merges. If scores decrease as ids grow, as in BPE models, the id is the rank ("ranks" in the
 * resulting file). Unigram: pieces and scores are kept as they are.
 *
 * Text preparation beyond a leading mark follows SentencePiece (a key of the normaliser); other programs see the
 * closest equivalent that the format can express.
 */
#include "lm/text/tokenizer_sentencepiece.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/bytes.h"
#include "core/base/memory.h"
#include "lm/text/tokenizer_hf.h"
#include "lm/text/tokenizer_ranks.h"

#define MARK "\xe2\x96\x81"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { UNIGRAM = 1, PAIRS = 2 };

typedef struct sp_piece {
    const char *text; /* in the arena, terminated */
    uint32_t length;
    int type;
    bool strips; /* also strips white space after it */
    float score;
} sp_piece;

typedef struct sp_model {
    arena *arena;
    sp_piece *pieces;
    int64_t count;
    piece_map ids; /* for normal and user-defined pieces */
    int64_t kind, unk, bos, eos;
    bool byte_fallback, suffix, prefix, squeeze, escape, denormalizer, trained, prepared;
    const char *rules; /* in the file */
    size_t rules_length;
} sp_model;

/* ---- the message ----------------------------------------------------------------------------------------------------------- */

/* One field: a number or bytes. */
typedef struct sp_field {
    int number, wire;
    uint64_t value;
    const char *data;
    size_t length;
} sp_field;

/* Reads a varint and moves *at past it. Returns false if it is truncated or has more than 64 bits. */
static bool sp_read_varint(const char *data, size_t length, size_t *at, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64 && *at < length; shift += 7) {
        const unsigned char byte = (unsigned char)data[(*at)++];
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

static bool sp_read_field(const char *data, size_t length, size_t *at, sp_field *f) {
    uint64_t key;
    if (!sp_read_varint(data, length, at, &key) || key >> 3 == 0 || key >> 3 > 1 << 29) return false;
    *f = (sp_field){.number = (int)(key >> 3), .wire = (int)(key & 7), .data = data + *at};
    const size_t left = length - *at;
    if (f->wire == 0) return sp_read_varint(data, length, at, &f->value);
    if (f->wire == 5 || f->wire == 1) {
        f->length = f->wire == 5 ? 4 : 8;
        if (left < f->length) return false;
        if (f->wire == 5) f->value = bytes_u32((const uint8_t *)f->data);
        *at += f->length;
        return true;
    }
    if (f->wire != 2 || !sp_read_varint(data, length, at, &f->value) || f->value > length - *at) return false;
    f->data = data + *at;
    f->length = (size_t)f->value;
    *at += f->length;
    return true;
}

static propane_status sp_broken(const char *source, size_t at, const char *what, propane_error *err) {
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: offset %zu: %s is truncated or not a SentencePiece message",
                        source, at, what);
}

static propane_status sp_add_piece(sp_model *m, const char *data, size_t length, const char *source,
                                   propane_error *err) {
    sp_piece p = {.type = NORMAL};
    sp_field f;
    for (size_t at = 0; at < length;) {
        if (!sp_read_field(data, length, &at, &f)) return sp_broken(source, at, "a piece", err);
        if (f.number == 1 && f.wire == 2) p.text = f.data, p.length = (uint32_t)f.length;
        if (f.number == 2 && f.wire == 5) {
            const uint32_t bits = (uint32_t)f.value;
            memcpy(&p.score, &bits, sizeof p.score);
        }
        if (f.number == 3 && f.wire == 0) p.type = f.value > BYTE ? 0 : (int)f.value;
        if (f.number == SENTENCEPIECE_STRIPS && f.wire == 0) p.strips = f.value == 1;
    }
    if (!p.text || p.length < 1 || p.length > TOKENIZER_PIECE_MAX || memchr(p.text, 0, p.length) || p.type < NORMAL ||
        !isfinite(p.score) || m->count >= TOKENIZER_VOCAB_MAX)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: piece %lld must have a text of 1 to %d bytes, a score and a type of 1 to 6", source,
                            (long long)m->count, TOKENIZER_PIECE_MAX);
    sp_piece *pieces = ARRAY_MORE(m->pieces, m->count, err);
    if (!pieces) return PROPANE_ERR_MEMORY;
    m->pieces = pieces;
    p.text = arena_string_n(m->arena, p.text, p.length);
    if (!p.text) return propane_fail_memory(err, p.length);
    m->pieces[m->count] = p;
    if (p.type == NORMAL && !piece_map_enter(&m->ids, p.text, p.length, (int32_t)m->count))
        return propane_fail_memory(err, p.length);
    m->count++;
    return PROPANE_OK;
}

static propane_status sp_read_trainer(sp_model *m, const char *data, size_t length, const char *source,
                                      propane_error *err) {
    sp_field f;
    for (size_t at = 0; at < length;) {
        if (!sp_read_field(data, length, &at, &f)) return sp_broken(source, at, "the trainer's part", err);
        if (f.wire != 0) continue;
        const int64_t value = (int32_t)(uint32_t)f.value;
        if (f.number == 3) m->kind = value;
        if (f.number == 24) m->suffix = value != 0;
        if (f.number == 35) m->byte_fallback = value != 0;
        if (f.number == 40) m->unk = value;
        if (f.number == 41) m->bos = value;
        if (f.number == 42) m->eos = value;
    }
    return PROPANE_OK;
}

static propane_status sp_read_normalizer(sp_model *m, const char *data, size_t length, const char *source,
                                         propane_error *err) {
    sp_field f;
    for (size_t at = 0; at < length;) {
        if (!sp_read_field(data, length, &at, &f)) return sp_broken(source, at, "the normalizer's part", err);
        if (f.number == 2 && f.wire == 2) m->rules = f.data, m->rules_length = f.length;
        if (f.number == 3 && f.wire == 0) m->prefix = f.value != 0;
        if (f.number == 4 && f.wire == 0) m->squeeze = f.value != 0;
        if (f.number == 5 && f.wire == 0) m->escape = f.value != 0;
    }
    return PROPANE_OK;
}

/* Reads the rules for decoded text. */
static propane_status sp_read_denormalizer(sp_model *m, const char *data, size_t length, const char *source,
                                           propane_error *err) {
    sp_field f;
    for (size_t at = 0; at < length;) {
        if (!sp_read_field(data, length, &at, &f)) return sp_broken(source, at, "the denormalizer's part", err);
        if (f.number == 2 && f.wire == 2 && f.length > 0) m->denormalizer = true;
    }
    return PROPANE_OK;
}

static propane_status sp_read(sp_model *m, const char *data, size_t length, const char *source, propane_error *err) {
    sp_field f;
    for (size_t at = 0; at < length;) {
        if (!sp_read_field(data, length, &at, &f)) return sp_broken(source, at, "a field", err);
        if (f.wire != 2) continue;
        if (f.number == 1) PROPANE_TRY(sp_add_piece(m, f.data, f.length, source, err));
        if (f.number == 2) PROPANE_TRY(sp_read_trainer(m, f.data, f.length, source, err));
        m->trained |= f.number == 2;
        m->prepared |= f.number == 3;
        if (f.number == 3) PROPANE_TRY(sp_read_normalizer(m, f.data, f.length, source, err));
        if (f.number == 5) PROPANE_TRY(sp_read_denormalizer(m, f.data, f.length, source, err));
    }
    return PROPANE_OK;
}

/* Unigram: the first piece of type UNKNOWN is the unknown token, even if the trainer's part names another. */
static void sp_find_unknown(sp_model *m) {
    m->unk = -1;
    for (int64_t i = m->count - 1; i >= 0; i--)
        if (m->pieces[i].type == UNKNOWN) m->unk = i;
}

static propane_status sp_check(const sp_model *m, const char *source, propane_error *err) {
    if (!m->trained || !m->prepared)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: it ends after %lld pieces without specifying %s; the file is truncated", source,
                            (long long)m->count, m->trained ? "how text is normalized" : "their model type");
    const char *what = m->kind != PAIRS && m->kind != UNIGRAM ? "it is neither a BPE nor a Unigram model"
                       : m->suffix       ? "its word marks follow words (treat_whitespace_as_suffix)"
                       : m->denormalizer ? "it has rules for decoded text (denormalizer_spec)"
                                         : NULL;
    if (m->kind == UNIGRAM && m->unk < 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: none of its %lld pieces is for unknown characters", source,
                            (long long)m->count);
    const int64_t ids[] = {m->unk, m->bos, m->eos};
    static const char *const names[] = {"unk_id", "bos_id", "eos_id"};
    if (what)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: %s, which is not supported; write a tokenizer.json in Python: "
                            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
                            source, what);
    for (int i = 0; i < 3; i++)
        if (ids[i] < -1 || ids[i] >= m->count)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: %s is %lld, but there are %lld pieces", source, names[i],
                                (long long)ids[i], (long long)m->count);
    return PROPANE_OK;
}

/* ---- as a tokenizer.json ----------------------------------------------------------------------------------------------------- */

static json_t *sp_replace(const char *kind, const char *what, const char *with) {
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", kind, what, "content", with);
}

static json_t *sp_charsmap(const sp_model *m) {
    text base64 = {0};
    text_append_base64(&base64, m->rules, m->rules_length);
    json_t *out = base64.failed || !base64.length
                      ? NULL
                      : json_pack("{s:s, s:s}", "type", "Precompiled", "precompiled_charsmap", base64.data);
    text_deinit(&base64);
    return out;
}

/* Returns whether the model prepares text in a way that all readers of a BPE vocabulary support. */
static bool sp_is_plain(const sp_model *m) { return m->kind == PAIRS && !m->rules_length && !m->squeeze && m->escape; }

static json_t *sp_normalizer(const sp_model *m) {
    json_t *list = json_array();
    if (m->rules_length) json_add(list, sp_charsmap(m));
    if (m->squeeze) {
        json_add(list, json_pack("{s:s, s:b, s:b}", "type", "Strip", "strip_left", 1, "strip_right", 1));
        json_add(list, sp_replace("Regex", " {2,}", " "));
    }
    if (m->prefix) json_add(list, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", m->escape ? MARK : " "));
    if (m->escape) json_add(list, sp_replace("String", " ", MARK));
    if (json_array_size(list) != 1 || !sp_is_plain(m))
        return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", list);
    json_t *only = json_incref(json_array_get(list, 0));
    json_decref(list);
    return only;
}

static json_t *sp_begin_file(const sp_model *m) {
    json_t *decoders =
        json_pack("[o, {s:s}, {s:s}]", sp_replace("String", MARK, " "), "type", "ByteFallback", "type", "Fuse");
    if (m->prefix)
        json_add(decoders, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1, "stop", 0));
    json_t *model = m->kind == UNIGRAM
                        ? json_pack("{s:s, s:I, s:b, s:[]}", "type", "Unigram", "unk_id", (json_int_t)m->unk,
                                    "byte_fallback", m->byte_fallback, "vocab")
                        : json_pack("{s:s, s:b, s:b, s:b, s:{}, s:[]}", "type", "BPE", "fuse_unk", 1, "byte_fallback",
                                    m->byte_fallback, "ignore_merges", 0, "vocab", "merges");
    if (m->unk >= 0 && m->kind == PAIRS) json_put(model, "unk_token", json_string(m->pieces[m->unk].text));
    return json_pack("{s:s, s:[], s:o, s:n, s:n, s:{s:s, s:o}, s:o}", "version", "1.0", "added_tokens", "normalizer",
                     sp_normalizer(m), "pre_tokenizer", "post_processor", "decoder", "type", "Sequence", "decoders",
                     decoders, "model", model);
}

/* Writes the parts of text preparation that the format cannot express. */
static propane_status sp_put_own(const sp_model *m, json_t *file, propane_error *err) {
    json_t *normalizer = json_object_get(file, "normalizer"), *unused = json_array();
    if (sp_is_plain(m)) {
        json_decref(unused);
        return PROPANE_OK;
    }
    for (int64_t i = 0; i < m->count; i++)
        if (m->pieces[i].type == UNUSED) json_add(unused, json_integer(i));
    json_t *sp = json_pack("{s:b, s:b, s:b}", "prefix", m->prefix, "squeeze", m->squeeze, "escape", m->escape);
    if (json_array_size(unused))
        json_put(sp, "unused", unused);
    else
        json_decref(unused);
    return json_object_set_new(normalizer, HF_SP_KEY, sp) == 0 ? PROPANE_OK : propane_fail_memory(err, 0);
}

/* Adds every way to split a piece into two pieces. */
static propane_status sp_put_merges(const sp_model *m, int64_t id, json_t *merges, propane_error *err) {
    const sp_piece *p = &m->pieces[id];
    for (uint32_t cut = 1; cut < p->length; cut++) {
        if (((unsigned char)p->text[cut] & 0xc0) == 0x80 || !piece_map_find(&m->ids, p->text, cut) ||
            !piece_map_find(&m->ids, p->text + cut, p->length - cut))
            continue;
        json_t *pair = json_array();
        json_add(pair, json_stringn(p->text, cut));
        json_add(pair, json_stringn(p->text + cut, p->length - cut));
        if (json_array_append_new(merges, pair) != 0) return propane_fail_memory(err, 0);
    }
    return PROPANE_OK;
}

typedef struct sp_order {
    float score;
    int64_t id;
} sp_order;

static int sp_compare(const void *a, const void *b) {
    const sp_order *x = a, *y = b;
    if (x->score < y->score || x->score > y->score) return x->score < y->score ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Unigram: writes the pieces in the order of ids. */
static propane_status sp_put_list(const sp_model *m, json_t *file, const char *source, propane_error *err) {
    json_t *vocab = json_object_get(json_object_get(file, "model"), "vocab");
    piece_map seen = {0};
    propane_status status = PROPANE_OK;
    for (int64_t i = 0; !status && i < m->count; i++) {
        const sp_piece *p = &m->pieces[i];
        const bool special = p->type == UNKNOWN || p->type == CONTROL;
        const int32_t *first = piece_map_enter(&seen, p->text, p->length, (int32_t)i);
        json_t *entry = json_pack("[s, f]", p->text, (double)p->score);
        if (!first)
            status = propane_fail_memory(err, p->length);
        else if (*first != i || !entry)
            status = propane_fail(err, PROPANE_ERR_INVALID, "%s: piece %lld is %s", source, (long long)i,
                                  entry ? "there twice" : "not UTF-8");
        if (json_array_append_new(vocab, entry) != 0 && !status) status = propane_fail_memory(err, 0);
        if (!status && (special || p->type == USER_DEFINED) && !tokenizer_json_special(file, i, p->text, special))
            status = propane_fail_memory(err, 0);
    }
    piece_map_deinit(&seen);
    return status;
}

static propane_status sp_put_pieces(const sp_model *m, json_t *file, const char *source, propane_error *err) {
    json_t *model = json_object_get(file, "model"), *vocab = json_object_get(model, "vocab");
    for (int64_t i = 0; i < m->count; i++) {
        const sp_piece *p = &m->pieces[i];
        const bool twice = json_object_get(vocab, p->text) != NULL;
        if (twice || json_object_set_new(vocab, p->text, json_integer(i)) != 0)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: piece %lld is %s", source, (long long)i,
                                twice ? "there twice" : "not UTF-8");
        const bool special = p->type == UNKNOWN || p->type == CONTROL;
        if (!special && p->type != USER_DEFINED) continue;
        if (!tokenizer_json_special(file, i, p->text, special)) return propane_fail_memory(err, 0);
        json_t *added = json_object_get(file, "added_tokens");
        if (p->strips) json_put(json_array_get(added, json_array_size(added) - 1), "rstrip", json_true());
    }
    return PROPANE_OK;
}

/* Writes the merges in the order of scores. Sets *falling to whether the ids are in that order and no two scores are
 * equal. */
static propane_status sp_put_all_merges(const sp_model *m, json_t *merges, bool *falling, propane_error *err) {
    sp_order *order = mem_array((size_t)m->count, sizeof *order);
    propane_status status = order ? PROPANE_OK : propane_fail_memory(err, (size_t)m->count * sizeof *order);
    int64_t count = 0;
    *falling = true;
    for (int64_t i = 0; !status && i < m->count; i++) {
        if (m->pieces[i].type != NORMAL) continue;
        order[count] = (sp_order){m->pieces[i].score, i};
        if (count && !(order[count].score < order[count - 1].score)) *falling = false;
        count++;
    }
    if (!status) qsort(order, (size_t)count, sizeof *order, sp_compare);
    for (int64_t i = 0; !status && i < count; i++) status = sp_put_merges(m, order[i].id, merges, err);
    mem_free(order);
    return status;
}

static propane_status sp_make(const sp_model *m, const char *source, tokenizer **out, propane_error *err) {
    bool falling = false;
    PROPANE_TRY(sp_check(m, source, err));
    json_t *file = sp_begin_file(m);
    propane_status status = !file                ? propane_fail_memory(err, 0)
                            : m->kind == UNIGRAM ? sp_put_list(m, file, source, err)
                                                 : sp_put_pieces(m, file, source, err);
    if (!status && m->kind == PAIRS)
        status = sp_put_all_merges(m, json_object_get(json_object_get(file, "model"), "merges"), &falling, err);
    if (!status)
        status = tokenizer_json_ends(file, m->bos, m->bos >= 0 ? m->pieces[m->bos].text : "", m->eos, falling, err);
    if (!status) status = sp_put_own(m, file, err);
    if (!status && mem_failed(NULL)) status = propane_fail_memory(err, 0); /* a part of the file may be missing */
    if (!status) status = hf_parse(file, NULL, source, out, err);
    json_decref(file);
    return status;
}

bool tokenizer_is_sentencepiece(const char *data, size_t length) {
    sp_field outer, inner;
    size_t at = 0, in = 0;
    return length > 10 && data[0] == '\n' && sp_read_field(data, length, &at, &outer) && outer.length > 2 &&
           sp_read_field(outer.data, outer.length, &in, &inner) && inner.number == 1 && inner.wire == 2 &&
           inner.length > 0;
}

propane_status tokenizer_parse_sentencepiece(const char *data, size_t length, const char *source, tokenizer **out,
                                             propane_error *err) {
    sp_model m = {
        .arena = arena_create(), .kind = UNIGRAM, .bos = 1, .eos = 2, .prefix = true, .squeeze = true, .escape = true};
    propane_status status = m.arena ? sp_read(&m, data, length, source, err) : propane_fail_memory(err, 0);
    if (m.kind == UNIGRAM) sp_find_unknown(&m);
    if (!status) status = sp_make(&m, source, out, err);
    mem_free(m.pieces);
    piece_map_deinit(&m.ids);
    arena_free(m.arena);
    return status;
}
