/*
 * The start: which targets there are, and what of each is pending. One scan over all entries makes
 * spans and pins. It keeps nothing for an entry, so its memory does not grow with the queue.
 *
 * Nothing is shared yet, so no lock is needed, and this thread writes in place of the committer. A
 * store that takes no writes now keeps what should have gone; the next start finds it again.
 */
#include "common/base/time.h"
#include "common/runtime/log.h"
#include "ingester/forward/outbox_impl.h"

#include <stdlib.h>

enum { WRITE_BYTES = 1 << 20 }; /* of what one write deletes */

/* A target that META has. */
struct known {
    char *name;
    struct ing_outbox_meta meta;
};

struct outbox_loading {
    struct ing_outbox *outbox;
    struct known *known;
    unsigned n_known;
    uint32_t next_number; /* greater than all that were given */
    struct fg_store_batch batch;
    uint64_t damaged; /* entries that were moved to the dead ones */
    struct fg_err *err;
};

/* Writes the batch. A failure is not one of the start: see above. */
static void flush(struct outbox_loading *loading)
{
    struct fg_err err;

    if (loading->batch.count > 0 &&
        ing_head_writer_write(loading->outbox->config.writer, &loading->batch, NULL, &err) != FG_OK)
        fg_log_warn("the outbox could not be cleaned up, the next start tries again",
                    fg_ls("err", err.msg));
    fg_store_batch_clear(&loading->batch);
}

/* ---- targets ---- */

static void note_number(struct outbox_loading *loading, uint64_t number)
{
    loading->next_number = (uint32_t)FG_MAX(loading->next_number, number + 1);
}

static void load_meta(struct outbox_loading *loading, struct fg_slice key, struct fg_slice value)
{
    struct fg_slice name = fg_slice_sub(key, 1, key.len);
    struct ing_outbox_meta meta;
    struct known *known;

    if (name.len == 0) {
        struct fg_cur cur = fg_cur(value);
        uint64_t next = fg_cur_varint(&cur);

        if (fg_cur_end(&cur) && next > 0 && next <= UINT16_MAX + 1)
            note_number(loading, next - 1);
        else
            ing_damage_repaired(loading->outbox->config.damage,
                                "next number of forward targets: it cannot be read");
        return;
    }
    if (!ing_outbox_get_meta(value, &meta)) {
        /* It gets a new number. Pending entries have the old one, which nothing names any more. */
        ing_damage_set_aside(
            loading->outbox->config.damage,
            "forward target %.*s: its number cannot be read, so nothing tells what "
            "was pending for it",
            FG_S(name));
        return;
    }
    loading->known = fg_realloc(loading->known, (loading->n_known + 1) * sizeof *loading->known);
    known = &loading->known[loading->n_known++];
    *known = (struct known){fg_malloc(name.len + 1), meta};
    memcpy(known->name, name.ptr, name.len);
    known->name[name.len] = '\0';
    note_number(loading, meta.number);
}

static enum fg_code load_metas(struct outbox_loading *loading)
{
    static const uint8_t from[1] = {OUTBOX_META_PREFIX}, to[1] = {OUTBOX_META_PREFIX + 1};
    fg_auto(fg_store_iter) *iter = fg_store_iter_create(loading->outbox->config.store, HEAD_META,
                                                        fg_bytes(from, 1), fg_bytes(to, 1));

    for (; iter->valid; fg_store_iter_next(iter))
        load_meta(loading, iter->key, iter->value);
    if (iter->err.code == FG_OK)
        return FG_OK;
    *loading->err = iter->err;
    return fg_wrap(loading->err, "targets of the outbox");
}

static struct known *find_known(const struct outbox_loading *loading, const char *name)
{
    for (unsigned i = 0; i < loading->n_known; i++)
        if (strcmp(loading->known[i].name, name) == 0)
            return &loading->known[i];
    return NULL;
}

/* Reads a record of META under a key that put_key() makes. *ret_found: there is one. */
static enum fg_code get_meta(const struct outbox_loading *loading,
                             void (*put_key)(struct fg_buf *out, struct fg_slice name),
                             const char *name, struct fg_buf *out, bool *ret_found)
{
    struct fg_buf key;
    enum fg_code code;

    *ret_found = false;
    fg_buf_init(&key, SIZE_MAX);
    put_key(&key, fg_cstr(name));
    code = fg_store_get(loading->outbox->config.store, HEAD_META, fg_buf_slice(&key), out,
                        ret_found, loading->err);
    fg_buf_done(&key);
    return code;
}

