#include "common/model/value_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name; /* in the singular */
    const char *short_name;
    double factor, divisor; /* to what is shown: pprof's numbers, which round in this way */
    const char *shown;
};

/* Time is shown in seconds, memory in bytes. */
static const struct unit units[] = {
    {"nanosecond", "ns", 1, 1e9, "s"},
    {"microsecond", "us", 1e3, 1e9, "s"},
    {"millisecond", "ms", 1e6, 1e9, "s"},
    {"second", "s", 1e9, 1e9, "s"},
    {"minute", "min", 60e9, 1e9, "s"},
    {"hour", "hr", 3600e9, 1e9, "s"},
    {"byte", "b", 1, 1, "B"},
    {"kilobyte", "kb", 1024, 1, "B"},
    {"megabyte", "mb", 1024 * 1024, 1, "B"},
    {"gigabyte", "gb", 1024.0 * 1024 * 1024, 1, "B"},
};

/* Accepts singular, plural and short names, as pprof does. */
static const struct unit *find_unit(struct fg_slice name)
{
    struct fg_slice singular = name;

    if (name.len > 2 && name.ptr[name.len - 1] == 's')
        singular.len--;
    for (size_t i = 0; i < FG_COUNT(units); i++)
        if (fg_slice_is(singular, units[i].name) || fg_slice_is(name, units[i].short_name))
            return &units[i];
    return NULL;
}

void fg_value_text(int64_t value, struct fg_slice unit_name, char text[FG_VALUE_TEXT_BYTES])
{
    const struct unit *unit = find_unit(unit_name);
    int len = snprintf(text, FG_VALUE_TEXT_BYTES, "%.2f",
                       unit == NULL ? (double)value : (double)value * unit->factor / unit->divisor);

    /* Whole numbers have no decimals, as in pprof. */
    if (len > 3 && strcmp(text + len - 3, ".00") == 0)
        text[len -= 3] = '\0';
    if (strcmp(text, "0") != 0 && strcmp(text, "-0") != 0 && unit != NULL)
        (void)snprintf(text + len, FG_VALUE_TEXT_BYTES - (size_t)len, "%s", unit->shown);
    else if (strcmp(text, "-0") == 0)
        memcpy(text, "0", 2);
}

struct scale {
    double factor;
    const char *suffix;
};

/* Largest first; the last is used for all smaller values. */
static const struct scale time_scales[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
static const struct scale byte_scales[] = {
    {0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {1, "B"}};

static void put_scaled(double value, const struct scale *scales, size_t n_scales,
                       struct fg_buf *out)
{
    size_t i = 0;

    while (i + 1 < n_scales && fabs(value) < scales[i].factor)
        i++;
    /* The smallest unit has no fractions. */
    fg_buf_printf(out, i + 1 < n_scales ? "%.2f%s" : "%.0f%s", value / scales[i].factor,
                  scales[i].suffix);
}

void fg_value_scaled(int64_t value, struct fg_slice unit_name, struct fg_buf *out)
{
    const struct unit *unit = find_unit(unit_name);

    if (unit == NULL)
        fg_buf_printf(out, "%lld", (long long)value);
    else if (strcmp(unit->shown, "s") == 0)
        put_scaled((double)value * unit->factor, time_scales, FG_COUNT(time_scales), out);
    else
        put_scaled((double)value * unit->factor, byte_scales, FG_COUNT(byte_scales), out);
}
