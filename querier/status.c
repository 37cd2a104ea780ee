#include "querier/status.h"

#include "common/base/str.h"
#include "common/cluster/ring/view.h"
#include "common/model/tenant_limits.h"
#include "common/program/version.h"
#include "querier/collect.h"
#include "querier/reply.h"

enum { VALUE_MAX_BYTES = 64 * 1024 }; /* of a limit: rules are the longest */

/* What a level is called (struct fg_blocks_entry). */
static const char *const level_names[QRY_LEVELS] = {
    "segments", "1 h", "6 h", "1 d", "7 d", "28 d",
};

static void put_ms(struct fg_json_writer *json, const char *key, int64_t ns, bool known)
{
    if (known)
        fg_json_put_i64(json, key, ns / FG_MS_NS);
    else
        fg_json_put_null(json, key);
}

/* ---- the tenant ---- */

static void put_limits(struct fg_json_writer *json, struct fg_tenants *tenants,
                       struct fg_slice tenant)
{
    struct fg_limits *limits = fg_tenants_limits(tenants, tenant);
    struct fg_buf text;

    fg_json_begin_object(json, "limits");
    fg_buf_init(&text, VALUE_MAX_BYTES);
    for (size_t i = 0; i < fg_limit_n_fields; i++) {
        text.len = 0;
        fg_conf_write_value(&fg_limit_fields[i], &limits->values, &text);
        fg_json_put_text(json, fg_limit_fields[i].key, fg_buf_slice(&text));
    }
    fg_buf_done(&text);
    fg_json_end(json);
    fg_limits_unref(limits);
}

static void put_levels(struct fg_json_writer *json, const struct qry_query *query, uint32_t tenant)
{
    struct qry_level levels[QRY_LEVELS];

    qry_blocks_levels(query, tenant, levels);
    fg_json_begin_array(json, "levels");
    for (size_t i = 0; i < QRY_LEVELS; i++) {
        const struct qry_level *level = &levels[i];

        if (level->objects == 0)
            continue;
        fg_json_begin_object(json, NULL);
        fg_json_put_cstr(json, "name", level_names[i]);
        fg_json_put_u64(json, "objects", level->objects);
        if (i > 0) /* segments are shared by tenants */
            fg_json_put_u64(json, "bytes", level->bytes);
        fg_json_put_u64(json, "profiles", level->profiles);
        put_ms(json, "oldest_ms", level->oldest_ns, true);
        put_ms(json, "newest_ms", level->newest_ns, true);
        fg_json_end(json);
    }
    fg_json_end(json);
}

static void put_tenant(struct fg_json_writer *json, const struct qry_query *query, uint32_t tenant)
{
    const struct fg_blocks *blocks = qry_blocks_manifest(query, tenant);

    fg_json_begin_object(json, NULL);
    fg_json_put_text(json, "tenant", query->tenants.ids[tenant]);
    put_limits(json, query->querier->tenants, query->tenants.ids[tenant]);
    if (blocks == NULL) {
        fg_json_put_null(json, "bucket");
    } else {
        fg_json_begin_object(json, "bucket");
        put_levels(json, query, tenant);
        fg_json_put_u64(json, "deletions_pending", blocks->n_tombstones);
        fg_json_put_u64(json, "objects_given_up", blocks->n_lost);
        fg_json_end(json);
    }
    fg_json_end(json);
}

/* ---- the cluster ---- */

static bool is_member(const struct fg_ring_revision *revision, uint32_t member,
                      struct fg_slice *ret)
{
    for (uint32_t i = 0; i < revision->n_places; i++)
        if (revision->places[i].member == member) {
            *ret = revision->places[i].zone;
            return true;
        }
    return false;
}

/* Members of older revisions are asked until they have drained: they leave. */
static enum fg_code put_ring(struct fg_json_writer *json, struct qry_query *query,
                             struct fg_err *err)
{
    const struct fg_ring_view *view = query->ring;
    uint32_t *shards;

    if (view == NULL || view->ring.n_revisions == 0) {
        fg_json_put_null(json, "ring");
        return FG_OK;
    }
    const struct fg_ring_revision *newest = &view->ring.revisions[view->ring.n_revisions - 1];

    shards = fg_arena_new(query->arena, uint32_t, view->ring.n_members);
    if (shards == NULL)
        return qry_query_too_large(err);
    fg_ring_view_count(view, shards);
    fg_json_begin_object(json, "ring");
    fg_json_put_u64(json, "revision", newest->number);
    fg_json_put_u64(json, "replicas", newest->replicas);
    fg_json_begin_array(json, "members");
    for (uint32_t i = 0; i < view->ring.n_members; i++) {
        const struct fg_ring_member *member = &view->ring.members[i];
        struct fg_slice zone = {0};
        bool stays = is_member(newest, i, &zone);

        fg_json_begin_object(json, NULL);
        fg_json_put_text(json, "name", member->name);
        fg_json_put_text(json, "zone", zone);
        fg_json_put_cstr(json, "state", stays ? "active" : "leaving");
        put_ms(json, "since_ms", member->since_wall_ns, true);
        fg_json_put_u64(json, "shards", shards[i]);
        fg_json_end(json);
    }
    fg_json_end(json);
    fg_json_end(json);
    return FG_OK;
}

static enum fg_code status(struct qry_query *query, const ProtobufCMessage *in, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&query->body);
    struct qry_tenant_stats stats;

    (void)in;
    /* Takes the ring and the snapshot of manifests as well. */
    if (qry_collect_stats(query, &stats, err) != FG_OK)
        return err->code;
    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "version", fg_program_version());
    fg_json_put_cstr(&json, "revision", fg_program_revision());
    fg_json_put_bool(&json, "multitenancy", fg_tenants_are_several(query->querier->tenants));
    fg_json_begin_object(&json, "profiles");
    fg_json_put_u64(&json, "count", stats.profiles);
    put_ms(&json, "oldest_ms", stats.oldest_ns, stats.profiles > 0);
    put_ms(&json, "newest_ms", stats.newest_ns, stats.profiles > 0);
    fg_json_end(&json);
    /* The meaning of each limit, in the words of settings.md. */
    fg_json_begin_object(&json, "limits");
    for (size_t i = 0; i < fg_limit_n_fields; i++) {
        fg_json_begin_object(&json, fg_limit_fields[i].key);
        fg_json_put_cstr(&json, "default", fg_limit_fields[i].def);
        fg_json_put_cstr(&json, "meaning", fg_limit_fields[i].doc);
        fg_json_end(&json);
    }
    fg_json_end(&json);
    fg_json_begin_array(&json, "tenants");
    for (uint32_t i = 0; i < query->tenants.n; i++)
        put_tenant(&json, query, i);
    fg_json_end(&json);
    if (put_ring(&json, query, err) != FG_OK)
        return err->code;
    return qry_reply_end_json(query, &json, err);
}

const struct qry_endpoint qry_status_endpoints[] = {
    {"/api/status", "status", NULL, status, 0, true},
};
const size_t qry_n_status_endpoints = FG_COUNT(qry_status_endpoints);
