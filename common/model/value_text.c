#include "common/model/value_text.h"

#include <stdio.h>
#include <string.h>

struct unit {
    const char *name; /* in the singular */
    const char *short_name;
    double factor, divisor; /* to what is shown: pprof's numbers, which round in this way */
    const char *shown;
};

/* What is measured in time is shown in seconds, memory in bytes. */
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
