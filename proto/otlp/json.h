/*
 * The JSON form of an OTLP ExportProfilesServiceRequest into the binary one, so that there is one
 * decoder. In one pass, with memory for the result only, which is at most four times the input.
 *
 * Read are the fields that the decoder knows (fields.h), by either spelling of their names,
 * and by those that 1.8 had for two of them, integers as numbers or strings, null as unset, the
 * last of equal names as protobuf has it; trace and span ids as hex, as OTLP wants them, and as
 * base64 like other bytes: no id's hex is as long as its base64.
 *
 * Unknown fields are ignored, in JSON as in protobuf: the format is in development, and a sender
 * that is newer than we are should not lose its profiles. Only a request of which no field at all
 * is known is refused, since it is something else: traces, most likely.
 */
#ifndef FG_PROTO_OTLP_JSON_H
#define FG_PROTO_OTLP_JSON_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "proto/otlp/version.h"

/*
 * Appends to out, which has a limit of its own, the request in the binary form of the newest
 * version; strings with escapes pass through the arena. *ret_version: FG_OTLP_1_8 if a name is of
 * that version only ("sample", "line"), else FG_OTLP_1_10: 1.9 has the same names. FG_E_DECODE with
 * the byte where it went wrong; FG_E_TOO_LARGE.
 */
enum fg_code fg_otlp_json(struct fg_slice in, struct fg_arena *arena, struct fg_buf *out,
                          enum fg_otlp_version *ret_version, struct fg_err *err) fg_must_check;

#endif
