#include "distributor/scrape/discovery_file.h"

#include "common/runtime/config.h"
#include "common/runtime/file.h"
#include "common/runtime/log.h"

#include <glob.h>

#define GROUP_PREFIX "file:"

enum { FILES_MAX = 1000 }; /* a stat() of each at every check */

/* A file as it was at the last check. */
struct file {
    char *path;
    struct fg_file_version version;
    char *error;                        /* NULL: it was read */
    struct dist_discovered *discovered; /* read by the job, for the loop to take */
    bool is_there, changed;
};

struct dist_file_discovery {
    struct dist_file_discovery_config config;
    uv_timer_t timer;
    struct fg_job job;
    bool under_way;

    /* The job's while one is under way, else the loop's. */
    struct file *files;
    size_t n_files;
    bool too_many;

    void (*on_stopped)(void *arg); /* not NULL: discovery is stopping */
    void *stopped_arg;
};

/* ---- reading (worker) ---- */

static bool is_json(const char *path)
{
    return fg_slice_ends(fg_cstr(path), ".json");
}

enum fg_code dist_file_discovery_check_pattern(const char *pattern, struct fg_err *err)
{
    struct fg_slice text = fg_cstr(pattern);

    if (is_json(pattern) || fg_slice_ends(text, ".yaml") || fg_slice_ends(text, ".yml"))
        return FG_OK;
    return fg_fail(err, FG_E_INVALID, "scrape.files: \"%.200s\" must end in .yaml, .yml or .json",
                   pattern);
}

enum fg_code dist_file_discovery_read(const char *path, struct fg_slice text,
                                      struct dist_discovered *discovered, struct fg_err *err)
{
    enum fg_code code;
    json_t *doc;

    code = is_json(path) ? fg_document_from_json(text, path, &doc, err)
                         : fg_document_from_yaml(text, path, &doc, err);
    if (code != FG_OK)
        return code;
    code = dist_discovered_read_groups(discovered, doc, path, err);
    json_decref(doc);
    return code;
}

static enum fg_code read_file(struct file *file, struct fg_err *err)
{
    fg_auto(dist_discovered) *discovered = dist_discovered_create();
    struct fg_buf text;
    enum fg_code code;

    /* fg_conf_read_file() refuses more than 1 MiB; the rest is room for its last read. */
    fg_buf_init(&text, (size_t)2 * 1024 * 1024);
    code = fg_conf_read_file(file->path, &text, err);
    if (code == FG_OK)
        code = dist_file_discovery_read(file->path, fg_buf_slice(&text), discovered, err);
    fg_buf_done(&text);
    if (code == FG_OK)
        file->discovered = fg_take(discovered);
    return code;
}

/* Reads the file if its version has changed. */
static void look_at(struct file *file)
{
    struct fg_file_version now = fg_file_version(file->path);
    struct fg_err err;

    file->is_there = now.size >= 0;
    if (!file->is_there || fg_file_version_eq(&now, &file->version))
        return;
    /* The version from before reading: a write meanwhile gives another one at the next check. */
    file->version = now;
    file->changed = true;
    free(file->error);
    file->error = NULL;
    if (read_file(file, &err) != FG_OK)
        /* The group keeps its targets: a typo in a file must not end the scrapes of all of its
         * targets. */
        file->error = fg_strdup(err.msg);
}

static void add_file(struct dist_file_discovery *files, const char *path)
{
    /* Two patterns may match the same file. */
    for (size_t i = 0; i < files->n_files; i++)
        if (strcmp(files->files[i].path, path) == 0)
            return;
    if (files->n_files == FILES_MAX) {
        files->too_many = true;
        return;
    }
    files->files = fg_realloc(files->files, (files->n_files + 1) * sizeof *files->files);
    files->files[files->n_files++] =
        (struct file){.path = fg_strdup(path), .version = {.size = -1}};
}

static enum fg_code read_files(struct fg_job *job, struct fg_err *err)
{
    struct dist_file_discovery *files = fg_container(job, struct dist_file_discovery, job);

    (void)err;
    files->too_many = false;
    for (size_t i = 0; i < files->config.n_patterns; i++) {
        glob_t paths;

        /* NOLINTNEXTLINE(concurrency-mt-unsafe): that is tildes, which are not asked for */
        if (glob(files->config.patterns[i], 0, NULL, &paths) == 0)
            for (size_t p = 0; p < paths.gl_pathc; p++)
                add_file(files, paths.gl_pathv[p]);
        globfree(&paths);
    }
    for (size_t i = 0; i < files->n_files; i++)
        look_at(&files->files[i]);
    return FG_OK;
}

