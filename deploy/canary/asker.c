#include "common/runtime/log.h"
#include "deploy/canary/impl.h"
#include "deploy/cli/ask.h"

enum {
    ASK_MAX_BYTES = 256 * 1024, /* of a request's texts */
    /* Values have 30 bits and points are doubles, which are exact up to 2^53: 2^23 profiles. */
    TIMELINE_PROFILES_MAX = 8 * 1024 * 1024,
};

/* ---- ranges ---- */

struct draw {
    uint64_t state;
};

static uint64_t drawn(struct draw *draw, uint64_t below)
{
    draw->state += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    return fg_mix64(draw->state) % below;
}

/* Returns where ranges may begin. */
static int64_t oldest_ms(const struct canary *canary)
{
    int64_t kept_ms = canary_journal_kept_ms(canary->journal);

    if (canary->config.window_ns == 0)
        return kept_ms;
    return FG_MAX(kept_ms,
                  canary_journal_end_ms(canary->journal) - canary->config.window_ns / FG_MS_NS);
}

/* Widens the range to whole seconds by an earlier start: before the beginning there are no
 * profiles. */
struct canary_journal_range canary_whole_range(const struct canary *canary, uint32_t service)
{
    const struct canary_journal_shape *shape = canary_journal_shape(canary->journal);
    int64_t end_ms = canary_journal_end_ms(canary->journal), from_ms = shape->start_ms;

    if (canary->config.window_ns > 0 && oldest_ms(canary) > from_ms)
        from_ms = oldest_ms(canary) + (end_ms - oldest_ms(canary)) % 1000;
    else
        from_ms -= 1000 - (end_ms - from_ms) % 1000;
    return (struct canary_journal_range){from_ms, end_ms, service, JOURNAL_NONE};
}

/* Returns the last length_ms, or as much as there is. */
static struct canary_journal_range last_range(const struct canary *canary, int64_t length_ms)
{
    int64_t end_ms = canary_journal_end_ms(canary->journal);

    length_ms = FG_MIN(length_ms, (end_ms - oldest_ms(canary)) / 1000 * 1000);
    return (struct canary_journal_range){end_ms - length_ms, end_ms, JOURNAL_NONE, JOURNAL_NONE};
}

static struct canary_journal_range random_range(const struct canary *canary, struct draw *draw)
{
    int64_t from_ms = oldest_ms(canary), end_ms = canary_journal_end_ms(canary->journal);
    int64_t seconds = (end_ms - from_ms) / 1000, length_ms, slack_ms;

    if (seconds == 0)
        return last_range(canary, 0);
    length_ms = 1000 * (1 + (int64_t)drawn(draw, (uint64_t)seconds));
    slack_ms = end_ms - from_ms - FG_MIN(length_ms, seconds * 1000);
    from_ms += (int64_t)drawn(draw, (uint64_t)slack_ms + 1);
    return (struct canary_journal_range){from_ms, from_ms + FG_MIN(length_ms, seconds * 1000),
                                         JOURNAL_NONE, JOURNAL_NONE};
}

/* Draws a range. Half of the queries are about the newest profiles, where most goes wrong: they
 * move from the head into segments and blocks. Under the lock. */
static struct canary_journal_range draw_range(const struct canary *canary, struct draw *draw)
{
    uint32_t service = (uint32_t)drawn(draw, canary->config.services);
    struct canary_journal_range range;

    switch (drawn(draw, 4)) {
    case 0:
        return canary_whole_range(canary, drawn(draw, 2) == 0 ? service : JOURNAL_NONE);
    case 1:
        range = random_range(canary, draw);
        break;
    case 2:
        range = last_range(canary, 60000);
        break;
    default:
        range = last_range(canary, 10000);
        break;
    }
    if (drawn(draw, 4) > 0)
        range.service = service;
    if (drawn(draw, 2) == 0)
        range.pod = (uint32_t)drawn(draw, canary->config.pods);
    return range;
}

/* ---- a query and its answer ---- */

struct canary_asked {
    struct canary *canary;
    struct cli_client *client;
    struct fg_arena *arena;
    const char *selector;
    int64_t mono_ns; /* when */
    struct canary_journal_expected expected;
};

static enum fg_code ask_cells(struct canary_asked *asked, int64_t *cells, int64_t *ret_foreign,
                              struct fg_err *err)
{
    const struct canary_journal_range *range = &asked->expected.range;
    enum fg_code code;
    struct fg_tree tree;

    fg_tree_init(&tree);
    code = cli_ask_tree(asked->client, FG_LIT(CONTENT_TYPE), fg_cstr(asked->selector),
                        &(struct cli_selection_range){range->start_ms, range->end_ms}, 0,
                        asked->arena, &tree, err);
    if (code == FG_OK)
        canary_content_read(canary_journal_shape(asked->canary->journal), &tree, cells,
                            ret_foreign);
    fg_tree_done(&tree);
    return code;
}