/* Takes the places of all tenants, unless they are of another moment than the resend itself, which
 * a version that does not know them has moved since. */
static void take_tenants(struct outbox_loading *loading, struct outbox_target *target,
                         struct fg_slice record)
{
    struct ing_resend least = target->resend;
    struct ing_resend_tenants tenants;
    int64_t begun_wall_ns;

    if (!ing_outbox_get_resend_tenants(record, &begun_wall_ns, &tenants)) {
        ing_damage_repaired(loading->outbox->config.damage,
                            "resend to forward target %s: the places of its tenants cannot be "
                            "read, and some profiles are sent again",
                            target->name);
        return;
    }
    ing_resend_tenants_least(&tenants, &least);
    if (begun_wall_ns == target->resend.begun_wall_ns &&
        strcmp(least.tenant, target->resend.tenant) == 0 &&
        least.time_ns == target->resend.time_ns && fg_id_eq(least.id, target->resend.id))
        target->resend_tenants = tenants;
}

/* Reads what is resent to a target. An unreadable record is forgotten: an operator may begin it
 * again. */
static enum fg_code load_resend(struct outbox_loading *loading, struct outbox_target *target)
{
    struct fg_buf value;
    enum fg_code code;
    bool found;

    fg_buf_init(&value, SIZE_MAX);
    code = get_meta(loading, ing_outbox_put_resend_key, target->name, &value, &found);
    if (found && !ing_outbox_get_resend(fg_buf_slice(&value), &target->resend))
        ing_damage_repaired(loading->outbox->config.damage,
                            "resend to forward target %s: its record cannot be read, and it ends",
                            target->name);
    if (code == FG_OK && target->resend.state == RESEND_READS) {
        ing_resend_tenants_set(&target->resend_tenants, &target->resend);
        fg_buf_clear(&value);
        code = get_meta(loading, ing_outbox_put_resend_tenants_key, target->name, &value, &found);
        if (found)
            take_tenants(loading, target, fg_buf_slice(&value));
    }
    fg_buf_done(&value);
    return code;
}

/* Adds a target of the settings, with what META has of it. */
static void add_target(struct outbox_loading *loading, const struct ing_outbox_target *config)
{
    struct ing_outbox *outbox = loading->outbox;
    struct outbox_target *target = &outbox->targets[outbox->n_targets];
    const struct known *known = find_known(loading, config->name);

    fg_assert(outbox->n_targets < OUTBOX_TARGETS_MAX && config->name[0] != '\0' &&
              strlen(config->name) <= OUTBOX_NAME_MAX_BYTES &&
              ing_outbox_find(outbox, fg_cstr(config->name)) < 0);
    target->name = fg_strdup(config->name);
    target->config = *config;
    target->config.name = target->name;
    if (known != NULL) {
        target->number = known->meta.number;
        target->paused = known->meta.paused;
        target->reserved = target->batch_reserved = target->reserve = target->next_seq =
            known->meta.reserved;
    }
    outbox->spans[outbox->n_targets++] = &target->spans;
}

/* Begins the resend that the settings want for a new target. The record of the target, which is
 * what makes it an old one, comes into META in the same batch, whoever writes it first. */
static void resend_since(const struct outbox_loading *loading, struct outbox_target *target)
{
    int64_t wall_ns = fg_wall_ns(loading->outbox->config.clock);

    if (target->config.since_ns == 0 || target->config.since_ns >= wall_ns)
        return;
    target->resend = (struct ing_resend){.state = RESEND_COMMITS,
                                         .from_ns = target->config.since_ns,
                                         .until_ns = wall_ns,
                                         .begun_wall_ns = wall_ns};
    target->meta_changes++;
}

/* Gives numbers to targets that are new. META gets them with their first entries. */
static enum fg_code number_targets(struct outbox_loading *loading)
{
    struct ing_outbox *outbox = loading->outbox;

