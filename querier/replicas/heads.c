#include "querier/replicas/heads.h"

static Fg__Inner__MatchOp match_op(enum fg_match_op op)
{
    switch (op) {
    case FG_MATCH_NE:
        return FG__INNER__MATCH_OP__NE;
    case FG_MATCH_RE:
        return FG__INNER__MATCH_OP__RE;
    case FG_MATCH_NRE:
        return FG__INNER__MATCH_OP__NRE;
    case FG_MATCH_EQ:
        break;
    }
    return FG__INNER__MATCH_OP__EQ;
}

static Fg__Inner__Matcher *make_matcher(struct fg_arena *arena, const struct fg_matcher *from)
{
    Fg__Inner__Matcher *matcher = fg_arena_new(arena, Fg__Inner__Matcher, 1);

    if (matcher == NULL)
        return NULL;
    fg__inner__matcher__init(matcher);
    matcher->op = match_op(from->op);
    matcher->name = fg_arena_text(arena, from->name);
    matcher->value = fg_arena_text(arena, from->value);
    /* Regular expressions go as text: the ingester compiles them itself. */
    return matcher->name == NULL || matcher->value == NULL ? NULL : matcher;
}

enum fg_code qry_heads_matchers(struct fg_arena *arena, const struct fg_selector *selector,
                                size_t *ret_n, Fg__Inner__Matcher ***ret_matchers,
                                struct fg_err *err)
{
    Fg__Inner__Matcher **matchers = fg_arena_new(arena, Fg__Inner__Matcher *, selector->n_matchers);

    if (matchers == NULL)
        return qry_query_too_large(err);
    for (size_t i = 0; i < selector->n_matchers; i++) {
        matchers[i] = make_matcher(arena, &selector->matchers[i]);
        if (matchers[i] == NULL)
            return qry_query_too_large(err);
    }
    *ret_n = selector->n_matchers;
    *ret_matchers = matchers;
    return FG_OK;
}

static enum fg_code make_deletion(struct fg_arena *arena, const struct fg_deletion *from,
                                  Fg__Inner__Deletion **ret_deletion, struct fg_err *err)
{
    Fg__Inner__Deletion *deletion = fg_arena_new(arena, Fg__Inner__Deletion, 1);

    if (deletion == NULL)
        return qry_query_too_large(err);
    fg__inner__deletion__init(deletion);
    deletion->start_ns = from->start_ns;
    deletion->end_ns = from->end_ns;
    *ret_deletion = deletion;
    return qry_heads_matchers(arena, &from->selector, &deletion->n_matchers, &deletion->matchers,
                              err);
}

static enum fg_code make_deletions(const struct qry_query *query, const struct fg_deletions *from,
                                   const struct qry_replicas_head *head,
                                   struct qry_heads_tenant *tenant, struct fg_err *err)
{
    /* Made once for a tenant and shared by the requests to all of its ingesters. */
    tenant->deletions = fg_arena_new(query->arena, Fg__Inner__Deletion *, from->count);
    if (tenant->deletions == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; i < from->count; i++)
        /* A tenant may have thousands of deletions; ingesters need those that touch the range. */
        if (fg_deletion_meets(&from->items[i], head->start_ns, head->end_ns) &&
            make_deletion(query->arena, &from->items[i], &tenant->deletions[tenant->n_deletions++],
                          err) != FG_OK)
            return err->code;
    return FG_OK;
}

enum fg_code qry_heads_tenant(const struct qry_query *query, size_t tenant,
                              const struct qry_replicas_head *head,
                              struct qry_heads_tenant *ret_tenant, struct fg_err *err)
{
    *ret_tenant =
        (struct qry_heads_tenant){.name = fg_arena_text(query->arena, query->tenants.ids[tenant])};
    if (ret_tenant->name == NULL)
        return qry_query_too_large(err);
    return make_deletions(query, &query->deletions[tenant], head, ret_tenant, err);
}

enum fg_code qry_heads_pack(const struct qry_replicas_head *head,
                            const struct qry_heads_request *request, struct fg_arena *arena,
                            struct fg_slice *ret_bytes, struct fg_err *err)
{
    uint8_t store[FG_ID_BYTES], *bytes;

    if (request->store != NULL)
        fg_id_put(store, *request->store);
    /* One message is packed again and again, with other values for each request; only the packed
     * bytes are kept. */
    *head->tenant = request->tenant->name;
    *head->n_deletions = request->tenant->n_deletions;
    *head->deletions = request->tenant->deletions;
    *head->store = request->store == NULL ? (ProtobufCBinaryData){0}
                                          : (ProtobufCBinaryData){sizeof store, store};
    *head->shards = request->shards;
    /* Not every message has these fields. */
    if (head->only_ids != NULL)
        *head->only_ids = request->only_ids;
    if (head->lenient != NULL)
        *head->lenient = request->lenient;
    if (head->cancel_key != NULL)
        *head->cancel_key = request->cancel_key;
    /* One more: a head of nothing but zeros has no bytes, and is there. */
    bytes = fg_arena_alloc(arena, protobuf_c_message_get_packed_size(head->message) + 1);
    if (bytes != NULL)
        *ret_bytes = fg_bytes(bytes, protobuf_c_message_pack(head->message, bytes));
    *head->store = (ProtobufCBinaryData){0}; /* it is on this stack */
    return bytes == NULL ? qry_query_too_large(err) : FG_OK;
}
