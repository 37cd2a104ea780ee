#include "ingester/forward/parcel.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "common/model/pprof_write.h"
#include "common/model/relabel.h"
#include "proto/forward.h"
#include "proto/forward_v1.pb-c.h"
#include "proto/push_v1.pb-c.h"

#include <jansson.h>
#include <libdeflate.h>
#include <openssl/evp.h>
#include <stdlib.h>

enum {
    /* Of a span: 256 KiB of records, or one that may be larger, and of a round: the same as batches
     * with the stacks of their dictionaries. */
    ITEMS_MAX_BYTES = 64 * 1024 * 1024,
    ROUND_MAX_BYTES = 256 * 1024 * 1024,
    BODY_MAX_BYTES = 32 * 1024 * 1024, /* distributor.body_max_bytes, as it is by default */
    /* Of a page's profiles, with all of their stacks defined: a request of a second or less. */
    PAGE_ROUND_MAX_BYTES = 1024 * 1024,
    PAGE_ROUND_MAX = 128, /* each is a batch, for whose result the target needs a kilobyte or two */
    PASSWORD_MAX_BYTES = 1024,
    PASSWORD_FILE_MAX_BYTES = 16384, /* fg_conf_read_file() wants room */
    /* Half of a pprof's bytes for 3 ns of CPU each; 2 leaves 47 % and takes twice as long, 6 45 %
     * and four times. */
    GZIP_LEVEL = 1,
    LOGIN_MAX_BYTES = 256 + 1 + PASSWORD_MAX_BYTES + 1, /* the longest username, and a NUL */
};

static const int64_t LIMIT_HOLD_MAX_NS = 10 * FG_MINUTE_NS;

/* The state of a profile in this parcel. */
enum item_state {
    ITEM_OPEN,   /* to be sent */
    ITEM_LATER,  /* not by this parcel: it waits again */
    ITEM_CLOSED, /* its outcome is decided */
};

struct ing_parcel_item {
    struct ing_outbox_item *outbox;
    enum item_state state;
    bool define; /* the target has asked for its stacks */
    bool alone;  /* in a batch of its own, since one with others was refused */
};

/* A batch of the round. */
struct ing_parcel_batch {
    struct ing_parcel_item **items; /* by the places of their profiles in the batch */
    uint32_t n;
    uint64_t cache_key;
    struct fg_id *defined;
    uint32_t n_defined;
};

static struct ing_parcel *create(const struct ing_parcel_common *common,
                                 const struct ing_forward_target *target, uint64_t cache_key)
{
    struct ing_parcel *parcel = fg_new(struct ing_parcel);

    parcel->common = common;
    parcel->target = target;
    parcel->cache_key = cache_key;
    parcel->round_max = SIZE_MAX;
    parcel->message = fg_new(struct fg_forward_message);
    fg_buf_init(&parcel->body, BODY_MAX_BYTES);
    fg_buf_init(&parcel->login, 4096);
    return parcel;
}

struct ing_parcel *ing_parcel_create(const struct ing_parcel_common *common,
                                     const struct ing_forward_target *target, uint64_t cache_key,
                                     const struct ing_outbox_span *span)
{
    struct ing_parcel *parcel = create(common, target, cache_key);

    parcel->span = *span;
    return parcel;
}

struct ing_parcel *ing_parcel_create_of_page(const struct ing_parcel_common *common,
                                             const struct ing_forward_target *target,
                                             uint64_t cache_key, unsigned number,
                                             struct ing_page *page)
{
    struct ing_parcel *parcel = create(common, target, cache_key);

    parcel->span.target = number;
    parcel->page = *page;
    *page = (struct ing_page){0};
    return parcel;
}

static bool is_of_page(const struct ing_parcel *parcel)
{
    return parcel->page.before.state != RESEND_NONE;
}

/* Notes how far the resend has come: up to the first profile that is to be sent again. The target
 * will know the later profiles that it already has. */
static void note_page(const struct ing_parcel *parcel)
{
    const struct ing_page *page = &parcel->page;
    struct ing_resend now = page->after;
    size_t done = 0;

    while (done < parcel->n_items && parcel->items[done].state == ITEM_CLOSED) {
        now.refused += parcel->outbox_items[done].outcome == OUTBOX_REFUSED;
        done++;
    }
    if (done < page->n) {
        now = page->before;
        now.incomplete = page->after.incomplete;
        for (size_t i = 0; i < done; i++)
            now.refused += parcel->outbox_items[i].outcome == OUTBOX_REFUSED;
        if (done > 0)
            ing_page_pass(&page->items[done - 1], &now);
    }
    now.sent += parcel->n_stored + parcel->n_known;
    now.known += parcel->n_known;
    now.filtered += parcel->n_filtered;
    ing_outbox_note_resend(parcel->common->outbox, parcel->span.target, &page->before, &now);
}

void ing_parcel_end(struct ing_parcel *parcel)
{
    if (is_of_page(parcel))
        note_page(parcel);
    else if (parcel->items == NULL) /* the store could not be read */
        ing_outbox_put_back(parcel->common->outbox, &parcel->span);
    else
        ing_outbox_report(parcel->common->outbox, &parcel->span, parcel->outbox_items,
                          parcel->n_items);
    fg_forward_done(parcel->message);
    free(parcel->message);
    fg_buf_done(&parcel->body);
    if (parcel->login.ptr != NULL)
        OPENSSL_cleanse(parcel->login.ptr, parcel->login.cap);
    fg_buf_done(&parcel->login);
    ing_page_done(&parcel->page);
    libdeflate_free_compressor(parcel->gzip);
    fg_arena_destroy(parcel->round_arena);
    fg_arena_destroy(parcel->arena);
    free(parcel);
}

static void close_item(struct ing_parcel_item *item, enum ing_outbox_outcome outcome)
{
    item->outbox->outcome = outcome;
    item->state = ITEM_CLOSED;
}

