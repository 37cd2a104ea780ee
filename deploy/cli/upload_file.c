#include "deploy/cli/upload_file.h"

#include "common/base/str.h"

#include <errno.h>
#include <stdio.h>

static enum fg_code read_all(FILE *file, struct fg_buf *out, struct fg_err *err)
{
    enum { CHUNK_BYTES = 64 * 1024 };
    uint8_t *chunk = fg_malloc(CHUNK_BYTES);
    size_t len;

    /* Read in pieces, since the size of a pipe is unknown and that of a file may grow. */
    while (!out->full && (len = fread(chunk, 1, CHUNK_BYTES, file)) > 0)
        fg_buf_append(out, chunk, len);
    free(chunk);
    if (ferror(file))
        return fg_fail_errno(err, errno, "cannot read");
    if (out->full)
        return fg_fail(err, FG_E_LIMIT, "larger than %zu bytes", out->max_bytes);
    return FG_OK;
}

enum fg_code cli_upload_file_read(const char *path, struct fg_buf *out, struct fg_err *err)
{
    bool from_stdin = strcmp(path, "-") == 0;
    FILE *file = from_stdin ? stdin : fopen(path, "rbe");

    if (file == NULL)
        return fg_fail_errno(err, errno, "cannot open");
    enum fg_code code = read_all(file, out, err);
    if (!from_stdin)
        (void)fclose(file);
    return code;
}

static const struct {
    const char *ending, *format;
} endings[] = {
    {".pb", "pprof"},         {".pb.gz", "pprof"}, {".pprof", "pprof"}, {".folded", "folded"},
    {".collapsed", "folded"}, {".txt", "folded"},  {".lines", "lines"}, {".jfr", "jfr"},
};

const char *cli_upload_file_format(const char *path, struct fg_slice content)
{
    enum { LOOK_BYTES = 4096 };

    /* gzip (RFC 1952 2.3.1): pprof files usually are; a recording has to be named .jfr. */
    if (fg_slice_starts(content, "\x1f\x8b"))
        return fg_slice_ends(fg_cstr(path), ".jfr") ? "jfr" : "pprof";
    for (size_t i = 0; i < FG_COUNT(endings); i++)
        if (fg_slice_ends(fg_cstr(path), endings[i].ending))
            return endings[i].format;
    /* A plain pprof begins with messages that are full of zero bytes; stacks as text have none. */
    if (fg_slice_find(fg_slice_sub(content, 0, LOOK_BYTES), '\0') != SIZE_MAX)
        return "pprof";
    return "folded";
}

bool cli_upload_file_is_format(const char *format)
{
    /* The formats of /ingest (distributor/API.md). "groups" and "collapsed" are its names for
     * folded. */
    static const char *const known[] = {"pprof", "folded", "groups", "collapsed", "lines",
                                        "jfr",   "trie",   "tree",   "speedscope"};

    for (size_t i = 0; i < FG_COUNT(known); i++)
        if (strcmp(format, known[i]) == 0)
            return true;
    return false;
}
