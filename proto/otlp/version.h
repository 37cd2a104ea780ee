/* Releases of OTLP profiles. */
#ifndef FG_PROTO_OTLP_VERSION_H
#define FG_PROTO_OTLP_VERSION_H

/* Releases of opentelemetry-proto that number the fields of a request differently (dialect.h). */
enum fg_otlp_version { FG_OTLP_ANY, FG_OTLP_1_8, FG_OTLP_1_9, FG_OTLP_1_10 };

#endif