/* reason: copied. */
static void refuse_item(struct ing_parcel *parcel, struct ing_parcel_item *item, const char *reason)
{
    /* A full arena leaves the reason out, not the fact. */
    item->outbox->reason = fg_arena_text(parcel->arena, fg_cstr(reason));
    if (item->outbox->reason == NULL)
        item->outbox->reason = "refused";
    close_item(item, OUTBOX_REFUSED);
}

/* ---- what is to be sent ---- */

static enum fg_code read_page(struct ing_parcel *parcel, struct ing_outbox_item **ret_found,
                              size_t *ret_n, struct fg_err *err)
{
    size_t n = parcel->page.n;

    *ret_n = n;
    *ret_found = fg_arena_new(parcel->arena, struct ing_outbox_item, n);
    if (*ret_found == NULL)
        return fg_fail(err, FG_E_LIMIT, "a page of %zu profiles", n);
    for (size_t i = 0; i < n; i++)
        (*ret_found)[i].record = fg_bytes(parcel->page.items[i].bytes, parcel->page.items[i].len);
    return FG_OK;
}

static enum fg_code read_items(struct ing_parcel *parcel, struct fg_err *err)
{
    struct ing_outbox_item *found;
    size_t n;

    parcel->arena = fg_arena_create(ITEMS_MAX_BYTES);
    if ((is_of_page(parcel) ? read_page(parcel, &found, &n, err)
                            : ing_outbox_read(parcel->common->outbox, &parcel->span, parcel->arena,
                                              &found, &n, err)) != FG_OK)
        return err->code;
    parcel->outbox_items = found;
    parcel->n_items = n;
    parcel->items = fg_arena_new(parcel->arena, struct ing_parcel_item, n);
    if (parcel->items == NULL)
        return fg_fail(err, FG_E_LIMIT, "a span of %zu profiles", n);
    for (size_t i = 0; i < n; i++)
        parcel->items[i] = (struct ing_parcel_item){
            .outbox = &found[i],
            .state = found[i].outcome == OUTBOX_AGAIN ? ITEM_OPEN : ITEM_CLOSED,
        };
    return FG_OK;
}

static uint32_t tenant_of(const struct ing_parcel_item *item)
{
    return item->outbox->entry.key.chunk.group.tenant;
}

/* Whether the target knows of more than one tenant, so that it may refuse one of them. */
static bool has_tenants(const struct ing_parcel *parcel)
{
    return parcel->common->several && parcel->target->settings.tenant[0] == '\0';
}

/* It waits until the hold of its tenant ends. */
static void hold_item(struct ing_parcel_item *item)
{
    item->outbox->outcome = OUTBOX_HELD;
    item->state = ITEM_LATER;
}

static bool is_held(const struct ing_parcel *parcel, const struct ing_parcel_item *item)
{
    return has_tenants(parcel) &&
           ing_outbox_holds(parcel->common->outbox, parcel->span.target, tenant_of(item));
}

/* All profiles of a request come by the same way. */
static bool same_way(const struct ing_parcel_item *a, const struct ing_parcel_item *b)
{
    const struct ing_outbox_via *x = &a->outbox->entry.via, *y = &b->outbox->entry.via;

    return x->n == y->n && memcmp(x->stores, y->stores, x->n * sizeof x->stores[0]) == 0;
}

/* Chooses the profiles of the round: open ones of one tenant and way. */
static size_t choose(struct ing_parcel *parcel, struct ing_export_profile *profiles)
{
    struct ing_parcel_item *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < parcel->n_items && n < parcel->round_max; i++) {
        struct ing_parcel_item *item = &parcel->items[i];
        struct fg_err err;

        if (item->state != ITEM_OPEN ||
            (first != NULL && (tenant_of(item) != tenant_of(first) || !same_way(item, first))))
            continue;
        if (first == NULL && is_held(parcel, item)) {
            hold_item(item);
            continue;
        }
        if (!ing_catalog_has_tenant(parcel->common->catalog, tenant_of(item))) {
            refuse_item(parcel, item, "the record of its tenant is lost");
            continue;
        }
        if (ing_record_open(item->outbox->record, &profiles[n].record, &err) != FG_OK) {
            refuse_item(parcel, item, err.msg);
            continue;
        }
        first = first == NULL ? item : first;
        profiles[n].key = item->outbox->entry.key;
        profiles[n].owner = item;
        n++;
    }
    parcel->first = first;
    return n;
}

/* Chooses the profiles of a round of a page: the first ones that are open. */
static size_t choose_of_page(struct ing_parcel *parcel, struct ing_export_profile *profiles)
{
    size_t n = 0, bytes = 0;

    for (size_t i = 0; i < parcel->n_items && n < FG_MIN(parcel->round_max, PAGE_ROUND_MAX); i++) {
        struct ing_parcel_item *item = &parcel->items[i];

        if (item->state != ITEM_OPEN)
            continue;
        if (n > 0 && bytes + item->outbox->record.len > PAGE_ROUND_MAX_BYTES)
            break;
        bytes += item->outbox->record.len;
        profiles[n++].owner = item;
    }
    parcel->first = n > 0 ? profiles[0].owner : NULL;
    return n;
}

/* ---- selection and rules ---- */

/* Applies selector and rules of the target to the labels of a profile. *ret_kept false: it is not
 * wanted there. */
static enum fg_code settle_labels(struct ing_parcel *parcel, struct fg_profile *profile,
                                  bool *ret_kept, struct fg_err *err)
{
    const struct ing_forward_target *target = parcel->target;

    *ret_kept = fg_selector_matches(&target->selector, &profile->labels);
    if (!*ret_kept)
        return FG_OK;
    /* The rules change the array, which is the catalog's. */
    profile->labels = fg_labels_copy(&profile->labels, parcel->round_arena);
    if (profile->labels.items == NULL)
        return fg_fail(err, FG_E_LIMIT, "labels of a profile");
    return fg_relabel_apply(target->rules, parcel->round_arena, &parcel->work, &profile->labels,
                            ret_kept, err);
}