static enum fg_code judge_graph(struct canary_asked *asked, struct canary_verdict *ret_verdict,
                                struct fg_err *err)
{
    struct canary *canary = asked->canary;
    int64_t *cells =
        fg_calloc(canary_journal_cells(canary_journal_shape(canary->journal)), sizeof *cells);
    int64_t foreign = 0;
    enum fg_code code = ask_cells(asked, cells, &foreign, err);

    if (code == FG_OK) {
        /* The journal is asked again, because profiles that were pending may be settled by now. */
        (void)pthread_mutex_lock(&canary->lock);
        canary_verdict_of_cells(canary->journal, &asked->expected, cells, foreign, ret_verdict);
        (void)pthread_mutex_unlock(&canary->lock);
    }
    free(cells);
    return code;
}

static enum fg_code judge_timeline(struct canary_asked *asked, struct canary_verdict *ret_verdict,
                                   struct fg_err *err)
{
    const struct canary_journal_range *range = &asked->expected.range;
    struct canary *canary = asked->canary;
    double total;

    if (cli_ask_total(asked->client, FG_LIT(CONTENT_TYPE), fg_cstr(asked->selector),
                      &(struct cli_selection_range){range->start_ms, range->end_ms}, asked->arena,
                      &total, err) != FG_OK)
        return err->code;
    (void)pthread_mutex_lock(&canary->lock);
    canary_verdict_of_total(canary->journal, &asked->expected, (int64_t)total, ret_verdict);
    (void)pthread_mutex_unlock(&canary->lock);
    return FG_OK;
}

/* ---- what is wrong ---- */

/* Returns true if the finding was not reported yet: a profile that is missing in many answers
 * counts once. Under the lock. */
static bool is_new(struct canary *canary, const struct canary_verdict_finding *finding)
{
    if (finding->number == VERDICT_NO_NUMBER)
        return true;
    for (uint32_t i = 0; i < canary->n_reported; i++)
        if (canary->reported[i].number == finding->number &&
            canary->reported[i].kind == finding->kind)
            return false;
    if (canary->n_reported < CANARY_REPORTED_MAX)
        canary->reported[canary->n_reported++] =
            (struct canary_reported){finding->number, finding->kind};
    return true;
}

static void log_finding(const struct canary_asked *asked,
                        const struct canary_verdict_finding *finding, bool timeline)
{
    const struct canary_journal_shape *shape = canary_journal_shape(asked->canary->journal);
    const struct canary_journal_range *range = &asked->expected.range;
    bool named = finding->number != VERDICT_NO_NUMBER;
    struct canary_journal_profile profile =
        canary_journal_profile(shape, named ? finding->number : 0);

    fg_log_error("query response is wrong", fg_ls("what", canary_verdict_kind_name(finding->kind)),
                 fg_li("number", named ? (int64_t)finding->number : -1),
                 fg_li("profile_time_ns", named ? profile.time_ns : 0),
                 fg_li("cell", finding->cell == VERDICT_NO_CELL ? -1 : (int64_t)finding->cell),
                 fg_li("expected", finding->expected), fg_li("found", finding->found),
                 fg_lu("unacknowledged", asked->expected.n_maybes),
                 fg_ls("query", timeline ? "SelectSeries" : "SelectMergeStacktraces"),
                 fg_ls("selector", asked->selector), fg_li("start_ms", range->start_ms),
                 fg_li("end_ms", range->end_ms),
                 fg_li("took_ms", (canary_now_ns() - asked->mono_ns) / FG_MS_NS));
}

static void report(const struct canary_asked *asked, const struct canary_verdict *verdict,
                   bool timeline)
{
    static const unsigned metrics[] = {CANARY_LOST, CANARY_DOUBLE, CANARY_FOREIGN};
    struct canary *canary = asked->canary;

    fg_metric_add(canary->metrics, CANARY_WRONG, 1);
    for (uint32_t i = 0; i < FG_MIN(verdict->n, VERDICT_FINDINGS_MAX); i++) {
        const struct canary_verdict_finding *finding = &verdict->findings[i];

        if (!is_new(canary, finding))
            continue;
        fg_metric_add(canary->metrics, metrics[finding->kind], 1);
        log_finding(asked, finding, timeline);
    }
}

static void on_seen(int64_t settled_mono_ns, void *arg)
{
    struct canary *canary = arg;

    fg_metric_observe_ns(canary->metrics, CANARY_VISIBLE_SECONDS,
                         canary_now_ns() - settled_mono_ns);
}

static void conclude(struct canary_asked *asked, const struct canary_verdict *verdict,
                     bool timeline)
{
    struct canary *canary = asked->canary;

    fg_metric_add(canary->metrics, CANARY_READS, 1);
    fg_metric_observe_ns(canary->metrics, CANARY_READ_SECONDS, canary_now_ns() - asked->mono_ns);
    (void)pthread_mutex_lock(&canary->lock);
    if (verdict->n > 0)
        report(asked, verdict, timeline);
    else
        canary_journal_seen(canary->journal, &asked->expected, asked->mono_ns, on_seen, canary);
    (void)pthread_mutex_unlock(&canary->lock);
}

