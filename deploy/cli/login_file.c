#include "deploy/cli/login_file.h"

#include "common/base/hash.h"
#include "common/base/str.h"
#include "common/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 64 * 1024, PATH_MAX_BYTES = 4096 };

/* ---- the path ---- */

/* The folder, without a slash at its end. Returns false if the environment names none. */
static bool put_folder(struct fg_buf *path)
{
    const char *config = getenv("XDG_CONFIG_HOME"); /* NOLINT(concurrency-mt-unsafe) */
    const char *home = getenv("HOME");              /* NOLINT(concurrency-mt-unsafe) */

    if (config != NULL && config[0] == '/')
        fg_buf_puts(path, config);
    else if (home != NULL && home[0] == '/')
        fg_buf_printf(path, "%s/.config", home);
    else
        return false;
    fg_buf_puts(path, "/flamegrid/tokens");
    return true;
}

/* A name that any URL may give. */
static void put_name(const char *url, struct fg_buf *path)
{
    uint8_t id[FG_ID_BYTES];

    fg_id_put(id, fg_hash128(fg_cstr(url)));
    fg_buf_putc(path, '/');
    fg_buf_hex(path, id, sizeof id);
    fg_buf_putc(path, '\0');
}

/* Makes the folders of a path that are not there yet. */
static enum fg_code make_folders(char *path, struct fg_err *err)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return fg_fail_errno(err, errno, "%s", path);
        *slash = '/';
    }
    return FG_OK;
}

/* ---- reading ---- */

static enum fg_code read_document(const char *path, int fd, struct fg_buf *text, struct fg_err *err)
{
    struct stat info;
    char bytes[4096];
    ssize_t n;

    if (fstat(fd, &info) != 0)
        return fg_fail_errno(err, errno, "%s", path);
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return fg_fail(err, FG_E_DENIED, "others can read %s, which has a token: chmod 600", path);
    while ((n = read(fd, bytes, sizeof bytes)) > 0)
        fg_buf_append(text, bytes, (size_t)n);
    if (n < 0)
        return fg_fail_errno(err, errno, "%s", path);
    return FG_OK;
}

static enum fg_code take_token(const char *path, const char *url, const struct fg_buf *text,
                               struct fg_buf *out, struct fg_err *err)
{
    json_t *document =
        text->full ? NULL
                   : json_loadb((const char *)text->ptr, text->len, JSON_REJECT_DUPLICATES, NULL);
    const char *of = json_string_value(json_object_get(document, "url"));
    const char *token = json_string_value(json_object_get(document, "token"));
    json_int_t expires_s = json_integer_value(json_object_get(document, "expires_s"));

    err->code = FG_OK;
    if (of == NULL || token == NULL)
        (void)fg_fail(err, FG_E_INVALID, "%s is damaged: flamegrid login", path);
    else if (strcmp(of, url) != 0)
        err->code = FG_OK; /* another server's: two have one name */
    else if (expires_s != 0 && expires_s <= fg_wall_ns(fg_clock_real()) / FG_SECOND_NS)
        (void)fg_fail(err, FG_E_DENIED, "the log-in at %s has expired: flamegrid login", url);
    else
        fg_buf_append(out, token, strlen(token) + 1);
    json_decref(document);
    return err->code;
}

enum fg_code cli_login_file_read(const char *url, struct fg_buf *out, struct fg_err *err)
{
    struct fg_buf path, text;
    enum fg_code code = FG_OK;
    int fd;

    fg_buf_init(&path, PATH_MAX_BYTES);
    if (!put_folder(&path)) {
        fg_buf_done(&path);
        return FG_OK;
    }
    put_name(url, &path);
    fd = path.full ? -1 : open((const char *)path.ptr, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        fg_buf_init(&text, FILE_MAX_BYTES);
        code = read_document((const char *)path.ptr, fd, &text, err);
        if (code == FG_OK)
            code = take_token((const char *)path.ptr, url, &text, out, err);
        fg_buf_done(&text);
        (void)close(fd);
    }
    fg_buf_done(&path);
    return code;
}

/* ---- writing ---- */

static enum fg_code write_all(int fd, const char *text, const char *path, struct fg_err *err)
{
    size_t len = strlen(text);

    while (len > 0) {
        ssize_t n = write(fd, text, len);

        if (n < 0)
            return fg_fail_errno(err, errno, "%s", path);
        text += n;
        len -= (size_t)n;
    }
    return FG_OK;
}

/* Atomically: a reader sees the old token or the new one. */
static enum fg_code replace(const char *path, const char *text, struct fg_err *err)
{
    char temporary[PATH_MAX_BYTES + 16];
    enum fg_code code;
    int fd;

    (void)snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    fd = mkstemp(temporary); /* with mode 0600 */
    if (fd < 0)
        return fg_fail_errno(err, errno, "%s", temporary);
    code = write_all(fd, text, temporary, err);
    if (close(fd) != 0 && code == FG_OK)
        code = fg_fail_errno(err, errno, "%s", temporary);
    if (code == FG_OK && rename(temporary, path) != 0)
        code = fg_fail_errno(err, errno, "%s", path);
    if (code != FG_OK)
        (void)unlink(temporary);
    return code;
}

static enum fg_code write_token(char *path, const char *url, const char *token, int64_t expires_s,
                                struct fg_err *err)
{
    json_t *document;
    enum fg_code code;
    char *text;

    if (token == NULL)
        return unlink(path) == 0 || errno == ENOENT ? FG_OK : fg_fail_errno(err, errno, "%s", path);
    if (make_folders(path, err) != FG_OK)
        return err->code;
    document = json_pack("{s:s, s:s, s:I}", "url", url, "token", token, "expires_s",
                         (json_int_t)expires_s);
    text = document == NULL ? NULL : json_dumps(document, JSON_INDENT(1));
    json_decref(document);
    if (text == NULL)
        return fg_fail(err, FG_E_INVALID, "the token or the URL is not UTF-8");
    code = replace(path, text, err);
    free(text);
    return code;
}

enum fg_code cli_login_file_write(const char *url, const char *token, int64_t expires_s,
                                  struct fg_err *err)
{
    struct fg_buf path;
    enum fg_code code;

    fg_buf_init(&path, PATH_MAX_BYTES);
    if (!put_folder(&path)) {
        code = fg_fail(err, FG_E_INVALID, "neither HOME nor XDG_CONFIG_HOME says where to keep it");
    } else {
        put_name(url, &path);
        code = path.full ? fg_fail(err, FG_E_INVALID, "the path of the token is too long")
                         : write_token((char *)path.ptr, url, token, expires_s, err);
    }
    fg_buf_done(&path);
    return code;
}
