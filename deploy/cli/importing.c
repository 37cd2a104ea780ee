#include "deploy/cli/importing.h"

#include "common/base/map.h"
#include "common/base/time.h"
#include "deploy/cli/import_link.h"
#include "deploy/cli/import_state.h"
#include "deploy/cli/progress.h"
#include "deploy/cli/show.h"
#include "deploy/cli/times.h"
#include "deploy/cli/upload_file.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum {
    LIST_MAX_BYTES = 1024 * 1024 * 1024, /* label sets of an hour */
    AROUND_MS = 100, /* looked at before and after a window; a row of units is far shorter */
    WINDOW_MINUTES = CLI_IMPORT_WINDOW_MS / 60000,
    LOOKS_MAX = 3,            /* at a series that changes meanwhile */
    FAULTS_IN_A_ROW_MAX = 20, /* then it is no longer about single profiles */
    FAULTS_SHOWN_MAX = 20,
};

struct importing {
    const struct cli_import_job *job;
    struct cli_import_scope scope;
    const struct cli_import_list *list; /* of the window at hand */
    struct cli_selection_range window;

    struct cli_import_traffic traffic;

    pthread_mutex_t lock; /* of all below */
    struct fg_err fatal;  /* why it stops */
    size_t next;          /* of the list */
    bool window_good;
    unsigned faults_in_a_row;
    uint64_t faults_shown;
    struct cli_import_state state;
    FILE *state_file;
    struct cli_import_report *report;
    struct fg_map series_map;     /* ids of all series so far */
    size_t n_series;              /* of the window that are done */
    struct cli_progress progress; /* in minutes of the range */
};

/* A thread with its link. */
struct import_worker {
    struct importing *all;
    struct cli_import_link link;
    pthread_t thread;
    /* The series at hand. */
    struct cli_import_subject subject;
    struct fg_buf selector, type; /* its texts */
    struct cli_import_done done;
    bool good;
};

static void lock(struct importing *all)
{
    (void)pthread_mutex_lock(&all->lock);
}

static void unlock(struct importing *all)
{
    (void)pthread_mutex_unlock(&all->lock);
}

/* ---- faults ---- */

static void stop_all(struct importing *all, const struct fg_err *err)
{
    lock(all);
    if (!atomic_load(&all->traffic.stop))
        all->fatal = *err;
    atomic_store(&all->traffic.stop, true);
    unlock(all);
}

/* unit NULL: of the whole series in this window. */
static void note_fault(struct import_worker *worker, enum cli_import_fault fault,
                       const struct cli_import_unit *unit, const struct fg_err *err)
{
    struct importing *all = worker->all;
    struct cli_import_report *report = all->report;
    char at[CLI_TIME_TEXT_BYTES];
    struct fg_buf text, line;

    worker->good = false;
    cli_time_write((unit == NULL ? all->window.start_ms : unit->time_ms) * FG_MS_NS, at);
    fg_buf_init(&text, SIZE_MAX);
    fg_buf_init(&line, SIZE_MAX);
    fg_buf_put(&text, worker->subject.series->type);
    fg_labels_write(&worker->subject.series->pushed, &text);
    cli_show_text(fg_buf_slice(&text), &line); /* it is the source's, and goes to a terminal */
    fg_buf_printf(&line, " at %s: %s", at, err->msg);
    fg_buf_putc(&line, '\0');
    lock(all);
    if (report->faults[fault]++ == 0)
        report->examples[fault] = strdup((const char *)line.ptr);
    if (all->faults_shown++ < FAULTS_SHOWN_MAX) {
        cli_progress_clear(&all->progress);
        fprintf(stderr, "not imported: %s\n", (const char *)line.ptr);
    }
    unlock(all);
    fg_buf_done(&text);
    fg_buf_done(&line);
}

