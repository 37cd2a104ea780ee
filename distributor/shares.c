#include "distributor/shares.h"

#include "common/base/arena.h"
#include "common/cluster/shares/limit_gauges.h"
#include "common/cluster/shares/share_clock.h"
#include "common/cluster/shares/share_core.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"
#include "proto/inner.pb-c.h"

#include <sys/random.h>

enum {
    MEETING_SHARD = 0,     /* whose owners are the places */
    DEMANDS_MAX = 256,     /* tenants in a report, */
    COUNTS_MAX = 256,      /* and as many more, in turn */
    REPLY_MAX_PAYLOAD = 1, /* an answer is a head, as large as the question and its numbers */
    SILENT_ROUNDS = 5,     /* before it is told: a restart of the ingesters takes some */
};

/* clang-format off */
#define SHARES_METRICS(M) \
    M(GAUGE, SHARES_PROCESSES, "flamegrid_distributor_distributors", "Distributors among which limits of tenants are divided, by what this one has heard")
/* clang-format on */
FG_METRICS_ENUM(shares_metric, SHARES_METRICS)
FG_METRICS_TABLE(shares_metrics, SHARES_METRICS)

static const int64_t EVERY_NS = 2 * FG_SECOND_NS; /* shares follow the demand this fast */
static const int64_t TIMEOUT_NS = FG_SECOND_NS;

/* What this process says in a round, and hears. */
struct round {
    struct fg_rate_demand demands[DEMANDS_MAX], all_demands[DEMANDS_MAX];
    struct fg_quota_count counts[COUNTS_MAX];
    uint32_t n_demands, n_counts;
};

struct dist_shares {
    struct dist_shares_config config;
    struct fg_ticker *ticker;
    struct fg_metrics *metrics;
    uint64_t process; /* the id of this run */

    /* The ticker's. */
    struct fg_share_core core;
    struct fg_share_clock share_clock;
    struct round round;
    struct fg_limit_gauges *gauges;
    unsigned silent; /* rounds without an answer, so far */
};

/* ---- a round ---- */

static uint8_t *encode(const struct dist_shares *shares, size_t *ret_len)
{
    const struct round *round = &shares->round;
    Fg__Inner__TenantUse uses[DEMANDS_MAX + COUNTS_MAX], *list[DEMANDS_MAX + COUNTS_MAX];
    Fg__Inner__UseHead head = FG__INNER__USE_HEAD__INIT;
    uint8_t *bytes;

    for (uint32_t i = 0; i < round->n_demands + round->n_counts; i++) {
        list[i] = &uses[i];
        fg__inner__tenant_use__init(&uses[i]);
    }
    for (uint32_t i = 0; i < round->n_demands; i++) {
        uses[i].tenant = (char *)(uintptr_t)round->demands[i].tenant;
        uses[i].demand = round->demands[i].bytes_per_s;
    }
    for (uint32_t i = 0; i < round->n_counts; i++) {
        Fg__Inner__TenantUse *use = &uses[round->n_demands + i];

        use->tenant = (char *)(uintptr_t)round->counts[i].tenant;
        use->period_start_s = round->counts[i].span.start_s;
        use->period_end_s = round->counts[i].span.end_s;
        use->period_bytes = round->counts[i].own;
    }
    head.process = shares->process;
    head.n_uses = round->n_demands + round->n_counts;
    head.uses = list;
    bytes = fg_malloc(fg__inner__use_head__get_packed_size(&head));
    *ret_len = fg__inner__use_head__pack(&head, bytes);
    return bytes;
}

static void hear(struct dist_shares *shares, const Fg__Inner__UseReply *reply)
{
    struct round *round = &shares->round;

    fg_share_core_hear(&shares->core, reply->processes);
    fg_share_clock_hear(&shares->share_clock, fg_wall_ns(shares->config.clock) / FG_SECOND_NS,
                        reply->now_s);
    for (uint32_t i = 0; i < round->n_demands + round->n_counts; i++) {
        const Fg__Inner__TenantUse *said = reply->uses[i];
        const struct fg_meeting_use use = {.demand = said->demand,
                                           .processes = said->processes,
                                           .span = {said->period_start_s, said->period_end_s},
                                           .bytes = said->period_bytes};

        if (i < round->n_demands)
            fg_share_take_demand(&round->all_demands[i], &use);
        else
            fg_share_take_count(&round->counts[i - round->n_demands], &use);
    }
}

static bool hear_call(struct dist_shares *shares, const struct fg_call *call)
{
    Fg__Inner__UseReply *reply;
    bool whole;

    if (call->code != FG_OK)
        return false;
    reply = fg__inner__use_reply__unpack(NULL, call->reply_head.len, call->reply_head.ptr);
    whole = reply != NULL && reply->n_uses == shares->round.n_demands + shares->round.n_counts;
    if (whole)
        hear(shares, reply);
    if (reply != NULL)
        fg__inner__use_reply__free_unpacked(reply, NULL);
    return whole;
}

