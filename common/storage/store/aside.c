#include "common/storage/store/aside.h"

#include "common/base/slice.h"
#include "common/base/time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 64, FOLDER_MODE = 0750 };

/* The folder has this name until all files are in it; a start that finds it goes on where a
 * crash stopped the move. */
static const char moving[] = "lost.moving";

static enum fg_code fail(struct fg_err *err, const char *what)
{
    (void)fg_fail_errno(err, errno, "setting the store aside: %s", what);
    if (err->code != FG_E_NO_SPACE && err->code != FG_E_DENIED)
        err->code = FG_E_UNAVAILABLE;
    return err->code;
}

/* Only files of RocksDB, the mark and the folder of unread.h move. The folder itself stays: it
 * holds the lock and may be a mount point. */
static bool is_of_the_store(const char *name)
{
    static const char *const names[] = {"CURRENT", "IDENTITY", "MARK", "unread"};
    static const char *const starts[] = {"MANIFEST-", "OPTIONS-"};
    static const char *const ends[] = {".log", ".sst", ".dbtmp"};
    struct fg_slice text = fg_cstr(name);

    for (size_t i = 0; i < FG_COUNT(names); i++)
        if (fg_slice_is(text, names[i]))
            return true;
    for (size_t i = 0; i < FG_COUNT(starts); i++)
        if (fg_slice_starts(text, starts[i]))
            return true;
    for (size_t i = 0; i < FG_COUNT(ends); i++)
        if (fg_slice_ends(text, ends[i]))
            return true;
    return false;
}

static enum fg_code move_files(int from, int to, struct fg_err *err)
{
    int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    enum fg_code code = FG_OK;
    const struct dirent *entry;

    if (stream == NULL) {
        (void)fail(err, "folder");
        if (fd >= 0)
            (void)close(fd);
        return err->code;
    }
    while (code == FG_OK &&
           (entry = readdir(stream)) != NULL) /* NOLINT(concurrency-mt-unsafe): a stream of ours */
        if (is_of_the_store(entry->d_name) && renameat(from, entry->d_name, to, entry->d_name) != 0)
            code = fail(err, entry->d_name);
    (void)closedir(stream);
    return code;
}

/* Moves what is left into the folder `lost.moving`, which gets its final name when all is in it. */
static enum fg_code finish(int dir, struct fg_err *err)
{
    int to = openat(dir, moving, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char name[NAME_MAX_BYTES];
    enum fg_code code;

    if (to < 0)
        return fail(err, moving);
    code = move_files(dir, to, err);
    (void)snprintf(name, sizeof name, "lost-%lld",
                   (long long)(fg_wall_ns(fg_clock_real()) / FG_SECOND_NS));
    /* Both folders before the rename: the final name promises that the move is complete, also
     * after a power cut. */
    if (code == FG_OK && (fsync(to) != 0 || fsync(dir) != 0 ||
                          renameat(dir, moving, dir, name) != 0 || fsync(dir) != 0))
        code = fail(err, name);
    (void)close(to);
    return code;
}

static enum fg_code move(const char *path, bool begin, struct fg_err *err)
{
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum fg_code code = FG_OK;

    if (dir < 0)
        return fail(err, path);
    if (begin && mkdirat(dir, moving, FOLDER_MODE) != 0 && errno != EEXIST)
        code = fail(err, moving);
    if (code == FG_OK && faccessat(dir, moving, F_OK, 0) == 0)
        code = finish(dir, err);
    (void)close(dir);
    return code;
}

enum fg_code fg_aside_move(const char *dir, struct fg_err *err)
{
    return move(dir, true, err);
}

enum fg_code fg_aside_finish(const char *dir, struct fg_err *err)
{
    return move(dir, false, err);
}
