/*
 * What a tenant costs in an object store: prices times what it used. Pure.
 *
 * The prices are a store's list price, for storage by the month and for requests by the thousand. A
 * month has 730 hours and a gigabyte 2^30 bytes, as stores bill them.
 */
#ifndef FG_DEPLOY_CLI_COST_H
#define FG_DEPLOY_CLI_COST_H

#include "common/base/err.h"
#include "common/base/slice.h"

struct cli_cost_prices {
    double gb_month, thousand_writes, thousand_reads; /* USD */
};

/* S3 Standard in us-east-1, first 50 TB (https://aws.amazon.com/s3/pricing/). */
#define CLI_COST_GB_MONTH        0.023
#define CLI_COST_THOUSAND_WRITES 0.005
#define CLI_COST_THOUSAND_READS  0.0004

/* Sums of some days. */
struct cli_cost_used {
    uint64_t days;
    uint64_t stored_byte_days, stored_byte_seconds; /* added up */
    uint64_t writes, reads;
};

struct cli_cost {
    double gb_months;                     /* stored */
    double storage, writes, reads, total; /* USD */
    double month;                         /* USD in a month at this rate; 0 without days */
};

/* Computes it. */
struct cli_cost cli_cost_of(const struct cli_cost_prices *prices, const struct cli_cost_used *used);

/* Reads a price. FG_E_INVALID: no number from 0 to 10^6; names the option. */
enum fg_code cli_cost_read_price(const char *option, const char *text, double *price,
                                 struct fg_err *err) fg_must_check;

#endif
