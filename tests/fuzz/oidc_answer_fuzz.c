/* An answer of a provider's token endpoint, and a path to return to, are taken or refused. The
 * first byte says the status. */
#include "common/access/people/oidc_core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned statuses[] = {200, 400, 500, 0};
    struct fg_arena *arena = fg_arena_create(256 * 1024);
    struct fg_slice in = fg_slice_sub(fg_bytes(data, size), 1, size), path, token;
    struct fg_err err;

    if (size > 0 &&
        fg_oidc_id_token(statuses[data[0] % FG_COUNT(statuses)], in, arena, &token, &err) == FG_OK)
        fg_assert(data[0] % FG_COUNT(statuses) == 0 && fg_oidc_name(in, arena).ptr != NULL);
    path = fg_oidc_return_path(in);
    fg_assert(path.ptr[0] == '/' && path.len <= FG_LOGIN_RETURN_MAX_BYTES);
    for (size_t i = 0; i < path.len; i++)
        fg_assert(path.ptr[i] > ' ' && path.ptr[i] != '\\' && !(i == 1 && path.ptr[i] == '/'));
    fg_arena_destroy(arena);
    return 0;
}
