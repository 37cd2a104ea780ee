#include "deploy/cli/output.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdio.h>

/* The default of gzip(1). */
enum { GZIP_LEVEL = 6 };

enum fg_code cli_output_write(const char *path, struct fg_slice bytes, struct fg_err *err)
{
    FILE *file = path == NULL ? stdout : fopen(path, "wbe");
    bool good;

    if (file == NULL)
        return fg_fail_errno(err, errno, "cannot write %s", path);
    good = bytes.len == 0 || fwrite(bytes.ptr, 1, bytes.len, file) == bytes.len;
    /* A full disk may be reported only by the last flush. */
    good = (path == NULL ? fflush(file) : fclose(file)) == 0 && good;
    if (!good)
        return fg_fail_errno(err, errno, "cannot write %s", path == NULL ? "output" : path);
    return FG_OK;
}

enum fg_code cli_output_write_gzip(const char *path, struct fg_slice bytes, struct fg_err *err)
{
    struct libdeflate_compressor *gzip = libdeflate_alloc_compressor(GZIP_LEVEL);
    size_t bound, len;

    fg_assert(gzip != NULL); /* NULL means no memory, which ends any program here */
    bound = libdeflate_gzip_compress_bound(gzip, bytes.len);
    uint8_t *out = fg_malloc(bound);
    len = libdeflate_gzip_compress(gzip, bytes.ptr, bytes.len, out, bound);
    libdeflate_free_compressor(gzip);
    enum fg_code code = cli_output_write(path, fg_bytes(out, len), err);
    free(out);
    return code;
}
