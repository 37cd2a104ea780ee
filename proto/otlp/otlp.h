/*
 * OTLP profiles (opentelemetry.proto.collector.profiles.v1development, distributor/API.md#otlp)
 * into batches: one for each service of each profile of the request. The profiles share a
 * dictionary, which is looked through once; a batch costs what it uses of it (dict.h).
 *
 * The decoder rejects a profile that is wrong and goes on with the others: OTLP's partial success.
 * It refuses the whole request if it cannot read the request or its dictionary, or if nothing of it
 * is accepted; the error is then that of the first profile. It drops and counts a sample that
 * refers to a missing entry, if other samples of the profile stay. A profile is wrong if a text is
 * not UTF-8, it has no sample type, a sum exceeds 64 bits, or it exceeds a limit.
 *
 * What is made of a profile:
 *
 *   service_name  the sample's attribute service.name, which is then no label of the sample's;
 *                 else the resource's; else "unknown_service:" and its process.executable.name;
 *                 else "unknown_service"
 *   labels        __otel__="true"; attributes of the resource, then of the scope, the first of
 *                 equal names; of samples those of its attributes. Attributes are labels when they
 *                 are text, or integers, or an array of one of these
 *   type          samples/count by cpu/nanoseconds becomes process_cpu:cpu:nanoseconds, values
 *                 times the period; others stay, and the period's type is __name__
 *   value         the sum of the sample's values; without values the number of its timestamps
 *   time          0 is the upload's; a duration of 0 is the upload's, or ten seconds
 *
 * We keep data that Pyroscope refuses or loses: a type without a period is its own __name__
 * ("events:events:count::"); several values with a period are summed; text and keys may be indexes
 * into the dictionary; service.name is found at any position; a sample without value and time is
 * dropped alone, and counted; a frame without name and address leaves its stack (and is counted as
 * a dropped location) but not its sample; build ids other than GNU's are taken where that is
 * missing; requests without profiles are fine. Frames that have a name lose their address, which
 * names the start of one process; frames without keep it, with the addresses of their mapping.
 *
 * Releases 1.8, 1.9 and 1.10 of opentelemetry-proto are read (dialect.h). JSON: json.h.
 */
#ifndef FG_PROTO_OTLP_OTLP_H
#define FG_PROTO_OTLP_OTLP_H

#include "proto/builder/builder.h"
#include "proto/otlp/version.h"

enum fg_otlp_form { FG_OTLP_PROTOBUF, FG_OTLP_JSON };

/*
 * upload.labels: for all profiles; they win over attributes. May be none.
 * version: FG_OTLP_ANY finds the version from the request; otherwise a request in protobuf is read
 * as one of this version.
 */
struct fg_otlp_request {
    struct fg_upload upload;
    enum fg_otlp_form form;
    enum fg_otlp_version version;
};

struct fg_otlp_result {
    enum fg_otlp_version version; /* of the request, or the oldest that it may be of */
    /* Profiles, whether there was anything in them or not. One of which a part was denied, or is
     * beyond a limit, is rejected. */
    uint64_t accepted, rejected;
    char message[FG_ERR_MSG_MAX_BYTES]; /* why the first was rejected */
};

/*
 * in: an ExportProfilesServiceRequest, uncompressed. The batches' memory is in the arena, one after
 * the other in the same. The sink keeps the batches that it got before an error. If the sink
 * returns FG_E_INVALID (a profile is too old, for example), that profile is rejected; FG_E_DENIED
 * and FG_E_LIMIT reject a batch, and the profile's other services are decoded; other errors of the
 * sink end the decoding.
 */
enum fg_code fg_otlp_decode(struct fg_slice in, const struct fg_otlp_request *request,
                            struct fg_arena *arena, fg_batch_sink sink, void *arg,
                            struct fg_otlp_result *ret_result, struct fg_decode_counts *counts,
                            struct fg_err *err) fg_must_check;

#endif