/* A refusal is an answer about one profile; other faults in a row are not. */
static void note_trouble(struct import_worker *worker, enum cli_import_fault fault,
                         const struct cli_import_unit *unit, const struct fg_err *err)
{
    struct importing *all = worker->all;
    bool too_many;

    note_fault(worker, fault, unit, err);
    lock(all);
    too_many = ++all->faults_in_a_row >= FAULTS_IN_A_ROW_MAX;
    unlock(all);
    if (too_many)
        stop_all(all, err);
}

/* ---- one unit ---- */

/* Fetches the content of a group into the link's buffer. FG_E_PRECONDITION: the source has changed
 * since it told the units. */
static enum fg_code fetch(struct import_worker *worker, struct cli_import_group *group,
                          struct fg_err *err)
{
    enum cli_import_verdict verdict;

    do {
        struct cli_selection_range range = cli_import_group_range(group);
        double sum = 0;

        if (cli_import_ask_merge(&worker->link, &worker->subject, &range, &sum, err) != FG_OK)
            return err->code;
        verdict = cli_import_group_answer(group, sum);
    } while (verdict == IMPORT_ASK);
    return verdict == IMPORT_TAKE ? FG_OK
                                  : fg_fail(err, FG_E_PRECONDITION, "the source has changed");
}

static void note_imported(struct import_worker *worker, bool joined)
{
    struct importing *all = worker->all;

    worker->done.profiles++;
    worker->done.bytes += worker->link.body.len;
    lock(all);
    all->faults_in_a_row = 0;
    all->report->joined += joined;
    cli_progress_step(&all->progress, 0, worker->link.body.len);
    unlock(all);
}

static enum cli_import_fault fault_of(enum fg_code code, bool pushing)
{
    if (pushing)
        return code == FG_E_INVALID ? IMPORT_REFUSED : IMPORT_UNSENT;
    return code == FG_E_DECODE || code == FG_E_LIMIT ? IMPORT_UNREADABLE : IMPORT_UNASKED;
}

/* Returns false if the whole import ends. */
static bool note_failure(struct import_worker *worker, const struct cli_import_unit *unit,
                         bool pushing, const struct fg_err *err)
{
    enum cli_import_fault fault = fault_of(err->code, pushing);

    /* It is about a whole side and not about one profile. */
    if (err->code == FG_E_DENIED || err->code == FG_E_UNIMPLEMENTED ||
        err->code == FG_E_UNAVAILABLE) {
        worker->good = false;
        stop_all(worker->all, err);
        return false;
    }
    if (fault == IMPORT_REFUSED)
        note_fault(worker, fault, unit, err);
    else
        note_trouble(worker, fault, unit, err);
    return !atomic_load(&worker->all->traffic.stop);
}

/* ---- a series in a window ---- */

/* Asks when the series has profiles, from start_ms on and a little before, to a little after the
 * window: units at its ends may have become one with others. */
static enum fg_code find_units(struct import_worker *worker, int64_t start_ms,
                               struct cli_import_unit **ret_units, size_t *ret_n,
                               struct fg_err *err)
{
    const struct importing *all = worker->all;
    int64_t around_ms = FG_MAX(AROUND_MS, all->job->step_ms);
    const struct cli_selection_range range = {start_ms - around_ms, all->window.end_ms + around_ms};
    struct cli_import_point *points = NULL;
    size_t n = 0;

    if (cli_import_ask_points(&worker->link, &worker->subject, &range, &points, &n, err) != FG_OK)
        return err->code;
    return cli_import_units(points, n, all->job->step_ms, worker->link.points, ret_units, ret_n,
                            err);
}

/* Notes what is there of the window, from start_ms on. */
static uint64_t note_units(struct importing *all, const struct cli_import_unit *units, size_t n,
                           int64_t start_ms)
{
    struct cli_import_report *report = all->report;
    uint64_t found = 0;

    lock(all);
    for (size_t i = 0; i < n; i++) {
        if (units[i].time_ms < start_ms || units[i].time_ms >= all->window.end_ms)
            continue;
        if (report->oldest_ms == 0 || units[i].first_ms < report->oldest_ms)
            report->oldest_ms = units[i].first_ms;
        report->newest_ms = FG_MAX(report->newest_ms, units[i].last_ms);
        found++;
    }
    unlock(all);
    return found;
}

