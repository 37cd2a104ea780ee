#include "compactor/mates.h"

#include "common/base/envelope.h"
#include "common/base/hash.h"
#include "common/base/json_writer.h"
#include "common/cluster/ring/ring.h"

static const struct fg_envelope envelope = {"list of compactors", "FGCM", 1, MATES_MAX_BYTES};

enum { MATE_MIN_BYTES = 1 + 3, ASKED_MIN_BYTES = 8 + 1 };

/* ---- bytes ---- */

static void put_asked(struct fg_buf *out, const struct cmp_mate *mate)
{
    fg_buf_varint(out, mate->n_asked);
    for (uint32_t i = 0; i < mate->n_asked; i++) {
        fg_buf_le64(out, mate->asked[i].tenant);
        fg_buf_varint(out, mate->asked[i].beat);
    }
}

enum fg_code cmp_mates_encode(const struct cmp_mates_list *list, struct fg_buf *out,
                              struct fg_err *err)
{
    size_t start = out->len;
    struct fg_buf record;

    fg_buf_init(&record, MATES_MAX_BYTES);
    fg_envelope_begin(&envelope, out);
    fg_buf_varint(out, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        fg_buf_clear(&record);
        fg_buf_lenbytes(&record, list->mates[i].name);
        fg_buf_varint(&record, list->mates[i].beat);
        put_asked(&record, &list->mates[i]);
        fg_buf_put(&record, list->mates[i].later);
        fg_buf_lenbytes(out, fg_buf_slice(&record));
    }
    fg_buf_put(out, list->later);
    out->full |= record.full;
    fg_buf_done(&record);
    return fg_envelope_end(&envelope, out, start, err);
}

static void get_asked(struct fg_cur *cur, struct fg_arena *arena, struct cmp_mate *mate)
{
    struct cmp_mates_asked *asked = fg_envelope_list(cur, arena, ASKED_MIN_BYTES, MATES_ASKED_MAX,
                                                     sizeof *asked, &mate->n_asked);

    for (uint32_t i = 0; i < mate->n_asked && !cur->bad; i++) {
        asked[i].tenant = fg_cur_le64(cur);
        asked[i].beat = fg_cur_varint(cur);
    }
    mate->asked = asked;
}

/* false: it is broken, or there is no room for it. */
static bool get_mate(struct fg_cur *list, struct fg_arena *arena, struct cmp_mate *mate)
{
    struct fg_cur cur = fg_cur(fg_cur_lenbytes(list));

    mate->name = fg_cur_lenbytes(&cur);
    mate->beat = fg_cur_varint(&cur);
    if (fg_cur_more(&cur))
        get_asked(&cur, arena, mate);
    mate->later = fg_envelope_later(&cur, arena);
    if (list->bad || cur.bad || fg_ring_name_fault(mate->name) != NULL)
        return false;
    mate->name = fg_arena_copy(arena, mate->name);
    return mate->name.ptr != NULL;
}

enum fg_code cmp_mates_decode(struct fg_slice in, struct fg_arena *arena,
                              struct cmp_mates_list *ret_list, struct fg_err *err)
{
    struct cmp_mates_list list = {.n = 0};
    struct fg_cur cur;

    if (fg_envelope_open(&envelope, in, &cur, err) != FG_OK)
        return err->code;
    list.mates =
        fg_envelope_list(&cur, arena, MATE_MIN_BYTES, MATES_MAX, sizeof *list.mates, &list.n);
    for (uint32_t i = 0; i < list.n && !cur.bad; i++)
        if (!get_mate(&cur, arena, &list.mates[i]) ||
            (i > 0 && fg_slice_cmp(list.mates[i - 1].name, list.mates[i].name) >= 0))
            return fg_fail(err, FG_E_CORRUPT, "list of compactors is broken in entry %u", i);
    list.later = fg_envelope_later(&cur, arena);
    if (cur.bad)
        return fg_fail(err, FG_E_CORRUPT, "list of compactors of %zu bytes is broken", in.len);
    *ret_list = list;
    return FG_OK;
}

