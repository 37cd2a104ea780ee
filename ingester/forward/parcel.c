#include "common/base/str.h"
#include "ingester/forward/parcel_impl.h"

#include <libdeflate.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>

enum {
    /* Of a span: 256 KiB of records, or one that may be larger. */
    ITEMS_MAX_BYTES = 64 * 1024 * 1024,
    PASSWORD_MAX_BYTES = 1024,
    PASSWORD_FILE_MAX_BYTES = 16384,                    /* fg_conf_read_file() wants room */
    LOGIN_MAX_BYTES = 256 + 1 + PASSWORD_MAX_BYTES + 1, /* the longest username, and a NUL */
};

static struct ing_parcel *create(const struct ing_parcel_common *common,
                                 const struct ing_forward_target *target,
                                 struct ing_parcel_peer *peer)
{
    struct ing_parcel *parcel = fg_new(struct ing_parcel);

    parcel->common = common;
    parcel->target = target;
    parcel->peer = peer;
    parcel->round_max = SIZE_MAX;
    parcel->message = fg_new(struct fg_forward_message);
    fg_buf_init(&parcel->body, PARCEL_BODY_MAX_BYTES);
    fg_buf_init(&parcel->login, 4096);
    return parcel;
}

struct ing_parcel *ing_parcel_create(const struct ing_parcel_common *common,
                                     const struct ing_forward_target *target,
                                     struct ing_parcel_peer *peer,
                                     const struct ing_outbox_span *span)
{
    struct ing_parcel *parcel = create(common, target, peer);

    parcel->span = *span;
    return parcel;
}

struct ing_parcel *ing_parcel_create_of_page(const struct ing_parcel_common *common,
                                             const struct ing_forward_target *target,
                                             struct ing_parcel_peer *peer, unsigned number,
                                             struct ing_page *page)
{
    struct ing_parcel *parcel = create(common, target, peer);

    parcel->span.target = number;
    parcel->page = *page;
    *page = (struct ing_page){0};
    return parcel;
}

bool ing_parcel_is_of_page(const struct ing_parcel *parcel)
{
    return parcel->page.before.state != RESEND_NONE;
}

