#include "ingester/forward/entry.h"

#include "common/base/id_codec.h"

enum { VERSION = 1, FLAG_PAUSED = 1 };

void ing_outbox_put_meta_key(struct fg_buf *out, struct fg_slice name)
{
    fg_buf_putc(out, OUTBOX_META_PREFIX);
    fg_buf_put(out, name);
}

void ing_outbox_put_meta(struct fg_buf *out, const struct ing_outbox_meta *meta)
{
    fg_buf_putc(out, VERSION);
    fg_buf_varint(out, meta->number);
    fg_buf_varint(out, meta->reserved);
    fg_buf_putc(out, meta->paused ? FLAG_PAUSED : 0);
}

bool ing_outbox_get_meta(struct fg_slice in, struct ing_outbox_meta *ret_meta)
{
    struct fg_cur cur = fg_cur(in);
    bool known = fg_cur_u8(&cur) == VERSION;
    uint64_t number = fg_cur_varint(&cur);
    uint64_t reserved = fg_cur_varint(&cur);
    uint8_t flags = fg_cur_u8(&cur);

    if (!known || !fg_cur_end(&cur) || number > UINT16_MAX || (flags & ~FLAG_PAUSED) != 0)
        return false;
    *ret_meta = (struct ing_outbox_meta){(uint16_t)number, reserved, flags == FLAG_PAUSED};
    return true;
}

void ing_outbox_put_resend_key(struct fg_buf *out, struct fg_slice name)
{
    fg_buf_putc(out, OUTBOX_RESEND_PREFIX);
    fg_buf_put(out, name);
}

void ing_outbox_put_resend(struct fg_buf *out, const struct ing_resend *resend)
{
    fg_buf_putc(out, VERSION);
    fg_buf_putc(out, (uint8_t)resend->state);
    fg_buf_zigzag(out, resend->from_ns);
    fg_buf_zigzag(out, resend->until_ns);
    fg_buf_zigzag(out, resend->begun_wall_ns);
    fg_buf_zigzag(out, resend->ended_wall_ns);
    fg_buf_lenbytes(out, fg_cstr(resend->tenant));
    fg_buf_zigzag(out, resend->time_ns);
    fg_buf_id(out, resend->id);
    fg_buf_varint(out, resend->sent);
    fg_buf_varint(out, resend->known);
    fg_buf_varint(out, resend->filtered);
    fg_buf_varint(out, resend->refused);
    fg_buf_varint(out, resend->lost);
    fg_buf_putc(out, resend->incomplete);
}

/* Reads a name, which ends with a NUL in `out`. Returns false if it is none. */
static bool get_tenant(struct fg_cur *cur, char out[FG_TENANT_MAX_BYTES + 1])
{
    struct fg_slice name = fg_cur_lenbytes(cur);

    if (name.len > FG_TENANT_MAX_BYTES || fg_slice_find(name, '\0') != SIZE_MAX)
        return false;
    if (name.len > 0)
        memcpy(out, name.ptr, name.len);
    out[name.len] = '\0';
    return true;
}

bool ing_outbox_get_resend(struct fg_slice in, struct ing_resend *ret_resend)
{
    struct ing_resend resend = {0};
    struct fg_cur cur = fg_cur(in);
    bool known = fg_cur_u8(&cur) == VERSION;
    uint8_t state = fg_cur_u8(&cur), incomplete;

    resend.from_ns = fg_cur_zigzag(&cur);
    resend.until_ns = fg_cur_zigzag(&cur);
    resend.begun_wall_ns = fg_cur_zigzag(&cur);
    resend.ended_wall_ns = fg_cur_zigzag(&cur);
    if (!get_tenant(&cur, resend.tenant))
        return false;
    resend.time_ns = fg_cur_zigzag(&cur);
    resend.id = fg_cur_id(&cur);
    resend.sent = fg_cur_varint(&cur);
    resend.known = fg_cur_varint(&cur);
    resend.filtered = fg_cur_varint(&cur);
    resend.refused = fg_cur_varint(&cur);
    resend.lost = fg_cur_varint(&cur);
    incomplete = fg_cur_u8(&cur);
    if (!known || !fg_cur_end(&cur) || state > RESEND_DONE || incomplete > 1 ||
        resend.from_ns > resend.until_ns)
        return false;
    resend.state = (enum ing_resend_state)state;
    resend.incomplete = incomplete == 1;
    *ret_resend = resend;
    return true;
}

void ing_outbox_put_resend_tenants_key(struct fg_buf *out, struct fg_slice name)
{
    fg_buf_putc(out, OUTBOX_RESEND_TENANTS_PREFIX);
    fg_buf_put(out, name);
}

