/* SPDX-License-Identifier: MIT
 * The small parts of base: status, memory, arena, text, random numbers, SHA-256.
 */
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/base/sha256.h"
#include "core/base/text.h"
#include "support/test.h"

TEST(errors_carry_status_and_text) {
    propane_error err = {0};
    EXPECT(propane_fail(&err, PROPANE_ERR_LIMIT, "x is %d", 7) == PROPANE_ERR_LIMIT);
    EXPECT(err.status == PROPANE_ERR_LIMIT);
    EXPECT_TEXT(err.text, "x is 7");
    EXPECT(propane_fail_prefix(&err, PROPANE_ERR_LIMIT, "file %s", "f") == PROPANE_ERR_LIMIT);
    EXPECT_TEXT(err.text, "file f: x is 7");
    EXPECT(propane_fail(NULL, PROPANE_ERR_IO, "nobody listens") == PROPANE_ERR_IO);
    EXPECT(propane_fail_prefix(NULL, PROPANE_ERR_IO, "nobody") == PROPANE_ERR_IO);
    for (int s = PROPANE_OK; s <= PROPANE_ERR_CANCELLED; s++)
        EXPECT(strcmp(propane_status_name((propane_status)s), "unknown") != 0);
    EXPECT_TEXT(propane_status_name((propane_status)99), "unknown");
    EXPECT_TEXT(propane_status_name((propane_status)-1), "unknown");
}

TEST(long_errors_are_cut_not_overrun) {
    propane_error err;
    char big[3000];
    memset(big, 'a', sizeof big);
    big[sizeof big - 1] = 0;
    propane_fail(&err, PROPANE_ERR_IO, "%s", big);
    EXPECT(strlen(err.text) == sizeof err.text - 1);
    propane_fail(&err, PROPANE_ERR_IO, "cannot open %s: %s", big, "the reason"); /* both ends stay */
    EXPECT(strlen(err.text) == sizeof err.text - 1 && strncmp(err.text, "cannot open aaa", 15) == 0);
    EXPECT(strstr(err.text, "a...a") && text_ends_with(err.text, "aaa: the reason"));
    for (size_t i = 0; i + 2 < sizeof big; i += 2) memcpy(big + i, "\xc3\xa4", 2); /* no character is cut */
    propane_fail(&err, PROPANE_ERR_IO, "%sb%s", big, big);
    EXPECT(strstr(err.text, "\xc3\xa4...\xc3\xa4") && strlen(err.text) < sizeof err.text);
    memset(big, 'a', sizeof big - 1);
    propane_fail(&err, PROPANE_ERR_IO, "%s", big);
    propane_fail_prefix(&err, PROPANE_ERR_IO, "%s", "front");
    EXPECT(strlen(err.text) == sizeof err.text - 1 && strncmp(err.text, "front: aaa", 10) == 0);
    propane_fail_prefix(&err, PROPANE_ERR_IO, "%s", big);
    EXPECT(strlen(err.text) == sizeof err.text - 1);
}

TEST(memory_is_zeroed_counted_and_can_fail) {
    uint64_t before = mem_alloc_count();
    unsigned char *p = mem_array(100, 3);
    EXPECT(p && mem_alloc_count() == before + 1);
    for (int i = 0; i < 300; i++) EXPECT(p[i] == 0);
    EXPECT((p = mem_resize(p, 1000)) != NULL);
    mem_free(p);
    EXPECT(mem_array(SIZE_MAX / 2, 3) == NULL);
    mem_fail_at(2);
    void *first = mem_alloc(1), *second = mem_alloc(1), *third = mem_alloc(1);
    EXPECT(first && !second && third);
    mem_fail_at(0);
    mem_free(first);
    mem_free(third);
    mem_free(NULL);
    size_t bytes = (size_t)5 << 20;
    uint8_t *pages = mem_pages_alloc(bytes);
    EXPECT(pages && (uintptr_t)pages % 64 == 0 && pages[0] == 0 && pages[bytes - 1] == 0);
    mem_pages_free(pages, bytes);
    EXPECT(mem_pages_alloc(SIZE_MAX) == NULL);
}