static enum fg_code keep_type(struct ing_parcel *parcel, const struct fg_labels *of,
                              const struct fg_value_type *type, bool *ret_kept, struct fg_err *err)
{
    struct fg_labels labels = {fg_arena_new(parcel->round_arena, struct fg_label, of->count + 2),
                               of->count + 2};

    if (labels.items == NULL)
        return fg_fail(err, FG_E_LIMIT, "labels of a profile");
    memcpy(labels.items, of->items, of->count * sizeof *labels.items);
    labels.items[of->count] = (struct fg_label){FG_LIT(FG_LABEL_TYPE), type->type};
    labels.items[of->count + 1] = (struct fg_label){FG_LIT(FG_LABEL_UNIT), type->unit};
    fg_labels_sort(&labels);
    *ret_kept = true;
    return fg_relabel_apply(parcel->target->type_rules, parcel->round_arena, &parcel->work, &labels,
                            ret_kept, err);
}

/* Removes the columns of types that the target does not want. Samples without a value stay: they
 * are few, and add nothing there. */
static void drop_columns(struct fg_batch *batch, const bool *kept)
{
    uint32_t n_types = 0;

    for (uint32_t i = 0; i < batch->n_profiles; i++) {
        struct fg_profile *profile = &batch->profiles[i];
        int64_t *to = profile->values;

        for (uint32_t t = 0; t < batch->n_types; t++) {
            const int64_t *from = profile->values + (size_t)t * profile->n_samples;

            if (!kept[t] || profile->n_samples == 0)
                continue;
            memmove(to, from, profile->n_samples * sizeof *to);
            to += profile->n_samples;
        }
    }
    for (uint32_t t = 0; t < batch->n_types; t++)
        if (kept[t])
            batch->types[n_types++] = batch->types[t];
    batch->n_types = n_types;
}

/* Profiles of one batch have one __name__ and service, and rules for types look at these. */
static enum fg_code choose_types(struct ing_parcel *parcel, struct fg_batch *batch,
                                 struct fg_err *err)
{
    bool kept[FG_BATCH_TYPES_MAX] = {false};
    uint32_t n_kept = 0;

    if (parcel->target->settings.sample_types[0] == '\0' || batch->n_profiles == 0)
        return FG_OK;
    for (uint32_t t = 0; t < batch->n_types; t++) {
        if (keep_type(parcel, &batch->profiles[0].labels, &batch->types[t], &kept[t], err) != FG_OK)
            return err->code;
        n_kept += kept[t];
    }
    if (n_kept < batch->n_types)
        drop_columns(batch, kept);
    return FG_OK;
}

/* Leaves the profiles that the target wants, and notes whose they are. */
static enum fg_code keep_wanted(struct ing_parcel *parcel, struct fg_batch *batch,
                                const struct ing_export_profile *profiles,
                                struct ing_parcel_item **items, struct fg_err *err)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < batch->n_profiles; i++) {
        struct ing_parcel_item *item = profiles[i].owner;
        bool kept;

        if (settle_labels(parcel, &batch->profiles[i], &kept, err) != FG_OK)
            return err->code;
        if (kept) {
            batch->profiles[n] = batch->profiles[i];
            items[n++] = item;
        } else {
            close_item(item, OUTBOX_DONE);
            parcel->n_filtered++;
        }
    }
    batch->n_profiles = n;
    if (choose_types(parcel, batch, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < n && batch->n_types == 0; i++) {
        close_item(items[i], OUTBOX_DONE);
        parcel->n_filtered++;
    }
    if (batch->n_types == 0)
        batch->n_profiles = 0;
    return FG_OK;
}

/* ---- batches of forward.v1 ---- */

static uint64_t cache_key_of(const struct ing_parcel *parcel, struct fg_slice tenant,
                             struct fg_slice service)
{
    return parcel->cache_key ^ fg_definition_cache_service_key(tenant, service);
}

static uint64_t cache_key_of_service(const struct ing_parcel *parcel,
                                     const struct ing_catalog_service *service)
{
    return cache_key_of(parcel, ing_catalog_tenant_name(service->tenant), service->name);
}

/* Chooses the stacks that the target is not known to have, or has asked for. */
static enum fg_code choose_stacks(void *arg, const struct fg_batch *batch,
                                  const struct ing_export_profile *profiles, bool *define,
                                  struct fg_err *err)
{
    struct ing_parcel *parcel = arg;
    bool all = false;

    (void)err;
    if (parcel->push) /* a pprof is made of the dictionary's tree */
        return FG_OK;
    for (uint32_t i = 0; i < batch->n_profiles; i++)
        all |= ((const struct ing_parcel_item *)profiles[i].owner)->define;
    if (all)
        memset(define, true, batch->n_stacks);
    else
        fg_definition_cache_look_up(parcel->common->definition_cache,
                                    cache_key_of_service(parcel, profiles[0].series->service),
                                    batch, define);
    return FG_OK;
}

/* define[i]: stack i is defined. */
static enum fg_code put_batch(struct ing_parcel *parcel, const struct fg_batch *batch,
                              const bool *define, struct ing_parcel_batch *to, struct fg_err *err)
{
    to->defined = fg_arena_new(parcel->round_arena, struct fg_id, batch->n_stacks);
    if (to->defined == NULL)
        return fg_fail(err, FG_E_LIMIT, "stacks of a batch");
    for (uint32_t i = 0; i < batch->n_stacks; i++) {
        if (define[i])
            to->defined[to->n_defined++] = batch->stacks[i].id;
    }
    fg_forward_add(parcel->message, batch, define);
    return FG_OK;
}

/* ---- a profile of push.v1 ---- */