void ing_outbox_put_resend_tenants(struct fg_buf *out, int64_t begun_wall_ns,
                                   const struct ing_resend_tenants *tenants)
{
    fg_buf_putc(out, VERSION);
    fg_buf_zigzag(out, begun_wall_ns);
    fg_buf_lenbytes(out, fg_cstr(tenants->last));
    fg_buf_varint(out, tenants->n);
    for (unsigned i = 0; i < tenants->n; i++) {
        fg_buf_lenbytes(out, fg_cstr(tenants->places[i].tenant));
        fg_buf_zigzag(out, tenants->places[i].time_ns);
        fg_buf_id(out, tenants->places[i].id);
    }
}

/* Returns true if the last place comes after the others and is of a tenant that has begun. */
static bool is_in_order(const struct ing_resend_tenants *tenants)
{
    const struct ing_resend_place *place = &tenants->places[tenants->n - 1];

    return strcmp(place->tenant, tenants->n == 1 ? "" : place[-1].tenant) > 0 &&
           strcmp(place->tenant, tenants->last) <= 0;
}

bool ing_outbox_get_resend_tenants(struct fg_slice in, int64_t *ret_begun_wall_ns,
                                   struct ing_resend_tenants *ret_tenants)
{
    struct fg_cur cur = fg_cur(in);
    bool known = fg_cur_u8(&cur) == VERSION;
    int64_t begun_wall_ns = fg_cur_zigzag(&cur);
    struct ing_resend_tenants tenants = {0};
    uint64_t n;

    if (!known || !get_tenant(&cur, tenants.last))
        return false;
    n = fg_cur_varint(&cur);
    if (n > RESEND_TENANTS_MAX)
        return false;
    while (tenants.n < n) {
        struct ing_resend_place *place = &tenants.places[tenants.n++];

        if (!get_tenant(&cur, place->tenant) || !is_in_order(&tenants))
            return false;
        place->time_ns = fg_cur_zigzag(&cur);
        place->id = fg_cur_id(&cur);
    }
    if (!fg_cur_end(&cur))
        return false;
    *ret_begun_wall_ns = begun_wall_ns;
    *ret_tenants = tenants;
    return true;
}

void ing_outbox_put_key(struct fg_buf *out, uint16_t target, uint64_t seq)
{
    fg_buf_be16(out, target);
    fg_buf_be64(out, seq);
}

bool ing_outbox_get_key(struct fg_slice in, uint16_t *ret_target, uint64_t *ret_seq)
{
    struct fg_cur cur = fg_cur(in);
    uint16_t target = fg_cur_be16(&cur);
    uint64_t seq = fg_cur_be64(&cur);

    if (!fg_cur_end(&cur))
        return false;
    *ret_target = target;
    *ret_seq = seq;
    return true;
}

void ing_outbox_put_entry(struct fg_buf *out, const struct ing_outbox_entry *entry)
{
    fg_buf_putc(out, VERSION);
    ing_head_put_profile_key(out, &entry->key);
    fg_buf_zigzag(out, entry->received_wall_ns);
    fg_buf_varint(out, entry->bytes);
    fg_buf_putc(out, entry->via.n);
    for (uint8_t i = 0; i < entry->via.n; i++)
        fg_buf_id(out, entry->via.stores[i]);
}

bool ing_outbox_get_entry(struct fg_slice in, struct ing_outbox_entry *ret_entry)
{
    struct ing_outbox_entry entry = {0};
    struct fg_cur cur = fg_cur(in);
    bool known = fg_cur_u8(&cur) == VERSION;

    if (!ing_head_get_profile_key(fg_cur_take(&cur, HEAD_PROFILE_KEY_BYTES), &entry.key))
        return false;
    entry.received_wall_ns = fg_cur_zigzag(&cur);
    entry.bytes = fg_cur_varint(&cur);
    entry.via.n = fg_cur_u8(&cur);
    if (!known || entry.via.n > OUTBOX_VIA_MAX)
        return false;
    for (uint8_t i = 0; i < entry.via.n; i++)
        entry.via.stores[i] = fg_cur_id(&cur);
    if (!fg_cur_end(&cur))
        return false;
    *ret_entry = entry;
    return true;
}

void ing_outbox_put_dead(struct fg_buf *out, int64_t died_wall_ns, struct fg_slice reason,
                         struct fg_slice entry)
{
    fg_buf_putc(out, VERSION);
    fg_buf_zigzag(out, died_wall_ns);
    fg_buf_lenbytes(out, fg_slice_sub(reason, 0, OUTBOX_REASON_MAX_BYTES));
    fg_buf_put(out, entry);
}

bool ing_outbox_get_dead(struct fg_slice in, int64_t *ret_died_wall_ns, struct fg_slice *ret_reason,
                         struct fg_slice *ret_entry)
{
    struct fg_cur cur = fg_cur(in);
    bool known = fg_cur_u8(&cur) == VERSION;
    int64_t died_wall_ns = fg_cur_zigzag(&cur);
    struct fg_slice reason = fg_cur_lenbytes(&cur);

    if (!known || cur.bad)
        return false;
    *ret_died_wall_ns = died_wall_ns;
    *ret_reason = reason;
    *ret_entry = fg_cur_take(&cur, cur.left);
    return true;
}