TEST(memory_can_be_shared) {
    char name[32];
    snprintf(name, sizeof name, "/propane.test.%ld", (long)getpid());
    EXPECT(!mem_shared_open(name, 4096));
    char *one = mem_shared_make(name, 4096), *other = one ? mem_shared_open(name, 4096) : NULL;
    if (!one) SKIP("base: shared memory: this system has none");
    EXPECT(other && one != other && one[4095] == 0);
    EXPECT(!mem_shared_make(name, 4096));
    strcpy(one, "seen");
    EXPECT(strcmp(other, "seen") == 0);
    mem_shared_forget(name);
    EXPECT(!mem_shared_open(name, 4096));
    mem_shared_free(one, 4096);
    EXPECT(strcmp(other, "seen") == 0);
    mem_shared_free(other, 4096);
    mem_shared_free(NULL, 4096);
    EXPECT(!mem_shared_make(name, (size_t)1 << 60) && !mem_shared_open(name, 4096)); /* nothing is left of it */
}

TEST(memory_tells_a_part_of_l2) {
    int64_t all = mem_l2_bytes(1 << 20), half = mem_l2_bytes(512 << 10);
    EXPECT(all >= 256 << 10 && all <= 1 << 20);
    EXPECT(half == all / 2 && mem_l2_bytes(0) == 0);
}

TEST(arena_gives_aligned_zeroed_memory) {
    arena *a = arena_create();
    rng r;
    rng_init(&r, 3);
    unsigned char *blocks[500];
    size_t sizes[500];
    for (int i = 0; i < 500; i++) {
        sizes[i] = (size_t)rng_below(&r, i % 50 ? 400 : 40000);
        blocks[i] = arena_alloc(a, sizes[i]);
        EXPECT(blocks[i] && (uintptr_t)blocks[i] % 16 == 0);
        for (size_t k = 0; k < sizes[i]; k++) EXPECT(blocks[i][k] == 0);
        memset(blocks[i], i & 255, sizes[i]);
    }
    for (int i = 0; i < 500; i++)
        for (size_t k = 0; k < sizes[i]; k++) EXPECT(blocks[i][k] == (i & 255));
    EXPECT(arena_alloc(a, SIZE_MAX - 8) == NULL && arena_array(a, SIZE_MAX / 4, 8) == NULL);
    EXPECT_TEXT(arena_printf(a, "%s-%05d", "x", 42), "x-00042");
    EXPECT_TEXT(arena_string_n(a, "abcdef", 3), "abc");
    EXPECT(arena_bytes(a) > 0);
    mem_fail_at(1);
    EXPECT(arena_alloc(a, 1 << 20) == NULL);
    mem_fail_at(0);
    arena_free(a);
    arena_free(NULL);
}

