#include "common/cluster/usage/query_counts.h"

#include "common/base/envelope.h"
#include "common/base/search.h"
#include "common/model/tenant_id.h"

static const struct fg_envelope envelope = {"query counts", "FGUQ", 1, FG_QUERY_COUNTS_MAX_BYTES};

enum { COUNT_MIN_BYTES = 1 + 5 };

/* Returns the number of the first item whose tenant is not before this one. */
static uint32_t place_of(const struct fg_query_counts *counts, struct fg_slice tenant)
{
    return fg_lower_bound(i, 0, counts->count, fg_slice_cmp(counts->items[i].tenant, tenant) < 0);
}

const struct fg_query_count *fg_query_counts_find(const struct fg_query_counts *counts,
                                                  struct fg_slice tenant)
{
    uint32_t at = place_of(counts, tenant);

    return at < counts->count && fg_slice_eq(counts->items[at].tenant, tenant) ? &counts->items[at]
                                                                               : NULL;
}

bool fg_query_counts_add(struct fg_query_counts *counts, struct fg_slice tenant,
                         const struct fg_usage_queries *more, struct fg_arena *arena)
{
    uint32_t at = place_of(counts, tenant);

    if (at == counts->count || !fg_slice_eq(counts->items[at].tenant, tenant)) {
        struct fg_slice name;

        if (counts->count == FG_QUERY_COUNTS_TENANTS_MAX)
            return false;
        name = fg_arena_copy(arena, tenant);
        if (name.ptr == NULL || !fg_arena_grow(arena, &counts->items, counts->count, 1,
                                               &counts->cap, sizeof *counts->items))
            return false;
        memmove(&counts->items[at + 1], &counts->items[at],
                (counts->count - at) * sizeof *counts->items);
        counts->items[at] = (struct fg_query_count){.tenant = name};
        counts->count++;
    }
    fg_usage_queries_add(&counts->items[at].queries, more);
    return true;
}

enum fg_code fg_query_counts_encode(const struct fg_query_counts *counts, struct fg_buf *out,
                                    struct fg_err *err)
{
    size_t start = out->len;
    struct fg_buf record;

    fg_buf_init(&record, FG_TENANT_MAX_BYTES + 64);
    fg_envelope_begin(&envelope, out);
    fg_buf_varint(out, counts->count);
    for (uint32_t i = 0; i < counts->count; i++) {
        const struct fg_query_count *item = &counts->items[i];

        fg_buf_clear(&record);
        fg_buf_lenbytes(&record, item->tenant);
        fg_buf_varint(&record, item->queries.queries);
        fg_buf_varint(&record, item->queries.requests);
        fg_buf_varint(&record, item->queries.read_bytes);
        fg_buf_varint(&record, item->queries.cpu_us);
        fg_buf_lenbytes(out, fg_buf_slice(&record));
    }
    out->full |= record.full;
    fg_buf_done(&record);
    return fg_envelope_end(&envelope, out, start, err);
}

/* Reads one record. Sets the cursor's error if its name or a number is not valid. */
static struct fg_query_count get_count(struct fg_cur *from)
{
    struct fg_cur cur = fg_cur(fg_cur_lenbytes(from));
    struct fg_query_count item = {.tenant = fg_cur_lenbytes(&cur)};
    struct fg_err err;

    item.queries.queries = fg_cur_varint(&cur);
    item.queries.requests = fg_cur_varint(&cur);
    item.queries.read_bytes = fg_cur_varint(&cur);
    item.queries.cpu_us = fg_cur_varint(&cur);
    if (cur.bad || fg_tenant_check(item.tenant, &err) != FG_OK ||
        (item.queries.queries | item.queries.requests | item.queries.read_bytes |
         item.queries.cpu_us) > (uint64_t)INT64_MAX)
        fg_cur_fail(from);
    return item;
}

/* Reads all records, so that nothing of a damaged object is added. */
static bool check_all(struct fg_cur cur)
{
    uint64_t count = fg_cur_varint(&cur);
    struct fg_slice before = FG_LIT("");

    for (uint64_t i = 0; i < count && !cur.bad; i++) {
        struct fg_query_count item = get_count(&cur);

        if (!cur.bad && i > 0 && fg_slice_cmp(before, item.tenant) >= 0)
            fg_cur_fail(&cur);
        before = item.tenant;
    }
    return !cur.bad;
}

enum fg_code fg_query_counts_add_encoded(struct fg_query_counts *counts, struct fg_slice in,
                                         struct fg_arena *arena, struct fg_err *err)
{
    struct fg_cur cur;
    uint64_t count;

    if (fg_envelope_open(&envelope, in, &cur, err) != FG_OK)
        return err->code;
    if (!check_all(cur))
        return fg_fail(err, FG_E_CORRUPT, "the fields of query counts are broken");
    count = fg_cur_varint(&cur);
    for (uint64_t i = 0; i < count; i++) {
        struct fg_query_count item = get_count(&cur);

        if (!fg_query_counts_add(counts, item.tenant, &item.queries, arena))
            return fg_fail(err, FG_E_LIMIT, "query counts of more than %u tenants", counts->count);
    }
    return FG_OK;
}

int32_t fg_query_counts_day(int32_t day, int64_t now_wall_ns)
{
    int64_t end_ns = fg_usage_day_start_ns(day + 1);

    return now_wall_ns < fg_time_add(end_ns, FG_QUERY_COUNTS_LATE_NS)
               ? day
               : fg_usage_day_of(now_wall_ns);
}
