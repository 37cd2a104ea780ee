#include "deploy/cli/export_dir.h"

#include "common/base/str.h"
#include "deploy/cli/output.h"
#include "deploy/cli/series_file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SERVICE_MAX_BYTES = 100, /* of its name in the folder's; the hash tells longer ones apart */
    FOLDER_MAX_BYTES = SERVICE_MAX_BYTES + 32,
    NAME_MAX_BYTES = 64, /* of days and files */
};

/* "<folder>/<prefix><name>" */
static enum fg_code make_path(char path[EXPORT_PATH_MAX_BYTES], const char *folder,
                              const char *prefix, const char *name, struct fg_err *err)
{
    int len = snprintf(path, EXPORT_PATH_MAX_BYTES, "%s/%s%s", folder, prefix, name);

    if (len < 0 || len >= EXPORT_PATH_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "too long a path: %.100s...", path);
    return FG_OK;
}

static enum fg_code make_folder(const char *path, struct fg_err *err)
{
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        return fg_fail_errno(err, errno, "cannot make %s", path);
    return FG_OK;
}

/* Writes the folder's name: the service, and a hash of all labels. The service's name comes from a
 * sender, so all characters that could lead to another folder are replaced. */
static void write_folder(const struct fg_labels *labels, char out[FOLDER_MAX_BYTES])
{
    struct fg_slice service = fg_labels_get(labels, FG_LABEL_SERVICE);
    size_t len = FG_MIN(service.len, SERVICE_MAX_BYTES);

    for (size_t i = 0; i < len; i++) {
        char c = (char)service.ptr[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '_' || c == '-' || (c == '.' && i > 0);

        out[i] = '_';
        if (plain)
            out[i] = c;
    }
    (void)snprintf(out + len, FOLDER_MAX_BYTES - len, "-%016llx",
                   (unsigned long long)fg_labels_hash(labels).lo);
}

/* Makes the folder of the series and writes its labels into it, unless it is the current one. */
static enum fg_code enter_series(struct cli_export_dir *dir, const struct fg_labels *labels,
                                 struct fg_err *err)
{
    char folder[FOLDER_MAX_BYTES], path[EXPORT_PATH_MAX_BYTES], file[EXPORT_PATH_MAX_BYTES];

    write_folder(labels, folder);
    if (make_path(path, dir->path, "", folder, err) != FG_OK)
        return err->code;
    if (strcmp(path, dir->series) == 0)
        return FG_OK;
    if (make_folder(dir->path, err) != FG_OK || make_folder(path, err) != FG_OK ||
        make_path(file, path, "", SERIES_FILE, err) != FG_OK ||
        cli_series_file_write(file, labels, err) != FG_OK)
        return err->code;
    memcpy(dir->series, path, sizeof path);
    return FG_OK;
}

static enum fg_code enter_day(struct cli_export_dir *dir, const struct tm *time, struct fg_err *err)
{
    char path[EXPORT_PATH_MAX_BYTES], name[NAME_MAX_BYTES];

    (void)snprintf(name, sizeof name, "%04d-%02d-%02d", time->tm_year + 1900, time->tm_mon + 1,
                   time->tm_mday);
    if (make_path(path, dir->series, "", name, err) != FG_OK)
        return err->code;
    if (strcmp(path, dir->day) == 0)
        return FG_OK;
    if (make_folder(path, err) != FG_OK)
        return err->code;
    memcpy(dir->day, path, sizeof path);
    return FG_OK;
}

enum fg_code cli_export_dir_add(void *arg, const struct qry_export_profile *profile,
                                struct fg_err *err)
{
    /* Divisions in C round towards zero; times before 1970 are rounded down here. */
    int64_t ms = profile->time_ns / FG_MS_NS - (profile->time_ns % FG_MS_NS < 0);
    time_t seconds = (time_t)(ms / 1000 - (ms % 1000 < 0));
    char path[EXPORT_PATH_MAX_BYTES], hidden[EXPORT_PATH_MAX_BYTES], name[NAME_MAX_BYTES];
    struct cli_export_dir *dir = arg;
    struct tm time;

    if (gmtime_r(&seconds, &time) == NULL)
        return fg_fail(err, FG_E_INVALID, "a time beyond the calendar");
    (void)snprintf(name, sizeof name, "%02d%02d%02d.%03d-%016llx.pb.gz", time.tm_hour, time.tm_min,
                   time.tm_sec, (int)(ms - (int64_t)seconds * 1000),
                   (unsigned long long)profile->id.lo);
    if (enter_series(dir, profile->labels, err) != FG_OK || enter_day(dir, &time, err) != FG_OK ||
        make_path(path, dir->day, "", name, err) != FG_OK ||
        make_path(hidden, dir->day, ".", name, err) != FG_OK)
        return err->code;
    /* Under a hidden name first, which push --dir ignores: a run that is killed leaves no half
     * file. */
    if (cli_output_write_gzip(hidden, profile->pprof, err) != FG_OK) {
        (void)unlink(hidden);
        return err->code;
    }
    if (rename(hidden, path) != 0)
        return fg_fail_errno(err, errno, "cannot rename %s", hidden);
    cli_progress_step(&dir->progress, 1, profile->pprof.len);
    return FG_OK;
}