enum group_end { GROUP_DONE, GROUP_CHANGED, GROUP_STOP };

/* A group that begins before start_ms was imported before, with whatever it has of later
 * milliseconds; but nothing was imported before the range. */
static bool is_imported(const struct importing *all, const struct cli_import_group *group,
                        int64_t start_ms)
{
    return group->unit.time_ms < start_ms &&
           (start_ms > all->state.range.start_ms || group->unit.last_ms < start_ms);
}

/* Imports the group that begins with units[0]; *ret_n units are in it. */
static enum group_end import_group(struct import_worker *worker,
                                   const struct cli_import_unit *units, size_t n, int64_t start_ms,
                                   size_t *ret_n)
{
    struct cli_import_group group = cli_import_group(units, n);
    struct fg_err err;

    *ret_n = 1;
    if (fetch(worker, &group, &err) != FG_OK) {
        if (err.code == FG_E_PRECONDITION)
            return GROUP_CHANGED;
        return note_failure(worker, &units[0], false, &err) ? GROUP_DONE : GROUP_STOP;
    }
    *ret_n = group.n;
    if (is_imported(worker->all, &group, start_ms))
        return GROUP_DONE;
    if (cli_import_push(&worker->link, worker->subject.series, &group.unit, &err) != FG_OK)
        return note_failure(worker, &units[0], true, &err) ? GROUP_DONE : GROUP_STOP;
    note_imported(worker, group.n > 1);
    return GROUP_DONE;
}

/* Imports the units of the window from *start_ms on, which moves. */
static enum group_end import_units(struct import_worker *worker,
                                   const struct cli_import_unit *units, size_t n, int64_t *start_ms)
{
    const struct importing *all = worker->all;
    size_t taken;

    for (size_t i = cli_import_first(units, n, *start_ms);
         i < n && units[i].time_ms < all->window.end_ms; i += taken) {
        enum group_end end = import_group(worker, &units[i], n - i, *start_ms, &taken);

        if (end != GROUP_DONE)
            return end;
        *start_ms = FG_MAX(*start_ms, units[i + taken - 1].time_ms + all->job->step_ms);
    }
    return GROUP_DONE;
}

/* Looks at the series again if it changes meanwhile, as it does while late profiles arrive or the
 * source drops duplicates. */
static void import_series(struct import_worker *worker)
{
    struct importing *all = worker->all;
    int64_t start_ms = all->window.start_ms;
    struct cli_import_unit *units = NULL;
    struct fg_err err;
    size_t n = 0;

    for (unsigned look = 0; look < LOOKS_MAX; look++) {
        uint64_t found;

        if (find_units(worker, start_ms, &units, &n, &err) != FG_OK) {
            (void)note_failure(worker, NULL, false, &err);
            return;
        }
        found = note_units(all, units, n, start_ms);
        if (all->job->dry_run) {
            worker->done.profiles = found;
            return;
        }
        if (import_units(worker, units, n, &start_ms) != GROUP_CHANGED)
            return;
    }
    (void)fg_fail(&err, FG_E_ABORTED,
                  "the source has other sums each time; its data still changes");
    note_trouble(worker, IMPORT_UNSTABLE, NULL, &err);
}

/* ---- counting ---- */

static struct cli_import_type *type_of(struct cli_import_report *report, struct fg_slice id)
{
    for (size_t i = 0; i < report->n_types; i++)
        if (fg_slice_is(id, report->types[i].id))
            return &report->types[i];
    report->types = fg_realloc(report->types, (report->n_types + 1) * sizeof *report->types);
    report->types[report->n_types] =
        (struct cli_import_type){.id = strndup((const char *)id.ptr, id.len)};
    return &report->types[report->n_types++];
}

