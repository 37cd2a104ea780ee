/* Heads of calls by which one querier asks another one for the metrics of a tenant's minute: a
 * greeting, or a tenant, none of which has rules. */
#include "proto/inner.pb-c.h"
#include "querier/querier.h"
#include "querier/share/share.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/tenants.h"

static struct fg_peer *start(void)
{
    static const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = 2, .queue_max = 16}};
    static struct fg_limit_settings limits;
    static struct qry_share_settings settings;
    struct fg_conf_section section = {"querier.share", qry_share_fields, qry_share_n_fields,
                                      &settings};
    struct fg_registry *registry = fg_registry_create();
    struct fg_rpc_server *server = fg_rpc_server_create(NULL, 1);
    struct fg_bucket *bucket = fg_bucket_memory();
    struct qry_config config = {.ingester = fg_peer_direct(fg_rpc_server_create(NULL, 1)),
                                .tenants = tenants_make(&limits, NULL, true, registry),
                                .registry = registry,
                                .clock = fg_clock_real(),
                                .bucket = bucket,
                                .cache_max_bytes = 1 << 20,
                                .fetch_max_bytes = 1 << 20};
    struct qry_share *share;
    struct fg_err err;

    fg_assert(fg_conf_load(&(struct fg_conf){.sections = &section, .n_sections = 1}, NULL, NULL,
                           NULL, 0, &err) == FG_OK);
    fg_assert(fg_work_create("fuzz", lanes, &config.work, &err) == FG_OK);
    fg_assert(qry_share_create(&(struct qry_share_config){.settings = &settings,
                                                          .bucket = bucket,
                                                          .registry = registry,
                                                          .clock = fg_clock_real()},
                               &share, &err) == FG_OK);
    fg_assert(qry_start(qry_create(&config), share, server, registry, &err) == FG_OK);
    return fg_peer_direct(server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fg_peer *peer;
    struct fg_call call = {.method = FG_RPC_RULES,
                           .head = fg_bytes(data, size),
                           .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS,
                           .reply_max_bytes = 1 << 20};
    Fg__Inner__RulesReply *reply;

    if (peer == NULL)
        peer = start();
    if (fg_peer_call(peer, &call) == FG_OK) {
        reply = fg__inner__rules_reply__unpack(NULL, call.reply_head.len, call.reply_head.ptr);
        fg_assert(reply != NULL);
        fg__inner__rules_reply__free_unpacked(reply, NULL);
    } else {
        fg_assert(call.err.code == call.code && call.reply_payload.len == 0);
    }
    fg_call_done(peer, &call);
    return 0;
}
