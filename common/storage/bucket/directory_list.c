/*
 * Lists of a directory bucket: folder by folder, depth first. A folder's names are sorted with '/'
 * behind those of folders, which gives the byte order of whole names ("a-b" before "a/b").
 */
#include "common/storage/bucket/directory_impl.h"
#include "common/storage/bucket/impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

struct directory_walk {
    struct fg_directory *directory;
    struct fg_bucket_request *request;
    char path[FG_BUCKET_NAME_MAX_BYTES + FG_BUCKET_SEGMENT_MAX_BYTES + 2];
    size_t len; /* of the path; it ends with '/' unless it is empty */
};

/* The names in one folder. */
struct directory_children {
    char **names; /* with '/' behind those of folders */
    size_t n, cap;
};

static void children_add(struct directory_children *children, const char *name, bool folder)
{
    size_t len = strlen(name);
    char *copy = fg_malloc(len + 2);

    memcpy(copy, name, len);
    copy[len] = folder ? '/' : '\0';
    copy[len + folder] = '\0';
    if (children->n == children->cap) {
        children->cap = FG_MAX(2 * children->cap, (size_t)64);
        children->names = fg_realloc(children->names, children->cap * sizeof(char *));
    }
    children->names[children->n++] = copy;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns 0, or errno if it cannot be told what the entry is. */
static int note_child(struct directory_children *children, int folder, const struct dirent *entry)
{
    unsigned char type = entry->d_type;
    struct stat info;

    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
        strlen(entry->d_name) > FG_BUCKET_SEGMENT_MAX_BYTES)
        return 0;
    /* Not every file system says what an entry is. */
    if (type == DT_UNKNOWN) {
        if (fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            return errno == ENOENT ? 0 : errno; /* deleted meanwhile */
        type = S_ISREG(info.st_mode) ? DT_REG : S_ISDIR(info.st_mode) ? DT_DIR : DT_UNKNOWN;
    }
    if (type == DT_REG || type == DT_DIR)
        children_add(children, entry->d_name, type == DT_DIR);
    return 0;
}

/* Returns 0 at the end, or errno: what was read until then is not all. */
static int read_names(struct directory_children *children, int folder, DIR *stream)
{
    const struct dirent *entry;
    int errnum;

    do {
        errno = 0;               /* the only thing that tells an error from the end */
        entry = readdir(stream); /* NOLINT(concurrency-mt-unsafe): a stream of ours */
        errnum = entry == NULL ? errno : note_child(children, folder, entry);
    } while (entry != NULL && errnum == 0);
    return errnum;
}

static enum fg_code fail_list(struct directory_walk *walk, int errnum)
{
    struct fg_err err;

    (void)fg_directory_fail(&err, errnum, "list");
    return fg_bucket_fail_err(walk->request, &err);
}

static enum fg_code read_children(struct directory_walk *walk, int folder,
                                  struct directory_children *children)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    int errnum = stream == NULL ? errno : 0;

    if (stream != NULL) {
        errnum = read_names(children, folder, stream);
        (void)closedir(stream);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    if (errnum != 0)
        return fail_list(walk, errnum);
    if (children->n > 0)
        qsort(children->names, children->n, sizeof(char *), by_name);
    return FG_OK;
}

/* false: the page is full, or it failed. */
static bool take_object(struct directory_walk *walk, int folder, const char *leaf)
{
    struct fg_bucket_entry *entry;
    struct stat info;

    if (fg_bucket_name_fault(walk->path) != NULL)
        return true; /* not put there by us */
    switch (fg_bucket_list_take(walk->request, fg_cstr(walk->path), &entry)) {
    case FG_BUCKET_FULL:
        return false;
    case FG_BUCKET_ADDED:
        if (fstatat(folder, leaf, &info, AT_SYMLINK_NOFOLLOW) == 0) {
            entry->size_bytes = (uint64_t)info.st_size;
            entry->modified_wall_ns = fg_directory_time_ns(&info);
        } else {
            walk->request->n_entries--;
            if (errno != ENOENT) { /* else deleted meanwhile */
                (void)fail_list(walk, errno);
                return false;
            }
        }
        break;
    default:
        break;
    }
    return true;
}

static bool walk_folder(struct directory_walk *walk, int folder);

/* name ends with '/', and so does the path with it. */
static bool walk_into(struct directory_walk *walk, int folder, char *name, size_t len)
{
    bool go_on = true;
    int fd;

    name[len - 1] = '\0'; /* with it a symbolic link would be followed */
    fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        go_on = walk_folder(walk, fd);
        (void)close(fd);
    } else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
        (void)fail_list(walk, errno);
        go_on = false;
    }
    return go_on;
}

/* false: the page is full, or it failed. */
static bool walk_child(struct directory_walk *walk, int folder, char *name)
{
    size_t before = walk->len, len = strlen(name);
    bool go_on = true;

    if (before + len > FG_BUCKET_NAME_MAX_BYTES)
        return true;
    memcpy(walk->path + before, name, len + 1);
    walk->len += len;
    if (name[len - 1] != '/')
        go_on = take_object(walk, folder, name);
    else if (fg_bucket_list_wants(walk->request, fg_cstr(walk->path)))
        go_on = walk_into(walk, folder, name, len);
    walk->len = before;
    walk->path[before] = '\0';
    return go_on;
}

/* As deep as names are long, by two bytes a level. */
static bool walk_folder(struct directory_walk *walk, int folder)
{
    struct directory_children children = {0};
    bool go_on = fg_bucket_check(walk->request, fg_mono_ns(fg_clock_real())) == FG_OK &&
                 read_children(walk, folder, &children) == FG_OK;

    for (size_t i = 0; go_on && i < children.n; i++)
        go_on = walk_child(walk, folder, children.names[i]);
    for (size_t i = 0; i < children.n; i++)
        free(children.names[i]);
    free(children.names);
    return go_on;
}

void fg_directory_list(struct fg_directory *directory, struct fg_bucket_request *request)
{
    struct directory_walk walk = {.directory = directory, .request = request};

    (void)walk_folder(&walk, directory->objects);
}