/* Appended at once: an interrupted import must not fetch it again. */
static void write_done(struct importing *all, const struct cli_import_done *done)
{
    struct fg_buf line;

    cli_import_state_note(&all->state, done);
    if (all->state_file == NULL)
        return;
    fg_buf_init(&line, SIZE_MAX);
    cli_import_state_write_series(done, &line);
    (void)fwrite(line.ptr, 1, line.len, all->state_file); /* save_state() reports a failure */
    (void)fflush(all->state_file);
    fg_buf_done(&line);
}

/* Moves the line of progress on, with the lock. */
static void step_series(struct importing *all)
{
    size_t n = all->list->count;
    uint64_t before = cli_import_minutes(&all->window, all->n_series, n);

    all->n_series++;
    cli_progress_step(&all->progress, cli_import_minutes(&all->window, all->n_series, n) - before,
                      0);
}

static void count_series(struct import_worker *worker)
{
    struct importing *all = worker->all;
    struct cli_import_report *report = all->report;
    const struct cli_import_done *done = &worker->done;

    lock(all);
    if (done->profiles > 0) {
        struct cli_import_type *type = type_of(report, worker->subject.series->type);
        uint64_t id = worker->subject.series->id.lo;
        struct fg_map_walk walk;
        /* Not there in a window before. */
        bool new = fg_map_first(&all->series_map, id, &walk) == FG_MAP_NONE;

        if (new)
            fg_map_add(&all->series_map, id, 0);
        type->series += new;
        type->profiles += done->profiles;
        type->bytes += done->bytes;
        report->series += new;
        report->profiles += done->profiles;
        report->bytes += done->bytes;
    }
    if (worker->good)
        write_done(all, done);
    else
        all->window_good = false;
    step_series(all);
    unlock(all);
}

/* ---- windows ---- */

static const struct cli_import_series *take_series(struct importing *all)
{
    const struct cli_import_series *series = NULL;

    lock(all);
    while (series == NULL && all->next < all->list->count && !atomic_load(&all->traffic.stop)) {
        series = &all->list->items[all->next++];
        if (cli_import_state_has(&all->state, all->window.start_ms, series->id)) {
            step_series(all);
            series = NULL;
        }
    }
    unlock(all);
    return series;
}

static void begin_series(struct import_worker *worker, const struct cli_import_series *series)
{
    const struct importing *all = worker->all;

    fg_buf_clear(&worker->selector);
    cli_import_write_selector(all->list, series, &worker->selector);
    fg_buf_putc(&worker->selector, '\0');
    fg_buf_clear(&worker->type);
    fg_buf_put(&worker->type, series->type);
    fg_buf_putc(&worker->type, '\0');
    worker->subject = (struct cli_import_subject){series, (const char *)worker->type.ptr,
                                                  (const char *)worker->selector.ptr};
    worker->done = (struct cli_import_done){all->window.start_ms, series->id, 0, 0};
    worker->good = true;
}

static void *work(void *arg)
{
    struct import_worker *worker = arg;
    const struct cli_import_series *series;

    while ((series = take_series(worker->all)) != NULL) {
        begin_series(worker, series);
        import_series(worker);
        count_series(worker);
    }
    return NULL;
}

/* Writes the state to a file next to it, which takes its place. */
static enum fg_code save_state(struct importing *all, struct fg_err *err)
{
    const char *path = all->job->resume;
    struct fg_buf name, text;
    bool good;