    for (unsigned i = 0; i < outbox->n_targets; i++) {
        struct outbox_target *target = &outbox->targets[i];

        if (find_known(loading, target->name) != NULL)
            continue;
        if (loading->next_number > UINT16_MAX)
            return fg_fail(loading->err, FG_E_LIMIT,
                           "forward target %s: this store has had %u targets, and takes no new one",
                           target->name, (unsigned)UINT16_MAX + 1);
        target->number = (uint16_t)loading->next_number++;
        resend_since(loading, target);
    }
    outbox->next_number = loading->next_number;
    return FG_OK;
}

/* ---- entries ---- */

/* Returns the target of the settings that META says has this number. */
static struct outbox_target *target_of(const struct outbox_loading *loading, uint16_t number)
{
    for (unsigned i = 0; i < loading->n_known; i++) {
        int place = ing_outbox_find(loading->outbox, fg_cstr(loading->known[i].name));

        if (loading->known[i].meta.number == number && place >= 0)
            return &loading->outbox->targets[place];
    }
    return NULL;
}

/* Entries of a target that the settings do not have. */
struct removed {
    uint16_t number;
    uint64_t profiles;
};

static void delete_all(struct outbox_loading *loading, const struct removed *removed)
{
    struct fg_buf from, to;
    const char *name = NULL;

    fg_buf_init(&from, OUTBOX_KEY_BYTES);
    fg_buf_init(&to, OUTBOX_KEY_BYTES);
    ing_outbox_put_key(&from, removed->number, 0);
    ing_outbox_put_key(&to, removed->number, UINT64_MAX);
    fg_store_delete_range(&loading->batch, HEAD_OUTBOX, fg_buf_slice(&from), fg_buf_slice(&to));
    fg_store_delete_range(&loading->batch, HEAD_OUTBOX_DEAD, fg_buf_slice(&from),
                          fg_buf_slice(&to));
    fg_buf_done(&from);
    fg_buf_done(&to);
    for (unsigned i = 0; i < loading->n_known; i++)
        if (loading->known[i].meta.number == removed->number)
            name = loading->known[i].name;
    fg_log_warn("forward target was removed, deleting what was pending for it",
                fg_ls("target", name == NULL ? "(unknown)" : name),
                fg_lu("profiles", removed->profiles));
}

static void load_entry(struct outbox_loading *loading, struct outbox_target *target, uint64_t seq,
                       struct fg_slice key, struct fg_slice value)
{
    struct ing_outbox *outbox = loading->outbox;
    struct ing_outbox_entry entry;

    target->next_seq = FG_MAX(target->next_seq, seq + 1);
    if (ing_outbox_get_entry(value, &entry)) {
        ing_spans_add(&target->spans, seq, entry.bytes, entry.received_wall_ns);
        ing_pins_add(&outbox->pins, &entry.key.chunk.group, (unsigned)(target - outbox->targets),
                     seq, outbox->spans);
        return;
    }
    loading->damaged++;
    ing_damage_set_aside(outbox->config.damage,
                         "entry %llu of forward target %s: its profile is not sent",
                         (unsigned long long)seq, target->name);
    target->dropped[OUTBOX_BY_REFUSED]++;
    fg_store_delete(&loading->batch, HEAD_OUTBOX, key);
    /* As many as there may be are kept; counted below, when all dead ones are. */
    if (loading->damaged <= OUTBOX_DEAD_MAX)
        ing_outbox_put_dead_entry(target->number, seq, fg_wall_ns(outbox->config.clock),
                                  FG_LIT("the entry cannot be read"), value, &loading->batch);
    if (loading->batch.ops.len >= WRITE_BYTES)
        flush(loading);
}

/* Walks a family; entries of one target stand together. */
static enum fg_code scan(struct outbox_loading *loading, enum ing_head_family family)
{
    struct ing_outbox *outbox = loading->outbox;
    fg_auto(fg_store_iter) *iter =
        fg_store_iter_create(outbox->config.store, family, FG_LIT(""), FG_LIT(""));
    struct removed removed = {0};
    struct outbox_target *target = NULL;
    uint16_t number = 0;
    bool any = false;

