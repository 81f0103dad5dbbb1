// SPDX-License-Identifier: Apache-2.0
// main — runs a fuzz target as a plain program: every file named, and every file in a directory named, is one input and one check.
//
// So the corpus, and with it each input that ever crashed, is tried again on every machine, with any compiler and under valgrind.
// An input that kills the target ends the program before its plan, which the runner counts as a failure; the last line names it.
#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "../unit/tap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// An exact allocation of the input, so that a read one past its end is caught. NULL: it cannot be read.
static uint8_t *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    long end;

    if (!f)
        return NULL;
    if (fseek(f, 0, SEEK_END) == 0 && (end = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0) {
        *size = (size_t)end;
        data = malloc(*size ? *size : 1);
        if (data && fread(data, 1, *size, f) != *size) {
            free(data);
            data = NULL;
        }
    }
    fclose(f);
    return data;
}

static void replay(const char *path)
{
    size_t size;
    uint8_t *data = slurp(path, &size);

    if (!data) {
        fail("%s can be read", path);
        return;
    }
    diag("%s", path);
    ok(LLVMFuzzerTestOneInput(data, size) == 0, "%s", path);
    free(data);
}

static int is_visible(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

static void replay_all(const char *dir)
{
    struct dirent **names;
    char path[4096];
    int n = scandir(dir, &names, is_visible, alphasort);

    if (n < 0) {
        fail("directory %s can be read", dir);
        return;
    }
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        replay(path);
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv)
{
    struct stat st;

    for (int i = 1; i < argc; i++) {
        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
            replay_all(argv[i]);
        else
            replay(argv[i]);
    }
    return done_testing();
}
