/*
 * querier.v1.QuerierService: turns requests into selections and merged results into messages
 * (querier/API.md#methods). Its methods are in api_meta.c (types, labels, series, counts),
 * api_series.c (values over time), api_heatmap.c (single profiles and spans) and api_stacks.c
 * (flame graphs, pprof, comparisons).
 *
 * Thread: the query's worker. Memory: messages are in the query's arena.
 */
#ifndef FG_QUERIER_API_H
#define FG_QUERIER_API_H

#include "common/model/profile_rows.h"
#include "proto/google_v1.pb-c.h"
#include "proto/querier_v1.pb-c.h"
#include "proto/types_v1.pb-c.h"
#include "querier/query.h"

extern const struct qry_endpoint qry_api_endpoints[];
extern const size_t qry_n_api_endpoints;

/* The small services besides querier.v1 (querier/API.md#settings), in api_services.c. */
extern const struct qry_endpoint qry_service_endpoints[];
extern const size_t qry_n_service_endpoints;
/* Those whose bodies are files. */
extern const struct qry_endpoint qry_file_endpoints[];
extern const size_t qry_n_file_endpoints;

/* Returns FG_E_LIMIT: the response needs more memory than one may use. */
enum fg_code qry_api_too_large(struct fg_err *err);

/*
 * Makes a string of a message. Clients refuse a whole response for one string that is not UTF-8,
 * and C strings end at a NUL, so both kinds of bytes are replaced by '?'. NULL: the arena is full.
 */
char *qry_api_text(struct fg_arena *arena, struct fg_slice from);

/* Makes an array of pointers to n initialised messages. NULL: the arena is full. */
void *qry_api_messages(struct fg_arena *arena, const ProtobufCMessageDescriptor *type, size_t n);

/* Makes the messages of a label set. NULL: the arena is full. */
Types__V1__LabelPair **qry_api_pairs(struct fg_arena *arena, const struct fg_labels *labels);

/* Makes the messages of a group's labels, in the order of group_by, without those that it lacks.
 * NULL: the arena is full. */
Types__V1__LabelPair **qry_api_group_pairs(struct fg_arena *arena, const struct fg_labels *labels,
                                           char *const *group_by, size_t n_group_by, size_t *ret_n);

/* Returns the id of a profile as a UUID, as profile_id_selector takes it. NULL: the arena is full.
 */
char *qry_api_uuid(struct fg_arena *arena, struct fg_id id);

/* Makes the messages of some rows, with the labels that rows are not grouped by. NULL: the arena is
 * full. */
Types__V1__Exemplar **qry_api_exemplars(struct fg_arena *arena, const struct fg_profile_rows *rows,
                                        const struct fg_profile_row *const *picked, size_t n);

/* Answer the methods: fill query->body. `message` is of the request's type. */
enum fg_code qry_api_profile_types(struct qry_query *query, const ProtobufCMessage *message,
                                   struct fg_err *err);
enum fg_code qry_api_label_names(struct qry_query *query, const ProtobufCMessage *message,
                                 struct fg_err *err);
enum fg_code qry_api_label_values(struct qry_query *query, const ProtobufCMessage *message,
                                  struct fg_err *err);
enum fg_code qry_api_series(struct qry_query *query, const ProtobufCMessage *message,
                            struct fg_err *err);
enum fg_code qry_api_select_merge_stacktraces(struct qry_query *query,
                                              const ProtobufCMessage *message, struct fg_err *err);
enum fg_code qry_api_select_merge_span_profile(struct qry_query *query,
                                               const ProtobufCMessage *message, struct fg_err *err);
enum fg_code qry_api_select_merge_profile(struct qry_query *query, const ProtobufCMessage *message,
                                          struct fg_err *err);
enum fg_code qry_api_select_series(struct qry_query *query, const ProtobufCMessage *message,
                                   struct fg_err *err);
enum fg_code qry_api_select_heatmap(struct qry_query *query, const ProtobufCMessage *message,
                                    struct fg_err *err);
enum fg_code qry_api_diff_method(struct qry_query *query, const ProtobufCMessage *message,
                                 struct fg_err *err);
enum fg_code qry_api_profile_stats(struct qry_query *query, const ProtobufCMessage *message,
                                   struct fg_err *err);
enum fg_code qry_api_analyze_query(struct qry_query *query, const ProtobufCMessage *message,
                                   struct fg_err *err);

#endif
