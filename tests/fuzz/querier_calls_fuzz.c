/*
 * Heads of reads that one querier does for another. There is one block, of 100 bytes:
 * blocks/acme/… as fg_name_block() names it for {1, 7}.
 */
#include "common/base/time.h"
#include "common/cluster/manifest/name.h"
#include "querier/share/share.h"
#include "tests/lib/bucket_doubles.h"

enum { BLOCK_BYTES = 100 };

static struct fg_bucket *bucket_with_block(void)
{
    static const uint8_t content[BLOCK_BYTES] = "a block";
    struct fg_bucket *bucket = fg_bucket_memory();
    char name[FG_NAME_MAX_BYTES];
    struct fg_bucket_request put = {
        .verb = FG_BUCKET_PUT, .name = name, .content = fg_bytes(content, sizeof content)};
    struct fg_err err;

    fg_assert(fg_name_block(name, FG_LIT("acme"), (struct fg_id){1, 7}, &err) == FG_OK);
    fg_assert(fg_bucket_call(bucket, &put) == FG_OK);
    fg_bucket_clear(&put);
    return bucket;
}

static struct fg_peer *start(void)
{
    static struct qry_share_settings settings;
    struct fg_conf_section section = {"querier.share", qry_share_fields, qry_share_n_fields,
                                      &settings};
    struct fg_rpc_server *server = fg_rpc_server_create(NULL, 1);
    struct qry_share *share;
    struct fg_err err;

    fg_assert(fg_conf_load(&(struct fg_conf){.sections = &section, .n_sections = 1}, NULL, NULL,
                           NULL, 0, &err) == FG_OK);
    fg_assert(qry_share_create(&(struct qry_share_config){.settings = &settings,
                                                          .bucket = bucket_with_block(),
                                                          .registry = fg_registry_create(),
                                                          .clock = fg_clock_real()},
                               &share, &err) == FG_OK);
    qry_share_serve(share, server);
    return fg_peer_direct(server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fg_peer *peer;
    struct fg_call call = {.method = FG_RPC_READ,
                           .head = fg_bytes(data, size),
                           .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS};

    if (peer == NULL)
        peer = start();
    if (fg_peer_call(peer, &call) == FG_OK)
        fg_assert(call.reply_payload.len <= BLOCK_BYTES);
    else
        fg_assert(call.err.code == call.code && call.reply_payload.len == 0);
    fg_call_done(peer, &call);
    return 0;
}
