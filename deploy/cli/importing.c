#include "deploy/cli/importing.h"

#include "common/base/map.h"
#include "common/base/time.h"
#include "deploy/cli/import_answer.h"
#include "deploy/cli/import_state.h"
#include "deploy/cli/progress.h"
#include "deploy/cli/push_request.h"
#include "deploy/cli/retry.h"
#include "deploy/cli/times.h"
#include "deploy/cli/upload_file.h"
#include "proto/querier_v1.pb-c.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum {
    LIST_MAX_BYTES = 1024 * 1024 * 1024, /* label sets of an hour */
    WORK_MAX_BYTES = 1024 * 1024 * 1024, /* of one answer, decoded */
    BODY_MAX_BYTES = 256 * 1024 * 1024,  /* of a push; servers take far less, and say so */
    AROUND_MS = 100, /* looked at before and after a window; a row of units is far shorter */
    LOOKS_MAX = 3,   /* at a series that changes meanwhile */
    FAULTS_IN_A_ROW_MAX = 20, /* then it is no longer about single profiles */
    FAULTS_SHOWN_MAX = 20,
};

#define METHOD(name) "querier.v1.QuerierService/" name

struct importing {
    const struct cli_import_job *job;
    struct cli_import_scope scope;
    const struct cli_import_list *list; /* of the window at hand */
    struct cli_selection_range window;

    atomic_bool stop;
    pthread_mutex_t lock; /* of all below */
    struct fg_err fatal;  /* why it stops */
    size_t next;          /* of the list */
    bool window_good;
    unsigned faults_in_a_row;
    uint64_t faults_shown;
    int64_t slot_mono_ns; /* when the source may be asked again */
    struct cli_import_state state;
    FILE *state_file;
    struct cli_import_report *report;
    struct fg_map series_map; /* ids of all series so far */
    struct cli_progress progress;
};