void cmp_mates_json(const struct cmp_mates_list *list, struct fg_buf *out)
{
    struct fg_json_writer json = fg_json_writer(out);

    fg_json_begin_object(&json, NULL);
    fg_json_begin_array(&json, "compactors");
    for (uint32_t i = 0; i < list->n; i++) {
        fg_json_begin_object(&json, NULL);
        fg_json_put_text(&json, "name", list->mates[i].name);
        fg_json_put_u64(&json, "beat", list->mates[i].beat);
        fg_json_end(&json);
    }
    fg_json_end(&json);
    fg_json_end(&json);
    fg_buf_putc(out, '\n');
}

/* ---- what one knows ---- */

enum fg_code cmp_mates_init(struct cmp_mates *mates, const char *self, int64_t beat_ns,
                            int64_t gone_ns, struct fg_err *err)
{
    const char *fault = fg_ring_name_fault(fg_cstr(self));

    if (fault != NULL)
        return fg_fail(err, FG_E_INVALID, "name \"%.*s\" of a compactor %s", MATES_NAME_MAX_BYTES,
                       self, fault);
    *mates = (struct cmp_mates){
        .self_hash = fg_hash64(fg_cstr(self)), .beat_ns = beat_ns, .gone_ns = gone_ns};
    memcpy(mates->self, self, strlen(self) + 1);
    return FG_OK;
}

static const struct cmp_mate_seen *find_seen(const struct cmp_mates *mates, struct fg_slice name)
{
    for (uint32_t i = 0; i < mates->n_seen; i++)
        if (fg_slice_is(name, mates->seen[i].name))
            return &mates->seen[i];
    return NULL;
}

/* before: the same one as it was known, or NULL. */
static struct cmp_mate_seen see(const struct cmp_mates *mates, const struct cmp_mate *mate,
                                const struct cmp_mate_seen *before, int64_t now_mono_ns)
{
    struct cmp_mate_seen seen = {
        .hash = fg_hash64(mate->name), .beat = mate->beat, .since_mono_ns = now_mono_ns};

    memcpy(seen.name, mate->name.ptr, mate->name.len); /* a name, so it fits */
    if (before != NULL && before->beat == mate->beat) {
        seen.since_mono_ns = before->since_mono_ns;
        seen.gone = now_mono_ns - before->since_mono_ns >= mates->gone_ns;
    }
    return seen;
}

/* What was written last has not come through. What was to come with the beat after it comes with
 * the next one, too: nothing may have a beat that is in the list already without it. */
static void say_again(struct cmp_mates *mates, uint64_t beat)
{
    for (uint32_t i = 0; i < mates->n_asked; i++)
        if (mates->asked[i].beat > mates->beat)
            mates->asked[i].beat = beat + 1;
    mates->beat = beat;
}

void cmp_mates_read(struct cmp_mates *mates, const struct cmp_mates_list *list, int64_t now_mono_ns)
{
    struct cmp_mate_seen seen[MATES_MAX];
    uint32_t n = 0;
    /* Else the bucket was away, or this one: who was silent meanwhile could not do otherwise. */
    bool looked = mates->known && now_mono_ns - mates->read_mono_ns < mates->gone_ns / 2;

    mates->known = true;
    mates->read_mono_ns = now_mono_ns;
    mates->listed = false;
    for (uint32_t i = 0; i < list->n; i++) {
        const struct cmp_mate *mate = &list->mates[i];

        if (fg_slice_is(mate->name, mates->self)) {
            mates->listed = true;
            if (mate->beat != mates->beat)
                say_again(mates, mate->beat);
        } else {
            seen[n++] = see(mates, mate, looked ? find_seen(mates, mate->name) : NULL, now_mono_ns);
        }
    }
    memcpy(mates->seen, seen, n * sizeof *seen);
    mates->n_seen = n;
    if (!mates->listed) { /* its beats begin anew */
        mates->n_asked = 0;
        mates->beat = 0;
    }
}

/* What no list has had yet. */
static bool has_more_to_say(const struct cmp_mates *mates)
{
    return mates->n_asked > 0 && mates->asked[mates->n_asked - 1].beat > mates->beat;
}

bool cmp_mates_is_due(const struct cmp_mates *mates, int64_t now_mono_ns)
{
    return mates->known &&
           (!mates->listed || now_mono_ns >= mates->due_mono_ns || has_more_to_say(mates));
}

/* ---- whose it is ---- */

