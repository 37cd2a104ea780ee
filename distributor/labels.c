#include "distributor/labels.h"

#include "common/base/cursor.h"
#include "common/base/str.h"

enum { SESSION_BYTES = 8 }; /* SDKs write a random number of 64 bits */

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_TOO_LARGE, "upload needs more memory than decoding may use");
}

/*
 * A session is one of so many: a process that starts every minute must not make a series each time.
 * An empty value, which is no label, where sessions are not kept or this is none.
 */
static enum fg_code session(struct fg_slice value, uint64_t sessions_max, struct fg_arena *arena,
                            struct fg_slice *ret_value, struct fg_err *err)
{
    uint8_t bytes[SESSION_BYTES];
    struct fg_cur cur = fg_cur(fg_bytes(bytes, sizeof bytes));
    char *text;

    *ret_value = FG_LIT("");
    if (sessions_max == 0 || !fg_parse_hex(value, bytes, sizeof bytes))
        return FG_OK;
    text = fg_arena_printf(arena, "%016llx",
                           (unsigned long long)__builtin_bswap64(fg_cur_le64(&cur) % sessions_max));
    if (text == NULL)
        return too_large(err);
    *ret_value = fg_cstr(text);
    return FG_OK;
}

enum fg_code dist_series_labels(const struct fg_labels *sent,
                                const struct fg_limit_settings *limits, struct fg_arena *arena,
                                struct fg_labels *ret_labels, struct fg_err *err)
{
    struct fg_labels labels = {.items = fg_arena_new(arena, struct fg_label, sent->count + 1)};

    if (labels.items == NULL)
        return too_large(err);
    for (size_t i = 0; i < sent->count; i++) {
        struct fg_label label = sent->items[i];

        if (fg_slice_is(label.name, LABEL_SESSION) &&
            session(label.value, limits->max_sessions_per_series, arena, &label.value, err) !=
                FG_OK)
            return err->code;
        labels.items[labels.count++] = label;
    }
    /* Data is placed and found by service, so a series cannot be without one; the name is
     * Pyroscope's. */
    if (fg_labels_get(&labels, FG_LABEL_SERVICE).len == 0)
        labels.items[labels.count++] =
            (struct fg_label){FG_LIT(FG_LABEL_SERVICE), FG_LIT("unknown_service")};
    *ret_labels = labels;
    return FG_OK;
}
