#include "common/access/audit/audit_search.h"

#include "common/net/inflate.h"

enum { LINE_ARENA_BYTES = 256 * 1024 };

#define DAY_MS  (24 * FG_HOUR_NS / FG_MS_NS)
#define HOUR_MS (FG_HOUR_NS / FG_MS_NS)
/* An object has records of at most so long after its first one: audit.flush is at most an hour. */
#define SPAN_MAX_MS (2 * HOUR_MS)

struct hit {
    int64_t ms;
    uint64_t seq;
    struct fg_slice chain, line;
};

struct audit_search {
    struct fg_bucket *bucket;
    const struct fg_audit_wanted *wanted;
    int64_t deadline_mono_ns;
    struct fg_arena *arena, *line_arena;
    struct fg_arena *kept, *spare; /* kept: the lines of hits */
    struct fg_err *err;
    enum fg_code code;
    int64_t hour_ms;     /* of the last object that was read */
    int64_t complete_ms; /* records before this time are all there; INT64_MAX: all are */
    struct hit *hits;
    uint32_t n, cap, prune_at;    /* prune_at: so many hits are too many */
    struct fg_audit_found *found; /* gets what is unreadable */
};

enum fg_code fg_audit_read_object(struct fg_bucket *bucket, const char *name,
                                  int64_t deadline_mono_ns, struct fg_buf *lines,
                                  struct fg_err *err)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET,
                                    .name = name,
                                    .content_max_bytes = (size_t)2 * FG_AUDIT_OBJECT_MAX_BYTES,
                                    .deadline_mono_ns = deadline_mono_ns};
    enum fg_code code = fg_bucket_call(bucket, &get);

    if (code != FG_OK) {
        *err = get.err;
    } else if (fg_inflate(fg_buf_slice(&get.body), FG_CODING_ZSTD, FG_AUDIT_OBJECT_MAX_BYTES, lines,
                          err) != FG_OK) {
        (void)fg_wrap(err, "%s", name);
        code = err->code = FG_E_CORRUPT;
    }
    fg_bucket_clear(&get);
    return code;
}

/* ---- records ---- */

static bool contains(struct fg_slice text, struct fg_slice part)
{
    return part.len == 0 ||
           (text.len >= part.len && memmem(text.ptr, text.len, part.ptr, part.len) != NULL);
}

/* Returns whether "a|b" has the tenant. */
static bool has_tenant(struct fg_slice tenants, struct fg_slice tenant)
{
    while (tenants.len > 0) {
        size_t end = FG_MIN(fg_slice_find(tenants, '|'), tenants.len);

        if (fg_slice_eq(fg_slice_sub(tenants, 0, end), tenant))
            return true;
        tenants = fg_slice_sub(tenants, end + 1, SIZE_MAX);
    }
    return false;
}

static bool is_wanted(const struct fg_audit_wanted *wanted, const struct fg_audit_record *record)
{
    const struct fg_audit_event *event = &record->event;

    return record->ms >= wanted->from_ms && record->ms <= wanted->to_ms &&
           (contains(event->who, wanted->who) || fg_slice_eq(event->token, wanted->who) ||
            fg_slice_eq(event->session, wanted->who)) &&
           (wanted->tenant.len == 0 || has_tenant(event->tenant, wanted->tenant)) &&
           (wanted->kind.len == 0 || fg_slice_is(wanted->kind, fg_audit_kind_name(event->kind))) &&
           wanted->may_see(wanted->arg, record->ms, event->tenant);
}

static int compare_hits(const void *a, const void *b)
{
    const struct hit *left = a, *right = b;
    int order;

    if (left->ms != right->ms)
        return left->ms < right->ms ? -1 : 1;
    order = fg_slice_cmp(left->chain, right->chain);
    return order != 0 ? order : (left->seq > right->seq) - (left->seq < right->seq);
}

/* Sorts the hits and returns how many of the first ones make a page: the limit, and those of the
 * last one's millisecond. */
static uint32_t sort_page(struct audit_search *search)
{
    uint32_t end = FG_MIN((uint32_t)search->wanted->limit, search->n);

    if (search->n > 1)
        qsort(search->hits, search->n, sizeof *search->hits, compare_hits);
    while (end < search->n && end > 0 && search->hits[end].ms == search->hits[end - 1].ms)
        end++;
    return end;
}

/* Forgets hits that another page will have: whoever floods the audit must not hide what was
 * recorded in the same hour. */
