#include "common/cluster/membership/membership_core.h"

#include "common/base/envelope.h"
#include "common/base/hash.h"
#include "common/base/json_writer.h"
#include "common/cluster/membership/rendezvous.h"

static const struct fg_envelope envelope = {"list of members", "FGCM", 1, FG_MEMBER_LIST_MAX_BYTES};

enum { MEMBER_MIN_BYTES = 1 + 3, NOTICE_MIN_BYTES = 8 + 1 };

/* ---- bytes ---- */

enum fg_code fg_member_list_encode(const struct fg_member_list *list, struct fg_buf *out,
                                   struct fg_err *err)
{
    size_t start = out->len;
    struct fg_buf record;

    fg_buf_init(&record, FG_MEMBER_LIST_MAX_BYTES);
    fg_envelope_begin(&envelope, out);
    fg_buf_varint(out, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        const struct fg_member *member = &list->members[i];

        fg_buf_clear(&record);
        fg_buf_lenbytes(&record, member->name);
        fg_buf_varint(&record, member->heartbeat);
        fg_buf_varint(&record, member->n_notices);
        for (uint32_t k = 0; k < member->n_notices; k++) {
            fg_buf_le64(&record, member->notices[k].key);
            fg_buf_varint(&record, member->notices[k].heartbeat);
        }
        fg_buf_put(&record, member->later);
        fg_buf_lenbytes(out, fg_buf_slice(&record));
    }
    fg_buf_put(out, list->later);
    out->full |= record.full;
    fg_buf_done(&record);
    return fg_envelope_end(&envelope, out, start, err);
}

/* Returns false if the record is damaged or the arena is full. */
static bool get_member(struct fg_cur *list, struct fg_arena *arena, struct fg_member *member)
{
    struct fg_cur cur = fg_cur(fg_cur_lenbytes(list));

    member->name = fg_cur_lenbytes(&cur);
    member->heartbeat = fg_cur_varint(&cur);
    if (fg_cur_more(&cur)) {
        struct fg_member_notice *notices =
            fg_envelope_list(&cur, arena, NOTICE_MIN_BYTES, FG_MEMBER_NOTICES_MAX, sizeof *notices,
                             &member->n_notices);

        for (uint32_t i = 0; i < member->n_notices && !cur.bad; i++) {
            notices[i].key = fg_cur_le64(&cur);
            notices[i].heartbeat = fg_cur_varint(&cur);
        }
        member->notices = notices;
    }
    member->later = fg_envelope_later(&cur, arena);
    if (list->bad || cur.bad || fg_member_name_fault(member->name) != NULL)
        return false;
    member->name = fg_arena_copy(arena, member->name);
    return member->name.ptr != NULL;
}

enum fg_code fg_member_list_decode(struct fg_slice in, struct fg_arena *arena,
                                   struct fg_member_list *ret_list, struct fg_err *err)
{
    struct fg_member_list list = {.n = 0};
    struct fg_cur cur;

    if (fg_envelope_open(&envelope, in, &cur, err) != FG_OK)
        return err->code;
    list.members = fg_envelope_list(&cur, arena, MEMBER_MIN_BYTES, FG_MEMBERS_MAX,
                                    sizeof *list.members, &list.n);
    for (uint32_t i = 0; i < list.n && !cur.bad; i++)
        if (!get_member(&cur, arena, &list.members[i]) ||
            (i > 0 && fg_slice_cmp(list.members[i - 1].name, list.members[i].name) >= 0))
            return fg_fail(err, FG_E_CORRUPT, "list of members is broken in entry %u", i);
    list.later = fg_envelope_later(&cur, arena);
    if (cur.bad)
        return fg_fail(err, FG_E_CORRUPT, "list of members of %zu bytes is broken", in.len);
    *ret_list = list;
    return FG_OK;
}

void fg_member_list_json(const struct fg_member_list *list, struct fg_buf *out)
{
    struct fg_json_writer json = fg_json_writer(out);

    fg_json_begin_object(&json, NULL);
    fg_json_begin_array(&json, "compactors");
    for (uint32_t i = 0; i < list->n; i++) {
        fg_json_begin_object(&json, NULL);
        fg_json_put_text(&json, "name", list->members[i].name);
        fg_json_put_u64(&json, "beat", list->members[i].heartbeat);
        fg_json_end(&json);
    }
    fg_json_end(&json);
    fg_json_end(&json);
    fg_buf_putc(out, '\n');
}

/* ---- who is there ---- */

