#include "compactor/mates.h"

#include "common/base/envelope.h"
#include "common/base/hash.h"
#include "common/ring/ring.h"

static const struct fg_envelope envelope = {"list of compactors", "FGCM", 1, MATES_MAX_BYTES};

enum { MATE_MIN_BYTES = 1 + 3 };

/* ---- bytes ---- */

enum fg_code mates_encode(const struct mates_list *list, struct fg_buf *out, struct fg_err *err)
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
        fg_buf_put(&record, list->mates[i].later);
        fg_buf_lenbytes(out, fg_buf_slice(&record));
    }
    fg_buf_put(out, list->later);
    out->full |= record.full;
    fg_buf_done(&record);
    return fg_envelope_end(&envelope, out, start, err);
}

/* false: it is broken, or there is no room for it. */
static bool get_mate(struct fg_cur *list, struct fg_arena *arena, struct mate *mate)
{
    struct fg_cur cur = fg_cur(fg_cur_lenbytes(list));

    mate->name = fg_cur_lenbytes(&cur);
    mate->beat = fg_cur_varint(&cur);
    mate->later = fg_envelope_later(&cur, arena);
    if (list->bad || cur.bad || fg_ring_name_fault(mate->name) != NULL)
        return false;
    mate->name = fg_arena_copy(arena, mate->name);
    return mate->name.ptr != NULL;
}

enum fg_code mates_decode(struct fg_slice in, struct fg_arena *arena, struct mates_list *ret_list,
                          struct fg_err *err)
{
    struct mates_list list = {.n = 0};
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

void mates_json(const struct mates_list *list, struct fg_buf *out)
{
    fg_buf_puts(out, "{\"compactors\":[");
    for (uint32_t i = 0; i < list->n; i++)
        fg_buf_printf(out, "%s{\"name\":\"%.*s\",\"beat\":%llu}", i == 0 ? "" : ",",
                      FG_S(list->mates[i].name), (unsigned long long)list->mates[i].beat);
    fg_buf_puts(out, "]}\n");
}

/* ---- what one knows ---- */

enum fg_code mates_init(struct mates *mates, const char *self, int64_t beat_ns, int64_t gone_ns,
                        struct fg_err *err)
{
    const char *fault = fg_ring_name_fault(fg_cstr(self));

    if (fault != NULL)
        return fg_fail(err, FG_E_INVALID, "name \"%.*s\" of a compactor %s", MATES_NAME_MAX_BYTES,
                       self, fault);
    *mates = (struct mates){
        .self_hash = fg_hash64(fg_cstr(self)), .beat_ns = beat_ns, .gone_ns = gone_ns};
    memcpy(mates->self, self, strlen(self) + 1);
    return FG_OK;
}

static const struct mate_seen *find_seen(const struct mates *mates, struct fg_slice name)
{
    for (uint32_t i = 0; i < mates->n_seen; i++)
        if (fg_slice_is(name, mates->seen[i].name))
            return &mates->seen[i];
    return NULL;
}

/* before: the same one as it was known, or NULL. */
static struct mate_seen see(const struct mates *mates, const struct mate *mate,
                            const struct mate_seen *before, int64_t now_mono_ns)
{
    struct mate_seen seen = {
        .hash = fg_hash64(mate->name), .beat = mate->beat, .since_mono_ns = now_mono_ns};

    memcpy(seen.name, mate->name.ptr, mate->name.len); /* a name, so it fits */
    if (before != NULL && before->beat == mate->beat) {
        seen.since_mono_ns = before->since_mono_ns;
        seen.gone = now_mono_ns - before->since_mono_ns >= mates->gone_ns;
    }
    return seen;
}

void mates_read(struct mates *mates, const struct mates_list *list, int64_t now_mono_ns)
{
    struct mate_seen seen[MATES_MAX];
    uint32_t n = 0;
    /* Else the bucket was away, or this one: who was silent meanwhile could not do otherwise. */
    bool looked = mates->known && now_mono_ns - mates->read_mono_ns < mates->gone_ns / 2;

    mates->known = true;
    mates->read_mono_ns = now_mono_ns;
    mates->listed = false;
    for (uint32_t i = 0; i < list->n; i++) {
        const struct mate *mate = &list->mates[i];

        if (fg_slice_is(mate->name, mates->self)) {
            mates->listed = true;
            mates->beat = mate->beat;
        } else {
            seen[n++] = see(mates, mate, looked ? find_seen(mates, mate->name) : NULL, now_mono_ns);
        }
    }
    memcpy(mates->seen, seen, n * sizeof *seen);
    mates->n_seen = n;
}

bool mates_is_due(const struct mates *mates, int64_t now_mono_ns)
{
    return mates->known && (!mates->listed || now_mono_ns >= mates->due_mono_ns);
}

enum fg_code mates_next(const struct mates *mates, const struct mates_list *list, bool leaves,
                        struct mate *room, struct mates_list *ret_next, struct fg_err *err)
{
    struct mates_list next = {.mates = room, .later = list->later};
    struct mate self = {.name = fg_cstr(mates->self), .beat = 1};
    bool placed = leaves;

    for (uint32_t i = 0; i < list->n; i++) {
        const struct mate *mate = &list->mates[i];
        const struct mate_seen *seen = find_seen(mates, mate->name);
        int order = fg_slice_cmp(mate->name, self.name);

        if (order == 0) {
            self = *mate;
            self.beat++;
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
    *ret_next = next;
    return FG_OK;
}

void mates_written(struct mates *mates, int64_t now_mono_ns)
{
    mates->due_mono_ns = now_mono_ns + mates->beat_ns;
}

bool mates_own(const struct mates *mates, struct fg_slice name)
{
    uint64_t hash = fg_mix64(fg_hash64(name)), own = fg_mix64(mates->self_hash ^ hash);

    for (uint32_t i = 0; i < mates->n_seen; i++) {
        const struct mate_seen *seen = &mates->seen[i];
        uint64_t weight = fg_mix64(seen->hash ^ hash);

        if (!seen->gone && (weight > own || (weight == own && strcmp(seen->name, mates->self) > 0)))
            return false;
    }
    return mates->known;
}

uint32_t mates_count(const struct mates *mates)
{
    uint32_t count = 1;

    for (uint32_t i = 0; i < mates->n_seen; i++)
        count += !mates->seen[i].gone;
    return count;
}
