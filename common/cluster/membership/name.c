#include "common/cluster/membership/name.h"

static bool is_letter_or_digit(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

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