static enum fg_code prune(struct audit_search *search)
{
    struct fg_arena *spare = search->spare;
    uint32_t end = sort_page(search);

    if (end < search->n)
        search->complete_ms = search->hits[end].ms;
    search->n = end;
    search->prune_at = 2 * FG_MAX(end, (uint32_t)search->wanted->limit) + 1;
    for (uint32_t i = 0; i < end; i++) {
        search->hits[i].line = fg_arena_copy(spare, search->hits[i].line);
        if (search->hits[i].line.ptr == NULL)
            return fg_fail(search->err, FG_E_LIMIT, "too many records in a millisecond");
    }
    fg_arena_reset(search->kept);
    search->spare = search->kept;
    search->kept = spare;
    return FG_OK;
}

/* Lines that are no records are for `flamegrid audit verify` to name. */
static enum fg_code take_line(struct audit_search *search, struct fg_slice chain,
                              struct fg_slice line)
{
    struct fg_audit_record record;
    struct fg_err ignored;
    struct hit *hit;

    fg_arena_reset(search->line_arena);
    if (fg_audit_read(line, search->line_arena, &record, &ignored) != FG_OK ||
        record.ms >= search->complete_ms || !is_wanted(search->wanted, &record))
        return FG_OK;
    if (search->n >= search->prune_at && prune(search) != FG_OK)
        return search->err->code;
    line = fg_arena_copy(search->kept, line);
    if (line.ptr == NULL || !fg_arena_grow(search->arena, &search->hits, search->n, 1, &search->cap,
                                           sizeof *search->hits))
        return fg_fail(search->err, FG_E_LIMIT, "too many records: ask for fewer (limit)");
    hit = &search->hits[search->n++];
    *hit = (struct hit){record.ms, record.seq, chain, line};
    return FG_OK;
}

/* The other records are needed most when somebody has damaged some. */
static enum fg_code note_unreadable(struct audit_search *search, const char *object_name)
{
    struct fg_audit_found *found = search->found;
    const char *name = fg_arena_text(search->arena, fg_cstr(object_name));

    if (name == NULL)
        return fg_fail(search->err, FG_E_LIMIT, "too many objects");
    if (found->n_unreadable < FG_AUDIT_SEARCH_NAMES_MAX)
        found->unreadable[found->n_unreadable] = name;
    found->n_unreadable++;
    return FG_OK;
}

static enum fg_code take_object(struct audit_search *search, const char *object_name,
                                const struct fg_audit_name *name)
{
    struct fg_slice chain = fg_arena_copy(search->arena, fg_cstr(name->chain)), rest;
    struct fg_buf lines;
    enum fg_code code;

    if (chain.ptr == NULL)
        return fg_fail(search->err, FG_E_LIMIT, "too many objects");
    fg_buf_init(&lines, FG_AUDIT_OBJECT_MAX_BYTES);
    code = fg_audit_read_object(search->bucket, object_name, search->deadline_mono_ns, &lines,
                                search->err);
    if (code == FG_E_CORRUPT || code == FG_E_NOT_FOUND) {
        fg_buf_clear(&lines);
        code = code == FG_E_CORRUPT ? note_unreadable(search, object_name)
                                    : FG_OK; /* retention has deleted it since it was listed */
    }
    rest = fg_buf_slice(&lines);
    for (size_t end; code == FG_OK && (end = fg_slice_find(rest, '\n')) != SIZE_MAX;) {
        code = take_line(search, chain, fg_slice_sub(rest, 0, end));
        rest = fg_slice_sub(rest, end + 1, SIZE_MAX);
    }
    fg_buf_done(&lines);
    return code;
}

/* ---- objects ---- */

static enum fg_code check_wanted(struct audit_search *search)
{
    const struct fg_audit_wanted *wanted = search->wanted;

    return wanted->is_unwanted != NULL && wanted->is_unwanted(wanted->arg)
               ? fg_fail(search->err, FG_E_CANCELED, "client has disconnected")
               : FG_OK;
}

/* Returns whether there are enough records from before an hour or day that begins now. */
static bool has_enough(struct audit_search *search, int64_t begin_ms)
{
    if (begin_ms >= search->complete_ms)
        return true;
    if (search->n <= search->wanted->limit || begin_ms <= search->wanted->from_ms)
        return false;
    search->complete_ms = begin_ms;
    return true;
}

