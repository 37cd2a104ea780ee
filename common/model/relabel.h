/*
 * Relabelling: rules that rewrite or drop label sets on their way in, with the meaning that
 * Prometheus gives them (its documentation, "relabel_config") and label names of any UTF-8, as
 * Pyroscope has them (distributor/API.md#relabelling).
 *
 * A list of rules is a list of maps in YAML:
 *
 *     - source_labels: [namespace, pod]   their values, joined by the separator, are "the text"
 *       separator: ;                      (the default)
 *       regex: (.*)                       has to match the whole text; RE2 (the default)
 *       action: replace                   (the default)
 *       target_label: workload            may have $1, ${name} for groups of the regex
 *       replacement: $1                   (the default)
 *
 *   replace               target_label becomes replacement where the text matches; empty: it goes
 *   keep, drop            the set is dropped unless, or if, the text matches
 *   keepequal, dropequal  the set is dropped unless, or if, target_label is the text
 *   hashmod               target_label becomes the text's hash modulo modulus
 *   lowercase, uppercase  target_label becomes the text in lower or upper case
 *   labelmap              each label whose name matches is copied to the name in replacement
 *   labeldrop, labelkeep  labels go whose name matches, or does not
 *
 * A missing label counts as the empty value, and one that becomes empty goes. A new name that is
 * empty is none, and nothing is done; of two labels that are copied to one name the later one, by
 * name, stays.
 *
 * Thread: a list is immutable; any number of threads may apply it and count references at once.
 */
#ifndef FG_COMMON_MODEL_RELABEL_H
#define FG_COMMON_MODEL_RELABEL_H

#include "common/model/labels.h"

enum {
    FG_RELABEL_RULES_MAX = 128,       /* of one list; people have twenty */
    FG_RELABEL_SOURCES_MAX = 64,      /* source labels of a rule */
    FG_RELABEL_TEXT_MAX_BYTES = 4096, /* of a name, regex, replacement or separator */
    FG_RELABEL_WORK_MAX = 128 << 20,  /* for one upload, 0.3 s; a profile takes some hundred */
};

struct fg_relabel;

/* Where the default rules stand: before those of the list, after them, or nowhere. In the order of
 * the setting's words: first|last|disabled. */
enum fg_relabel_defaults {
    FG_RELABEL_DEFAULTS_FIRST,
    FG_RELABEL_DEFAULTS_LAST,
    FG_RELABEL_DEFAULTS_DISABLED,
};

/*
 * A list from YAML; empty text has no rules of its own. `name` stands for the source in errors.
 * FG_E_INVALID with the rule, what is wrong with it, and the line; for an unknown key or action
 * also with the nearest known one. The caller has one reference.
 */
enum fg_code fg_relabel_parse(struct fg_slice yaml, const char *name,
                              enum fg_relabel_defaults defaults, struct fg_relabel **ret_rules,
                              struct fg_err *err) fg_must_check;

/* The same for rules that choose among the sample types of a profile: only keep and drop, and no
 * default ones. */
enum fg_code fg_relabel_parse_types(struct fg_slice yaml, const char *name,
                                    struct fg_relabel **ret_rules,
                                    struct fg_err *err) fg_must_check;

struct fg_relabel *fg_relabel_ref(struct fg_relabel *rules);

/* NULL is fine. The last reference frees. */
void fg_relabel_unref(struct fg_relabel *rules);
FG_AUTO(fg_relabel, fg_relabel_unref)

/* How many rules there are, the default ones included. */
size_t fg_relabel_count(const struct fg_relabel *rules);

/*
 * Rewrites a sorted set; false in *ret_kept: it was dropped. The result is sorted, its array is the
 * one given or the arena's, its texts are the given ones or the arena's.
 *
 * An upload can bring very many sets, and long values to match. So *work bounds, over as many calls
 * as the caller likes, the bytes that are looked at (what costs more counts for more of them); it
 * counts down. FG_E_TOO_LARGE when it or the arena is used up; the set is then good for nothing.
 */
enum fg_code fg_relabel_apply(const struct fg_relabel *rules, struct fg_arena *arena,
                              uint64_t *work, struct fg_labels *labels, bool *ret_kept,
                              struct fg_err *err) fg_must_check;

#endif