static void put_labels(const struct fg_labels *labels, Types__V1__LabelPair *pairs,
                       Types__V1__LabelPair **pointers, struct fg_arena *arena)
{
    for (size_t i = 0; i < labels->count; i++) {
        types__v1__label_pair__init(&pairs[i]);
        pairs[i].name = fg_arena_text(arena, labels->items[i].name);
        pairs[i].value = fg_arena_text(arena, labels->items[i].value);
        pointers[i] = &pairs[i];
    }
}

static enum fg_code put_push(struct ing_parcel *parcel, const struct fg_profile *profile,
                             struct fg_slice pprof, struct fg_err *err)
{
    Push__V1__PushRequest request = PUSH__V1__PUSH_REQUEST__INIT;
    Push__V1__RawProfileSeries series = PUSH__V1__RAW_PROFILE_SERIES__INIT, *one = &series;
    Push__V1__RawSample sample = PUSH__V1__RAW_SAMPLE__INIT, *first = &sample;
    size_t n = profile->labels.count;
    Types__V1__LabelPair *pairs = fg_arena_new(parcel->round_arena, Types__V1__LabelPair, n);
    Types__V1__LabelPair **pointers = fg_arena_new(parcel->round_arena, Types__V1__LabelPair *, n);
    char id[37];

    if (pairs == NULL || pointers == NULL)
        return fg_fail(err, FG_E_LIMIT, "labels of a profile");
    put_labels(&profile->labels, pairs, pointers, parcel->round_arena);
    for (size_t i = 0; i < n; i++)
        if (pairs[i].name == NULL || pairs[i].value == NULL)
            return fg_fail(err, FG_E_LIMIT, "labels of a profile");
    /* The same at every try, for receivers that look at it. */
    (void)snprintf(id, sizeof id, "%08x-%04x-%04x-%04x-%012llx", (uint32_t)(profile->id.hi >> 32),
                   (unsigned)(profile->id.hi >> 16 & 0xffff), (unsigned)(profile->id.hi & 0xffff),
                   (unsigned)(profile->id.lo >> 48),
                   (unsigned long long)(profile->id.lo & UINT64_C(0xffffffffffff)));
    sample.raw_profile = (ProtobufCBinaryData){pprof.len, (uint8_t *)(uintptr_t)pprof.ptr};
    sample.id = id;
    series.labels = pointers;
    series.n_labels = n;
    series.samples = &first;
    series.n_samples = 1;
    request.series = &one;
    request.n_series = 1;
    if (!fg_buf_reserve(&parcel->body, push__v1__push_request__get_packed_size(&request)))
        return fg_fail(err, FG_E_TOO_LARGE, "a pprof of %zu bytes is too large to be pushed",
                       pprof.len);
    parcel->body.len += push__v1__push_request__pack(&request, parcel->body.ptr);
    return FG_OK;
}

/* Pushes a pprof as agents send it. */
static enum fg_code put_gzip(struct ing_parcel *parcel, const struct fg_profile *profile,
                             struct fg_slice pprof, struct fg_err *err)
{
    struct fg_buf packed;
    enum fg_code code;
    size_t bound;

    if (parcel->gzip == NULL)
        parcel->gzip = libdeflate_alloc_compressor(GZIP_LEVEL);
    fg_assert(parcel->gzip != NULL);
    bound = libdeflate_gzip_compress_bound(parcel->gzip, pprof.len);
    fg_buf_init(&packed, SIZE_MAX);
    fg_assert(fg_buf_reserve(&packed, bound));
    packed.len = libdeflate_gzip_compress(parcel->gzip, pprof.ptr, pprof.len, packed.ptr, bound);
    fg_assert(packed.len > 0); /* it fits the bound */
    code = put_push(parcel, profile, fg_buf_slice(&packed), err);
    fg_buf_done(&packed);
    return code;
}

static enum fg_code put_profile(struct ing_parcel *parcel, const struct fg_batch *batch,
                                const struct ing_export_stacks *stacks, struct fg_err *err)
{
    const struct fg_profile *profile = &batch->profiles[0];
    uint32_t *nodes = fg_arena_new(parcel->round_arena, uint32_t, profile->n_samples);
    const struct fg_pprof_head head = {
        .type = {.period_type = batch->period_type.type, .period_unit = batch->period_type.unit},
        .period = profile->period,
        .time_ns = profile->time_ns,
        .duration_ns = profile->duration_ns,
    };
    struct fg_buf pprof;
    enum fg_code code;

    if (nodes == NULL)
        return fg_fail(err, FG_E_LIMIT, "samples of a profile");
    for (uint32_t i = 0; i < profile->n_samples; i++)
        nodes[i] = stacks->nodes[profile->stacks[i]] - 1; /* 0 - 1 is FG_TREE_ROOT */
    fg_buf_init(&pprof, BODY_MAX_BYTES);
    fg_pprof_write_samples(stacks->tree,
                           &(struct fg_pprof_samples){
                               .types = batch->types,
                               .nodes = nodes,
                               .values = profile->values,
                               .n_types = batch->n_types,
                               .count = profile->n_samples,
                               .links = profile->links,
                               .n_links = profile->n_links,
                           },
                           &head, &pprof);
    code = pprof.full ? fg_fail(err, FG_E_TOO_LARGE, "the pprof exceeds %d bytes", BODY_MAX_BYTES)
                      : put_gzip(parcel, profile, fg_buf_slice(&pprof), err);
    fg_buf_done(&pprof);
    return code;
}

/* ---- a round ---- */

