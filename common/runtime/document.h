/*
 * Documents in JSON and YAML, read into one kind of tree, jansson's, so that the code that reads
 * lists and maps from them exists once. YAML scalars are strings, whatever they look like; an empty
 * value ("key:") is null.
 *
 * Thread: any; one at a time for each tree.
 */
#ifndef FG_COMMON_RUNTIME_DOCUMENT_H
#define FG_COMMON_RUNTIME_DOCUMENT_H

#include "common/base/err.h"
#include "common/base/slice.h"

#include <jansson.h>

enum { DOCUMENT_DEPTH_MAX = 16 }; /* of nested lists and maps in YAML; ours need four */

/*
 * Parse a text into a tree; release it with json_decref(). name stands for the text in errors.
 * FG_E_INVALID, with name and line: malformed text; duplicate keys; in YAML also aliases, nesting
 * deeper than DOCUMENT_DEPTH_MAX, a NUL, and more than 1 MiB. Empty YAML is null. A tree of JSON
 * may take twenty times the size of the text: the caller limits it.
 */
enum fg_code fg_document_from_json(struct fg_slice text, const char *name, json_t **ret_doc,
                                   struct fg_err *err) fg_must_check;
enum fg_code fg_document_from_yaml(struct fg_slice text, const char *name, json_t **ret_doc,
                                   struct fg_err *err) fg_must_check;

/* Returns the text of a string, borrowed from it; ptr NULL for any other value. */
struct fg_slice fg_document_text(const json_t *value);

/* Returns the text of the member with that name; ptr NULL: it is missing or no string. */
struct fg_slice fg_document_get(const json_t *object, const char *key);

/* Checks that the object has no other keys than the n known ones. FG_E_INVALID: "<what>: unknown
 * key …", with the nearest known key. */
enum fg_code fg_document_check_keys(json_t *object, const char *const *known, size_t n,
                                    const char *what, struct fg_err *err) fg_must_check;

#endif
