/*
 * Which release of OTLP profiles a request is written in.
 *
 * The package name is opentelemetry.proto.profiles.v1development in all of them, and so are the
 * paths that requests arrive at, but release 1.10 renumbered the fields of Sample:
 *
 *                    1.8, 1.9    1.10
 *     stack_index       1          1       a varint
 *     values            2          4       a list of varints
 *     attributes        3          2       a list of varints
 *     link_index        4          3       a varint
 *     timestamps        5          5       a list of fixed64
 *
 * Everything else that we read has the same number in all of them. 1.8 has its Profile's
 * profile_id as field 8; later releases have it as field 7, and a varint as field 8.
 *
 * The version is decided once for a request, from the wire types in all of its samples, before any
 * sample is decoded:
 *
 *  1. Only a list is length-delimited, or given more than once in a sample: field 3 as a list means
 *     1.8 or 1.9, field 4 as a list means 1.10.
 *  2. A sender that packs its lists, as all generated code does, writes a varint only for an index:
 *     field 4 as a varint means 1.8 or 1.9, field 3 as a varint means 1.10. A sender that packs
 *     nothing, which is legal, writes a list of one in the same way: its varints say nothing.
 *  3. In every version a sample has values or timestamps: without timestamps, field 2 alone means
 *     1.8 or 1.9. If nothing is packed, so does field 2 without field 4, and field 4 without field
 *     2 means 1.10.
 *  4. Samples that contradict each other by these rules are an error.
 *  5. If no sample decides: a Profile with field 8 as bytes means 1.8. Samples whose only lists are
 *     timestamps and field 2, with as many entries of one as of the other in every such sample,
 *     mean that field 2 has values, and 1.9. Otherwise it is the newest.
 *
 * JSON names its fields, so nothing has to be decided there; see json.h.
 */
#ifndef FG_PROTO_OTLP_DIALECT_H
#define FG_PROTO_OTLP_DIALECT_H

#include "common/base/cursor.h"
#include "common/base/err.h"
#include "proto/otlp/fields.h"
#include "proto/otlp/version.h"

/*
 * Checks that an ExportProfilesServiceRequest can be read down to its profiles, and finds its
 * version, in one pass over its samples. A profile or sample that cannot be read says nothing: the
 * decoder rejects it. wanted: the version, if it is known; FG_OTLP_ANY finds it. FG_E_DECODE: the
 * request cannot be read, or two samples are of different versions (the error names them).
 */
enum fg_code fg_otlp_detect(struct fg_slice request, enum fg_otlp_version wanted,
                            enum fg_otlp_version *ret_version, struct fg_err *err) fg_must_check;

/* Returns the tag that a field of a Sample has in the newest version (OTLP_SAMPLE_…). */
static inline uint64_t fg_otlp_sample_tag(enum fg_otlp_version version, uint64_t tag)
{
    if (version == FG_OTLP_1_10)
        return tag;
    switch (tag >> 3) {
    case OTLP_OLD_SAMPLE_VALUES:
        return FG_PB_TAG(OTLP_SAMPLE_VALUES, tag & 7);
    case OTLP_OLD_SAMPLE_ATTRIBUTES:
        return FG_PB_TAG(OTLP_SAMPLE_ATTRIBUTES, tag & 7);
    case OTLP_OLD_SAMPLE_LINK:
        return FG_PB_TAG(OTLP_SAMPLE_LINK, tag & 7);
    default:
        return tag;
    }
}

#endif