    if (path == NULL || all->job->dry_run)
        return FG_OK;
    fg_buf_init(&name, SIZE_MAX);
    fg_buf_init(&text, SIZE_MAX);
    fg_buf_printf(&name, "%s.new", path);
    fg_buf_putc(&name, '\0');
    cli_import_state_write(&all->state, &text);
    if (all->state_file != NULL)
        (void)fclose(all->state_file);
    all->state_file = fopen((const char *)name.ptr, "we");
    good = all->state_file != NULL && fwrite(text.ptr, 1, text.len, all->state_file) == text.len &&
           fflush(all->state_file) == 0 && fsync(fileno(all->state_file)) == 0 &&
           rename((const char *)name.ptr, path) == 0;
    if (!good)
        (void)fg_fail_errno(err, errno, "--resume %s", path);
    fg_buf_done(&name);
    fg_buf_done(&text);
    return good ? FG_OK : err->code;
}

static enum fg_code import_window(struct import_worker *workers, unsigned n_workers,
                                  int64_t start_ms, struct fg_err *err)
{
    struct importing *all = workers[0].all;
    fg_auto(fg_arena) *arena = fg_arena_create(LIST_MAX_BYTES);
    struct cli_import_list list;
    unsigned n = 1;

    all->window = cli_import_window(&all->state.range, start_ms);
    if (cli_import_ask_list(&workers[0].link, all->job->selector, &all->window, &all->scope, arena,
                            &list, err) != FG_OK)
        return err->code;
    all->list = &list;
    all->next = 0;
    all->n_series = 0;
    all->window_good = true;
    if (list.count == 0)
        cli_progress_step(&all->progress, cli_import_minutes(&all->window, 0, 0), 0);
    /* Every worker has its own series; the first one is this thread. */
    while (n < n_workers && pthread_create(&workers[n].thread, NULL, work, &workers[n]) == 0)
        n++;
    (void)work(&workers[0]);
    while (--n > 0)
        (void)pthread_join(workers[n].thread, NULL);
    all->list = NULL;
    if (atomic_load(&all->traffic.stop)) {
        *err = all->fatal;
        return err->code;
    }
    cli_import_state_end(&all->state, &all->window, all->window_good);
    return save_state(all, err);
}

/* Those that are open from a run before come first; then all that nobody has begun. */
static enum fg_code import_windows(struct import_worker *workers, unsigned n_workers,
                                   struct fg_err *err)
{
    struct cli_import_state *state = &workers[0].all->state;
    size_t n_open = state->n_open;
    enum fg_code code = FG_OK;

    for (size_t i = 0; i < n_open && code == FG_OK; i++)
        code = import_window(workers, n_workers, state->open[0], err);
    while (code == FG_OK && state->next_ms < state->range.end_ms)
        code = import_window(workers, n_workers, state->next_ms, err);
    return code;
}

/* ---- life ---- */

static enum fg_code load_state(struct importing *all, struct fg_err *err)
{
    const struct cli_import_job *job = all->job;
    struct fg_buf text;
    enum fg_code code;

    cli_import_state_init(&all->state, fg_cstr(job->about), &job->range);
    if (job->resume == NULL || job->dry_run || access(job->resume, F_OK) != 0)
        return save_state(all, err);
    fg_buf_init(&text, SIZE_MAX);
    code = cli_upload_file_read(job->resume, &text, err);
    if (code == FG_OK)
        code = cli_import_state_read(&all->state, fg_buf_slice(&text), err);
    fg_buf_done(&text);
    if (code != FG_OK)
        return fg_wrap(err, "--resume %s", job->resume);
    return save_state(all, err);
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct cli_import_type *)a)->id, ((const struct cli_import_type *)b)->id);
}

static enum fg_code run(struct importing *all, struct fg_err *err)
{
    unsigned n = all->job->connections;
    struct import_worker *workers = fg_calloc(n, sizeof *workers);
    const struct cli_selection_range left = {all->state.next_ms, all->state.range.end_ms};
    enum fg_code code = FG_OK;

