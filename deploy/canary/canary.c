#include "deploy/canary/canary.h"

#include "common/base/hash.h"
#include "common/runtime/thread.h"
#include "deploy/canary/impl.h"

#include <time.h>

enum {
    LEAVES = 512,              /* of a service */
    KEPT_MAX = 1024 * 1024,    /* profiles in the bitmap: 128 KiB; 14 hours of 20 a second */
    PENDING_MAX = 4096,        /* with so many unacknowledged profiles no more are sent */
    STACK_BYTES = 1024 * 1024, /* of a thread */
};

static const int64_t LAST_CHECK_PAUSE_NS = FG_SECOND_NS / 2;

FG_METRICS_TABLE(canary_metrics, CANARY_METRICS)

/* ---- life ---- */

static void make_journal(struct canary *canary)
{
    const struct canary_config *config = &canary->config;
    const struct canary_journal_shape shape = {
        /* It need not be secret, but no two canaries may have the same. */
        .seed = fg_mix64(fg_hash_seed() ^ (uint64_t)fg_wall_ns(fg_clock_real())),
        .services = config->services,
        .pods = config->pods,
        .leaves = LEAVES,
        .start_ms = fg_wall_ns(fg_clock_real()) / FG_MS_NS,
        .interval_ms = config->interval_ms,
    };

    canary->start_mono_ns = canary_now_ns();
    /* Those that are on their way count, too. */
    canary->journal = canary_journal_create(
        &shape, KEPT_MAX,
        PENDING_MAX + (uint32_t)(config->lag_ns / FG_MS_NS / config->interval_ms));
    (void)snprintf(canary->run, sizeof canary->run, "%016llx", (unsigned long long)shape.seed);
}

static enum fg_code start_thread(struct canary *canary, void *(*loop)(void *), struct fg_err *err)
{
    pthread_attr_t attributes;
    int error;

    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES); /* the default is 8 MiB */
    error = pthread_create(&canary->threads[canary->n_threads], &attributes, loop, canary);
    (void)pthread_attr_destroy(&attributes);
    if (error != 0)
        return fg_fail_errno(err, error, "thread %u", canary->n_threads + 1);
    canary->n_threads++;
    return FG_OK;
}

/* Here and not in the threads: a malformed URL has to end the command at once. */
static enum fg_code check_server(const struct cli_client_config *config, struct fg_err *err)
{
    struct cli_client *client;

    if (cli_client_create(config, &client, err) != FG_OK)
        return err->code;
    cli_client_destroy(client);
    return FG_OK;
}

/* Returns true if the server does not let the canary in, which people have to change. */
static bool is_shut_out(enum fg_code code)
{
    return code == FG_E_DENIED || code == FG_E_NO_TENANT;
}

/* A caller without a tenant is told by the server what to do. */
void canary_explain_denied(struct fg_err *err)
{
    size_t len = strlen(err->msg);

    if (err->code == FG_E_DENIED)
        (void)snprintf(err->msg + len, sizeof err->msg - len,
                       ": the canary needs a token with the scopes push and read");
}

/* Sends a call of a method, with an empty message. FG_E_DENIED, FG_E_NO_TENANT: the server does not
 * let it in. All other failures may pass. */
static enum fg_code ask_scope(const struct cli_client_config *config, const char *path,
                              struct fg_err *err)
{
    struct cli_client_reply reply = {0};
    struct cli_client *client;
    enum fg_code code;

    if (cli_client_create(config, &client, err) != FG_OK)
        return err->code;
    code = cli_client_post(client, path, "application/json", FG_LIT("{}"), &reply, err);
    if (code == FG_OK)
        code = cli_client_check(&reply, err);
    cli_client_reply_done(&reply);
    cli_client_destroy(client);
    if (!is_shut_out(code))
        return FG_OK;
    canary_explain_denied(err);
    return code;
}

enum fg_code canary_check_scopes(const struct canary_config *config, struct fg_err *err)
{
    if (check_server(&config->push, err) != FG_OK || check_server(&config->query, err) != FG_OK ||
        ask_scope(&config->push, "/push.v1.PusherService/Push", err) != FG_OK ||
        ask_scope(&config->query, "/querier.v1.QuerierService/LabelNames", err) != FG_OK)
        return err->code;
    return FG_OK;
}

enum fg_code canary_start(const struct canary_config *config, struct canary **ret_canary,
                          struct fg_err *err)
{
    struct canary *canary;

    if (check_server(&config->push, err) != FG_OK || check_server(&config->query, err) != FG_OK)
        return err->code;
    canary = fg_new(struct canary);
    canary->config = *config;
    canary->metrics =
        fg_metrics_register(config->registry, canary_metrics, FG_COUNT(canary_metrics));
    (void)pthread_mutex_init(&canary->lock, NULL);
    fg_cond_init(&canary->woken);
    make_journal(canary);
    canary->threads = fg_calloc(config->senders + config->askers, sizeof *canary->threads);
    for (unsigned i = 0; i < config->senders + config->askers; i++)
        if (start_thread(canary, i < config->senders ? canary_send_loop : canary_ask_loop, err) !=
            FG_OK) {
            canary_destroy(canary);
            return err->code;
        }
    *ret_canary = canary;
    return FG_OK;
}

void canary_destroy(struct canary *canary)
{
    if (canary == NULL)
        return;
    canary_stop(canary);
    canary_journal_destroy(canary->journal);
    (void)pthread_cond_destroy(&canary->woken);
    (void)pthread_mutex_destroy(&canary->lock);
    free(canary->threads);
    free(canary);
}

/* ---- the end ---- */

