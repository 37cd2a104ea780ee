#include "deploy/cli/push_dir.h"

#include "common/base/time.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/json_out.h"
#include "deploy/cli/progress.h"
#include "deploy/cli/push_resume.h"
#include "deploy/cli/series_file.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>

enum {
    PATH_MAX_BYTES = 4096,                /* PATH_MAX of Linux */
    DEPTH_MAX = 32,                       /* ends a circle of links */
    SERVICE_MAX_BYTES = 256,              /* a folder: NAME_MAX of Linux */
    LABELS_MAX_BYTES = 256 * 1024 * 1024, /* of all series of the folder */
    FAILURES_SHOWN_MAX = 100,
};

/* A file to send. */
struct item {
    char *path;
    const struct fg_labels *series; /* of the nearest folder that has them; NULL: none has */
    uint64_t bytes;
    int64_t modified_ns;
};

struct push_dir_list {
    struct item *items;
    size_t n, cap;
    struct fg_arena *arena;    /* of labels */
    bool by_name;              /* whatever is in folders */
    struct cli_resume *resume; /* NULL: all are sent */
    size_t n_before;           /* files that it has */
};

/* What the threads share. */
struct push_dir_sending {
    const struct cli_pushing *pushing;
    const struct cli_client_config *server;
    const struct push_dir_list *list;
    size_t dir_len; /* of the folder's path, which all paths begin with */

    pthread_mutex_t lock; /* of all below */
    size_t next, sent, failed;
    uint64_t bytes;
    struct cli_progress progress;
};

/* ---- which files ---- */