static enum fg_code take_batch(void *arg, struct fg_batch *batch,
                               const struct ing_export_profile *profiles,
                               const struct ing_export_stacks *stacks, struct fg_err *err)
{
    struct ing_parcel *parcel = arg;
    struct ing_parcel_batch *to = &parcel->batches[parcel->n_batches];
    bool *define;

    *to = (struct ing_parcel_batch){
        .items = fg_arena_new(parcel->round_arena, struct ing_parcel_item *, batch->n_profiles)};
    if (to->items == NULL)
        return fg_fail(err, FG_E_LIMIT, "profiles of a batch");
    if (keep_wanted(parcel, batch, profiles, to->items, err) != FG_OK)
        return err->code;
    to->n = batch->n_profiles;
    if (to->n == 0)
        return FG_OK;
    parcel->n_batches++;
    parcel->n_sent += to->n;
    if (parcel->push)
        return put_profile(parcel, batch, stacks, err);
    define = fg_arena_new(parcel->round_arena, bool, batch->n_stacks);
    if (define == NULL)
        return fg_fail(err, FG_E_LIMIT, "stacks of a batch");
    for (uint32_t i = 0; i < batch->n_stacks; i++)
        define[i] = batch->stacks[i].depth != FG_STACK_UNDEFINED;
    to->cache_key = cache_key_of_service(parcel, profiles[0].series->service);
    return put_batch(parcel, batch, define, to, err);
}

/* ---- profiles of a page ---- */

/* Pushes a profile of a page: its stacks as a tree. */
static enum fg_code put_page_profile(struct ing_parcel *parcel, const struct fg_batch *batch,
                                     const struct fg_wire_batch *wire, struct fg_err *err)
{
    uint32_t *nodes = fg_arena_new(parcel->round_arena, uint32_t, batch->n_stacks);
    struct fg_symbols_import import;
    struct fg_tree tree;
    enum fg_code code;

    if (nodes == NULL)
        return fg_fail(err, FG_E_LIMIT, "stacks of a profile");
    fg_tree_init(&tree);
    fg_symbols_import_init_new(&import, &tree.symbols, &wire->symbols);
    for (uint32_t i = 0; i < batch->n_stacks; i++) {
        const struct fg_wire_stack *stack = &wire->stacks[i];
        uint32_t node = FG_TREE_ROOT;

        for (uint32_t d = stack->depth; d > 0; d--)
            node = fg_tree_child(&tree, node,
                                 fg_symbols_import_location(&import, stack->locations[d - 1]));
        nodes[i] = node + 1; /* FG_TREE_ROOT + 1 is 0 */
    }
    fg_symbols_import_done(&import);
    code = put_profile(parcel, batch, &(struct ing_export_stacks){&tree, nodes}, err);
    fg_tree_done(&tree);
    return code;
}

/* Defines the stacks that the target is not known to have, or all, if it has asked for them. */
static enum fg_code put_page_batch(struct ing_parcel *parcel, const struct fg_batch *batch,
                                   const struct ing_parcel_item *item, struct ing_parcel_batch *to,
                                   struct fg_err *err)
{
    bool *define = fg_arena_new(parcel->round_arena, bool, batch->n_stacks);

    if (define == NULL)
        return fg_fail(err, FG_E_LIMIT, "stacks of a batch");
    to->cache_key = cache_key_of(parcel, fg_cstr(parcel->page.before.tenant),
                                 fg_labels_get(&batch->profiles[0].labels, FG_LABEL_SERVICE));
    if (item->define)
        memset(define, true, batch->n_stacks);
    else
        fg_definition_cache_look_up(parcel->common->definition_cache, to->cache_key, batch, define);
    return put_batch(parcel, batch, define, to, err);
}

static enum fg_code put_decoded(struct ing_parcel *parcel, struct ing_parcel_item *item,
                                const struct fg_wire_batch *wire, struct fg_err *err)
{
    const struct ing_export_profile profile = {.owner = item};
    struct ing_parcel_batch *to = &parcel->batches[parcel->n_batches];
    struct fg_batch batch;

    *to = (struct ing_parcel_batch){
        .items = fg_arena_new(parcel->round_arena, struct ing_parcel_item *, 1)};
    if (to->items == NULL || !fg_batch_of_wire(wire, parcel->round_arena, &batch))
        return fg_fail(err, FG_E_LIMIT, "profiles of a batch");
    fg_assert(batch.n_profiles == 1); /* page.h */
    if (keep_wanted(parcel, &batch, &profile, to->items, err) != FG_OK)
        return err->code;
    to->n = batch.n_profiles;
    if (to->n == 0)
        return FG_OK;
    parcel->n_batches++;
    parcel->n_sent++;
    return parcel->push ? put_page_profile(parcel, &batch, wire, err)
                        : put_page_batch(parcel, &batch, item, to, err);
}

static enum fg_code make_page_batch(struct ing_parcel *parcel, struct ing_parcel_item *item,
                                    struct fg_err *err)
{
    size_t n_batches = parcel->n_batches, n_sent = parcel->n_sent;
    struct fg_wire_batch wire;
    enum fg_code code = fg_batch_decode(item->outbox->record, parcel->round_arena, &wire, err);

    if (code == FG_OK) {
        code = put_decoded(parcel, item, &wire, err);
        fg_wire_batch_done(&wire);
    }
    if (code != FG_E_CORRUPT && code != FG_E_TOO_LARGE)
        return code;
    parcel->n_batches = n_batches;
    parcel->n_sent = n_sent;
    refuse_item(parcel, item, err->msg);
    return FG_OK;
}

/* A batch that cannot be made costs its own profiles, unless the fault is one of the moment. */
static enum fg_code make_batch(struct ing_parcel *parcel, struct ing_export_profile *profiles,
                               size_t n, struct fg_err *err)
{
    /* Columns and stacks are many times what is sent of them, and not needed until the answer. */
    fg_auto(fg_arena) *columns = fg_arena_create(ROUND_MAX_BYTES);
    const struct ing_export_from from = {
        .dicts = parcel->common->dicts, .arena = columns, .choose = choose_stacks};
    size_t n_batches = parcel->n_batches, n_sent = parcel->n_sent;

    if (profiles[0].series == NULL)
        (void)fg_fail(err, FG_E_CORRUPT, "the record of its series is lost");
    else if (ing_export_batch(&from, profiles, n, take_batch, parcel, err) == FG_OK)
        return FG_OK;
    if (err->code != FG_E_CORRUPT && err->code != FG_E_TOO_LARGE)
        return err->code;
    parcel->n_batches = n_batches;
    parcel->n_sent = n_sent;
    for (size_t i = 0; i < n; i++) {
        struct ing_parcel_item *item = profiles[i].owner;

        if (item->state != ITEM_OPEN)
            continue;
        if (n == 1)
            refuse_item(parcel, item, err->msg);
        else
            item->alone = true; /* the next round finds out which one is at fault */
    }
    return FG_OK;
}

