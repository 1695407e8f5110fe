/* SPDX-License-Identifier: MIT
 * Runs a fuzz target on the named files, and on all files in the named folders. Without arguments, fuzz_NAME runs on
 * fuzz/corpus/NAME. This tests the corpora without libFuzzer. Linked with one target each; ends with a line like the
 * other tests.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat st;
    if (!file || fstat(fileno(file), &st) != 0) {
        perror(path);
        if (file) fclose(file);
        return -1;
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1); /* exactly the file's size, so that a sanitizer detects overruns */
    if (!data || fread(data, 1, size, file) != size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        free(data);
        fclose(file);
        return -1;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

static int replay_folder(const char *path) {
    DIR *dir = opendir(path);
    int count = 0;
    if (!dir) {
        perror(path);
        return -1;
    }
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char inner[2000];
        if (e->d_name[0] == '.') continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        int one = replay_file(inner);
        if (one < 0) {
            closedir(dir);
            return -1;
        }
        count += one;
    }
    closedir(dir);
    return count;
}

static int replay(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? replay_folder(path) : replay_file(path);
}

int main(int argc, char **argv) {
    const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    char folder[300];
    int count = 0, ran = 0;
    snprintf(folder, sizeof folder, "fuzz/corpus/%s", strncmp(name, "fuzz_", 5) == 0 ? name + 5 : name);
    if (argc < 2) count = replay(folder);
    for (int i = 1; i < argc; i++) {
        ran = replay(argv[i]);
        if (ran < 0) break;
        count += ran;
    }
    if (ran < 0 || count <= 0) {
        fprintf(stderr, "%s: %s\n", name, ran < 0 || count < 0 ? "an input cannot be read" : "no inputs");
        return 1;
    }
    printf("100%%: Checks: %d, Failures: 0, Errors: 0\n", count);
    return 0;
}