TEST(bytes_become_base64) {
    static const char *const rows[][2] = {{"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
                                          {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xfe\xfd", "//79"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        text t = {0};
        text_append(&t, "");
        text_append_base64(&t, rows[i][0], strlen(rows[i][0]));
        EXPECT_TEXT(t.data, rows[i][1]);
        char back[8];
        const int64_t length = text_from_base64(t.data, t.length, back, sizeof back);
        EXPECT(length == (int64_t)strlen(rows[i][0]) && memcmp(back, rows[i][0], (size_t)length) == 0);
        /* Not enough space. */
        EXPECT(length == 0 || text_from_base64(t.data, t.length, back, (size_t)length - 1) == -1);
        text_deinit(&t);
    }
    char out[8];
    EXPECT(text_from_base64("Zm8", 3, out, 8) == 2); /* without the padding '=' */
    EXPECT(text_from_base64("Zm9vY", 5, out, 8) == -1 && text_from_base64("Z*8=", 4, out, 8) == -1);
    EXPECT(text_from_base64("Z\0g=", 4, out, 8) == -1);
}

TEST(fewest_digits_of_numbers) {
    static const struct {
        double value;
        int digits;
    } rows[] = {{0, 1},
                {1, 1},
                {-1000000, 1},
                {0.1, 1},
                {1e-5, 1},
                {0.125, 3},
                {0.1 + 0.2, 17},
                {(double)-9.367593765258789f, 16},
                {1e300, 1},
                {5e-324, 1},
                {1.7976931348623157e308, 17},
                {123456789012345678.0, 17}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        EXPECT_MSG(text_digits(rows[i].value) == rows[i].digits, "%.17g: %d", rows[i].value,
                   text_digits(rows[i].value));
}

/* Programs that use the library may have set a locale with a decimal comma. */
TEST(numbers_have_a_point_in_every_locale) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8", "ru_RU.UTF-8"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !found; i++) found = setlocale(LC_NUMERIC, names[i]);
    if (!found) SKIP("no locale with a decimal comma is installed");
    double x = 0;
    propane_error err;
    char shown[40], *end = NULL, *json = NULL;
    snprintf(shown, sizeof shown, "%g", 1.5);
    EXPECT_TEXT(shown, "1,5");
    EXPECT_TEXT(text_point(shown), "1.5");
    text t = {0};
    text_real(&t, 9, -0.25);
    EXPECT_TEXT(t.data, "-0.25");
    text_deinit(&t);
    EXPECT(text_strtod("-2.25e1,7", &end) == -22.5 && strcmp(end, ",7") == 0);
    EXPECT(text_strtod("12", &end) == 12 && !*end);
    EXPECT(text_strtod("x", &end) == 0 && *end == 'x');
    const char *after = text_read_real("0.125;", &x);
    EXPECT(after && *after == ';' && x == 0.125);
    EXPECT(!(after = text_read_real("0,125", &x)) || *after == ',');
    json_t *value = json_real(0.1);
    EXPECT_OK(json_print(value, JSON_ENCODE_ANY, &json, NULL, &err));
    EXPECT_TEXT(json, "0.1");
    json_decref(value);
    mem_free(json);
    setlocale(LC_NUMERIC, "C");
}

TEST(text_grows_and_remembers_failure) {
    text t = {0};
    for (int i = 0; i < 1000; i++) text_printf(&t, "%d,", i);
    EXPECT(!t.failed && t.length == 3890 && strlen(t.data) == 3890);
    text_clear(&t);
    EXPECT(t.length == 0 && t.data[0] == 0);
    text_append_n(&t, "a\0b", 3);
    EXPECT(t.length == 3 && memcmp(t.data, "a\0b", 4) == 0);
    text u = {0};
    mem_fail_at(1);
    text_append(&u, "x");
    mem_fail_at(0);
    text_append(&u, "y");
    EXPECT(u.failed && u.length == 0);
    text_deinit(&t);
    text_deinit(&u);
    char out[80], big[200];
    char shown[40];
    propane_error err = {0};
    const char *hostile = "a\033]0;x\007\xc2\x9b"
                          "b\xe2\x80\xae\xc3\xa4\t\n";
    text_harmless(shown, sizeof shown, hostile, strlen(hostile), "\n");
    EXPECT_TEXT(shown, "a\\x1b]0;x\\x07\\u009bb\\u202e\xc3\xa4\\x09\n");
    EXPECT(text_harmless(shown, 6, "ab\033cd", 5, "") == 2); /* cut before a character that would not fit */
    (void)propane_fail(&err, PROPANE_ERR_INVALID, "%s: no", "\033[31m");
    EXPECT_TEXT(err.text, "\\x1b[31m: no");
    (void)propane_fail_prefix(&err, err.status, "%s", "\r");
    EXPECT_TEXT(err.text, "\\x0d: \\x1b[31m: no");
    EXPECT_TEXT(text_quote(out, "a\n\x7f", 3), "a\\x0a\\x7f");
    memset(big, 1, sizeof big);
    text_quote(out, big, sizeof big);
    EXPECT(strlen(out) < 80 && strcmp(out + strlen(out) - 3, "...") == 0);
}

TEST(text_for_people) {
    static const struct {
        double bytes;
        const char *text;
    } sizes[] = {{0, "0 B"},       {999, "999 B"},     {1000, "1 KB"},    {70400, "70.4 KB"},
                 {999600, "1 MB"}, {825e12, "825 TB"}, {3.5e9, "3.5 GB"}, {99.96e6, "100 MB"}};
    static const struct {
        double seconds;
        const char *text;
    } times[] = {{-3, "0m00s"}, {59.6, "1m00s"}, {3599, "59m59s"}, {3600, "1h00m"}, {90061, "25h01m"}};
    char out[32];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        EXPECT_TEXT(text_bytes(out, sizes[i].bytes), sizes[i].text);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        EXPECT_TEXT(text_duration(out, times[i].seconds), times[i].text);
    char shape[160];
    static const int64_t dim[] = {1, 3, 224, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, 5};
    EXPECT_TEXT(text_shape(shape, 3, dim), "[1, 3, 224]");
    EXPECT_TEXT(text_shape(shape, 0, dim), "[]");
    EXPECT(strlen(text_shape(shape, 10, dim)) < sizeof shape && shape[strlen(shape) - 1] == ']');
    EXPECT(text_ends_with("m.gguf", ".gguf") && text_ends_with("M.GGUF", ".gguf") && text_ends_with(".gguf", ".gguf"));
    EXPECT(!text_ends_with("gguf", ".gguf") && !text_ends_with("m.gguf.old", ".gguf"));
}

TEST(rng_gives_the_published_sequence) {
    /* splitmix64 from seed 0 is compared with the first outputs in Vigna's notes. xoshiro256** from the state 1, 2, 3,
     * 4 is compared with the test vector of the crate rand_xoshiro, computed with the reference code. */
    rng r;
    rng_init(&r, 0);
    EXPECT(r.s[0] == 0xe220a8397b1dcdafu && r.s[1] == 0x6e789e6aa1b965f4u && r.s[2] == 0x06c45d188009454fu);
    r = (rng){{1, 2, 3, 4}};
    const uint64_t want[] = {11520u, 0u, 1509978240u, 1215971899390074240u, 1216172134540287360u, 607988272756665600u};
    for (int i = 0; i < 6; i++) EXPECT(rng_next(&r) == want[i]);
}

TEST(rng_draws_are_fair) {
    rng r;
    rng_init(&r, 4);
    int counts[7] = {0};
    for (int i = 0; i < 70000; i++) counts[rng_below(&r, 7)]++;
    for (int i = 0; i < 7; i++) EXPECT_MSG(abs(counts[i] - 10000) < 500, "%d: %d", i, counts[i]); /* 5 sigma */
    EXPECT(rng_below(&r, 1) == 0);
    double sum = 0, squares = 0, unit = 0, low = 1, high = 0;
    const int n = 200000;
    for (int i = 0; i < n; i++) {
        double x = rng_normal(&r), u = rng_unit(&r);
        EXPECT(isfinite(x) && u >= 0 && u < 1);
        sum += x, squares += x * x, unit += u, low = fmin(low, u), high = fmax(high, u);
    }
    EXPECT(fabs(sum / n) < 0.012 && fabs(squares / n - 1) < 0.016 && fabs(unit / n - 0.5) < 0.0033); /* 5 sigma */
    EXPECT(low < 1e-3 && high > 0.999);
}

static const char *hash_of(const void *data, size_t bytes, size_t piece) {
    static char hex[65];
    uint8_t digest[32];
    sha256 h;
    sha256_init(&h);
    for (size_t i = 0; i < bytes; i += piece)
        sha256_update(&h, (const char *)data + i, bytes - i < piece ? bytes - i : piece);
    sha256_final(&h, digest);
    sha256_hex(digest, hex);
    return hex;
}

TEST(sha256_gives_the_standard_digests) {
    EXPECT_TEXT(hash_of("", 0, 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_TEXT(hash_of("abc", 3, 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    EXPECT_TEXT(hash_of(two, 56, 56), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char *million = mem_alloc(1000000);
    memset(million, 'a', 1000000);
    const size_t pieces[] = {1000000, 1, 63, 64, 65, 1000};
    for (int i = 0; i < 6; i++)
        EXPECT_TEXT(hash_of(million, 1000000, pieces[i]),
                    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    mem_free(million);
}

/* With 100 MB to spare, requests whose sum is larger are refused before anything is written, and freed memory is
 * available again in full. */
TEST(no_more_memory_than_there_is) {
    propane_error err = {0};
    mem_spare_pin(100 << 20);
    for (int round = 0; round < 3; round++) {
        void *a = mem_pages_alloc(40 << 20), *b = mem_alloc(40 << 20), *c = mem_alloc(40 << 20);
        EXPECT(a && b && !c);
        size_t bytes;
        EXPECT(mem_failed(&bytes) && bytes == 40 << 20);
        EXPECT(propane_fail(&err, PROPANE_ERR_INVALID, "no such thing") == PROPANE_ERR_MEMORY);
        EXPECT_TEXT(err.text, "out of memory: cannot allocate 41943040 bytes");
        EXPECT(!mem_failed(NULL));
        void *less = mem_resize(b, 20 << 20);
        EXPECT(less);
        c = mem_pages_alloc(30 << 20);
        EXPECT(c);
        mem_pages_free(a, 40 << 20);
        mem_pages_free(c, 30 << 20);
        mem_free(less);
    }
}

SUITE("base/base", T(no_more_memory_than_there_is), T(errors_carry_status_and_text), T(long_errors_are_cut_not_overrun),
      T(memory_is_zeroed_counted_and_can_fail), T(memory_can_be_shared), T(memory_tells_a_part_of_l2),
      T(arena_gives_aligned_zeroed_memory), T(bytes_become_base64), T(fewest_digits_of_numbers),
      T(numbers_have_a_point_in_every_locale), T(text_grows_and_remembers_failure), T(text_for_people),
      T(rng_gives_the_published_sequence), T(rng_draws_are_fair), T(sha256_gives_the_standard_digests))
