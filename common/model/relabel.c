#include "common/model/relabel.h"

#include "common/base/str.h"
#include "common/model/relabel_internal.h"

#include <stdatomic.h>
#include <wctype.h>

/* ---- lists ---- */

struct fg_relabel *fg_relabel_ref(struct fg_relabel *rules)
{
    (void)atomic_fetch_add(&rules->refs, 1);
    return rules;
}

void fg_relabel_unref(struct fg_relabel *rules)
{
    if (rules == NULL || atomic_fetch_sub(&rules->refs, 1) != 1)
        return;
    for (size_t i = 0; i < rules->n_rules; i++)
        fg_pattern_done(&rules->rules[i].pattern);
    if (rules->locale != (locale_t)0)
        freelocale(rules->locale);
    EVP_MD_free(rules->md5);
    fg_arena_destroy(rules->arena);
    free(rules->rules);
    free(rules);
}

size_t fg_relabel_count(const struct fg_relabel *rules)
{
    return rules->n_rules;
}

/* ---- a set under change ---- */

/* A label set under change. An error is sticky: a rule that uses up work or memory goes on with
 * empty values, and fg_relabel_apply() checks after each rule. */
struct edit {
    const struct fg_relabel *list;
    struct fg_arena *arena;
    struct fg_labels *labels;
    size_t cap; /* of labels->items */
    uint64_t *work;
    struct fg_err *err;
    bool failed;
};

/* What things cost, measured, in bytes that a regular expression looks at without groups (1.4 ns).
 */
enum {
    WORK_STEP = 16,   /* looking a label up, or starting a match */
    WORK_GROUPS = 16, /* a byte of a match with groups */
    WORK_CASE = 4,    /* a byte in another case */
    WORK_HASH = 128,  /* starting a hash */
};

enum { GROW_MIN = 8 }; /* labels; rules add few */

static bool fail(struct edit *edit, const char *what)
{
    if (!edit->failed)
        (void)fg_fail(edit->err, FG_E_TOO_LARGE, "%s", what);
    edit->failed = true;
    return false;
}

static bool no_memory(struct edit *edit)
{
    return fail(edit, "relabeling needs more memory than it may use");
}

/* Rules are the operator's and labels are the client's: together they could cost any amount of
 * time, so that each step is paid for from the budget of the upload. */
static bool spend(struct edit *edit, uint64_t bytes)
{
    if (edit->failed || *edit->work < bytes)
        return fail(edit, "relabeling the labels of this upload needs too much work");
    *edit->work -= bytes;
    return true;
}

static struct fg_slice value_of(const struct edit *edit, struct fg_slice name)
{
    size_t at;

    return fg_labels_find(edit->labels, name, &at) ? edit->labels->items[at].value : FG_LIT("");
}

static bool grow(struct edit *edit)
{
    size_t cap = FG_MAX(2 * edit->cap, (size_t)GROW_MIN);
    struct fg_label *items = fg_arena_new(edit->arena, struct fg_label, cap);

    if (items == NULL)
        return no_memory(edit);
    if (edit->labels->count > 0)
        memcpy(items, edit->labels->items, edit->labels->count * sizeof *items);
    edit->labels->items = items;
    edit->cap = cap;
    return true;
}

static void insert(struct edit *edit, size_t at, struct fg_slice name, struct fg_slice value)
{
    struct fg_labels *labels = edit->labels;
    size_t behind = labels->count - at;

    if (!spend(edit, name.len + behind) || (labels->count == edit->cap && !grow(edit)))
        return;
    /* The name may be the rule's, which need not live as long as the labels. */
    name = fg_arena_copy(edit->arena, name);
    if (name.ptr == NULL) {
        (void)no_memory(edit);
        return;
    }
    if (behind > 0)
        memmove(labels->items + at + 1, labels->items + at, behind * sizeof *labels->items);
    labels->items[at] = (struct fg_label){name, value};
    labels->count++;
}

static void set(struct edit *edit, struct fg_slice name, struct fg_slice value)
{
    size_t at;

    if (edit->failed)
        return;
    if (value.len == 0)
        fg_labels_remove(edit->labels, name);
    else if (fg_labels_find(edit->labels, name, &at))
        edit->labels->items[at].value = value;
    else
        insert(edit, at, name, value);
}