/* A connection to either side, and the thread that uses it. */
struct import_worker {
    struct importing *all;
    struct cli_client *source, *target;
    struct fg_arena *points; /* of a series */
    struct fg_arena *arena;  /* of one answer */
    struct fg_buf pprof, body;
    struct fg_buf selector, type; /* of the series at hand, with a NUL */
    pthread_t thread;
    /* The series at hand. */
    const struct cli_import_series *series;
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

/* Whether it is about a whole side and not about one profile. */
static bool is_fatal(enum fg_code code)
{
    return code == FG_E_DENIED || code == FG_E_UNIMPLEMENTED || code == FG_E_UNAVAILABLE;
}

static void stop(struct importing *all, const struct fg_err *err)
{
    lock(all);
    if (!atomic_load(&all->stop))
        all->fatal = *err;
    atomic_store(&all->stop, true);
    unlock(all);
}

/* unit NULL: of the whole series in this window. */
static void note_fault(struct import_worker *worker, enum cli_import_fault fault,
                       const struct cli_import_unit *unit, const struct fg_err *err)
{
    struct importing *all = worker->all;
    struct cli_import_report *report = all->report;
    char at[CLI_TIME_TEXT_BYTES];
    struct fg_buf line;

    worker->good = false;
    cli_time_write((unit == NULL ? all->window.start_ms : unit->time_ms) * FG_MS_NS, at);
    fg_buf_init(&line, SIZE_MAX);
    fg_buf_printf(&line, "%.*s", FG_S(worker->series->type));
    fg_labels_write(&worker->series->pushed, &line);
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
        stop(all, err);
}

/* ---- requests ---- */

/* Sleeps in short pieces, so that another thread's end is noticed. */
static void rest(struct importing *all, int64_t until_mono_ns)
{
    while (!atomic_load(&all->stop)) {
        int64_t left_ns = until_mono_ns - fg_mono_ns(fg_clock_real());
        struct timespec piece = {.tv_nsec = (long)FG_MIN(left_ns, FG_SECOND_NS / 10)};

        if (left_ns <= 0)
            return;
        (void)nanosleep(&piece, NULL);
    }
}

/* Waits for the turn of a request to the source: those of all threads are evenly apart. */
static void pace(struct importing *all)
{
    int64_t now_ns = fg_mono_ns(fg_clock_real()), turn_ns = now_ns;

    lock(all);
    all->report->requests++;
    if (all->job->rate_per_s > 0) {
        turn_ns = FG_MAX(now_ns, all->slot_mono_ns);
        all->slot_mono_ns = turn_ns + FG_SECOND_NS / (int64_t)all->job->rate_per_s;
    }
    unlock(all);
    rest(all, turn_ns);
}

/* A request to either side. */
struct import_question {
    const char *side; /* for messages */
    enum fg_code (*send)(struct import_worker *worker, const struct import_question *question,
                         struct cli_client_reply *ret_reply, struct fg_err *err);
    /* NULL: the answer has nothing to read. Otherwise fails with FG_E_DECODE if it makes no
     * sense. */
    enum fg_code (*read)(struct import_worker *worker, const struct import_question *question,
                         struct fg_slice body, struct fg_err *err);
    const char *method;              /* of the source */
    const ProtobufCMessage *request; /* to the source */
    const char *key;                 /* of a push */
    void *result;                    /* of read() */
};

static enum fg_code check_status(const struct import_question *question,
                                 const struct cli_client_reply *reply, struct fg_err *err)
{
    if (cli_client_check(reply, err) == FG_OK)
        return FG_OK;
    switch (reply->status) {
    case 401:
    case 403:
        err->code = FG_E_DENIED;
        break;
    case 404:
    case 501:
        err->code = FG_E_UNIMPLEMENTED;
        break;
    default:
        err->code = cli_retry_helps(reply->status) ? FG_E_ABORTED : FG_E_INVALID;
    }
    return fg_wrap(err, "%s", question->side);
}

/* FG_E_UNAVAILABLE: no answer. FG_E_ABORTED: the side is in trouble. FG_E_DECODE: it cannot be
 * read. All three may pass. *ret_after_s: when the side wants to be asked again; 0: it does not
 * say. */
static enum fg_code try_once(struct import_worker *worker, const struct import_question *question,
                             uint64_t *ret_after_s, struct fg_err *err)
{
    struct cli_client_reply reply = {0};
    enum fg_code code;

    *ret_after_s = 0;
    if (question->send(worker, question, &reply, err) != FG_OK)
        return fg_wrap(err, "%s", question->side);
    *ret_after_s = reply.retry_after_s;
    code = check_status(question, &reply, err);
    if (code == FG_OK && question->read != NULL)
        code = question->read(worker, question, fg_buf_slice(&reply.body), err);
    if (code == FG_OK && reply.expired > 0) {
        lock(worker->all);
        worker->all->report->expired += reply.expired;
        unlock(worker->all);
    }
    cli_client_reply_done(&reply);
    return code;
}

static enum fg_code ask(struct import_worker *worker, const struct import_question *question,
                        struct fg_err *err)
{
    for (unsigned attempt = 0;; attempt++) {
        uint64_t after_s;
        enum fg_code code = try_once(worker, question, &after_s, err);

        if (code != FG_E_UNAVAILABLE && code != FG_E_ABORTED && code != FG_E_DECODE)
            return code;
        if (attempt == worker->all->job->retries || atomic_load(&worker->all->stop))
            return code;
        rest(worker->all, fg_mono_ns(fg_clock_real()) +
                              (int64_t)cli_retry_pause_s(after_s, attempt) * FG_SECOND_NS);
    }
}

static enum fg_code send_to_source(struct import_worker *worker,
                                   const struct import_question *question,
                                   struct cli_client_reply *ret_reply, struct fg_err *err)
{
    pace(worker->all);
    return cli_client_send(worker->source, question->method, question->request, ret_reply, err);
}

static enum fg_code send_to_target(struct import_worker *worker,
                                   const struct import_question *question,
                                   struct cli_client_reply *ret_reply, struct fg_err *err)
{
    return cli_client_post_once(worker->target, CLI_PUSH_PATH, CLI_PUSH_TYPE, question->key,
                                fg_buf_slice(&worker->body), ret_reply, err);
}

static enum fg_code
ask_source(struct import_worker *worker, const char *method, const ProtobufCMessage *request,
           enum fg_code (*read)(struct import_worker *, const struct import_question *,
                                struct fg_slice, struct fg_err *),
           void *result, struct fg_err *err)
{
    const struct import_question question = {.side = "the source",
                                             .send = send_to_source,
                                             .read = read,
                                             .method = method,
                                             .request = request,
                                             .result = result};

    return ask(worker, &question, err);
}

/* ---- what the source has ---- */

static enum fg_code read_oldest(struct import_worker *worker,
                                const struct import_question *question, struct fg_slice body,
                                struct fg_err *err)
{
    fg_arena_reset(worker->arena);
    return cli_import_read_oldest(body, worker->arena, question->result, err);
}

struct import_listing {
    struct fg_arena *arena; /* lasts as long as the window */
    struct cli_import_list list;
};

static enum fg_code read_list(struct import_worker *worker, const struct import_question *question,
                              struct fg_slice body, struct fg_err *err)
{
    struct import_listing *listing = question->result;
    struct fg_labels *sets;
    size_t n;