/* Asks all places at once. Returns whether one has answered. */
static bool call_places(struct dist_shares *shares, const struct dist_owner_set *places,
                        struct fg_slice head, struct fg_err *err)
{
    int64_t deadline_mono_ns = fg_mono_ns(fg_clock_real()) + TIMEOUT_NS;
    struct fg_peer *peers[FG_RING_REPLICAS_MAX];
    struct fg_call calls[FG_RING_REPLICAS_MAX];
    unsigned n = places->n_with_peer;
    bool heard = false;

    for (unsigned i = 0; i < n; i++) {
        peers[i] = places->with_peer[i]->peer;
        calls[i] = (struct fg_call){
            .method = FG_RPC_USE,
            .head = head,
            .deadline_mono_ns = deadline_mono_ns,
            .reply_max_bytes = REPLY_MAX_PAYLOAD,
        };
    }
    fg_peer_call_all(peers, calls, n);
    for (unsigned i = 0; i < n; i++) {
        if (hear_call(shares, &calls[i]))
            heard = true;
        else
            *err = calls[i].err;
        fg_call_done(peers[i], &calls[i]);
    }
    return heard;
}

static bool meet(struct dist_shares *shares, struct fg_err *err)
{
    struct dist_owner_set places;
    uint8_t *bytes;
    size_t len;
    bool heard;

    if (dist_owners_of(shares->config.owners, MEETING_SHARD, &places, err) != FG_OK)
        return false;
    bytes = encode(shares, &len);
    heard = call_places(shares, &places, fg_bytes(bytes, len), err);
    free(bytes);
    dist_owner_set_done(&places);
    return heard;
}

static void show_gauges(struct dist_shares *shares, uint32_t processes)
{
    const struct round *round = &shares->round;

    fg_metric_set(shares->metrics, SHARES_PROCESSES, processes);
    for (uint32_t i = 0; i < round->n_demands; i++)
        fg_limit_gauges_add(shares->gauges, round->demands[i].tenant, "ingestion_rate_mb",
                            round->demands[i].used);
    fg_limit_gauges_add_quotas(shares->gauges, shares->config.quotas,
                               fg_wall_ns(shares->config.clock));
    fg_limit_gauges_show(shares->gauges);
}

static void tick(void *arg)
{
    struct dist_shares *shares = arg;
    struct round *round = &shares->round;
    int64_t now_mono_ns = fg_mono_ns(shares->config.clock);
    struct fg_err err = {.code = FG_OK};
    uint32_t processes;
    bool heard;

    round->n_demands =
        fg_rates_report(shares->config.rates, now_mono_ns, round->demands, DEMANDS_MAX);
    round->n_counts = fg_quotas_report(shares->config.quotas, round->counts, COUNTS_MAX);
    memcpy(round->all_demands, round->demands, sizeof round->all_demands);
    fg_share_core_begin(&shares->core);
    fg_share_clock_begin(&shares->share_clock);
    heard = meet(shares, &err);
    processes = fg_share_core_end(&shares->core, now_mono_ns);
    (void)fg_share_clock_end(&shares->share_clock);
    fg_rates_apply(shares->config.rates, processes, round->all_demands,
                   heard ? round->n_demands : 0, now_mono_ns);
    /* Equal parts: what a server forwards waits there, so it may as well be sent to another
     * distributor. */
    fg_rates_apply(shares->config.forward_rates, processes, NULL, 0, now_mono_ns);
    fg_quotas_apply(shares->config.quotas, round->counts, heard ? round->n_counts : 0);
    /* Logs when places cannot be reached any more, and when they can be again. */
    if (heard && shares->silent >= SILENT_ROUNDS)
        fg_log_info("limits of tenants are divided by demand again",
                    fg_lu("distributors", shares->core.processes));
    shares->silent = heard ? 0 : shares->silent + 1;
    if (shares->silent == SILENT_ROUNDS)
        fg_log_warn("limits of tenants are divided equally: no ingester tells what the other "
                    "distributors use",
                    fg_lu("distributors", shares->core.processes), fg_ls("err", err.msg));
    show_gauges(shares, processes);
}

/* ---- life ---- */

struct dist_shares *dist_shares_create(const struct dist_shares_config *config)
{
    struct dist_shares *shares = fg_new(struct dist_shares);
    struct fg_err err;

    shares->config = *config;
    while (shares->process == 0) /* 0: no distributor */
        fg_assert(getrandom(&shares->process, sizeof shares->process, 0) == sizeof shares->process);
    fg_share_core_init(&shares->core);
    shares->metrics =
        fg_metrics_register(config->registry, shares_metrics, FG_COUNT(shares_metrics));
    shares->gauges = fg_limit_gauges_create(config->registry);
    fg_assert(fg_ticker_create(&(struct fg_ticker_config){"shares", EVERY_NS, tick, shares},
                               &shares->ticker, &err) == FG_OK);
    return shares;
}

void dist_shares_stop(struct dist_shares *shares)
{
    if (shares == NULL || shares->ticker == NULL)
        return;
    fg_ticker_destroy(fg_take(shares->ticker));
    /* Bytes that were acknowledged since the last round count as well. */
    tick(shares);
}

void dist_shares_destroy(struct dist_shares *shares)
{
    if (shares == NULL)
        return;
    fg_assert(shares->ticker == NULL);
    fg_limit_gauges_destroy(shares->gauges);
    free(shares);
}
