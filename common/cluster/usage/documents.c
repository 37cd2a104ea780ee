#include "common/cluster/usage/documents.h"

static int64_t deadline(const struct fg_usage_documents *documents)
{
    int64_t end_ns = fg_time_add(fg_mono_ns(documents->clock), documents->timeout_ns);

    return documents->deadline_mono_ns == 0 ? end_ns : FG_MIN(end_ns, documents->deadline_mono_ns);
}

static enum fg_code name_of(char out[FG_NAME_MAX_BYTES], struct fg_slice tenant, int32_t day,
                            uint64_t version, struct fg_err *err)
{
    struct fg_usage_name name = {.day = day, .version = version};

    if (tenant.len > FG_TENANT_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "a tenant name of %zu bytes", tenant.len);
    (void)snprintf(name.tenant, sizeof name.tenant, "%.*s", FG_S(tenant));
    return fg_name_usage(out, &name, err);
}

/* ---- listing ---- */

/* What all dates of [first, last] begin with. */
static void common_dates(int32_t first, int32_t last, char out[FG_USAGE_DATE_BYTES])
{
    static const size_t ends[] = {sizeof "2026-11-27" - 1, sizeof "2026-11-" - 1,
                                  sizeof "2026-" - 1};
    char other[FG_USAGE_DATE_BYTES];

    fg_usage_day_write(first, out);
    fg_usage_day_write(last, other);
    for (size_t i = 0; i < FG_COUNT(ends); i++)
        if (memcmp(out, other, ends[i]) == 0) {
            out[ends[i]] = '\0';
            return;
        }
    out[0] = '\0';
}

struct documents_listing {
    int32_t first, last;
    uint64_t below;
    struct fg_arena *arena;
    struct fg_usage_newest *newest;
    uint32_t count, cap;
    bool full;
};

/* Takes an entry. They come in the order of names, which is that of days and versions. */
static bool take_entry(const struct fg_bucket_entry *entry, void *arg)
{
    struct documents_listing *listing = arg;
    struct fg_usage_newest *last =
        listing->count == 0 ? NULL : &listing->newest[listing->count - 1];
    struct fg_usage_name name;

    if (!fg_name_parse_usage(fg_cstr(entry->name), &name) || name.day < listing->first ||
        name.day > listing->last || name.version >= listing->below)
        return true;
    if (last == NULL || last->day != name.day) {
        if (!fg_arena_grow(listing->arena, &listing->newest, listing->count, 1, &listing->cap,
                           sizeof *listing->newest)) {
            listing->full = true;
            return false;
        }
        last = &listing->newest[listing->count++];
    }
    fg_assert(last != NULL);
    /* Each version replaces the one before of its day, so the newest stays. */
    *last = (struct fg_usage_newest){name.day, name.version, entry->size_bytes};
    return true;
}

enum fg_code fg_usage_documents_list(const struct fg_usage_documents *documents,
                                     struct fg_slice tenant, int32_t first, int32_t last,
                                     uint64_t below, struct fg_arena *arena,
                                     struct fg_usage_newest **ret_newest, uint32_t *ret_count,
                                     struct fg_err *err)
{
    struct documents_listing listing = {
        .first = first, .last = last, .below = below, .arena = arena};
    char dates[FG_USAGE_DATE_BYTES], prefix[FG_NAME_MAX_BYTES];

    common_dates(first, last, dates);
    /* One deadline for all pages of the list. */
    if (fg_name_usage_all(prefix, tenant, dates, err) != FG_OK ||
        fg_bucket_each_until(documents->bucket, prefix, false, deadline(documents), documents->stop,
                             take_entry, &listing, err) != FG_OK)
        return fg_wrap(err, "documents of usage");
    if (listing.full)
        return fg_fail(err, FG_E_LIMIT, "no room for a list of documents of usage");
    *ret_newest = listing.newest;
    *ret_count = listing.count;
    return FG_OK;
}

/* ---- one of them ---- */

static struct fg_bucket_request get_of(const struct fg_usage_documents *documents, const char *name)
{
    return (struct fg_bucket_request){.verb = FG_BUCKET_GET,
                                      .name = name,
                                      .content_max_bytes = FG_USAGE_DOCUMENT_MAX_BYTES,
                                      .deadline_mono_ns = deadline(documents)};
}

/* Takes what a request brought, and clears it. */
static enum fg_code read_answer(struct fg_bucket_request *request, struct fg_slice tenant,
                                int32_t day, uint64_t version, struct fg_arena *arena,
                                struct fg_usage_document *ret_document, struct fg_err *err)
{
    enum fg_code code = request->code;

    if (code == FG_OK)
        code = fg_usage_document_decode(fg_buf_slice(&request->body), tenant, day, version, arena,
                                        ret_document, err);
    else
        *err = request->err;
    fg_bucket_clear(request);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", request->name);
}

enum fg_code fg_usage_documents_read(const struct fg_usage_documents *documents,
                                     struct fg_slice tenant, int32_t day, uint64_t version,
                                     struct fg_arena *arena, struct fg_usage_document *ret_document,
                                     struct fg_err *err)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_bucket_request request = get_of(documents, name);

    if (name_of(name, tenant, day, version, err) != FG_OK)
        return err->code;
    (void)fg_bucket_call_until(documents->bucket, &request, documents->stop);
    return read_answer(&request, tenant, day, version, arena, ret_document, err);
}