void ing_parcel_end(struct ing_parcel *parcel)
{
    if (ing_parcel_is_of_page(parcel))
        ing_parcel_note_page(parcel);
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

void ing_parcel_close_item(struct ing_parcel_item *item, enum ing_outbox_outcome outcome)
{
    item->outbox->outcome = outcome;
    item->state = ITEM_CLOSED;
}

/* reason: copied. */
void ing_parcel_refuse_item(struct ing_parcel *parcel, struct ing_parcel_item *item,
                            const char *reason)
{
    /* A full arena leaves the reason out, not the fact. */
    item->outbox->reason = fg_arena_text(parcel->arena, fg_cstr(reason));
    if (item->outbox->reason == NULL)
        item->outbox->reason = "refused";
    ing_parcel_close_item(item, OUTBOX_REFUSED);
}

/* It waits until the hold of its tenant ends. */
void ing_parcel_hold_item(struct ing_parcel_item *item)
{
    item->outbox->outcome = OUTBOX_HELD;
    item->state = ITEM_LATER;
}

/* ---- what is to be sent ---- */

static enum fg_code read_items(struct ing_parcel *parcel, struct fg_err *err)
{
    struct ing_outbox_item *found;
    size_t n;

    parcel->arena = fg_arena_create(ITEMS_MAX_BYTES);
    if ((ing_parcel_is_of_page(parcel) ? ing_parcel_read_page(parcel, &found, &n, err)
                                       : ing_outbox_read(parcel->common->outbox, &parcel->span,
                                                         parcel->arena, &found, &n, err)) != FG_OK)
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

uint32_t ing_parcel_tenant_of(const struct ing_parcel_item *item)
{
    return item->outbox->entry.key.chunk.group.tenant;
}

/* Whether the target knows of more than one tenant, so that it may refuse one of them. */
bool ing_parcel_has_tenants(const struct ing_parcel *parcel)
{
    return parcel->common->several && parcel->target->settings.tenant[0] == '\0';
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
        uint32_t tenant = ing_parcel_tenant_of(item);
        struct fg_err err;

        if (item->state != ITEM_OPEN ||
            (first != NULL && (tenant != ing_parcel_tenant_of(first) || !same_way(item, first))))
            continue;
        if (first == NULL && ing_parcel_has_tenants(parcel) &&
            ing_outbox_holds(parcel->common->outbox, parcel->span.target, tenant)) {
            ing_parcel_hold_item(item);
            continue;
        }
        if (!ing_catalog_has_tenant(parcel->common->catalog, tenant)) {
            ing_parcel_refuse_item(parcel, item, "the record of its tenant is lost");
            continue;
        }
        if (ing_record_open(item->outbox->record, &profiles[n].record, &err) != FG_OK) {
            ing_parcel_refuse_item(parcel, item, err.msg);
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

/* ---- batches of forward.v1 ---- */

uint64_t ing_parcel_cache_key(const struct ing_parcel *parcel, struct fg_slice tenant,
                              struct fg_slice service)
{
    return parcel->peer->cache_key ^ fg_definition_cache_service_key(tenant, service);
}

static uint64_t cache_key_of_service(const struct ing_parcel *parcel,
                                     const struct ing_catalog_service *service)
{
    return ing_parcel_cache_key(parcel, ing_catalog_tenant_name(service->tenant), service->name);
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

/* Returns true if the batch has whole ids: the target has asked for them, or has done so often. */
static bool is_whole(struct ing_parcel *parcel, struct ing_parcel_batch *to)
{
    uint32_t left = atomic_load(&parcel->peer->whole_left);

    to->is_short = parcel->message->version > 1;
    for (uint32_t i = 0; i < to->n; i++)
        to->is_short &= !to->items[i]->whole;
    /* Another parcel may have taken the last one meanwhile: then this one is short. */
    if (to->is_short && left > 0 &&
        atomic_compare_exchange_strong(&parcel->peer->whole_left, &left, left - 1))
        to->is_short = false;
    return !to->is_short;
}

enum fg_code ing_parcel_put_batch(struct ing_parcel *parcel, const struct fg_batch *batch,
                                  const bool *define, struct ing_parcel_batch *to,
                                  struct fg_err *err)
{
    to->defined = fg_arena_new(parcel->round_arena, struct fg_id, batch->n_stacks);
    if (to->defined == NULL)
        return fg_fail(err, FG_E_LIMIT, "stacks of a batch");
    for (uint32_t i = 0; i < batch->n_stacks; i++) {
        if (define[i])
            to->defined[to->n_defined++] = batch->stacks[i].id;
    }
    fg_forward_add(parcel->message, batch, define, is_whole(parcel, to));
    return FG_OK;
}

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
    if (ing_parcel_keep_wanted(parcel, batch, profiles, to->items, err) != FG_OK)
        return err->code;
    to->n = batch->n_profiles;
    if (to->n == 0)
        return FG_OK;
    parcel->n_batches++;
    parcel->n_sent += to->n;
    if (parcel->push)
        return ing_parcel_put_pprof(parcel, batch, stacks, err);
    define = fg_arena_new(parcel->round_arena, bool, batch->n_stacks);
    if (define == NULL)
        return fg_fail(err, FG_E_LIMIT, "stacks of a batch");
    for (uint32_t i = 0; i < batch->n_stacks; i++)
        define[i] = batch->stacks[i].depth != FG_STACK_UNDEFINED;
    to->cache_key = cache_key_of_service(parcel, profiles[0].series->service);
    return ing_parcel_put_batch(parcel, batch, define, to, err);
}

/* A batch that cannot be made costs its own profiles, unless the fault is one of the moment. */
static enum fg_code make_batch(struct ing_parcel *parcel, struct ing_export_profile *profiles,
                               size_t n, struct fg_err *err)
{
    /* Columns and stacks are many times what is sent of them, and not needed until the answer. */
    fg_auto(fg_arena) *columns = fg_arena_create(PARCEL_ROUND_MAX_BYTES);
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
            ing_parcel_refuse_item(parcel, item, err->msg);
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

/* ---- a round ---- */

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
    else if (common->several && ing_parcel_is_of_page(parcel))
        parcel->tenant = fg_cstr(parcel->page.before.tenant);
    else if (common->several)
        parcel->tenant = ing_catalog_tenant_name(
            ing_catalog_tenant_at(common->catalog, ing_parcel_tenant_of(parcel->first)));
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
        ing_parcel_refuse_item(parcel, profiles[i].owner,
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

static enum fg_code make_round(struct ing_parcel *parcel, struct ing_export_profile *profiles,
                               size_t n, struct fg_err *err)
{
    if (is_circle(parcel, profiles, n))
        return FG_OK;
    parcel->batches = fg_arena_new(parcel->round_arena, struct ing_parcel_batch, n);
    if (parcel->batches == NULL)
        return fg_fail(err, FG_E_LIMIT, "batches of a request");
    name_tenant(parcel);
    if ((ing_parcel_is_of_page(parcel) ? ing_parcel_make_page_batches(parcel, profiles, n, err)
                                       : make_batches(parcel, profiles, n, err)) != FG_OK)
        return err->code;
    return parcel->push || parcel->n_batches == 0 ? FG_OK : write_message(parcel, err);
}

static enum fg_code build_round(struct ing_parcel *parcel, bool *ret_more, struct fg_err *err)
{
    struct ing_export_profile *profiles;
    size_t n;

    fg_arena_destroy(fg_take(parcel->round_arena));
    parcel->round_arena = fg_arena_create(PARCEL_ROUND_MAX_BYTES);
    parcel->n_batches = parcel->n_sent = parcel->n_chosen = 0;
    parcel->retry_after_ns = 0;
    parcel->work = FG_RELABEL_WORK_MAX;
    fg_forward_clear(parcel->message);
    parcel->message->version =
        FG_MIN(FG_MAX(atomic_load(&parcel->peer->version), 1), FG_FORWARD_VERSION);
    fg_buf_clear(&parcel->body);
    if (parcel->push)
        parcel->round_max = 1; /* an answer of push.v1 is about the whole request */
    profiles = fg_arena_new(parcel->round_arena, struct ing_export_profile, parcel->n_items);
    if (profiles == NULL)
        return fg_fail(err, FG_E_LIMIT, "profiles of a request");
    n = ing_parcel_is_of_page(parcel) ? ing_parcel_choose_of_page(parcel, profiles)
                                      : choose(parcel, profiles);
    parcel->n_chosen = n;
    *ret_more = n > 0;
    return n > 0 ? make_round(parcel, profiles, n, err) : FG_OK;
}

/* Makes "user:password" in base64, for each round: the password may have changed. */
static enum fg_code read_login(struct ing_parcel *parcel, struct fg_err *err)
{
    const struct ing_target_settings *settings = &parcel->target->settings;
    struct fg_buf content, text;
    struct fg_slice password;
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
    if (code == FG_OK) {
        fg_buf_init(&text, LOGIN_MAX_BYTES);
        fg_buf_printf(&text, "%s:%.*s", settings->username, FG_S(password));
        fg_assert(!text.full && fg_buf_reserve(&parcel->login, (text.len + 2) / 3 * 4 + 1));
        parcel->login.len = (size_t)EVP_EncodeBlock(parcel->login.ptr, text.ptr, (int)text.len);
        OPENSSL_cleanse(text.ptr, text.cap);
        fg_buf_done(&text);
    }
    if (content.ptr != NULL)
        OPENSSL_cleanse(content.ptr, content.cap);
    fg_buf_done(&content);
    return code;
}

/* Builds a round of less if one of all does not fit a message or the memory of a round. */
static enum fg_code build_fitting(struct ing_parcel *parcel, bool *ret_more, struct fg_err *err)
{
    enum fg_code code;

    while ((code = build_round(parcel, ret_more, err)) == FG_E_LIMIT && parcel->n_chosen > 0) {
        if (parcel->n_chosen > 1)
            parcel->round_max = parcel->n_chosen / 2;
        else
            ing_parcel_refuse_item(parcel, parcel->first, err->msg);
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
