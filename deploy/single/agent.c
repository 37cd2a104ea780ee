#include "deploy/single/agent.h"

#include "common/base/time.h"

enum {
    WHERE_MAX_BYTES = 256,      /* of a sentence that has to fit into an error */
    BODY_MAX_BYTES = 64 * 1024, /* queries have a few hundred */
};

const struct ing_segments_settings single_agent_segments = {
    /* Dictionaries end with each cut, so the bounds are those of a server: more cuts would define
     * stacks again and again, fewer would keep those that nobody needs. */
    .cut_bytes = UINT64_C(64) << 20, .grace_ns = FG_MINUTE_NS, .linger_ns = 10 * FG_MINUTE_NS,
    .open_max_ns = 2 * FG_HOUR_NS,   .evict_after_ns = 0,      .poll_ns = 15 * FG_SECOND_NS,
};

const struct fg_program_default single_agent_defaults[] = {
    /* An agent is there for the programs next to it: its targets get their profiles only. */
    {"self_profiling", "enabled", "false"},
    {"", "memory_max_bytes", "128MiB"},
    /* Not its usual part of memory: an upload of distributor.body_max_bytes has to be taken. */
    {"", "body_memory_max_bytes", "32MiB"},
    /* Per processor, they would take the more memory the larger a node is, for the same load. */
    {"", "loops", "1"},
    {"", "workers", "2"},
    {"ingester", "workers", "1"},
    {"ingester", "query_workers", "1"},
    /* One is read again when a profile that names it is sent; pushes need only the newest. */
    {"ingester", "dictionary_max_bytes", "16MiB"},
    /* The store is read once, in the order of the queue. */
    {"ingester", "store_cache_bytes", "4MiB"},
    {"ingester", "store_write_buffer_bytes", "2MiB"},
    {"ingester", "store_wal_max_bytes", "32MiB"},
    {"distributor", "definition_cache_max", "200000"},
    {"distributor", "forward_stacks_max", "100000"},
    {"distributor", "push_queue_max_bytes", "8MiB"},
};
const size_t single_agent_n_defaults = FG_COUNT(single_agent_defaults);

enum fg_code single_agent_check(const struct ing_forward_targets *targets, struct fg_err *err)
{
    for (unsigned i = 0; i < targets->n; i++)
        if (targets->items[i].since_ns != 0)
            return fg_fail(
                err, FG_E_INVALID,
                "target %s: since: an agent keeps nothing of the past that it could send",
                targets->items[i].settings.name);
    if (targets->n > 0)
        return FG_OK;
    return fg_fail(err, FG_E_INVALID,
                   "an agent keeps nothing, so it needs somebody to forward to. Add to the "
                   "settings, with the address of your server: "
                   "forward: {targets: [{name: central, url: 'https://profiles.example'}]}");
}

static void refuse(struct fg_http_request *req, void *arg)
{
    const struct ing_forward_targets *targets = arg;
    const struct ing_target_settings *first = &targets->items[0].settings;
    struct fg_err err;

    (void)fg_fail(&err, FG_E_NOT_FOUND,
                  "this is an agent: it keeps no profiles, answers no queries and has no pages. "
                  "Ask the server that it forwards to: %.*s, %.*s",
                  WHERE_MAX_BYTES / 2, first->name, WHERE_MAX_BYTES, first->url);
    fg_http_respond_error(req, &err);
}

void single_agent_routes(struct ing_forward_targets *targets, struct fg_http_server *server)
{
    fg_http_server_route(server, &(struct fg_http_route){
                                     .methods = FG_HTTP_GET | FG_HTTP_POST | FG_HTTP_PUT |
                                                FG_HTTP_DELETE | FG_HTTP_OPTIONS | FG_HTTP_OTHER,
                                     .path = "/",
                                     .prefix = true,
                                     .body_max_bytes = BODY_MAX_BYTES,
                                     .handler = refuse,
                                     .arg = targets,
                                     .name = "not_here",
                                     .kind = FG_HTTP_READS,
                                     .scopes = FG_SCOPE_KNOWN,
                                 });
}
