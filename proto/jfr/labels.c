#include "proto/jfr/labels.h"

#include "common/base/cursor.h"

/* Field numbers of the message LabelsSnapshot and of its Context. */
enum {
    SNAPSHOT_CONTEXTS = 1,
    SNAPSHOT_STRINGS = 2,
    CONTEXT_LABELS = 1,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
};

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "labels need more memory than decoding may use");
}

/* An entry of a map: the key, and a value that is a number or bytes. */
struct jfr_label {
    uint64_t key, number;
    struct fg_slice bytes;
};

static bool read_entry(struct fg_slice in, struct jfr_label *entry)
{
    struct fg_cur cur = fg_cur(in);

    *entry = (struct jfr_label){.bytes = FG_LIT("")};
    while (fg_cur_more(&cur)) {
        uint64_t tag = fg_cur_varint(&cur);

        if (tag == FG_PB_TAG(ENTRY_KEY, FG_PB_VARINT))
            entry->key = fg_cur_varint(&cur);
        else if (tag == FG_PB_TAG(ENTRY_VALUE, FG_PB_VARINT))
            entry->number = fg_cur_varint(&cur);
        else if (tag == FG_PB_TAG(ENTRY_VALUE, FG_PB_LEN))
            entry->bytes = fg_cur_lenbytes(&cur);
        else
            fg_pb_skip(&cur, tag);
    }
    return !cur.bad;
}

/* Reads the next entry of that map in a message. Returns false at the end, or if the cursor is
 * bad. */
static bool next_entry(struct fg_cur *cur, uint64_t field, struct jfr_label *entry)
{
    while (fg_cur_more(cur)) {
        uint64_t tag = fg_cur_varint(cur);

        if (tag != FG_PB_TAG(field, FG_PB_LEN)) {
            fg_pb_skip(cur, tag);
            continue;
        }
        if (!read_entry(fg_cur_lenbytes(cur), entry))
            fg_cur_fail(cur);
        return !cur->bad;
    }
    return false;
}

static enum fg_code read_map(struct fg_slice in, uint64_t field, struct fg_arena *arena,
                             struct fg_ids *ids, struct fg_slice **values, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);
    struct jfr_label entry;
    uint32_t cap = 0;

    while (next_entry(&cur, field, &entry)) {
        if (!fg_ids_reserve(ids, arena, 1) ||
            !fg_arena_grow(arena, values, ids->count, 1, &cap, sizeof **values))
            return too_large(err);
        /* Both arrays have the same index; fg_ids_add() counts. */
        (*values)[ids->count] = entry.bytes;
        fg_ids_add(ids, entry.key);
    }
    if (cur.bad)
        return fg_fail(err, FG_E_DECODE,
                       "labels are not a LabelsSnapshot, or cut short, in %zu "
                       "bytes",
                       in.len);
    return fg_ids_ready(ids, arena) ? FG_OK : too_large(err);
}

enum fg_code fg_jfr_labels_read(struct fg_jfr_labels *labels, struct fg_slice in,
                                struct fg_arena *arena, struct fg_err *err)
{
    *labels = (struct fg_jfr_labels){0};
    if (read_map(in, SNAPSHOT_CONTEXTS, arena, &labels->contexts, &labels->context_messages, err) !=
        FG_OK)
        return err->code;
    return read_map(in, SNAPSHOT_STRINGS, arena, &labels->strings, &labels->texts, err);
}

/* Returns the string of that id; empty if there is none. */
static struct fg_slice text_of(const struct fg_jfr_labels *labels, uint64_t id)
{
    uint32_t number = fg_ids_find(&labels->strings, id);

    return number == FG_IDS_NONE ? FG_LIT("") : labels->texts[number];
}

enum fg_code fg_jfr_labels_of(const struct fg_jfr_labels *labels, uint32_t context, size_t more,
                              struct fg_arena *arena, struct fg_labels *ret_labels,
                              struct fg_err *err)
{
    struct fg_slice message = labels->context_messages[context];
    struct fg_cur cur = fg_cur(message);
    struct fg_labels of = {0};
    struct jfr_label entry;
    size_t count = 0;

    while (next_entry(&cur, CONTEXT_LABELS, &entry))
        count++;
    if (cur.bad)
        return fg_fail(err, FG_E_DECODE, "labels of context %llu cannot be read",
                       (unsigned long long)labels->contexts.ids[context]);
    /* Counted first, so that the caller can append `more` labels without a copy. */
    of.items = fg_arena_new(arena, struct fg_label, count + more);
    if (of.items == NULL)
        return too_large(err);
    cur = fg_cur(message);
    while (next_entry(&cur, CONTEXT_LABELS, &entry)) {
        struct fg_label label = {text_of(labels, entry.key), text_of(labels, entry.number)};

        /* A key that is not among the strings has no name to store it under. */
        if (label.name.len > 0)
            of.items[of.count++] = label;
    }
    *ret_labels = of;
    return FG_OK;
}