/* Rendezvous: whoever draws highest for the name. */
static bool owns_hash(const struct cmp_mates *mates, uint64_t name_hash)
{
    uint64_t hash = fg_mix64(name_hash), own = fg_mix64(mates->self_hash ^ hash);

    for (uint32_t i = 0; i < mates->n_seen; i++) {
        const struct cmp_mate_seen *seen = &mates->seen[i];
        uint64_t weight = fg_mix64(seen->hash ^ hash);

        if (!seen->gone && (weight > own || (weight == own && strcmp(seen->name, mates->self) > 0)))
            return false;
    }
    return mates->known;
}

bool cmp_mates_own(const struct cmp_mates *mates, struct fg_slice name)
{
    return owns_hash(mates, fg_hash64(name));
}

/* ---- what others are asked ---- */

/* How many of the first have been in the list for long enough, when it has this beat. */
static uint32_t n_old(const struct cmp_mates *mates, uint64_t beat)
{
    uint32_t n = 0;

    while (n < mates->n_asked && mates->asked[n].beat + MATES_ASKED_BEATS <= beat)
        n++;
    return n;
}

bool cmp_mates_ask(struct cmp_mates *mates, struct fg_slice tenant)
{
    struct cmp_mates_asked asked = {fg_hash64(tenant), mates->beat + 1};
    uint32_t old = n_old(mates, asked.beat);

    if (!mates->listed)
        return false;
    mates->n_asked -= old;
    memmove(mates->asked, mates->asked + old, mates->n_asked * sizeof asked);
    for (uint32_t i = 0; i < mates->n_asked; i++)
        if (mates->asked[i].tenant == asked.tenant && mates->asked[i].beat == asked.beat)
            return true;
    if (mates->n_asked == MATES_ASKED_MAX)
        return false;
    mates->asked[mates->n_asked++] = asked;
    return true;
}

uint32_t cmp_mates_heard(const struct cmp_mates *mates, const struct cmp_mates_list *list,
                         uint64_t *tenants, uint32_t max)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < list->n; i++) {
        const struct cmp_mate *mate = &list->mates[i];
        const struct cmp_mate_seen *seen = find_seen(mates, mate->name);
        uint64_t beat = seen == NULL ? 0 : seen->beat;

        for (uint32_t k = 0; k < mate->n_asked && n < max; k++)
            if (mate->asked[k].beat > beat && owns_hash(mates, mate->asked[k].tenant))
                tenants[n++] = mate->asked[k].tenant;
    }
    return n;
}

/* ---- what to write ---- */

enum fg_code cmp_mates_next(struct cmp_mates *mates, const struct cmp_mates_list *list, bool leaves,
                            struct cmp_mate *room, struct cmp_mates_list *ret_next,
                            struct fg_err *err)
{
    struct cmp_mates_list next = {.mates = room, .later = list->later};
    struct cmp_mate self = {.name = fg_cstr(mates->self), .beat = 1};
    bool placed = leaves;

    for (uint32_t i = 0; i < list->n; i++) {
        const struct cmp_mate *mate = &list->mates[i];
        const struct cmp_mate_seen *seen = find_seen(mates, mate->name);
        int order = fg_slice_cmp(mate->name, self.name);

        if (order == 0) {
            self.later = mate->later;
            self.beat = mate->beat + 1;
            self.asked = mates->asked + n_old(mates, self.beat);
            self.n_asked = mates->n_asked - n_old(mates, self.beat);
            continue;
        }
        if (order > 0 && !placed) {
            next.mates[next.n++] = self;
            placed = true;
        }
        if (seen == NULL || !seen->gone)
            next.mates[next.n++] = *mate;
    }
    if (!placed)
        next.mates[next.n++] = self;
    if (next.n > MATES_MAX)
        return fg_fail(err, FG_E_LIMIT, "more than %d compactors", MATES_MAX);
    if (!leaves)
        mates->beat = self.beat;
    *ret_next = next;
    return FG_OK;
}

void cmp_mates_written(struct cmp_mates *mates, int64_t now_mono_ns)
{
    mates->due_mono_ns = now_mono_ns + mates->beat_ns;
}

uint32_t cmp_mates_count(const struct cmp_mates *mates)
{
    uint32_t count = 1;

    for (uint32_t i = 0; i < mates->n_seen; i++)
        count += !mates->seen[i].gone;
    return count;
}