/* Names sort by hour. */
static bool look_at(const struct fg_bucket_entry *entry, void *arg)
{
    struct audit_search *search = arg;
    struct fg_audit_name name;

    if (!fg_audit_read_name(fg_cstr(entry->name), &name) ||
        name.hour_ms + HOUR_MS + SPAN_MAX_MS <= search->wanted->from_ms)
        return true;
    if (name.hour_ms > search->wanted->to_ms)
        return false;
    if (name.hour_ms > search->hour_ms && has_enough(search, name.hour_ms))
        return false;
    search->hour_ms = name.hour_ms;
    search->code = check_wanted(search);
    if (search->code == FG_OK)
        search->code = take_object(search, entry->name, &name);
    return search->code == FG_OK;
}

/* Cuts before what is not complete, and behind the page. */
static void cut(struct audit_search *search, struct fg_audit_found *found)
{
    const struct hit *hits = search->hits;
    uint32_t end = sort_page(search), n = search->n;

    while (n > 0 && hits[n - 1].ms >= search->complete_ms)
        n--;
    found->n = FG_MIN(n, end);
    found->next_ms = search->complete_ms == INT64_MAX ? 0 : search->complete_ms;
    if (end < n)
        found->next_ms = hits[end].ms;
}

static enum fg_code deliver(struct audit_search *search, struct fg_audit_found *ret_found)
{
    struct fg_audit_found found = *search->found;
    struct fg_slice *lines;

    cut(search, &found);
    lines = fg_arena_new(search->arena, struct fg_slice, found.n);
    for (size_t i = 0; lines != NULL && i < found.n; i++) {
        lines[i] = fg_arena_copy(search->arena, search->hits[i].line);
        if (lines[i].ptr == NULL)
            lines = NULL;
    }
    if (lines == NULL)
        return fg_fail(search->err, FG_E_LIMIT, "too many records: ask for fewer (limit)");
    found.lines = lines;
    *ret_found = found;
    return FG_OK;
}

/* Reads objects until there are enough records. */
static enum fg_code read_objects(struct audit_search *search)
{
    const struct fg_audit_wanted *wanted = search->wanted;

    for (int64_t day_ms = FG_MAX(wanted->from_ms - SPAN_MAX_MS, 0) / DAY_MS * DAY_MS;
         day_ms <= wanted->to_ms && !has_enough(search, day_ms); day_ms += DAY_MS) {
        char prefix[FG_AUDIT_NAME_MAX_BYTES];

        fg_audit_write_day(day_ms, prefix);
        if (check_wanted(search) != FG_OK ||
            fg_bucket_each(search->bucket, prefix, false, search->deadline_mono_ns, look_at, search,
                           search->err) != FG_OK)
            return search->err->code;
        if (search->code != FG_OK)
            return search->code;
    }
    return FG_OK;
}

enum fg_code fg_audit_search(struct fg_bucket *bucket, const struct fg_audit_wanted *wanted,
                             int64_t deadline_mono_ns, struct fg_arena *arena,
                             struct fg_audit_found *ret_found, struct fg_err *err)
{
    struct fg_audit_found found = {.n = 0};
    struct audit_search search = {.bucket = bucket,
                                  .wanted = wanted,
                                  .deadline_mono_ns = deadline_mono_ns,
                                  .arena = arena,
                                  .err = err,
                                  .complete_ms = INT64_MAX,
                                  .prune_at = 2 * (uint32_t)wanted->limit + 1,
                                  .found = &found};
    enum fg_code code;

    if (wanted->from_ms < 0 || wanted->to_ms < wanted->from_ms ||
        wanted->to_ms - wanted->from_ms > FG_AUDIT_SEARCH_MAX_DAYS * DAY_MS)
        return fg_fail(err, FG_E_INVALID,
                       "the range has to begin before it ends and be at most %d "
                       "days",
                       FG_AUDIT_SEARCH_MAX_DAYS);
    search.line_arena = fg_arena_create(LINE_ARENA_BYTES);
    search.kept = fg_arena_create(fg_arena_limit_bytes(arena));
    search.spare = fg_arena_create(fg_arena_limit_bytes(arena));
    code = read_objects(&search);
    if (code == FG_OK)
        code = deliver(&search, ret_found);
    fg_arena_destroy(search.spare);
    fg_arena_destroy(search.kept);
    fg_arena_destroy(search.line_arena);
    return code;
}
