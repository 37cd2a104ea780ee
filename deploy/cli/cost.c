#include "deploy/cli/cost.h"

#include "common/base/str.h"

static const double GB_BYTES = 1024.0 * 1024 * 1024;
static const double MONTH_DAYS = 730.0 / 24;
static const double DAY_S = 24 * 3600;
static const double PRICE_MAX = 1e6;

struct cli_cost cli_cost_of(const struct cli_cost_prices *prices, const struct cli_cost_used *used)
{
    double byte_days = (double)used->stored_byte_days + (double)used->stored_byte_seconds / DAY_S;
    struct cli_cost cost = {.gb_months = byte_days / GB_BYTES / MONTH_DAYS};

    cost.storage = cost.gb_months * prices->gb_month;
    cost.writes = (double)used->writes / 1000 * prices->thousand_writes;
    cost.reads = (double)used->reads / 1000 * prices->thousand_reads;
    cost.total = cost.storage + cost.writes + cost.reads;
    if (used->days > 0)
        cost.month = cost.total / (double)used->days * MONTH_DAYS;
    return cost;
}

enum fg_code cli_cost_read_price(const char *option, const char *text, double *price,
                                 struct fg_err *err)
{
    double number;

    if (text == NULL)
        return FG_OK;
    if (!fg_parse_f64(fg_cstr(text), &number) || !(number >= 0 && number <= PRICE_MAX))
        return fg_fail(err, FG_E_INVALID, "%s: \"%s\" is no price in USD", option, text);
    *price = number;
    return FG_OK;
}