static void add_path(struct push_dir_list *list, const char *path, const struct stat *file,
                     const struct fg_labels *series)
{
    size_t size = strlen(path) + 1;

    if (list->resume != NULL && cli_resume_has(list->resume, path, file)) {
        list->n_before++;
        return;
    }
    if (list->n == list->cap) {
        list->cap = FG_MAX(256, list->cap * 2);
        list->items = fg_realloc(list->items, list->cap * sizeof *list->items);
    }
    list->items[list->n++] = (struct item){memcpy(fg_malloc(size), path, size), series,
                                           (uint64_t)file->st_size, cli_resume_modified_ns(file)};
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Reads the labels of a folder, if it has any; else *series stays. */
static enum fg_code read_series(struct push_dir_list *list, const char *folder,
                                const struct fg_labels **series, struct fg_err *err)
{
    char path[PATH_MAX_BYTES];
    struct fg_labels *labels;
    enum fg_code code;

    if (list->by_name ||
        (size_t)snprintf(path, sizeof path, "%s/" SERIES_FILE, folder) >= sizeof path)
        return FG_OK; /* the paths of its files are too long as well; walk() says so */
    labels = fg_arena_new(list->arena, struct fg_labels, 1);
    if (labels == NULL)
        return fg_fail(err, FG_E_LIMIT, "%s: too many series", path);
    code = cli_series_file_read(path, list->arena, labels, err);
    if (code == FG_OK)
        *series = labels;
    return code == FG_E_NOT_FOUND ? FG_OK : code;
}

static enum fg_code walk(struct push_dir_list *list, const char *path, unsigned depth,
                         const struct fg_labels *series, struct fg_err *err);

/* Adds a file, or walks a folder. Follows links to files only: a link to a folder could lead back,
 * without end. */
static enum fg_code walk_entry(struct push_dir_list *list, const char *path, unsigned depth,
                               const struct fg_labels *series, struct fg_err *err)
{
    struct stat stat_buf;

    if (lstat(path, &stat_buf) != 0)
        return fg_fail_errno(err, errno, "%s", path);
    if (S_ISDIR(stat_buf.st_mode))
        return walk(list, path, depth + 1, series, err);
    if (stat(path, &stat_buf) == 0 && S_ISREG(stat_buf.st_mode))
        add_path(list, path, &stat_buf, series);
    return FG_OK;
}

static enum fg_code walk(struct push_dir_list *list, const char *path, unsigned depth,
                         const struct fg_labels *series, struct fg_err *err)
{
    struct dirent **entries;
    int n = scandir(path, &entries, is_shown, alphasort);
    enum fg_code code;

    if (n < 0)
        return fg_fail_errno(err, errno, "%s", path);
    code = read_series(list, path, &series, err);
    if (depth > DEPTH_MAX)
        code = fg_fail(err, FG_E_INVALID, "%s: more than %d folders deep", path, DEPTH_MAX);
    for (int i = 0; i < n; i++) {
        char below[PATH_MAX_BYTES];

        if ((size_t)snprintf(below, sizeof below, "%s/%s", path, entries[i]->d_name) >=
            sizeof below)
            code = fg_fail(err, FG_E_INVALID, "%s: too long a path", path);
        if (code == FG_OK)
            code = walk_entry(list, below, depth, series, err);
        free(entries[i]);
    }
    free(entries);
    return code;
}

/* ---- sending ---- */

/* Takes the service from the path: the first folder below the one that was named. FG_E_INVALID: the
 * file is in none. */
static enum fg_code service_of(const struct push_dir_sending *sending, const char *path,
                               char service[SERVICE_MAX_BYTES], struct fg_err *err)
{
    const char *below = path + sending->dir_len + 1;
    const char *end = strchr(below, '/');

    if (end == NULL || (size_t)(end - below) >= SERVICE_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID,
                       "whose is it? --name, or folders with the names of services");
    memcpy(service, below, (size_t)(end - below));
    service[end - below] = '\0';
    return FG_OK;
}

static enum fg_code send_one(const struct push_dir_sending *sending, struct cli_client *client,
                             const struct item *item, struct cli_pushed *ret_pushed,
                             struct fg_err *err)
{
    struct cli_pushing pushing = *sending->pushing;
    char service[SERVICE_MAX_BYTES];

    pushing.client = client;
    pushing.series = item->series;
    if (pushing.name == NULL && pushing.series == NULL) {
        if (service_of(sending, item->path, service, err) != FG_OK)
            return err->code;
        pushing.name = service;
    }
    return cli_push_file(&pushing, item->path, ret_pushed, err);
}

static const struct item *take_item(struct push_dir_sending *sending)
{
    const struct item *item = NULL;

    (void)pthread_mutex_lock(&sending->lock);
    if (sending->next < sending->list->n)
        item = &sending->list->items[sending->next++];
    fg_assert(sending->next <= sending->list->n);
    (void)pthread_mutex_unlock(&sending->lock);
    return item;
}

static void note(struct push_dir_sending *sending, const struct item *item,
                 const struct cli_pushed *pushed, const struct fg_err *err)
{
    (void)pthread_mutex_lock(&sending->lock);
    if (pushed != NULL) {
        sending->sent++;
        sending->bytes += pushed->bytes;
        /* Under the lock, so that lines of two threads do not mix. */
        if (sending->list->resume != NULL)
            cli_resume_note(sending->list->resume, item->path, item->bytes, item->modified_ns);
    } else if (++sending->failed <= FAILURES_SHOWN_MAX) {
        cli_progress_clear(&sending->progress);
        fprintf(stderr, "%s: failed, %s\n", item->path, err->msg);
    }
    cli_progress_step(&sending->progress, 1, pushed == NULL ? 0 : pushed->bytes);
    (void)pthread_mutex_unlock(&sending->lock);
}

static void *run(void *arg)
{
    struct push_dir_sending *sending = arg;
    struct cli_client *client;
    const struct item *item;
    struct fg_err err;

    /* A client of its own: a libcurl handle serves one thread at a time. */
    if (cli_client_create(sending->server, &client, &err) != FG_OK)
        return NULL; /* the URL was checked before; the other threads go on */
    while ((item = take_item(sending)) != NULL) {
        struct cli_pushed pushed = {0};
        enum fg_code code = send_one(sending, client, item, &pushed, &err);

        note(sending, item, code == FG_OK ? &pushed : NULL, &err);
    }
    cli_client_destroy(client);
    return NULL;
}

static void send_all(struct push_dir_sending *sending, unsigned connections)
{
    pthread_t *threads = fg_calloc(connections, sizeof *threads);
    unsigned n = 0;

    /* Fewer threads than connections are no failure: each takes the next file. */
    while (n + 1 < FG_MIN(connections, sending->list->n) &&
           pthread_create(&threads[n], NULL, run, sending) == 0)
        n++;
    (void)run(sending); /* this thread is the last connection */
    while (n > 0)
        (void)pthread_join(threads[--n], NULL);
    free(threads);
}

/* ---- all of it ---- */

static int report(const struct push_dir_sending *sending, bool json, int64_t took_ns)
{
    double seconds = round((double)took_ns / FG_MS_NS) / 1000;
    struct fg_err err;

    if (sending->failed > FAILURES_SHOWN_MAX)
        fprintf(stderr, "and %zu more failed\n", sending->failed - FAILURES_SHOWN_MAX);
    if (json) {
        if (cli_json_print(json_pack("{s:b,s:o,s:o,s:o,s:o,s:f}", "ok", sending->failed == 0,
                                     "files_sent", cli_json_u64(sending->sent), "bytes",
                                     cli_json_u64(sending->bytes), "files_failed",
                                     cli_json_u64(sending->failed), "files_sent_before",
                                     cli_json_u64(sending->list->n_before), "seconds", seconds),
                           stdout, &err) == FG_OK)
            return sending->failed == 0 ? CLI_OK : CLI_FAILED;
        fprintf(stderr, "flamegrid push: %s\n", err.msg);
        return CLI_FAILED;
    }
    printf("%zu files sent, %llu bytes, %zu failed, %.1f s", sending->sent,
           (unsigned long long)sending->bytes, sending->failed, seconds);
    if (sending->list->n_before > 0)
        printf(", %zu sent before", sending->list->n_before);
    printf("\n");
    return sending->failed == 0 ? CLI_OK : CLI_FAILED;
}

static int send_list(const struct cli_pushing *pushing, const struct cli_client_config *server,
                     const struct push_dir_list *list, size_t dir_len, unsigned connections,
                     bool json)
{
    struct push_dir_sending sending = {
        .pushing = pushing, .server = server, .list = list, .dir_len = dir_len};
    int64_t start_ns = fg_mono_ns(fg_clock_real());

    (void)pthread_mutex_init(&sending.lock, NULL);
    cli_progress_start(&sending.progress, "files", list->n);
    send_all(&sending, connections);
    cli_progress_clear(&sending.progress);
    (void)pthread_mutex_destroy(&sending.lock);
    return report(&sending, json, fg_mono_ns(fg_clock_real()) - start_ns);
}

enum fg_code cli_push_dir(const struct cli_pushing *pushing, const struct cli_client_config *server,
                          const char *dir, unsigned connections, const char *resume, bool json,
                          int *ret_exit, struct fg_err *err)
{
    struct push_dir_list list = {.by_name = pushing->name != NULL};
    enum fg_code code;

    if (resume != NULL &&
        cli_resume_open(resume, cli_client_url(pushing->client), dir, &list.resume, err) != FG_OK)
        return err->code;
    list.arena = fg_arena_create(LABELS_MAX_BYTES);
    code = walk(&list, dir, 0, NULL, err);
    if (code == FG_OK && list.n + list.n_before == 0)
        code = fg_fail(err, FG_E_NOT_FOUND, "%s: there are no files in it", dir);
    if (code == FG_OK)
        *ret_exit = send_list(pushing, server, &list, strlen(dir), connections, json);
    for (size_t i = 0; i < list.n; i++)
        free(list.items[i].path);
    free(list.items);
    fg_arena_destroy(list.arena);
    if (code != FG_OK) {
        struct fg_err ignored;

        (void)cli_resume_close(list.resume, false, &ignored);
        return code;
    }
    /* If all files were sent, the notes have served their purpose and are removed. */
    return cli_resume_close(list.resume, *ret_exit == CLI_OK, err);
}
