#include "ingester/damage.h"

#include "common/runtime/log.h"

#include <stdarg.h>

void ing_damage_repaired(struct ing_damage *damage, const char *format, ...)
{
    char text[DAMAGE_TEXT_MAX_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    damage->repaired++;
    fg_log_warn("damaged head record repaired", fg_ls("record", text));
}

void ing_damage_set_aside(struct ing_damage *damage, const char *format, ...)
{
    char text[DAMAGE_TEXT_MAX_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* The first is shown to operators: those after it often follow from it. */
    if (damage->set_aside++ == 0)
        memcpy(damage->first, text, sizeof text);
    fg_log_error("damaged head record set aside", fg_ls("record", text));
}
