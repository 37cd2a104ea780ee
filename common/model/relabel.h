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
 *   replace               target_label becomes replacement if the text matches; empty: is removed
 *   keep, drop            the set is dropped unless, or if, the text matches
 *   keepequal, dropequal  the set is dropped unless, or if, target_label is the text
 *   hashmod               target_label becomes the text's hash modulo modulus
 *   lowercase, uppercase  target_label becomes the text in lower or upper case
 *   labelmap              each label whose name matches is copied to the name in replacement
 *   labeldrop, labelkeep  removes labels whose name matches, or does not match
 *
 * A missing label counts as the empty value, and a label that becomes empty is removed. A rule with
 * an empty new name does nothing. If two labels are copied to one name, the later one by name wins.
 *
 * Thread: a list is immutable; any number of threads may apply it and count references at once.
 */
#ifndef FG_COMMON_MODEL_RELABEL_H
#define FG_COMMON_MODEL_RELABEL_H

#include "common/model/labels.h"

enum {
    FG_RELABEL_RULES_MAX = 128,       /* of one list; users have twenty */
    FG_RELABEL_SOURCES_MAX = 64,      /* source labels of a rule */
    FG_RELABEL_TEXT_MAX_BYTES = 4096, /* of a name, regex, replacement or separator */
    FG_RELABEL_WORK_MAX = 128 << 20,  /* for one upload, 0.3 s; a profile takes some hundred */
};

struct fg_relabel;

/* The position of the default rules: before the rules of the list, after them, or nowhere. In the
 * order of the setting's choices: first|last|disabled. */
enum fg_relabel_defaults {
    FG_RELABEL_DEFAULTS_FIRST,
    FG_RELABEL_DEFAULTS_LAST,
    FG_RELABEL_DEFAULTS_DISABLED,
};

/*
 * Parses a list of rules from YAML; empty text gives the default rules only. `name` names the
 * source in errors. FG_E_INVALID has the rule, the fault and the line, and for an unknown key or
 * action the nearest known one. The caller gets one reference.
 */
enum fg_code fg_relabel_parse(struct fg_slice yaml, const char *name,
                              enum fg_relabel_defaults defaults, struct fg_relabel **ret_rules,
                              struct fg_err *err) fg_must_check;

/* Parses rules that select sample types of a profile: keep and drop only, without default rules. */
enum fg_code fg_relabel_parse_types(struct fg_slice yaml, const char *name,
                                    struct fg_relabel **ret_rules,
                                    struct fg_err *err) fg_must_check;

/* Adds a reference. */
struct fg_relabel *fg_relabel_ref(struct fg_relabel *rules);

/* Removes a reference; the last one frees the rules. Accepts NULL. */
void fg_relabel_unref(struct fg_relabel *rules);
FG_AUTO(fg_relabel, fg_relabel_unref)

/* Returns the number of rules, including default rules. */
size_t fg_relabel_count(const struct fg_relabel *rules);

/*
 * Applies the rules to a sorted set. *ret_kept is false if the set was dropped. The result is
 * sorted; its array and texts are the given ones or in the arena.
 *
 * An upload can have very many sets and long values. So *work limits the bytes that rules compare,
 * over any number of calls; it counts down, faster for expensive operations. FG_E_TOO_LARGE: *work
 * or the arena is used up; the set is undefined then.
 */
enum fg_code fg_relabel_apply(const struct fg_relabel *rules, struct fg_arena *arena,
                              uint64_t *work, struct fg_labels *labels, bool *ret_kept,
                              struct fg_err *err) fg_must_check;

#endif