    fg_arena_reset(listing->arena);
    if (cli_import_read_series(body, listing->arena, &sets, &n, err) != FG_OK)
        return err->code;
    return cli_import_list_make(sets, n, &worker->all->scope, listing->arena, &listing->list, err);
}

/* Lists the series of the window. What the source knows of them may be of other hours of a block:
 * those have no points. */
static enum fg_code list_series(struct import_worker *worker, struct import_listing *listing,
                                struct fg_err *err)
{
    const struct importing *all = worker->all;
    char *matcher = (char *)(uintptr_t)all->job->selector; /* only packed */
    Querier__V1__SeriesRequest request;

    querier__v1__series_request__init(&request);
    request.matchers = &matcher;
    request.n_matchers = 1;
    request.start = all->window.start_ms;
    request.end = all->window.end_ms;
    return ask_source(worker, METHOD("Series"), &request.base, read_list, listing, err);
}

struct import_points {
    struct cli_import_point *items;
    size_t n;
};

static enum fg_code read_points(struct import_worker *worker,
                                const struct import_question *question, struct fg_slice body,
                                struct fg_err *err)
{
    struct import_points *points = question->result;

    fg_arena_reset(worker->points);
    return cli_import_read_points(body, worker->points, &points->items, &points->n, err);
}

/* Asks when the series has profiles, from start_ms on and a little before, to a little after the
 * window. The very last point says only that something is there: the source reads up to its first
 * nanosecond. */
static enum fg_code find_units(struct import_worker *worker, int64_t start_ms,
                               struct cli_import_unit **ret_units, size_t *ret_n,
                               struct fg_err *err)
{
    const struct importing *all = worker->all;
    int64_t around_ms = FG_MAX(AROUND_MS, all->job->step_ms);
    Querier__V1__SelectSeriesRequest request;
    struct import_points points = {0};

    querier__v1__select_series_request__init(&request);
    request.profile_typeid = (char *)worker->type.ptr;
    request.label_selector = (char *)worker->selector.ptr;
    request.start = start_ms - around_ms;
    request.end = all->window.end_ms + around_ms;
    request.step = 0.001;
    if (ask_source(worker, METHOD("SelectSeries"), &request.base, read_points, &points, err) !=
        FG_OK)
        return err->code;
    return cli_import_units(points.items, points.n, all->job->step_ms, worker->points, ret_units,
                            ret_n, err);
}

/* ---- one unit ---- */

static enum fg_code read_merge(struct import_worker *worker, const struct import_question *question,
                               struct fg_slice body, struct fg_err *err)
{
    fg_arena_reset(worker->arena);
    fg_buf_clear(&worker->pprof);
    fg_buf_put(&worker->pprof, body);
    if (worker->pprof.full)
        return fg_fail(err, FG_E_LIMIT, "a profile of %zu bytes", body.len);
    return cli_import_read_profile(body, worker->series, worker->arena, question->result, err);
}

/* Merges the range, both ends included, into worker->pprof. */
static enum fg_code merge(struct import_worker *worker, const struct cli_selection_range *range,
                          double *ret_sum, struct fg_err *err)
{
    Querier__V1__SelectMergeProfileRequest request;

    querier__v1__select_merge_profile_request__init(&request);
    request.profile_typeid = (char *)worker->type.ptr;
    request.label_selector = (char *)worker->selector.ptr;
    request.start = range->start_ms;
    request.end = range->end_ms;
    return ask_source(worker, METHOD("SelectMergeProfile"), &request.base, read_merge, ret_sum,
                      err);
}

/* Fetches the content of a group into worker->pprof. FG_E_PRECONDITION: the source has changed
 * since it told the units. */
static enum fg_code fetch(struct import_worker *worker, struct cli_import_group *group,
                          struct fg_err *err)
{
    enum cli_import_verdict verdict;

    do {
        struct cli_selection_range range = cli_import_group_range(group);
        double sum = 0;

        if (merge(worker, &range, &sum, err) != FG_OK)
            return err->code;
        verdict = cli_import_group_answer(group, sum);
    } while (verdict == IMPORT_ASK);
    return verdict == IMPORT_TAKE ? FG_OK
                                  : fg_fail(err, FG_E_PRECONDITION, "the source has changed");
}

static enum fg_code push(struct import_worker *worker, const struct cli_import_unit *unit,
                         struct fg_err *err)
{
    char id[CLI_IMPORT_ID_BYTES];
    const struct import_question question = {
        .side = "the target", .send = send_to_target, .key = id};
    struct fg_buf pprof;
    enum fg_code code;

