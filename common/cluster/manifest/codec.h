/* Encodes and decodes the fields that both kinds of manifest have. */
#ifndef FG_COMMON_CLUSTER_MANIFEST_CODEC_H
#define FG_COMMON_CLUSTER_MANIFEST_CODEC_H

#include "common/base/envelope.h"
#include "common/base/hash.h"
#include "common/base/id_codec.h"
#include "common/cluster/manifest/l0.h"

/* Write and read two times; `to` is not before `from`. */
void fg_manifest_put_span(struct fg_buf *out, int64_t from, int64_t to);
void fg_manifest_get_span(struct fg_cur *cur, int64_t *ret_from, int64_t *ret_to);

/* Write and read the identity of a segment. */
void fg_manifest_put_segment_id(struct fg_buf *out, const struct fg_segment_id *id);
struct fg_segment_id fg_manifest_get_segment_id(struct fg_cur *cur);

#endif
