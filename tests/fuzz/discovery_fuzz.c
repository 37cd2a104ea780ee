/* A discovery document is parsed or refused; only URLs that may be called come out of it. */
#include "common/access/jwt/discovery.h"

static void look(const char *url)
{
    fg_assert(url == NULL || fg_access_url_fault(fg_cstr(url)) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_arena *arena = fg_arena_create(FG_DISCOVERY_ARENA_BYTES);
    struct fg_discovery discovery;
    struct fg_err err;

    (void)!fg_access_url_same_origin(fg_bytes(data, size), FG_LIT("https://i"));
    if (size <= FG_DISCOVERY_MAX_BYTES &&
        fg_discovery_parse(fg_bytes(data, size), "https://i", arena, &discovery, &err) == FG_OK) {
        fg_assert(discovery.keys != NULL);
        look(discovery.keys);
        look(discovery.authorization);
        look(discovery.token);
        look(discovery.end_session);
        look(discovery.device);
    }
    fg_arena_destroy(arena);
    return 0;
}