enum fg_code fg_membership_core_init(struct fg_membership_core *core, const char *kind,
                                     const char *self, int64_t heartbeat_ns, int64_t gone_ns,
                                     struct fg_err *err)
{
    const char *fault = fg_member_name_fault(fg_cstr(self));

    if (fault != NULL)
        return fg_fail(err, FG_E_INVALID, "name \"%.*s\" of a %s %s", FG_MEMBER_NAME_MAX_BYTES,
                       self, kind, fault);
    *core = (struct fg_membership_core){
        .self_hash = fg_hash64(fg_cstr(self)), .heartbeat_ns = heartbeat_ns, .gone_ns = gone_ns};
    memcpy(core->self, self, strlen(self) + 1);
    return FG_OK;
}

/* Called after each move; O(1). */
static void check(const struct fg_membership_core *core)
{
    fg_assert(core->n_seen <= FG_MEMBERS_MAX && core->n_notices <= FG_MEMBER_NOTICES_MAX);
    fg_assert(core->known || !core->listed);
    fg_assert(core->listed || core->n_notices == 0); /* a notice needs a heartbeat to come with */
}

static const struct fg_member_seen *find_seen(const struct fg_membership_core *core,
                                              struct fg_slice name)
{
    for (uint32_t i = 0; i < core->n_seen; i++)
        if (fg_slice_is(name, core->seen[i].name))
            return &core->seen[i];
    return NULL;
}

/* Returns what is known of a member after this list. Time counts from the moment at which we saw
 * the heartbeat change, so clocks of machines need not agree. before: what was known of it; NULL:
 * nothing. */
static struct fg_member_seen see_member(const struct fg_membership_core *core,
                                        const struct fg_member *member,
                                        const struct fg_member_seen *before, int64_t now_mono_ns)
{
    struct fg_member_seen seen = {.hash = fg_hash64(member->name),
                                  .heartbeat = member->heartbeat,
                                  .since_mono_ns = now_mono_ns};

    memcpy(seen.name, member->name.ptr, member->name.len); /* a name, so it fits */
    if (before != NULL && before->heartbeat == member->heartbeat) {
        seen.since_mono_ns = before->since_mono_ns;
        seen.gone = now_mono_ns - before->since_mono_ns >= core->gone_ns;
    }
    return seen;
}

void fg_membership_core_read(struct fg_membership_core *core, const struct fg_member_list *list,
                             int64_t now_mono_ns)
{
    struct fg_member_seen seen[FG_MEMBERS_MAX];
    uint32_t n = 0;
    /* If this process did not follow the list, the bucket or the process itself was away, and a
     * heartbeat that did not change proves nothing. */
    bool followed = core->known && now_mono_ns - core->read_mono_ns < core->gone_ns / 2;

    core->known = true;
    core->read_mono_ns = now_mono_ns;
    core->listed = false;
    for (uint32_t i = 0; i < list->n; i++) {
        const struct fg_member *member = &list->members[i];

        if (fg_slice_is(member->name, core->self)) {
            core->listed = true;
            if (member->heartbeat != core->heartbeat) {
                /* The list has another heartbeat of this member than the one that it wrote last:
                 * that write was lost. Notices for a later heartbeat move to the next one: others
                 * skip notices of a heartbeat that they have read already. */
                for (uint32_t k = 0; k < core->n_notices; k++)
                    if (core->notices[k].heartbeat > core->heartbeat)
                        core->notices[k].heartbeat = member->heartbeat + 1;
                core->heartbeat = member->heartbeat;
            }
        } else {
            seen[n++] = see_member(core, member, followed ? find_seen(core, member->name) : NULL,
                                   now_mono_ns);
        }
    }
    memcpy(core->seen, seen, n * sizeof *seen);
    core->n_seen = n;
    if (!core->listed) { /* heartbeats start from 1 again, so older notices would not be read */
        core->n_notices = 0;
        core->heartbeat = 0;
    }
    check(core);
}

/* True if there is a notice that no list has had yet. */
static bool has_new_notice(const struct fg_membership_core *core)
{
    return core->n_notices > 0 && core->notices[core->n_notices - 1].heartbeat > core->heartbeat;
}

bool fg_membership_core_is_due(const struct fg_membership_core *core, int64_t now_mono_ns)
{
    return core->known &&
           (!core->listed || now_mono_ns >= core->due_mono_ns || has_new_notice(core));
}

/* ---- ownership ---- */

