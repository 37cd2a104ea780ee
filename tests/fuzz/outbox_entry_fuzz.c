/* A record of the outbox is read, or it is none; what was read is written back as it came. */
#include "ingester/forward/entry.h"

/* The same bytes, unless a number had more of them than it needs. */
static void assert_same(struct fg_slice in, struct fg_buf *out)
{
    fg_assert(!out->full && out->len <= in.len &&
              (out->len < in.len || fg_slice_eq(fg_buf_slice(out), in)));
    fg_buf_done(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice in = fg_bytes(data, size), reason, rest;
    struct ing_outbox_entry entry;
    struct ing_outbox_meta meta;
    struct ing_resend_tenants tenants;
    struct ing_resend resend;
    int64_t died_wall_ns, begun_wall_ns;
    struct fg_buf out;
    uint16_t target;
    uint64_t seq;

    fg_buf_init(&out, size);
    if (ing_outbox_get_entry(in, &entry)) {
        fg_assert(entry.via.n <= OUTBOX_VIA_MAX);
        ing_outbox_put_entry(&out, &entry);
        assert_same(in, &out);
    }
    if (ing_outbox_get_meta(in, &meta)) {
        ing_outbox_put_meta(&out, &meta);
        assert_same(in, &out);
    }
    if (ing_outbox_get_resend(in, &resend)) {
        fg_assert(resend.from_ns <= resend.until_ns);
        ing_outbox_put_resend(&out, &resend);
        assert_same(in, &out);
    }
    if (ing_outbox_get_resend_tenants(in, &begun_wall_ns, &tenants)) {
        fg_assert(tenants.n <= RESEND_TENANTS_MAX);
        ing_outbox_put_resend_tenants(&out, begun_wall_ns, &tenants);
        assert_same(in, &out);
    }
    if (ing_outbox_get_key(in, &target, &seq)) {
        ing_outbox_put_key(&out, target, seq);
        assert_same(in, &out);
    }
    if (ing_outbox_get_dead(in, &died_wall_ns, &reason, &rest)) {
        ing_outbox_put_dead(&out, died_wall_ns, reason, rest);
        assert_same(in, &out);
    }
    return 0;
}
