#include "tests/bench/learn.h"

#include "common/net/inflate.h"
#include "proto/pprof.h"

#include <stdlib.h>

enum { FILE_MAX_BYTES = 256 * 1024 * 1024 };

static void give_up(const char *path, const char *why)
{
    (void)fprintf(stderr, "%s: %s\n", path, why);
    exit(1);
}

static void read_file(const char *path, struct fg_buf *out)
{
    uint8_t chunk[65536];
    FILE *file = fopen(path, "rb");
    struct fg_buf packed;
    struct fg_err err;
    size_t got;

    if (file == NULL) {
        give_up(path, "cannot be read");
        return;
    }
    fg_buf_init(&packed, FILE_MAX_BYTES);
    while ((got = fread(chunk, 1, sizeof chunk, file)) > 0)
        fg_buf_append(&packed, chunk, got);
    (void)fclose(file);
    if (fg_inflate(fg_buf_slice(&packed), fg_coding_sniff(fg_buf_slice(&packed)), FILE_MAX_BYTES,
                   out, &err) != FG_OK)
        give_up(path, err.msg);
    fg_buf_done(&packed);
}

void learn_decode(const char *path, struct fg_arena *arena, struct fg_buf *body,
                  struct fg_batch *ret_batch)
{
    static struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("profile")},
                                       {FG_LIT("service_name"), FG_LIT("bench")}};
    struct fg_pprof_request request = {.upload = {.labels = {labels, FG_COUNT(labels)},
                                                  .time_ns = 1,
                                                  .limits = FG_DECODE_LIMITS_DEFAULT}};
    struct fg_decode_counts counts = {0};
    struct fg_pprof_info info;
    struct fg_err err;

    read_file(path, body);
    *ret_batch = (struct fg_batch){0};
    if (fg_pprof_decode(fg_buf_slice(body), &request, arena, ret_batch, &info, &counts, &err) !=
        FG_OK)
        give_up(path, err.msg);
}

void learn_files(struct resample *resample, char *const *paths, int count)
{
    for (int i = 0; i < count; i++) {
        struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
        struct fg_batch batch;
        struct fg_buf body;

        fg_buf_init(&body, SIZE_MAX);
        learn_decode(paths[i], arena, &body, &batch);
        resample_learn(resample, &batch);
        fg_buf_done(&body);
        fg_arena_destroy(arena);
    }
}