/* ---- what rules look at ---- */

static struct fg_slice join(struct edit *edit, const struct fg_relabel_rule *rule)
{
    size_t len = rule->separator.len * (rule->n_sources - 1), at = 0;
    uint8_t *text;

    for (size_t i = 0; i < rule->n_sources; i++)
        len += value_of(edit, rule->sources[i]).len;
    if (!spend(edit, len))
        return FG_LIT("");
    text = fg_arena_alloc(edit->arena, len);
    if (text == NULL) {
        (void)no_memory(edit);
        return FG_LIT("");
    }
    for (size_t i = 0; i < rule->n_sources; i++) {
        struct fg_slice value = value_of(edit, rule->sources[i]);

        if (i > 0 && rule->separator.len > 0)
            memcpy(text + at, rule->separator.ptr, rule->separator.len);
        at += i > 0 ? rule->separator.len : 0;
        if (value.len > 0)
            memcpy(text + at, value.ptr, value.len);
        at += value.len;
    }
    return fg_bytes(text, len);
}

/* The values of the source labels, joined. */
static struct fg_slice text_of(struct edit *edit, const struct fg_relabel_rule *rule)
{
    if (!spend(edit, WORK_STEP * (rule->n_sources + 1)) || rule->n_sources == 0)
        return FG_LIT("");
    return rule->n_sources == 1 ? value_of(edit, rule->sources[0]) : join(edit, rule);
}

static bool matches(struct edit *edit, const struct fg_pattern *pattern, struct fg_slice text,
                    struct fg_slice *groups, size_t n_groups)
{
    /* A plain pattern is short, and mostly differs at the first byte. */
    uint64_t work = pattern->regex == NULL ? 1
                    : n_groups > 1         ? WORK_STEP + WORK_GROUPS * text.len
                                           : WORK_STEP + text.len;

    return spend(edit, work) && fg_pattern_match(pattern, text, groups, n_groups);
}

static struct fg_slice expand(struct edit *edit, const struct fg_template *template,
                              const struct fg_slice *groups)
{
    struct fg_slice text = fg_template_expand(template, groups, edit->arena);

    if (text.ptr == NULL)
        (void)no_memory(edit);
    (void)spend(edit, text.len);
    return text;
}

/* ---- actions ---- */

static bool is_label_name(struct fg_slice name)
{
    return name.len > 0 && fg_utf8_valid(name);
}

static void replace(struct edit *edit, const struct fg_relabel_rule *rule, struct fg_slice text)
{
    struct fg_slice groups[FG_REGEX_GROUPS_MAX], target;
    size_t n_groups = FG_MAX(rule->target_template.n_groups, rule->replacement.n_groups);

    if (!matches(edit, &rule->pattern, text, groups, n_groups))
        return;
    target = expand(edit, &rule->target_template, groups);
    if (is_label_name(target))
        set(edit, target, expand(edit, &rule->replacement, groups));
}

static void hashmod(struct edit *edit, const struct fg_relabel_rule *rule, struct fg_slice text)
{
    uint8_t md5[EVP_MAX_MD_SIZE];
    uint64_t hash = 0;
    char *value;

    if (!spend(edit, WORK_HASH + text.len))
        return;
    fg_assert(EVP_Digest(text.ptr, text.len, md5, NULL, edit->list->md5, NULL) == 1);
    /* Only the last 8 bytes, as in Prometheus: series have to get the same shards there and
     * here. */
    for (size_t i = 8; i < 16; i++)
        hash = hash << 8 | md5[i];
    value = fg_arena_printf(edit->arena, "%llu", (unsigned long long)(hash % rule->modulus));
    if (value == NULL)
        (void)no_memory(edit);
    else
        set(edit, rule->target, fg_cstr(value));
}

/* Each character by itself, as Go's strings.ToLower: "ß" stays "ß". Bytes that are no UTF-8 stay.
 */