static size_t end_of(const struct ing_export_profile *profiles, size_t n, size_t i)
{
    const struct ing_parcel_item *first = profiles[i].owner;
    size_t end = first->alone ? i + 1 : ing_export_end(profiles, n, i);

    for (size_t k = i + 1; k < end; k++)
        if (((const struct ing_parcel_item *)profiles[k].owner)->alone)
            return k;
    return end;
}

static enum fg_code write_message(struct ing_parcel *parcel, struct fg_err *err)
{
    const struct ing_outbox_via *way = &parcel->first->outbox->entry.via;
    uint8_t via[(OUTBOX_VIA_MAX + 1) * FG_ID_BYTES];
    size_t len = 0;

    for (uint8_t i = 0; i < way->n; i++, len += FG_ID_BYTES)
        fg_id_put(via + len, way->stores[i]);
    fg_id_put(via + len, parcel->common->store);
    return fg_forward_write(parcel->message, fg_bytes(via, len + FG_ID_BYTES), &parcel->body, err);
}

static void name_tenant(struct ing_parcel *parcel)
{
    const struct ing_parcel_common *common = parcel->common;

    if (parcel->target->settings.tenant[0] != '\0')
        parcel->tenant = fg_cstr(parcel->target->settings.tenant);
    else if (common->several && is_of_page(parcel))
        parcel->tenant = fg_cstr(parcel->page.before.tenant);
    else if (common->several)
        parcel->tenant = ing_catalog_tenant_name(
            ing_catalog_tenant_at(common->catalog, tenant_of(parcel->first)));
    else
        parcel->tenant = FG_LIT("");
}

