#include "tests/lib/audit_look.h"

#include "common/net/inflate.h"

enum { ALL_MAX_BYTES = 64 * 1024 * 1024 };

/* A look that is under way. */
struct looking {
    struct audit_look *look;
    struct fg_bucket *bucket;
};

void audit_look_init(struct audit_look *look)
{
    *look = (struct audit_look){.n_chains = 0};
    fg_buf_init(&look->lines, ALL_MAX_BYTES);
    fg_buf_init(&look->faults, ALL_MAX_BYTES);
}

void audit_look_done(struct audit_look *look)
{
    fg_buf_done(&look->lines);
    fg_buf_done(&look->faults);
}

static void on_fault(void *arg, const char *chain, const char *sentence)
{
    struct audit_look *look = arg;

    fg_buf_printf(&look->faults, "%s: %s\n", chain, sentence);
}

static struct fg_audit_chain *chain_of(struct audit_look *look, const char *id)
{
    for (size_t i = 0; i < look->n_chains; i++)
        if (strcmp(look->chains[i].head.chain, id) == 0)
            return &look->chains[i];
    fg_assert(look->n_chains < AUDIT_LOOK_CHAINS_MAX);
    return &look->chains[look->n_chains++];
}

static bool look_at(const struct fg_bucket_entry *entry, void *arg)
{
    struct looking *looking = arg;
    struct audit_look *look = looking->look;
    struct fg_bucket_request get = {
        .verb = FG_BUCKET_GET, .name = entry->name, .content_max_bytes = ALL_MAX_BYTES};
    struct fg_audit_name name;
    struct fg_buf lines;
    struct fg_err err;

    fg_buf_init(&lines, ALL_MAX_BYTES);
    fg_assert(fg_audit_read_name(fg_cstr(entry->name), &name));
    fg_assert(fg_bucket_call(looking->bucket, &get) == FG_OK &&
              fg_inflate(fg_buf_slice(&get.body), FG_CODING_ZSTD, ALL_MAX_BYTES, &lines, &err) ==
                  FG_OK);
    fg_audit_check_object(chain_of(look, name.chain), &name, fg_buf_slice(&lines), on_fault, look);
    fg_buf_put(&look->lines, fg_buf_slice(&lines));
    fg_buf_done(&lines);
    fg_bucket_clear(&get);
    look->n_objects++;
    return true;
}

unsigned audit_look(struct audit_look *look, struct fg_bucket *bucket, const char *text)
{
    struct looking looking = {look, bucket};
    struct fg_slice rest;
    struct fg_err err;
    unsigned n = 0;

    audit_look_done(look);
    audit_look_init(look);
    fg_assert(fg_bucket_each(bucket, FG_AUDIT_PREFIX, false, 0, look_at, &looking, &err) == FG_OK);
    fg_audit_check_links(look->chains, look->n_chains, on_fault, look);
    rest = fg_buf_slice(&look->lines);
    for (size_t at; (at = fg_slice_search(rest, text)) != SIZE_MAX; n++)
        rest = fg_slice_sub(rest, at + strlen(text), SIZE_MAX);
    return n;
}

const char *audit_look_faults(struct audit_look *look)
{
    fg_buf_putc(&look->faults, '\0');
    return (const char *)look->faults.ptr;
}