/* ---- many of them ---- */

/* A request under way. */
struct read_slot {
    struct fg_bucket_request request;
    char name[FG_NAME_MAX_BYTES];
    struct fg_usage_reading *reading; /* NULL: the slot is free */
};

struct read_wave {
    const struct fg_usage_documents *documents;
    struct fg_bucket_wave *wave;
    struct read_slot slots[FG_USAGE_READS_MAX];
    uint64_t bytes; /* under way */
};

static struct read_slot *free_slot(struct read_wave *wave)
{
    for (size_t i = 0; i < FG_USAGE_READS_MAX; i++)
        if (wave->slots[i].reading == NULL)
            return &wave->slots[i];
    return NULL;
}

/* Sends one more request. *ret_sent: there was room for it. */
static enum fg_code send_one(struct read_wave *wave, struct fg_usage_reading *reading,
                             bool *ret_sent, struct fg_err *err)
{
    struct read_slot *slot = free_slot(wave);

    *ret_sent = slot != NULL && (wave->bytes == 0 || wave->bytes + reading->newest.size_bytes <=
                                                         FG_USAGE_READS_MAX_BYTES);
    if (!*ret_sent)
        return FG_OK;
    if (name_of(slot->name, reading->tenant, reading->newest.day, reading->newest.version, err) !=
        FG_OK)
        return err->code;
    slot->request = get_of(wave->documents, slot->name);
    slot->reading = reading;
    wave->bytes += reading->newest.size_bytes;
    fg_bucket_wave_send(wave->wave, wave->documents->bucket, &slot->request);
    return FG_OK;
}

static enum fg_code take_one(struct read_wave *wave, struct fg_bucket_request *request,
                             struct fg_arena *arena, struct fg_err *err)
{
    struct read_slot *slot = fg_container(request, struct read_slot, request);
    struct fg_usage_reading *reading = slot->reading;

    slot->reading = NULL;
    wave->bytes -= reading->newest.size_bytes;
    return read_answer(request, reading->tenant, reading->newest.day, reading->newest.version,
                       arena, &reading->document, err);
}

static enum fg_code read_all(struct read_wave *wave, struct fg_usage_reading *readings,
                             uint32_t count, struct fg_arena *arena,
                             enum fg_code (*check)(void *arg, struct fg_err *err), void *arg,
                             struct fg_err *err)
{
    struct fg_bucket_request *request;
    uint32_t sent = 0;

    do {
        bool more = true;

        /* After an error fg_bucket_wave_destroy() cancels what is under way. */
        if (check(arg, err) != FG_OK)
            return err->code;
        while (more && sent < count) {
            if (send_one(wave, &readings[sent], &more, err) != FG_OK)
                return err->code;
            sent += more;
        }
        request = fg_bucket_wave_next(wave->wave);
        if (request != NULL && take_one(wave, request, arena, err) != FG_OK)
            return err->code;
    } while (request != NULL);
    return FG_OK;
}

enum fg_code fg_usage_documents_read_all(const struct fg_usage_documents *documents,
                                         struct fg_usage_reading *readings, uint32_t count,
                                         struct fg_arena *arena,
                                         enum fg_code (*check)(void *arg, struct fg_err *err),
                                         void *arg, struct fg_err *err)
{
    struct read_wave *wave = fg_new(struct read_wave);
    enum fg_code code;

    wave->documents = documents;
    wave->wave = fg_bucket_wave_create();
    code = read_all(wave, readings, count, arena, check, arg, err);
    fg_bucket_wave_destroy(wave->wave); /* ends what is under way after an error */
    /* Answers that nobody has taken. */
    for (size_t i = 0; i < FG_USAGE_READS_MAX; i++)
        if (wave->slots[i].reading != NULL)
            fg_bucket_clear(&wave->slots[i].request);
    free(wave);
    return code;
}

/* ---- writing ---- */

enum fg_code fg_usage_documents_write(const struct fg_usage_documents *documents,
                                      const struct fg_usage_document *document, struct fg_err *err)
{
    char name[FG_NAME_MAX_BYTES];
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT,
                                        .name = name,
                                        .condition = FG_BUCKET_IF_ABSENT,
                                        .deadline_mono_ns = deadline(documents)};
    struct fg_buf bytes;
    enum fg_code code;

    if (name_of(name, document->tenant, document->sums.day, document->version, err) != FG_OK)
        return err->code;
    fg_buf_init(&bytes, FG_USAGE_DOCUMENT_MAX_BYTES);
    code = fg_usage_document_encode(document, &bytes, err);
    if (code == FG_OK) {
        request.content = fg_buf_slice(&bytes);
        code = fg_bucket_call_until(documents->bucket, &request, documents->stop);
        /* Somebody has written this version, perhaps we in a try whose answer was lost: the bytes
         * are the same. */
        if (code == FG_E_PRECONDITION)
            code = FG_OK;
        else if (code != FG_OK)
            *err = request.err;
        fg_bucket_clear(&request);
    }
    fg_buf_done(&bytes);
    return code == FG_OK ? FG_OK : fg_wrap(err, "%s", name);
}
