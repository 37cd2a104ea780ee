#include "querier/rules/scraped_tenants.h"

#include "common/cluster/manifest/name.h"
#include "common/storage/bucket/message_object.h"

enum { OBJECT_MAX_BYTES = RULE_TENANTS_MAX * (FG_TENANT_MAX_BYTES + 32) };

typedef Fg__Inner__ScrapedTenants scraped;

static struct fg_message_object object_of(const struct qry_scraped_tenants *object)
{
    return (struct fg_message_object){
        .bucket = object->bucket,
        .name = FG_NAME_SCRAPED,
        .what = "the tenants whose recording rules are evaluated",
        .type = &fg__inner__scraped_tenants__descriptor,
        .max_bytes = OBJECT_MAX_BYTES,
        .arena = object->arena,
        .deadline_mono_ns = object->deadline_mono_ns,
    };
}

enum fg_code qry_scraped_tenants_read(const struct qry_scraped_tenants *object,
                                      Fg__Inner__ScrapedTenants **ret_tenants, struct fg_err *err)
{
    const struct fg_message_object stored = object_of(object);
    ProtobufCMessage *message;

    if (fg_message_object_read(&stored, &message, err) != FG_OK)
        return err->code;
    *ret_tenants = (scraped *)message;
    return FG_OK;
}

/* ---- changes ---- */

struct record {
    const struct qry_rule_tenant *tenants;
    size_t n;
    int64_t now_ns;
};

static Fg__Inner__ScrapedTenant *make_tenant(struct fg_arena *arena, struct fg_slice name)
{
    Fg__Inner__ScrapedTenant *made = fg_arena_new(arena, Fg__Inner__ScrapedTenant, 1);
    struct fg_slice copy = fg_arena_copy(arena, name);

    if (made == NULL || copy.ptr == NULL)
        return NULL;
    fg__inner__scraped_tenant__init(made);
    made->tenant = (ProtobufCBinaryData){copy.len, (uint8_t *)(uintptr_t)copy.ptr};
    return made;
}

static struct fg_slice name_of(const Fg__Inner__ScrapedTenant *tenant)
{
    return fg_bytes(tenant->tenant.data, tenant->tenant.len);
}

bool qry_scraped_tenant_is_current(const Fg__Inner__ScrapedTenant *tenant, int64_t now_ns)
{
    const int64_t now_ms = now_ns / FG_MS_NS, lasts_ms = RULE_SCRAPED_NS / FG_MS_NS;
    struct fg_err unused;

    return tenant->scraped_ms > now_ms - lasts_ms && tenant->scraped_ms < now_ms + lasts_ms &&
           fg_tenant_check(name_of(tenant), &unused) == FG_OK;
}

static size_t keep_current(const scraped *all, Fg__Inner__ScrapedTenant **kept, int64_t now_ns)
{
    size_t n = 0;

    for (size_t i = 0; i < all->n_tenants; i++)
        if (qry_scraped_tenant_is_current(all->tenants[i], now_ns))
            kept[n++] = all->tenants[i];
    return n;
}

/* Both lists are sorted, but other releases may write one that is not: then a tenant is in it
 * twice, which costs its bytes until it lapses. */
static enum fg_code record_tenants(void *arg, struct fg_arena *arena, ProtobufCMessage *message,
                                   bool *ret_changed, struct fg_err *err)
{
    const struct record *record = arg;
    scraped *all = (scraped *)message;
    Fg__Inner__ScrapedTenant **kept =
        fg_arena_new(arena, Fg__Inner__ScrapedTenant *, all->n_tenants + record->n);
    size_t n, at = 0;

    if (kept == NULL)
        return fg_fail(err, FG_E_LIMIT, "no memory for the tenants whose rules are evaluated");
    n = keep_current(all, kept, record->now_ns);
    for (size_t i = 0; i < record->n; i++) {
        struct fg_slice name = fg_cstr(record->tenants[i].name);
        int64_t scraped_ms = record->tenants[i].scraped_ns / FG_MS_NS;

        while (at < n && fg_slice_cmp(name_of(kept[at]), name) < 0)
            at++;
        if (at == n || !fg_slice_eq(name_of(kept[at]), name)) {
            Fg__Inner__ScrapedTenant *made = make_tenant(arena, name);

            if (made == NULL)
                return fg_fail(err, FG_E_LIMIT,
                               "no memory for the tenants whose rules are evaluated");
            if (n >= RULE_TENANTS_MAX)
                continue;
            memmove(&kept[at + 1], &kept[at], (n - at) * sizeof(void *));
            kept[at] = made;
            n++;
        }
        /* Another querier may have recorded a later scrape. */
        if (kept[at]->scraped_ms < scraped_ms) {
            kept[at]->scraped_ms = scraped_ms;
            *ret_changed = true;
        }
    }
    all->tenants = kept;
    all->n_tenants = n;
    return FG_OK;
}

enum fg_code qry_scraped_tenants_record(const struct qry_scraped_tenants *object,
                                        const struct qry_rule_tenant *tenants, size_t n,
                                        int64_t now_ns, struct fg_err *err)
{
    const struct fg_message_object stored = object_of(object);
    struct record record = {.tenants = tenants, .n = n, .now_ns = now_ns};

    return fg_message_object_swap(&stored, record_tenants, &record, err);
}