/* ---- results (loop) ---- */

static void file_done(struct file *file)
{
    dist_discovered_destroy(file->discovered);
    free(file->error);
    free(file->path);
}

static void take_over(struct dist_file_discovery *files, struct file *file, const char *group)
{
    if (file->error != NULL) {
        fg_metric_add(files->config.metrics, SCRAPE_FILE_FAILURES, 1);
        fg_log_error("target file could not be read", fg_ls("err", file->error));
        return;
    }
    fg_metric_add(files->config.metrics, SCRAPE_FILE_READS, 1);
    fg_log_info("target file loaded", fg_ls("file", file->path),
                fg_lu("targets", file->discovered->n_targets));
    dist_scrape_pool_update(files->config.targets, group, file->discovered, true);
}

/* Takes over the outcome of the check. Returns false if the file was deleted. */
static bool settle(struct dist_file_discovery *files, struct file *file)
{
    size_t size = strlen(GROUP_PREFIX) + strlen(file->path) + 1;
    char *group = fg_malloc(size);

    (void)snprintf(group, size, "%s%s", GROUP_PREFIX, file->path);
    if (!file->is_there) {
        fg_log_info("target file deleted", fg_ls("file", file->path));
        dist_scrape_pool_remove(files->config.targets, group);
    } else if (file->changed) {
        take_over(files, file, group);
    }
    free(group);
    dist_discovered_destroy(fg_take(file->discovered));
    file->changed = false;
    return file->is_there;
}

static void finish_stop(struct dist_file_discovery *files);

static void done(struct fg_job *job)
{
    struct dist_file_discovery *files = fg_container(job, struct dist_file_discovery, job);
    size_t kept = 0;

    files->under_way = false;
    /* Stopped while the job ran: its results are dropped. */
    if (files->on_stopped != NULL) {
        finish_stop(files);
        return;
    }
    for (size_t i = 0; i < files->n_files; i++) {
        if (settle(files, &files->files[i]))
            files->files[kept++] = files->files[i];
        else
            file_done(&files->files[i]);
    }
    files->n_files = kept;
    if (files->too_many)
        fg_log_error("too many target files, ignoring the rest", fg_lu("most", FILES_MAX));
}

static void on_timer(uv_timer_t *timer)
{
    struct dist_file_discovery *files = timer->data;

    if (files->under_way)
        return;
    /* If the lane is full, the next check is soon enough. */
    files->under_way = fg_work_submit(files->config.work, FG_LANE_INGEST, &files->job);
}

/* ---- life ---- */

struct dist_file_discovery *
dist_file_discovery_start(const struct dist_file_discovery_config *config)
{
    struct dist_file_discovery *files = fg_new(struct dist_file_discovery);

    files->config = *config;
    files->job = (struct fg_job){.home = config->loop, .run = read_files, .done = done};
    fg_assert(uv_timer_init(fg_loop_uv(config->loop), &files->timer) == 0);
    files->timer.data = files;
    fg_assert(uv_timer_start(&files->timer, on_timer, 0, (uint64_t)(config->look_ns / FG_MS_NS)) ==
              0);
    return files;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct dist_file_discovery *files = handle->data;
    void (*on_stopped)(void *arg) = files->on_stopped;
    void *arg = files->stopped_arg;

    for (size_t i = 0; i < files->n_files; i++)
        file_done(&files->files[i]);
    free(files->files);
    free(files);
    on_stopped(arg);
}

static void finish_stop(struct dist_file_discovery *files)
{
    uv_close((uv_handle_t *)&files->timer, on_timer_closed);
}

void dist_file_discovery_stop(struct dist_file_discovery *files, void (*on_stopped)(void *arg),
                              void *arg)
{
    files->on_stopped = on_stopped;
    files->stopped_arg = arg;
    fg_assert(uv_timer_stop(&files->timer) == 0);
    if (!files->under_way)
        finish_stop(files);
}

void dist_file_discovery_each_error(struct dist_file_discovery *files,
                                    void (*each)(const char *path, const char *error, void *arg),
                                    void *arg)
{
    if (files->under_way)
        return; /* the job is using the files */
    for (size_t i = 0; i < files->n_files; i++)
        if (files->files[i].error != NULL)
            each(files->files[i].path, files->files[i].error, arg);
    if (files->too_many)
        each("scrape.files", "more than 1000 files", arg);
}