/* Profiles that have passed as many servers as the next one takes are refused here. */
static bool is_circle(struct ing_parcel *parcel, const struct ing_export_profile *profiles,
                      size_t n)
{
    if (parcel->first->outbox->entry.via.n < FG_FORWARD_VIA_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        refuse_item(parcel, profiles[i].owner,
                    "it has passed four servers: do they forward in a circle?");
    return true;
}

static enum fg_code make_batches(struct ing_parcel *parcel, struct ing_export_profile *profiles,
                                 size_t n, struct fg_err *err)
{
    ing_export_sort(parcel->common->catalog, profiles, n);
    for (size_t i = 0, end; i < n; i = end) {
        end = end_of(profiles, n, i);
        if (make_batch(parcel, profiles + i, end - i, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code make_page_batches(struct ing_parcel *parcel,
                                      const struct ing_export_profile *profiles, size_t n,
                                      struct fg_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (make_page_batch(parcel, profiles[i].owner, err) != FG_OK)
            return err->code;
    return FG_OK;
}

static enum fg_code make_round(struct ing_parcel *parcel, struct ing_export_profile *profiles,
                               size_t n, struct fg_err *err)
{
    if (is_circle(parcel, profiles, n))
        return FG_OK;
    parcel->batches = fg_arena_new(parcel->round_arena, struct ing_parcel_batch, n);
    if (parcel->batches == NULL)
        return fg_fail(err, FG_E_LIMIT, "batches of a request");
    name_tenant(parcel);
    if ((is_of_page(parcel) ? make_page_batches(parcel, profiles, n, err)
                            : make_batches(parcel, profiles, n, err)) != FG_OK)
        return err->code;
    return parcel->push || parcel->n_batches == 0 ? FG_OK : write_message(parcel, err);
}

static enum fg_code build_round(struct ing_parcel *parcel, bool *ret_more, struct fg_err *err)
{
    struct ing_export_profile *profiles;
    size_t n;

    fg_arena_destroy(fg_take(parcel->round_arena));
    parcel->round_arena = fg_arena_create(ROUND_MAX_BYTES);
    parcel->n_batches = parcel->n_sent = parcel->n_chosen = 0;
    parcel->work = FG_RELABEL_WORK_MAX;
    fg_forward_clear(parcel->message);
    fg_buf_clear(&parcel->body);
    if (parcel->push)
        parcel->round_max = 1; /* an answer of push.v1 is about the whole request */
    profiles = fg_arena_new(parcel->round_arena, struct ing_export_profile, parcel->n_items);
    if (profiles == NULL)
        return fg_fail(err, FG_E_LIMIT, "profiles of a request");
    n = is_of_page(parcel) ? choose_of_page(parcel, profiles) : choose(parcel, profiles);
    parcel->n_chosen = n;
    *ret_more = n > 0;
    return n > 0 ? make_round(parcel, profiles, n, err) : FG_OK;
}

/* "user:password" in base64. */
static void put_login(struct ing_parcel *parcel, struct fg_slice password)
{
    struct fg_buf text;

    fg_buf_init(&text, LOGIN_MAX_BYTES);
    fg_buf_printf(&text, "%s:%.*s", parcel->target->settings.username, FG_S(password));
    fg_assert(!text.full && fg_buf_reserve(&parcel->login, (text.len + 2) / 3 * 4 + 1));
    parcel->login.len = (size_t)EVP_EncodeBlock(parcel->login.ptr, text.ptr, (int)text.len);
    OPENSSL_cleanse(text.ptr, text.cap);
    fg_buf_done(&text);
}

/* For each round: the password may have changed. */
static enum fg_code read_login(struct ing_parcel *parcel, struct fg_err *err)
{
    const struct ing_target_settings *settings = &parcel->target->settings;
    struct fg_slice password;
    struct fg_buf content;
    enum fg_code code;

    fg_buf_clear(&parcel->login);
    if (settings->username[0] == '\0')
        return FG_OK;
    fg_buf_init(&content, PASSWORD_FILE_MAX_BYTES);
    code = fg_conf_read_file(settings->password_file, &content, err);
    password = fg_trim(fg_buf_slice(&content));
    if (code == FG_OK && (password.len == 0 || password.len > PASSWORD_MAX_BYTES))
        code = fg_fail(err, FG_E_INVALID, "%s: a password of %zu bytes, not 1 to %d",
                       settings->password_file, password.len, PASSWORD_MAX_BYTES);
    if (code == FG_OK)
        put_login(parcel, password);
    if (content.ptr != NULL)
        OPENSSL_cleanse(content.ptr, content.cap);
    fg_buf_done(&content);
    return code;
}

/* The round is refused for a reason that will not pass: sends less at a time. */
static void divide_round(struct ing_parcel *parcel, const char *reason)
{
    if (parcel->n_sent > 1)
        parcel->round_max = parcel->n_sent / 2;
    else
        refuse_item(parcel, parcel->batches[0].items[0], reason);
}

/* Builds a round of less if one of all does not fit a message or the memory of a round. */
static enum fg_code build_fitting(struct ing_parcel *parcel, bool *ret_more, struct fg_err *err)
{
    enum fg_code code;

    while ((code = build_round(parcel, ret_more, err)) == FG_E_LIMIT && parcel->n_chosen > 0) {
        if (parcel->n_chosen > 1)
            parcel->round_max = parcel->n_chosen / 2;
        else
            refuse_item(parcel, parcel->first, err->msg);
    }
    return code;
}

enum fg_code ing_parcel_build(struct ing_parcel *parcel, bool *ret_more, struct fg_err *err)
{
    unsigned entered = ing_catalog_enter(parcel->common->catalog);
    enum fg_code code = parcel->items == NULL ? read_items(parcel, err) : FG_OK;

    *ret_more = true;
    /* Rounds that only close profiles are not sent. */
    do {
        if (code == FG_OK)
            code = build_fitting(parcel, ret_more, err);
    } while (code == FG_OK && *ret_more && parcel->n_batches == 0);
    ing_catalog_leave(parcel->common->catalog, entered);
    return code == FG_OK && *ret_more ? read_login(parcel, err) : code;
}

/* ---- answers ---- */

/* The code of gRPC that says that the same bytes will be refused again. Others may be trouble of
 * the target's own, such as data_loss of one of its disks. */
static bool is_final(uint32_t code)
{
    return code == fg_code_grpc(FG_E_INVALID);
}

/* The batch as a whole is refused: its only profile, or one of them, is at fault. */
static void divide_batch(struct ing_parcel *parcel, struct ing_parcel_batch *batch,
                         const char *reason)
{
    for (uint32_t i = 0; i < batch->n; i++) {
        if (batch->n == 1)
            refuse_item(parcel, batch->items[i], reason);
        else
            batch->items[i]->alone = true;
    }
}

/* Also what a part of an answer has refused of which another part makes no sense. */
static void put_off(struct ing_parcel_batch *batch)
{
    for (uint32_t i = 0; i < batch->n; i++) {
        batch->items[i]->outbox->outcome = OUTBOX_AGAIN;
        batch->items[i]->state = ITEM_LATER;
    }
}

/* The target takes nothing of the tenant of the round, of which these batches are, for some time.
 * Returns `otherwise` if that holds for all that is sent there. */
static enum ing_sender_result hold_batches(struct ing_parcel *parcel,
                                           struct ing_parcel_batch *batches, size_t n,
                                           int64_t for_ns, enum ing_sender_result otherwise,
                                           const struct fg_err *err)
{
    /* A resend waits as a whole: it is of one tenant at a time. */
    if (!has_tenants(parcel) ||
        (!is_of_page(parcel) && !ing_outbox_hold(parcel->common->outbox, parcel->span.target,
                                                 tenant_of(parcel->first), for_ns)))
        return otherwise;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < batches[i].n; k++)
            hold_item(batches[i].items[k]);
    for (size_t i = 0; i < parcel->n_items && is_of_page(parcel); i++)
        if (parcel->items[i].state == ITEM_OPEN)
            hold_item(&parcel->items[i]);
    parcel->n_denied += otherwise == SENDER_DENIED;
    parcel->n_limited += otherwise == SENDER_BUSY;
    parcel->denied = *err;
    parcel->held_ns = for_ns;
    return SENDER_TAKEN;
}

/* The tenant is beyond a limit of its own. A target cannot make us wait for too long, nor ask us
 * all the time. */
static int64_t limit_hold_ns(const struct ing_parcel_answer *answer)
{
    return FG_MIN(FG_MAX(answer->retry_after_ns, FG_SECOND_NS), LIMIT_HOLD_MAX_NS);
}

/* Returns false if the target asks again for what it has just got. */
static bool define_batch(struct ing_parcel *parcel, struct ing_parcel_batch *batch)
{
    bool before = false;

    fg_definition_cache_forget(parcel->common->definition_cache, batch->cache_key);
    for (uint32_t i = 0; i < batch->n; i++) {
        before |= batch->items[i]->define;
        batch->items[i]->define = true;
    }
    return !before;
}

static bool take_refused(struct ing_parcel *parcel, struct ing_parcel_batch *batch,
                         const Forward__V1__Result *result)
{
    for (size_t i = 0; i < result->n_refused; i++) {
        const Forward__V1__Refusal *refusal = result->refused[i];

        if (refusal->profile >= batch->n || batch->items[refusal->profile]->state != ITEM_OPEN)
            return false;
        refuse_item(parcel, batch->items[refusal->profile], refusal->message);
    }
    return true;
}

/* Every profile of a batch has to be accounted for, or the answer is none. */
static bool take_stored(struct ing_parcel *parcel, struct ing_parcel_batch *batch,
                        const Forward__V1__Result *result)
{
    uint64_t n = (uint64_t)result->stored + result->known + result->dropped + result->n_refused;

    if (n != batch->n || !take_refused(parcel, batch, result))
        return false;
    for (uint32_t i = 0; i < batch->n; i++)
        if (batch->items[i]->state == ITEM_OPEN)
            close_item(batch->items[i], OUTBOX_DONE);
    parcel->n_stored += result->stored;
    parcel->n_known += result->known;
    fg_definition_cache_add(parcel->common->definition_cache, batch->cache_key, 1, batch->defined,
                            batch->n_defined);
    return true;
}

static enum ing_sender_result take_result(struct ing_parcel *parcel, struct ing_parcel_batch *batch,
                                          const Forward__V1__Result *result, struct fg_err *err)
{
    if (result->code != 0 && is_final(result->code)) {
        divide_batch(parcel, batch, result->message);
        return SENDER_TAKEN;
    }
    if (result->code != 0) {
        (void)fg_fail(err, FG_E_UNAVAILABLE, "%s", result->message);
        put_off(batch);
        if (result->code != fg_code_grpc(FG_E_DENIED))
            return SENDER_BUSY;
        return hold_batches(parcel, batch, 1, parcel->common->hold_ns, SENDER_DENIED, err);
    }
    if (result->define ? define_batch(parcel, batch) : take_stored(parcel, batch, result))
        return SENDER_TAKEN;
    put_off(batch);
    (void)fg_fail(err, FG_E_UNAVAILABLE, "an answer that does not fit the request");
    return SENDER_AWAY;
}

static enum ing_sender_result take_results(struct ing_parcel *parcel, struct fg_slice body,
                                           struct fg_err *err)
{
    Forward__V1__PushResponse *response =
        forward__v1__push_response__unpack(NULL, body.len, body.ptr);
    enum ing_sender_result worst = SENDER_TAKEN;

    if (response == NULL || response->n_results != parcel->n_batches) {
        (void)fg_fail(err, FG_E_UNAVAILABLE, "an answer that is none of forward.v1");
        worst = SENDER_AWAY;
    } else {
        for (size_t i = 0; i < parcel->n_batches; i++) {
            enum ing_sender_result result =
                take_result(parcel, &parcel->batches[i], response->results[i], err);

            worst = FG_MAX(worst, result);
        }
    }
    forward__v1__push_response__free_unpacked(response, NULL);
    return worst;
}

/* The target has forwarded these profiles itself. */
static void refuse_all(struct ing_parcel *parcel, const char *reason)
{
    for (size_t i = 0; i < parcel->n_batches; i++)
        for (uint32_t k = 0; k < parcel->batches[i].n; k++)
            refuse_item(parcel, parcel->batches[i].items[k], reason);
}

static void take_all(struct ing_parcel *parcel)
{
    for (size_t i = 0; i < parcel->n_batches; i++)
        for (uint32_t k = 0; k < parcel->batches[i].n; k++)
            close_item(parcel->batches[i].items[k], OUTBOX_DONE);
    parcel->n_stored += parcel->n_sent;
}

/* Statuses of a route that the target does not have, or of another version of it. */
static bool is_unknown(const struct ing_parcel_answer *answer)
{
    return answer->status == 404 || answer->status == 405 || answer->status == 415 ||
           answer->status == 501 ||
           (answer->status == 400 &&
            fg_slice_search(answer->body, "failed_precondition") != SIZE_MAX);
}

/* Returns true if the body is an error as flamegrid and Pyroscope write it (Connect), with this
 * code. */
static bool has_code(struct fg_slice body, const char *code)
{
    json_t *error = json_loadb((const char *)body.ptr, body.len, 0, NULL);
    const char *found = json_string_value(json_object_get(error, "code"));
    bool same = found != NULL && strcmp(found, code) == 0;

    json_decref(error);
    return same;
}

/* Returns true if the target itself refuses what was sent, so that the same bytes would be refused
 * again. Any other 4xx may come from a proxy on the way, which is no reason to give up a profile.
 * 413 is a refusal from anybody: a proxy would never let a body of that size pass. */
static bool is_refusal(const struct ing_parcel_answer *answer)
{
    if (answer->status == 413)
        return true;
    if (answer->status == 409)
        return has_code(answer->body, "already_exists");
    return answer->status == 400 &&
           (has_code(answer->body, "invalid_argument") || has_code(answer->body, "out_of_range"));
}

enum ing_sender_result ing_parcel_answer(struct ing_parcel *parcel,
                                         const struct ing_parcel_answer *answer, bool *ret_unknown,
                                         struct fg_err *err)
{
    struct fg_slice text = fg_slice_sub(answer->body, 0, 300);

    *ret_unknown = false;
    if (!answer->came)
        return SENDER_AWAY;
    if (answer->status == 200) {
        if (!parcel->push)
            return take_results(parcel, answer->body, err);
        take_all(parcel);
        return SENDER_TAKEN;
    }
    (void)fg_fail(err, FG_E_UNAVAILABLE, "status %u: %.*s", answer->status, FG_S(text));
    /* A proxy whose server is away may say so, too: no reason to give up a profile. */
    if (is_unknown(answer) && (!parcel->push || answer->status != 400)) {
        *ret_unknown = !parcel->push;
        return SENDER_AWAY;
    }
    if (answer->status == 403)
        return hold_batches(parcel, parcel->batches, parcel->n_batches, parcel->common->hold_ns,
                            SENDER_DENIED, err);
    if (answer->status == 401)
        return SENDER_DENIED;
    if (answer->status == 429 && answer->of_limit)
        return hold_batches(parcel, parcel->batches, parcel->n_batches, limit_hold_ns(answer),
                            SENDER_BUSY, err);
    if (answer->status == 429 || answer->status == 503)
        return SENDER_BUSY;
    if (!is_refusal(answer))
        return SENDER_AWAY;
    if (answer->status == 409)
        refuse_all(parcel, err->msg);
    else
        divide_round(parcel, err->msg);
    return SENDER_TAKEN;
}
