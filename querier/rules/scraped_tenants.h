/*
 * The tenants whose metrics of recording rules somebody scrapes: an object in the bucket,
 * rules/scraped, so that queriers which are started, or which take over from another one, know
 * whose rules to evaluate. Each tenant has the time of a scrape, at most RULE_RENEW_NS older than
 * its last one.
 *
 * Thread: any that may wait for the bucket. Memory: the arena of the caller.
 * Errors: those of common/storage/bucket/message_object.h.
 */
#ifndef FG_QUERIER_RULES_SCRAPED_TENANTS_H
#define FG_QUERIER_RULES_SCRAPED_TENANTS_H

#include "common/base/arena.h"
#include "common/storage/bucket/bucket.h"
#include "proto/inner.pb-c.h"
#include "querier/rules/rule_schedule_core.h"

struct qry_scraped_tenants {
    struct fg_bucket *bucket;
    struct fg_arena *arena;
    int64_t deadline_mono_ns;
};

/* Reads the object as it is stored: qry_scraped_tenant_is_current() says which tenants count. */
enum fg_code qry_scraped_tenants_read(const struct qry_scraped_tenants *object,
                                      Fg__Inner__ScrapedTenants **ret_tenants,
                                      struct fg_err *err) fg_must_check;

/* Returns whether a stored tenant counts: its name is one, and it was scraped in the last
 * RULE_SCRAPED_NS. Clocks differ, so the time may be later than now_ns, by RULE_SCRAPED_NS at most:
 * one from further ahead would not lapse. */
bool qry_scraped_tenant_is_current(const Fg__Inner__ScrapedTenant *tenant, int64_t now_ns);

/* Records the scraped_ns of tenants, sorted by name, and removes those that do not count. Of more
 * than RULE_TENANTS_MAX tenants those that are on record stay. */
enum fg_code qry_scraped_tenants_record(const struct qry_scraped_tenants *object,
                                        const struct qry_rule_tenant *tenants, size_t n,
                                        int64_t now_ns, struct fg_err *err) fg_must_check;

#endif