/* ---- asking ---- */

/* Removes the missing profiles from the verdict if the answer says that it is incomplete. Profiles
 * that it has twice are wrong in any case. */
static enum fg_code excuse_missing(const struct canary_asked *asked, struct canary_verdict *verdict,
                                   struct fg_err *err)
{
    const char *missing = cli_client_missing(asked->client);
    uint32_t n = 0;

    if (missing == NULL)
        return FG_OK;
    fg_metric_add(asked->canary->metrics, CANARY_INCOMPLETE, 1);
    for (uint32_t i = 0; i < FG_MIN(verdict->n, VERDICT_FINDINGS_MAX); i++)
        if (verdict->findings[i].kind != VERDICT_LOST)
            verdict->findings[n++] = verdict->findings[i];
    verdict->n = n;
    return n > 0 ? FG_OK
                 : fg_fail(err, FG_E_UNAVAILABLE, "query response is incomplete: %s", missing);
}

/* Sends the query and judges the answer. asked->expected: from the journal, before the query. */
static enum fg_code ask_expected(struct canary_asked *asked, bool timeline, bool *ret_is_open,
                                 struct fg_err *err)
{
    struct canary *canary = asked->canary;
    struct canary_verdict verdict = {0};
    uint64_t left_out;
    enum fg_code code;

    code = timeline ? judge_timeline(asked, &verdict, err) : judge_graph(asked, &verdict, err);
    if (code == FG_OK)
        code = excuse_missing(asked, &verdict, err);
    if (code == FG_OK) {
        conclude(asked, &verdict, timeline);
    } else {
        fg_metric_add(canary->metrics, CANARY_UNAVAILABLE, 1);
        canary_explain_denied(err);
        if (canary_may_complain(&canary->no_answer, err->code, &left_out))
            fg_log_warn("query failed", fg_ls("selector", asked->selector),
                        fg_lu("left_out", left_out), fg_ls("err", err->msg));
    }
    *ret_is_open = verdict.n == 0 && !verdict.has_all;
    canary_verdict_done(&verdict);
    return code;
}

enum fg_code canary_ask(struct canary *canary, struct cli_client *client,
                        const struct canary_journal_range *range, bool timeline, bool *ret_is_open,
                        struct fg_err *err)
{
    struct canary_asked asked = {.canary = canary, .client = client, .mono_ns = canary_now_ns()};
    struct fg_buf selector;
    enum fg_code code;

    /* Before the query is sent: what is acknowledged now has to be in the answer. What is
     * acknowledged later may be. */
    canary_journal_expect(canary->journal, range, &asked.expected);
    (void)pthread_mutex_unlock(&canary->lock);
    asked.arena = fg_arena_create(ASK_MAX_BYTES);
    fg_buf_init(&selector, SIZE_MAX);
    canary_content_selector(range, canary->run, &selector);
    asked.selector = (const char *)selector.ptr;
    code = ask_expected(&asked, timeline, ret_is_open, err);
    fg_buf_done(&selector);
    fg_arena_destroy(asked.arena);
    canary_journal_expected_done(&asked.expected);
    (void)pthread_mutex_lock(&canary->lock);
    return code;
}

bool canary_may_sum(const struct canary *canary)
{
    return canary_journal_n_settled(canary->journal) + canary_journal_n_pending(canary->journal) <
           TIMELINE_PROFILES_MAX;
}

/* Queries until the canary is stopped. Under the lock. */
static void ask_on(struct canary *canary, struct cli_client *client)
{
    struct draw draw = {canary_journal_shape(canary->journal)->seed + ++canary->n_askers};

    while (!canary->stopped) {
        int64_t next_ns = canary_now_ns() + canary->config.read_interval_ns;
        struct canary_journal_range range = draw_range(canary, &draw);
        bool timeline = drawn(&draw, 4) == 0 && canary_may_sum(canary);
        struct fg_err err;
        bool is_open;

        if (range.end_ms > range.start_ms && canary_journal_next(canary->journal) > 0)
            /* It logs a failure itself. */
            (void)canary_ask(canary, client, &range, timeline, &is_open, &err);
        while (!canary->stopped && canary_now_ns() < next_ns)
            canary_wait(canary, next_ns);
    }
}

void *canary_ask_loop(void *arg)
{
    struct canary *canary = arg;
    struct cli_client *client;
    struct fg_err err;

    if (cli_client_create(&canary->config.query, &client, &err) != FG_OK)
        return NULL; /* canary_start() has checked the URL */
    (void)pthread_mutex_lock(&canary->lock);
    ask_on(canary, client);
    (void)pthread_mutex_unlock(&canary->lock);
    cli_client_destroy(client);
    return NULL;
}
