/*
 * Runs a fuzz target over files instead of under libFuzzer, so that every input that ever broke a
 * decoder stays an ordinary test, with gcc and with any sanitizer.
 *
 * Usage: fuzz_<name> FILE|DIRECTORY...
 *
 * Directories are read with their subfolders. A path that does not exist is an error: a corpus that
 * was moved must not turn into a test that tests nothing. For the same reason the empty input is
 * always run first; it costs nothing and every decoder has to survive it.
 */
#include <errno.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    REPLAY_OPEN_DIRS_MAX = 16, /* descriptors nftw() may hold; deeper folders only cost it time */
};

/* nftw() passes no argument to its callback. */
static size_t files_run;

/*
 * Each input gets a block of exactly its size, as under libFuzzer: only then does the address
 * sanitizer see a read of one byte past the end.
 */
static int replay(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size > 0 ? size : 1);
    int rc = -1;

    if (file == NULL || data == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        goto done;
    }
    if (fread(data, 1, size, file) != size) {
        fprintf(stderr, "%s: cut short while reading\n", path);
        goto done;
    }
    /* -1 means "keep this out of the corpus", libFuzzer's only other answer; not a failure. */
    (void)LLVMFuzzerTestOneInput(data, size);
    files_run++;
    rc = 0;
done:
    free(data);
    if (file != NULL)
        fclose(file);
    return rc;
}

static int on_entry(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type == FTW_D)
        return 0;
    if (type != FTW_F || !S_ISREG(info->st_mode)) {
        fprintf(stderr, "%s: not a readable file or directory\n", path);
        return -1;
    }
    /* Unbuffered, so that the last line before a crash names the input. */
    fprintf(stderr, "%s\n", path);
    return replay(path, (size_t)info->st_size);
}

int main(int argc, char **argv)
{
    /* Not NULL and not on the stack: the first byte past it is the sanitizer's. */
    uint8_t *nothing = calloc(1, 1);

    if (argc < 2 || nothing == NULL) {
        fprintf(stderr, "usage: %s FILE|DIRECTORY...\n", argv[0]);
        free(nothing);
        return 2;
    }
    (void)LLVMFuzzerTestOneInput(nothing, 0);
    free(nothing);

    for (int i = 1; i < argc; i++) {
        if (nftw(argv[i], on_entry, REPLAY_OPEN_DIRS_MAX, FTW_PHYS) != 0) {
            fprintf(stderr, "%s: replay failed\n", argv[i]);
            return 1;
        }
    }
    printf("%zu inputs replayed\n", files_run);
    return 0;
}
