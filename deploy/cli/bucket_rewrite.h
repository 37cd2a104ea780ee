/*
 * Makes new segments or blocks of the profiles that one tenant has in some objects. It uses the
 * compactor's merge, and verifies and counts the result like a block.
 *
 * Thread: one that may block. Memory: the objects and the result.
 */
#ifndef FG_DEPLOY_CLI_BUCKET_REWRITE_H
#define FG_DEPLOY_CLI_BUCKET_REWRITE_H

#include "common/model/deletion.h"
#include "compactor/merge/merge.h"

/* The tenant's parts of an object, which lie side by side. Everything is borrowed. */
struct cmp_merge_source cli_rewrite_source(const char *name, struct fg_slice file,
                                           const struct fg_block_directory *directory,
                                           struct fg_slice tenant);

/* Makes a merge of these, which are borrowed; the caller adds what is to be left out. */
struct cmp_merge cli_rewrite_merge(struct fg_slice tenant, const struct cmp_merge_source *sources,
                                   uint32_t n_sources);

/* Makes a sink that appends to out, which is initialised; FG_E_LIMIT at its limit. */
struct fg_block_sink cli_rewrite_sink(struct fg_buf *out);

/*
 * Writes the profiles of a span to out, which is initialised and empty, and verifies them. The
 * summary has no profiles if there are none. FG_E_CORRUPT: a source is damaged. FG_E_LIMIT: too
 * large.
 */
enum fg_code cli_rewrite_span(const struct cmp_merge *merge, const struct cmp_merge_span *span,
                              uint32_t level, struct fg_buf *out,
                              struct fg_block_summary *ret_summary,
                              struct cmp_merge_tally *ret_tally, struct fg_err *err) fg_must_check;

/*
 * Writes all profiles to one segment. *ret_kept: profiles that are in it; with 0 there is none, and
 * out is empty. Errors as above.
 */
enum fg_code cli_bucket_rewrite(struct cmp_merge *merge, struct fg_buf *out, uint64_t *ret_kept,
                                struct fg_err *err) fg_must_check;

#endif