static void change_case(struct edit *edit, const struct fg_relabel_rule *rule, struct fg_slice text)
{
    /* A character of two bytes may become one of three. */
    uint8_t *out = fg_arena_alloc(edit->arena, text.len * 2);
    size_t n = 0, len;
    uint32_t rune;

    if (out == NULL) {
        (void)no_memory(edit);
        return;
    }
    if (!spend(edit, WORK_CASE * text.len))
        return;
    for (; text.len > 0; text = fg_slice_sub(text, len, text.len)) {
        if (!fg_utf8_next(text, &rune, &len)) {
            fg_assert(text.ptr != NULL);
            out[n++] = text.ptr[0];
            len = 1;
        } else if (rule->action == FG_RELABEL_LOWERCASE) {
            n += fg_utf8_put((uint32_t)towlower_l(rune, edit->list->locale), out + n);
        } else {
            n += fg_utf8_put((uint32_t)towupper_l(rune, edit->list->locale), out + n);
        }
    }
    set(edit, rule->target, fg_bytes(out, n));
}

/* Looks at the names there were before the rule, in their order: of equal new ones the last wins.
 */
static void labelmap(struct edit *edit, const struct fg_relabel_rule *rule)
{
    size_t count = edit->labels->count;
    struct fg_label *before = fg_arena_new(edit->arena, struct fg_label, count);
    struct fg_slice groups[FG_REGEX_GROUPS_MAX];

    if (before == NULL) {
        (void)no_memory(edit);
        return;
    }
    if (count > 0)
        memcpy(before, edit->labels->items, count * sizeof *before);
    for (size_t i = 0; i < count && !edit->failed; i++) {
        struct fg_slice name;

        if (!matches(edit, &rule->pattern, before[i].name, groups, rule->replacement.n_groups))
            continue;
        name = expand(edit, &rule->replacement, groups);
        if (is_label_name(name))
            set(edit, name, before[i].value);
    }
}

/* labeldrop and labelkeep. */
static void filter_names(struct edit *edit, const struct fg_relabel_rule *rule)
{
    struct fg_labels *labels = edit->labels;
    bool keep = rule->action == FG_RELABEL_LABELKEEP;
    size_t kept = 0;

    for (size_t i = 0; i < labels->count && !edit->failed; i++)
        if (matches(edit, &rule->pattern, labels->items[i].name, NULL, 0) == keep)
            labels->items[kept++] = labels->items[i];
    labels->count = kept;
}

static bool is_target(struct edit *edit, const struct fg_relabel_rule *rule, struct fg_slice text)
{
    return spend(edit, text.len) && fg_slice_eq(value_of(edit, rule->target), text);
}

/* Applies one rule. Returns false if the rule drops the whole set. */
static bool apply_rule(struct edit *edit, const struct fg_relabel_rule *rule)
{
    struct fg_slice text = text_of(edit, rule);

    switch (rule->action) {
    case FG_RELABEL_REPLACE:
        replace(edit, rule, text);
        return true;
    case FG_RELABEL_KEEP:
        return matches(edit, &rule->pattern, text, NULL, 0);
    case FG_RELABEL_DROP:
        return !matches(edit, &rule->pattern, text, NULL, 0);
    case FG_RELABEL_KEEPEQUAL:
        return is_target(edit, rule, text);
    case FG_RELABEL_DROPEQUAL:
        return !is_target(edit, rule, text);
    case FG_RELABEL_HASHMOD:
        hashmod(edit, rule, text);
        return true;
    case FG_RELABEL_LABELMAP:
        labelmap(edit, rule);
        return true;
    case FG_RELABEL_LABELDROP:
    case FG_RELABEL_LABELKEEP:
        filter_names(edit, rule);
        return true;
    case FG_RELABEL_LOWERCASE:
    case FG_RELABEL_UPPERCASE:
        change_case(edit, rule, text);
        return true;
    }
    fg_assert(false);
}

enum fg_code fg_relabel_apply(const struct fg_relabel *rules, struct fg_arena *arena,
                              uint64_t *work, struct fg_labels *labels, bool *ret_kept,
                              struct fg_err *err)
{
    struct edit edit = {rules, arena, labels, labels->count, work, err, false};
    bool kept = true;

    for (size_t i = 0; i < rules->n_rules && kept; i++) {
        kept = apply_rule(&edit, &rules->rules[i]);
        if (edit.failed)
            return err->code;
    }
    *ret_kept = kept;
    return FG_OK;
}
