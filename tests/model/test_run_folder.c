/* SPDX-License-Identifier: MIT
 * The files of a language model in a run's folder: whether a vocabulary fits, which paths are models, and which files
 * are copied.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "lm/run/run_folder.h"
#include "support/test.h"

static propane_error err;

/* An embedding has as many rows as there are ids, or more, but not twice as many; a few too few get a hint. */
TEST(a_vocabulary_fits_into_the_rows) {
    static const struct {
        int64_t rows;
        bool fits, hint;
    } cases[] = {{256, true, false}, {257, true, false}, {511, true, false},  {512, false, false}, {5000, false, false},
                 {255, false, true}, {205, false, true}, {204, false, false}, {0, false, false}};
    tokenizer *t = NULL;
    EXPECT_OK(tokenizer_create_bytes(&t, &err));
    EXPECT(tokenizer_vocab_size(t) == 256);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const propane_status status = run_vocabulary("m", cases[i].rows, t, &err);
        EXPECT_MSG((status == PROPANE_OK) == cases[i].fits, "%lld rows", (long long)cases[i].rows);
        if (cases[i].fits) continue;
        EXPECT(strstr(err.text, "the tokenizer one of 256: they do not match"));
        EXPECT_MSG((strstr(err.text, "resize_token_embeddings") != NULL) == cases[i].hint, "%lld rows",
                   (long long)cases[i].rows);
    }
    tokenizer_free(t);
}

static const char *in(const char *dir, const char *name) {
    static char paths[4][1300];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static void expect_text(const char *path, const char *want) {
    char *data = NULL;
    size_t length = 0;
    if (!want) {
        EXPECT_MSG(!file_exists(path), "%s is there", path);
        return;
    }
    EXPECT_OK(file_read(path, 1000, &data, &length, &err));
    EXPECT(length == strlen(want) && memcmp(data, want, length) == 0);
    mem_free(data);
}

/* Both files are copied, from a folder or from next to a file. A missing one is left out, and nothing is copied
 * within the same folder. */
TEST(files_of_a_chat_are_copied) {
    char *from = test_temp_dir(), *to = test_temp_dir();
    EXPECT_OK(run_copy_chat(from, to, &err));
    expect_text(in(to, "tokenizer_config.json"), NULL);
    EXPECT_OK(file_write(in(from, "chat_template.jinja"), "{{a}}", 5, &err));
    EXPECT_OK(run_copy_chat(from, to, &err));
    expect_text(in(to, "chat_template.jinja"), "{{a}}");
    expect_text(in(to, "tokenizer_config.json"), NULL);
    EXPECT_OK(file_write(in(from, "tokenizer_config.json"), "{}", 2, &err));
    EXPECT_OK(file_write(in(from, "chat_template.jinja"), "{{b}}", 5, &err));
    EXPECT_OK(file_write(in(from, "model.gguf"), "x", 1, &err));
    EXPECT_OK(run_copy_chat(in(from, "model.gguf"), to, &err)); /* a file: its folder */
    expect_text(in(to, "chat_template.jinja"), "{{b}}");
    expect_text(in(to, "tokenizer_config.json"), "{}");
    EXPECT_OK(run_copy_chat(from, from, &err));
    expect_text(in(from, "chat_template.jinja"), "{{b}}");
    EXPECT(unlink(in(to, "tokenizer_config.json")) == 0 && unlink(in(to, "chat_template.jinja")) == 0);
    EXPECT(chdir(from) == 0);
    EXPECT_OK(run_copy_chat("model.gguf", to, &err)); /* a name alone: this folder */
    expect_text(in(to, "chat_template.jinja"), "{{b}}");
    EXPECT(run_copy_chat(from, "/nowhere/at/all", &err) != PROPANE_OK);
    mem_free(from), mem_free(to);
}

TEST(programs_and_other_files_are_no_models) {
    char *dir = test_temp_dir();
    model_config config;
    EXPECT_OK(file_write(in(dir, "a.mil"), "program(1.3)", 12, &err));
    EXPECT_OK(file_write(in(dir, "a.mlmodel"), "x", 1, &err));
    EXPECT(!run_is_model(in(dir, "a.mil")) && !run_is_model(in(dir, "a.mlmodel")) && !run_is_model(in(dir, "none")));
    EXPECT(run_config(in(dir, "none.json"), &config, &err) == PROPANE_ERR_NOT_FOUND && strstr(err.text, "none.json"));
    EXPECT(run_config(in(dir, "none"), &config, &err) != PROPANE_OK && strstr(err.text, "none"));
    mem_free(dir);
}

SUITE("model/run_folder", T(a_vocabulary_fits_into_the_rows), T(files_of_a_chat_are_copied),
      T(programs_and_other_files_are_no_models))