    for (unsigned i = 0; i < n && code == FG_OK; i++) {
        workers[i].all = all;
        fg_buf_init(&workers[i].selector, SIZE_MAX);
        fg_buf_init(&workers[i].type, SIZE_MAX);
        code = cli_import_link_open(&workers[i].link, &all->traffic, &all->job->source,
                                    all->job->dry_run ? NULL : &all->job->target, err);
    }
    cli_progress_start(&all->progress, "minutes of profiles",
                       cli_import_minutes(&left, 0, 0) + all->state.n_open * WINDOW_MINUTES);
    if (code == FG_OK)
        code = import_windows(workers, n, err);
    cli_progress_clear(&all->progress);
    for (unsigned i = 0; i < n; i++) {
        cli_import_link_close(&workers[i].link);
        fg_buf_done(&workers[i].selector);
        fg_buf_done(&workers[i].type);
    }
    free(workers);
    return code;
}

enum fg_code cli_import_run(struct cli_import_job *job, struct cli_import_report *ret_report,
                            struct fg_err *err)
{
    const char *tenant = job->source.tenant;
    struct importing all = {
        .job = job,
        .scope = {tenant == NULL ? FG_LIT("") : fg_cstr(tenant), job->step_ms},
        .report = ret_report,
    };
    uint64_t bytes_before;
    enum fg_code code;

    *ret_report = (struct cli_import_report){0};
    (void)pthread_mutex_init(&all.lock, NULL);
    cli_import_traffic_init(&all.traffic, job->retries, job->rate_per_s);
    atomic_store(&all.traffic.answered, job->source_proved);
    atomic_store(&all.traffic.source_proved, job->source_proved);
    fg_map_init(&all.series_map);
    code = load_state(&all, err);
    if (code == FG_OK) {
        ret_report->goes_on = job->resume != NULL && !job->dry_run;
        job->range = all.state.range;
        cli_import_state_sent(&all.state, &ret_report->profiles_before, &bytes_before);
        code = run(&all, err);
    }
    if (ret_report->n_types > 1)
        qsort(ret_report->types, ret_report->n_types, sizeof *ret_report->types, by_id);
    ret_report->requests = all.traffic.requests;
    ret_report->expired = all.traffic.expired;
    if (all.state_file != NULL)
        (void)fclose(all.state_file);
    /* A state without an end has nothing left to say. */
    if (all.state_file != NULL && all.state.next_ms >= all.state.range.end_ms &&
        all.state.n_open == 0)
        (void)unlink(job->resume);
    cli_import_state_done(&all.state);
    cli_import_traffic_done(&all.traffic);
    fg_map_done(&all.series_map);
    (void)pthread_mutex_destroy(&all.lock);
    return code;
}

enum fg_code cli_import_oldest(struct cli_import_job *job, int64_t *ret_oldest_ms,
                               struct fg_err *err)
{
    struct cli_import_traffic traffic;
    struct cli_import_link link;
    int64_t oldest_ms = 0;
    enum fg_code code;

    cli_import_traffic_init(&traffic, job->retries, job->rate_per_s);
    code = cli_import_link_open(&link, &traffic, &job->source, NULL, err);
    if (code == FG_OK)
        code = cli_import_ask_oldest(&link, &oldest_ms, err);
    cli_import_link_close(&link);
    cli_import_traffic_done(&traffic);
    if (code == FG_OK && oldest_ms <= 0)
        return fg_fail(err, FG_E_NOT_FOUND, "the source does not say how old its profiles are");
    if (code != FG_OK)
        return code;
    job->source_proved = true;
    *ret_oldest_ms = oldest_ms;
    return FG_OK;
}

void cli_import_report_done(struct cli_import_report *report)
{
    for (size_t i = 0; i < report->n_types; i++)
        free(report->types[i].id);
    for (size_t i = 0; i < IMPORT_FAULTS; i++)
        free(report->examples[i]);
    free(report->types);
}

uint64_t cli_import_report_faults(const struct cli_import_report *report)
{
    uint64_t faults = 0;

    for (size_t i = 0; i < IMPORT_FAULTS; i++)
        faults += report->faults[i];
    return faults;
}
