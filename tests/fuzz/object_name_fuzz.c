/* A name of an object is read only where the same name is made again; the reading checks that, so
 * what is left to look for is memory. */
#include "common/cluster/manifest/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_adhoc_name adhoc;
    struct fg_query_counts_name counts;
    struct fg_presence_name presence;
    struct fg_usage_name usage;
    struct fg_name name;

    if (fg_name_parse(fg_bytes(data, size), &name))
        fg_assert(size < FG_NAME_MAX_BYTES && strlen(name.tenant) <= FG_TENANT_MAX_BYTES);
    if (fg_name_parse_adhoc(fg_bytes(data, size), &adhoc))
        fg_assert(size < FG_NAME_ADHOC_MAX_BYTES && strlen(adhoc.file) <= FG_ADHOC_FILE_MAX_BYTES &&
                  fg_adhoc_id_is_valid(fg_cstr(adhoc.id)));
    if (fg_name_parse_usage(fg_bytes(data, size), &usage))
        fg_assert(size < FG_NAME_MAX_BYTES && strlen(usage.tenant) <= FG_TENANT_MAX_BYTES);
    if (fg_name_parse_query_counts(fg_bytes(data, size), &counts))
        fg_assert(size < FG_NAME_MAX_BYTES);
    if (fg_name_parse_presence(fg_bytes(data, size), &presence))
        fg_assert(size < FG_NAME_PRESENCE_MAX_BYTES && presence.started_ms >= 0);
    return 0;
}