    for (; iter->valid; fg_store_iter_next(iter)) {
        uint16_t now;
        uint64_t seq;

        if (!ing_outbox_get_key(iter->key, &now, &seq) || seq >= UINT64_MAX - 1) {
            ing_damage_set_aside(outbox->config.damage,
                                 "an entry of the outbox: its key cannot be read");
            continue;
        }
        if (!any || now != number) {
            if (removed.profiles > 0)
                delete_all(loading, &removed);
            number = now;
            target = target_of(loading, number);
            removed = (struct removed){.number = number};
            any = true;
            note_number(loading, number);
        }
        if (target == NULL)
            removed.profiles++;
        else if (family == HEAD_OUTBOX)
            load_entry(loading, target, seq, iter->key, iter->value);
        else
            target->dead++;
    }
    if (removed.profiles > 0)
        delete_all(loading, &removed);
    if (iter->err.code == FG_OK)
        return FG_OK;
    *loading->err = iter->err;
    return fg_wrap(loading->err, "entries of the outbox");
}

/* Forgets targets that the settings do not have. Their numbers are not given again. */
static void forget_removed(struct outbox_loading *loading)
{
    for (unsigned i = 0; i < loading->n_known; i++) {
        struct fg_slice name = fg_cstr(loading->known[i].name);
        struct fg_buf key;

        if (ing_outbox_find(loading->outbox, name) >= 0)
            continue;
        fg_buf_init(&key, SIZE_MAX);
        ing_outbox_put_meta_key(&key, name);
        fg_store_delete(&loading->batch, HEAD_META, fg_buf_slice(&key));
        fg_buf_clear(&key);
        ing_outbox_put_resend_key(&key, name);
        fg_store_delete(&loading->batch, HEAD_META, fg_buf_slice(&key));
        fg_buf_clear(&key);
        ing_outbox_put_resend_tenants_key(&key, name);
        fg_store_delete(&loading->batch, HEAD_META, fg_buf_slice(&key));
        fg_buf_done(&key);
        ing_outbox_put_next_number(loading->next_number, &loading->batch);
    }
}

static void tell(const struct outbox_loading *loading)
{
    const struct ing_outbox *outbox = loading->outbox;

    for (unsigned i = 0; i < outbox->n_targets; i++) {
        const struct outbox_target *target = &outbox->targets[i];

        fg_log_info("forward queue opened", fg_ls("target", target->name),
                    fg_lu("pending", target->spans.count), fg_lu("bytes", target->spans.bytes),
                    fg_lu("dead", target->dead), fg_lu("paused", target->paused));
    }
}

static enum fg_code load(struct outbox_loading *loading, const struct ing_forward *forward)
{
    struct ing_outbox *outbox = loading->outbox;

    if (load_metas(loading) != FG_OK)
        return loading->err->code;
    for (unsigned i = 0; forward != NULL && i < forward->n_targets; i++) {
        add_target(loading, &forward->targets[i]);
        if (find_known(loading, forward->targets[i].name) != NULL &&
            load_resend(loading, &loading->outbox->targets[i]) != FG_OK)
            return fg_wrap(loading->err, "targets of the outbox");
    }
    /* Without records of targets there are no entries, and perhaps no families for them. */
    if (loading->n_known == 0 && outbox->n_targets == 0)
        return FG_OK;
    if (scan(loading, HEAD_OUTBOX) != FG_OK)
        return loading->err->code;
    flush(loading);
    if (scan(loading, HEAD_OUTBOX_DEAD) != FG_OK)
        return loading->err->code;
    /* After the scans, which find numbers that META may have lost. */
    if (number_targets(loading) != FG_OK)
        return loading->err->code;
    forget_removed(loading);
    flush(loading);
    ing_outbox_bound(outbox);
    tell(loading);
    return FG_OK;
}

enum fg_code ing_outbox_load(struct ing_outbox *outbox, bool *ret_any, struct fg_err *err)
{
    struct outbox_loading loading = {.outbox = outbox, .err = err};
    enum fg_code code;

    fg_store_batch_init(&loading.batch);
    code = load(&loading, outbox->config.forward);
    fg_store_batch_done(&loading.batch);
    for (unsigned i = 0; i < loading.n_known; i++)
        free(loading.known[i].name);
    free(loading.known);
    if (code == FG_OK)
        *ret_any = outbox->n_targets > 0;
    return code;
}
