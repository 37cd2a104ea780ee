/*
 * Small documents, in JSON or YAML, as one kind of tree (jansson's), so that what reads targets and
 * settings out of them is written once. Scalars of YAML are strings, whatever they look like;
 * nothing
 * ("key:" alone) is null.
 *
 * Refused, FG_E_INVALID with name and line: keys given twice, aliases and other surprises of YAML,
 * nesting deeper than DOC_DEPTH_MAX in YAML, a NUL in a text, YAML of more than a MiB.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_DOC_H
#define FG_DISTRIBUTOR_SCRAPE_DOC_H

#include "common/base/err.h"
#include "common/base/slice.h"

#include <jansson.h>

enum { DOC_DEPTH_MAX = 16 };

/* json_decref() it. name stands for the text in errors. An empty text is null in YAML. JSON costs
 * up to twenty times its size in memory: the caller bounds it. */
enum fg_code dist_doc_from_json(struct fg_slice text, const char *name, json_t **ret_doc,
                                struct fg_err *err) fg_must_check;
enum fg_code dist_doc_from_yaml(struct fg_slice text, const char *name, json_t **ret_doc,
                                struct fg_err *err) fg_must_check;

/* Text of a string, borrowed from it; ptr NULL for anything else. */
struct fg_slice dist_doc_text(const json_t *value);

/* Of the member of that name. */
struct fg_slice dist_doc_get(const json_t *object, const char *key);

/*
 * FG_E_INVALID when the object has a member that is none of these n words: "<what>: unknown key …",
 * with the nearest known one.
 */
enum fg_code dist_doc_check_keys(json_t *object, const char *const *known, size_t n,
                                 const char *what, struct fg_err *err) fg_must_check;

#endif
