/*
 * Parses what a query selects: SELECTOR, --type, --from and --until. Pure: nothing here talks to a
 * server.
 */
#ifndef FG_DEPLOY_CLI_SELECTION_H
#define FG_DEPLOY_CLI_SELECTION_H

#include "common/base/arena.h"
#include "common/base/err.h"

/*
 * type is a full profile type id (process_cpu:cpu:nanoseconds:cpu:nanoseconds), a short one
 * (name:sample type, or the sample type alone), or empty. labels is a selector, {a="b"}. Both live
 * in the arena.
 */
struct cli_selection {
    struct fg_slice type, labels;
};

/*
 * Parses SELECTOR, which is one of
 *   process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name="a"}
 *   service{env="prod"}      the service's name and more labels
 *   service.cpu{env="prod"}  the same and a type, by the suffixes that /ingest knows
 *   {env="prod"}             labels only
 * each with or without labels. A suffix that is no type belongs to the service's name.
 * FG_E_INVALID: what is wrong.
 */
enum fg_code cli_selection_parse(struct fg_slice text, struct fg_arena *arena,
                                 struct cli_selection *ret_selection,
                                 struct fg_err *err) fg_must_check;

/* Returns the labels with matchers for the type added; ptr NULL: the arena is full. */
enum fg_code cli_selection_with_type(const struct cli_selection *selection, struct fg_arena *arena,
                                     struct fg_slice *ret_labels, struct fg_err *err) fg_must_check;

/* Returns true if it is an id of at least five parts, so the server need not be asked. */
bool cli_selection_is_full_type(struct fg_slice type);

/*
 * Chooses the one of `ids` that `type` (short, or empty) means. Empty: the only id, or the CPU time
 * of process_cpu. FG_E_NOT_FOUND; FG_E_INVALID: several match; both with the candidates. of: whose
 * types they are, for the message, such as " of {a=\"b\"}"; "": not said.
 */
enum fg_code cli_selection_choose_type(struct fg_slice type, const struct fg_slice *ids,
                                       size_t n_ids, const char *of, struct fg_slice *ret_id,
                                       struct fg_err *err) fg_must_check;

struct cli_selection_range {
    int64_t start_ms, end_ms;
};

/* Fails with FG_E_NOT_FOUND: a side of a comparison, labels in the range, has no profiles; damaged:
 * none that can be read. */
enum fg_code cli_selection_fail_side(struct fg_slice labels,
                                     const struct cli_selection_range *range, bool damaged,
                                     struct fg_err *err);

/* Parses the range; times as in times.h. FG_E_INVALID: a time is invalid, or from is after until.
 */
enum fg_code cli_selection_range(const char *from, const char *until, int64_t now_ns,
                                 struct cli_selection_range *ret_range,
                                 struct fg_err *err) fg_must_check;

#endif