static bool owns_hash(const struct fg_membership_core *core, uint64_t key_hash)
{
    uint64_t key = fg_rendezvous_key(key_hash), own = fg_rendezvous_draw(core->self_hash, key);

    for (uint32_t i = 0; i < core->n_seen; i++) {
        const struct fg_member_seen *seen = &core->seen[i];
        uint64_t drawn = fg_rendezvous_draw(seen->hash, key);

        /* Equal numbers: the greater name wins, so that all members decide alike. */
        if (!seen->gone && (drawn > own || (drawn == own && strcmp(seen->name, core->self) > 0)))
            return false;
    }
    return core->known;
}

bool fg_membership_core_owns(const struct fg_membership_core *core, struct fg_slice key)
{
    return owns_hash(core, fg_hash64(key));
}

/* ---- notices ---- */

/* Counts the notices, from the first, that all members had time to read by this heartbeat. */
static uint32_t count_expired(const struct fg_membership_core *core, uint64_t heartbeat)
{
    uint32_t n = 0;

    while (n < core->n_notices &&
           core->notices[n].heartbeat + FG_MEMBER_NOTICE_HEARTBEATS <= heartbeat)
        n++;
    return n;
}

bool fg_membership_core_notify(struct fg_membership_core *core, struct fg_slice key)
{
    struct fg_member_notice notice = {fg_hash64(key), core->heartbeat + 1};
    uint32_t old = count_expired(core, notice.heartbeat);

    if (!core->listed)
        return false;
    core->n_notices -= old;
    memmove(core->notices, core->notices + old, core->n_notices * sizeof notice);
    for (uint32_t i = 0; i < core->n_notices; i++)
        if (core->notices[i].key == notice.key && core->notices[i].heartbeat == notice.heartbeat)
            return true;
    if (core->n_notices == FG_MEMBER_NOTICES_MAX)
        return false;
    core->notices[core->n_notices++] = notice;
    check(core);
    return true;
}

uint32_t fg_membership_core_notices(const struct fg_membership_core *core,
                                    const struct fg_member_list *list, uint64_t *keys, uint32_t max)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < list->n; i++) {
        const struct fg_member *member = &list->members[i];
        const struct fg_member_seen *seen = find_seen(core, member->name);
        uint64_t heartbeat = seen == NULL ? 0 : seen->heartbeat;

        for (uint32_t k = 0; k < member->n_notices && n < max; k++)
            if (member->notices[k].heartbeat > heartbeat && owns_hash(core, member->notices[k].key))
                keys[n++] = member->notices[k].key;
    }
    return n;
}

/* ---- the next list ---- */

enum fg_code fg_membership_core_next(struct fg_membership_core *core,
                                     const struct fg_member_list *list, bool leaves,
                                     struct fg_member *room, struct fg_member_list *ret_next,
                                     struct fg_err *err)
{
    struct fg_member_list next = {.members = room, .later = list->later};
    struct fg_member self = {.name = fg_cstr(core->self), .heartbeat = 1};
    bool placed = leaves;

    for (uint32_t i = 0; i < list->n; i++) {
        const struct fg_member *member = &list->members[i];
        const struct fg_member_seen *seen = find_seen(core, member->name);
        int order = fg_slice_cmp(member->name, self.name);

        if (order == 0) {
            self.later = member->later;
            self.heartbeat = member->heartbeat + 1;
            self.notices = core->notices + count_expired(core, self.heartbeat);
            self.n_notices = core->n_notices - count_expired(core, self.heartbeat);
            continue;
        }
        if (order > 0 && !placed) {
            next.members[next.n++] = self;
            placed = true;
        }
        /* Members that are gone leave the list by the next write of anyone. */
        if (seen == NULL || !seen->gone)
            next.members[next.n++] = *member;
    }
    if (!placed)
        next.members[next.n++] = self;
    if (next.n > FG_MEMBERS_MAX)
        return fg_fail(err, FG_E_LIMIT, "more than %d members", FG_MEMBERS_MAX);
    if (!leaves)
        core->heartbeat = self.heartbeat;
    *ret_next = next;
    return FG_OK;
}

void fg_membership_core_written(struct fg_membership_core *core, int64_t now_mono_ns)
{
    core->due_mono_ns = now_mono_ns + core->heartbeat_ns;
}

uint32_t fg_membership_core_count(const struct fg_membership_core *core)
{
    uint32_t count = 1;

    for (uint32_t i = 0; i < core->n_seen; i++)
        count += !core->seen[i].gone;
    return count;
}
