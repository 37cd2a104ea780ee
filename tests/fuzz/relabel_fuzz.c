/*
 * Rules in YAML up to the first NUL, then names and values of labels, each ended by one. Rules are
 * refused with a reason, or make of the set one that is in order, the same one each time.
 */
#include "common/model/relabel.h"

enum { LABELS_MAX = 64, ARENA_MAX_BYTES = 16 << 20, WORK = 4 << 20 };

static struct fg_slice next_text(struct fg_slice *rest)
{
    struct fg_slice text = fg_slice_sub(*rest, 0, fg_slice_find(*rest, '\0'));

    *rest = fg_slice_sub(*rest, text.len + 1, rest->len);
    return text;
}

static struct fg_labels read_labels(struct fg_slice rest, struct fg_label *items)
{
    struct fg_labels labels = {items, 0};

    while (rest.len > 0 && labels.count < LABELS_MAX) {
        struct fg_slice name = next_text(&rest);

        items[labels.count++] = (struct fg_label){name, next_text(&rest)};
    }
    fg_labels_sort(&labels);
    return labels;
}

static void check(const struct fg_labels *labels)
{
    for (size_t i = 0; i < labels->count; i++) {
        fg_assert(labels->items[i].value.len > 0);
        fg_assert(i == 0 || fg_slice_cmp(labels->items[i - 1].name, labels->items[i].name) < 0);
    }
    (void)fg_labels_hash(labels);
}

static void apply(const struct fg_relabel *rules, struct fg_slice rest)
{
    struct fg_arena *arena = fg_arena_create(ARENA_MAX_BYTES);
    struct fg_label items[2][LABELS_MAX];
    struct fg_labels labels[2];
    enum fg_code codes[2];
    bool kept[2] = {false, false};

    for (size_t i = 0; i < 2; i++) {
        uint64_t work = WORK;
        struct fg_err err;

        labels[i] = read_labels(rest, items[i]);
        codes[i] = fg_relabel_apply(rules, arena, &work, &labels[i], &kept[i], &err);
        fg_assert(codes[i] == FG_OK || codes[i] == FG_E_TOO_LARGE);
        if (codes[i] == FG_OK)
            check(&labels[i]);
    }
    /* The second time there is less of the arena, so that it alone may fail. */
    if (codes[1] == FG_OK) {
        fg_assert(codes[0] == FG_OK && kept[0] == kept[1]);
        fg_assert(fg_labels_cmp(&labels[0], &labels[1]) == 0);
    }
    fg_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice rest = fg_bytes(data, size), yaml = next_text(&rest);
    struct fg_relabel *rules = NULL;
    struct fg_err err;

    for (unsigned defaults = 0; defaults <= FG_RELABEL_DEFAULTS_DISABLED; defaults++) {
        if (fg_relabel_parse(yaml, "fuzz", (enum fg_relabel_defaults)defaults, &rules, &err) ==
            FG_OK) {
            apply(rules, rest);
            fg_relabel_unref(rules);
        } else {
            fg_assert(err.code == FG_E_INVALID && err.msg[0] != '\0');
        }
    }
    if (fg_relabel_parse_types(yaml, "fuzz", &rules, &err) == FG_OK) {
        apply(rules, rest);
        fg_relabel_unref(rules);
    }
    return 0;
}
