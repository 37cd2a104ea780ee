#include "common/cluster/membership/name.h"

/* ASCII by hand: isalnum() depends on the locale of the process. */
static bool is_letter_or_digit(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* A zone may be empty, a name may not; otherwise they have the same rules. They appear in pages,
 * logs and metrics. */
const char *fg_member_zone_fault(struct fg_slice zone)
{
    if (zone.len > FG_MEMBER_NAME_MAX_BYTES)
        return "is longer than 128 bytes";
    for (size_t i = 0; i < zone.len; i++)
        if (!is_letter_or_digit(zone.ptr[i]) &&
            fg_slice_find(FG_LIT("-._"), zone.ptr[i]) == SIZE_MAX)
            return "contains a character other than letters, digits and -._";
    return NULL;
}

const char *fg_member_name_fault(struct fg_slice name)
{
    return name.len == 0 ? "is empty" : fg_member_zone_fault(name);
}