    cli_import_id(worker->series, unit, id);
    fg_buf_init(&pprof, BODY_MAX_BYTES);
    fg_buf_clear(&worker->body);
    cli_import_write_profile(fg_buf_slice(&worker->pprof), unit->time_ms, &pprof);
    code = pprof.full ? fg_fail(err, FG_E_LIMIT, "a profile of %zu bytes", worker->pprof.len)
                      : cli_push_request_write(&worker->series->pushed, id, fg_buf_slice(&pprof),
                                               &worker->body, err);
    fg_buf_done(&pprof);
    return code == FG_OK ? ask(worker, &question, err) : code;
}

static void note_imported(struct import_worker *worker, bool joined)
{
    struct importing *all = worker->all;

    worker->done.profiles++;
    worker->done.bytes += worker->body.len;
    lock(all);
    all->faults_in_a_row = 0;
    all->report->joined += joined;
    cli_progress_step(&all->progress, 0, worker->body.len);
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

    if (is_fatal(err->code)) {
        worker->good = false;
        stop(worker->all, err);
        return false;
    }
    if (fault == IMPORT_REFUSED)
        note_fault(worker, fault, unit, err);
    else
        note_trouble(worker, fault, unit, err);
    return !atomic_load(&worker->all->stop);
}

/* ---- a series in a window ---- */

static void note_found(struct importing *all, const struct cli_import_unit *unit)
{
    struct cli_import_report *report = all->report;

    if (report->oldest_ms == 0 || unit->first_ms < report->oldest_ms)
        report->oldest_ms = unit->first_ms;
    report->newest_ms = FG_MAX(report->newest_ms, unit->last_ms);
}

/* Notes what is there of the window, from start_ms on. */
static uint64_t note_units(struct importing *all, const struct cli_import_unit *units, size_t n,
                           int64_t start_ms)
{
    uint64_t found = 0;

    lock(all);
    for (size_t i = 0; i < n; i++) {
        if (units[i].time_ms < start_ms || units[i].time_ms >= all->window.end_ms)
            continue;
        note_found(all, &units[i]);
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
    if (push(worker, &group.unit, &err) != FG_OK)
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

/* Returns whether the series was not there in a window before. */
static bool is_new(struct importing *all, const struct cli_import_series *series)
{
    struct fg_map_walk walk;

    if (fg_map_first(&all->series_map, series->id.lo, &walk) != FG_MAP_NONE)
        return false;
    fg_map_add(&all->series_map, series->id.lo, 0);
    return true;
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

static void count(struct import_worker *worker)
{
    struct importing *all = worker->all;
    struct cli_import_report *report = all->report;
    const struct cli_import_done *done = &worker->done;

    lock(all);
    if (done->profiles > 0) {
        struct cli_import_type *type = type_of(report, worker->series->type);
        bool new = is_new(all, worker->series);

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
    unlock(all);
}

/* ---- windows ---- */

static const struct cli_import_series *take_series(struct importing *all)
{
    const struct cli_import_series *series = NULL;

    lock(all);
    while (series == NULL && all->next < all->list->count && !atomic_load(&all->stop)) {
        series = &all->list->items[all->next++];
        if (cli_import_state_has(&all->state, all->window.start_ms, series->id))
            series = NULL;
    }
    unlock(all);
    return series;
}

static void *work(void *arg)
{
    struct import_worker *worker = arg;
    struct importing *all = worker->all;

    while ((worker->series = take_series(all)) != NULL) {
        worker->done = (struct cli_import_done){all->window.start_ms, worker->series->id, 0, 0};
        worker->good = true;
        fg_buf_clear(&worker->selector);
        cli_import_write_selector(all->list, worker->series, &worker->selector);
        fg_buf_putc(&worker->selector, '\0');
        fg_buf_clear(&worker->type);
        fg_buf_put(&worker->type, worker->series->type);
        fg_buf_putc(&worker->type, '\0');
        import_series(worker);
        count(worker);
    }
    return NULL;
}

/* Every worker has its own series; the first one is this thread. */
static void share(struct import_worker *workers, unsigned n_workers)
{
    unsigned n = 1;

    while (n < n_workers && pthread_create(&workers[n].thread, NULL, work, &workers[n]) == 0)
        n++;
    (void)work(&workers[0]);
    while (--n > 0)
        (void)pthread_join(workers[n].thread, NULL);
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
    struct import_listing listing = {.arena = arena};

    all->window = cli_import_window(&all->state.range, start_ms);
    if (list_series(&workers[0], &listing, err) != FG_OK)
        return err->code;
    all->list = &listing.list;
    all->next = 0;
    all->window_good = true;
    share(workers, n_workers);
    all->list = NULL;
    if (atomic_load(&all->stop)) {
        *err = all->fatal;
        return err->code;
    }
    cli_import_state_end(&all->state, &all->window, all->window_good);
    cli_progress_step(&all->progress, 1, 0);
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

static enum fg_code open_worker(struct import_worker *worker, struct importing *all,
                                struct fg_err *err)
{
    const struct cli_import_job *job = all->job;

    worker->all = all;
    worker->points = fg_arena_create(WORK_MAX_BYTES);
    worker->arena = fg_arena_create(WORK_MAX_BYTES);
    fg_buf_init(&worker->selector, SIZE_MAX);
    fg_buf_init(&worker->type, SIZE_MAX);
    fg_buf_init(&worker->pprof, BODY_MAX_BYTES);
    fg_buf_init(&worker->body, BODY_MAX_BYTES);
    if (cli_client_create(&job->source, &worker->source, err) != FG_OK)
        return fg_wrap(err, "the source");
    if (!job->dry_run && cli_client_create(&job->target, &worker->target, err) != FG_OK)
        return fg_wrap(err, "the target");
    return FG_OK;
}

static void close_worker(struct import_worker *worker)
{
    cli_client_destroy(worker->source);
    cli_client_destroy(worker->target);
    fg_arena_destroy(worker->points);
    fg_arena_destroy(worker->arena);
    fg_buf_done(&worker->selector);
    fg_buf_done(&worker->type);
    fg_buf_done(&worker->pprof);
    fg_buf_done(&worker->body);
}

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

/* A state without an end has nothing left to say. */
static void close_state(struct importing *all)
{
    const struct cli_import_state *state = &all->state;

    if (all->state_file != NULL)
        (void)fclose(all->state_file);
    if (all->state_file != NULL && state->next_ms >= state->range.end_ms && state->n_open == 0)
        (void)unlink(all->job->resume);
    cli_import_state_done(&all->state);
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct cli_import_type *)a)->id, ((const struct cli_import_type *)b)->id);
}

static enum fg_code run(struct importing *all, struct fg_err *err)
{
    unsigned n = all->job->connections;
    struct import_worker *workers = fg_calloc(n, sizeof *workers);
    uint64_t windows = cli_import_windows(&all->state.range, all->state.next_ms);
    enum fg_code code = FG_OK;

    for (unsigned i = 0; i < n && code == FG_OK; i++)
        code = open_worker(&workers[i], all, err);
    cli_progress_start(&all->progress, "hours", windows + all->state.n_open);
    if (code == FG_OK)
        code = import_windows(workers, n, err);
    cli_progress_clear(&all->progress);
    for (unsigned i = 0; i < n; i++)
        close_worker(&workers[i]);
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
    fg_map_init(&all.series_map);
    code = load_state(&all, err);
    if (code == FG_OK) {
        job->range = all.state.range;
        cli_import_state_sent(&all.state, &ret_report->profiles_before, &bytes_before);
        code = run(&all, err);
    }
    if (ret_report->n_types > 1)
        qsort(ret_report->types, ret_report->n_types, sizeof *ret_report->types, by_id);
    close_state(&all);
    fg_map_done(&all.series_map);
    (void)pthread_mutex_destroy(&all.lock);
    return code;
}

enum fg_code cli_import_oldest(const struct cli_client_config *source, int64_t *ret_oldest_ms,
                               struct fg_err *err)
{
    struct cli_import_report report = {0};
    const struct cli_import_job job = {.source = *source, .dry_run = true};
    struct importing all = {.job = &job, .report = &report};
    Types__V1__GetProfileStatsRequest request;
    struct import_worker worker = {0};
    int64_t oldest_ms = 0;
    enum fg_code code;

    (void)pthread_mutex_init(&all.lock, NULL);
    types__v1__get_profile_stats_request__init(&request);
    code = open_worker(&worker, &all, err);
    if (code == FG_OK)
        code = ask_source(&worker, METHOD("GetProfileStats"), &request.base, read_oldest,
                          &oldest_ms, err);
    close_worker(&worker);
    (void)pthread_mutex_destroy(&all.lock);
    if (code == FG_OK && oldest_ms <= 0)
        return fg_fail(err, FG_E_NOT_FOUND, "the source does not say how old its profiles are");
    if (code == FG_OK)
        *ret_oldest_ms = oldest_ms;
    return code;
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