bool canary_may_complain(struct canary_complaint *complaint, enum fg_code code,
                         uint64_t *ret_left_out)
{
    int64_t pause_ns = is_shut_out(code) ? FG_MINUTE_NS : FG_SECOND_NS;
    int64_t now = canary_now_ns(), next = atomic_load(&complaint->next_mono_ns);

    /* Of several threads the one that moves the time logs. */
    if (now < next || !atomic_compare_exchange_strong(&complaint->next_mono_ns, &next,
                                                      fg_time_add(now, pause_ns))) {
        (void)atomic_fetch_add(&complaint->left_out, 1);
        return false;
    }
    *ret_left_out = atomic_exchange(&complaint->left_out, 0);
    return true;
}

void canary_wait(struct canary *canary, int64_t until_mono_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_mono_ns / FG_SECOND_NS),
                                   .tv_nsec = (long)(until_mono_ns % FG_SECOND_NS)};

    /* May wake early; callers check the time and their condition again. */
    (void)pthread_cond_timedwait(&canary->woken, &canary->lock, &until);
}

/* Under the lock, so that a thread between its check and its wait does not miss the broadcast. */
static void set_flag(struct canary *canary, bool *flag)
{
    (void)pthread_mutex_lock(&canary->lock);
    *flag = true;
    (void)pthread_cond_broadcast(&canary->woken);
    (void)pthread_mutex_unlock(&canary->lock);
}

void canary_hold(struct canary *canary)
{
    set_flag(canary, &canary->held);
}

static uint32_t n_unacknowledged(const struct canary *canary)
{
    return canary_journal_n_pending(canary->journal) -
           canary_journal_n_on_their_way(canary->journal);
}

bool canary_settle(struct canary *canary, int64_t deadline_mono_ns)
{
    bool settled;

    (void)pthread_mutex_lock(&canary->lock);
    while (n_unacknowledged(canary) > 0 && canary_now_ns() < deadline_mono_ns)
        canary_wait(canary, deadline_mono_ns);
    settled = n_unacknowledged(canary) == 0;
    (void)pthread_mutex_unlock(&canary->lock);
    return settled;
}

void canary_stop(struct canary *canary)
{
    set_flag(canary, &canary->stopped);
    while (canary->n_threads > 0)
        /* Without the lock: the threads need it to end. */
        (void)pthread_join(canary->threads[--canary->n_threads], NULL);
}

/* Checks a service, again until there is an answer that has all profiles, also those that may still
 * be on their way, or the time is over. Under the lock. */
static enum fg_code check_service(struct canary *canary, struct cli_client *client,
                                  uint32_t service, bool timeline, int64_t deadline_mono_ns,
                                  struct fg_err *err)
{
    struct canary_journal_range range = canary_whole_range(canary, service);

    for (;;) {
        int64_t next_ns = canary_now_ns() + LAST_CHECK_PAUSE_NS;
        enum fg_code code;
        bool is_open, awaits;

        canary_journal_ripen(canary->journal, canary_now_ns());
        awaits = canary_journal_n_on_their_way(canary->journal) > 0;
        code = canary_ask(canary, client, &range, timeline, &is_open, err);
        if (code == FG_OK && !(awaits && is_open))
            return FG_OK;
        if (next_ns >= deadline_mono_ns)
            return code == FG_OK ? FG_OK : fg_wrap(err, "the last check timed out");
        while (canary_now_ns() < next_ns)
            canary_wait(canary, next_ns);
    }
}

enum fg_code canary_last_check(struct canary *canary, int64_t deadline_mono_ns, struct fg_err *err)
{
    enum fg_code code = FG_OK;
    struct cli_client *client;

    if (cli_client_create(&canary->config.query, &client, err) != FG_OK)
        return err->code;
    (void)pthread_mutex_lock(&canary->lock);
    for (uint32_t i = 0; i < canary->config.services && code == FG_OK; i++) {
        code = check_service(canary, client, i, false, deadline_mono_ns, err);
        if (code == FG_OK && canary_may_sum(canary))
            code = check_service(canary, client, i, true, deadline_mono_ns, err);
    }
    (void)pthread_mutex_unlock(&canary->lock);
    cli_client_destroy(client);
    return code;
}

struct canary_sums canary_sums(struct canary *canary)
{
    const struct fg_metrics *metrics = canary->metrics;
    struct canary_sums sums = {
        .pushed = fg_metric_get(metrics, CANARY_PUSHED),
        .acknowledged = fg_metric_get(metrics, CANARY_ACKNOWLEDGED),
        .skipped = fg_metric_get(metrics, CANARY_SKIPPED),
        .refused = fg_metric_get(metrics, CANARY_REFUSED),
        .unanswered = fg_metric_get(metrics, CANARY_UNANSWERED),
        .reads = fg_metric_get(metrics, CANARY_READS),
        .unavailable = fg_metric_get(metrics, CANARY_UNAVAILABLE),
        .wrong = fg_metric_get(metrics, CANARY_WRONG),
        .lost = fg_metric_get(metrics, CANARY_LOST),
        .twice = fg_metric_get(metrics, CANARY_DOUBLE),
        .foreign = fg_metric_get(metrics, CANARY_FOREIGN),
    };

    (void)pthread_mutex_lock(&canary->lock);
    /* Metrics are atomic; the journal needs its lock. */
    sums.pending = n_unacknowledged(canary);
    (void)pthread_mutex_unlock(&canary->lock);
    return sums;
}

bool canary_was_answered(const struct canary *canary)
{
    const struct fg_metrics *metrics = canary->metrics;

    return fg_metric_get(metrics, CANARY_ACKNOWLEDGED) + fg_metric_get(metrics, CANARY_REFUSED) +
               fg_metric_get(metrics, CANARY_READS) >
           0;
}

const char *canary_run_name(const struct canary *canary)
{
    return canary->run;
}
