#include "deploy/cli/upload_file.h"

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
