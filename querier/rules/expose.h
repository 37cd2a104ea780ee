/*
 * Metrics of recording rules as Prometheus text (0.0.4): the values of a minute, each with the time
 * at which the minute ended, and what is to say about each rule (querier/API.md#metrics).
 *
 * Pure. Thread: any.
 */
#ifndef FG_QUERIER_RULES_EXPOSE_H
#define FG_QUERIER_RULES_EXPOSE_H

#include "querier/rules/evaluate.h"

/* A rule, and what came of it in the minute. All borrowed. */
struct qry_exposed_rule {
    const Settings__V1__RecordingRule *message;
    const struct qry_rule *rule;          /* NULL: it cannot be read */
    const struct qry_rule_values *values; /* NULL: there are none */
    const char *error;                    /* then: why; NULL: none */
};

/* Appends the text. The rules are sorted by their metric names, since a metric's lines have to be
 * together. minute_ns: the minute's begin. out->full: it did not fit. */
void qry_expose(const struct qry_exposed_rule *rules, size_t n, int64_t minute_ns,
                struct fg_buf *out);

/* Appends a number, with as many digits as it takes to read it back. */
void qry_expose_number(double number, struct fg_buf *out);

/* Appends the text of a label: escaped, UTF-8 (other bytes become '?'), and if it is very long cut,
 * with a hash of all of it at the end. */
void qry_expose_text(struct fg_slice text, struct fg_buf *out);

#endif
