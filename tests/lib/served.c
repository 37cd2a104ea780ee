#include "tests/lib/served.h"

enum { BODIES_BYTES = 64 * 1024 * 1024, ANSWER_MAX_BYTES = 16 * 1024 * 1024 };

void served_open(struct served *served, const struct fg_lane_config lanes[FG_LANES])
{
    served_open_guarded(served, lanes, NULL);
}

void served_open_guarded(struct served *served, const struct fg_lane_config lanes[FG_LANES],
                         const struct fg_http_guard *guard)
{
    const struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;
    struct fg_err err;

    fg_budget_init(&served->budget, BODIES_BYTES);
    fg_buf_init(&served->answer, ANSWER_MAX_BYTES);
    served->registry = fg_registry_create();
    fg_assert(fg_work_create("test", lanes, &served->work, &err) == FG_OK);
    served->loop = fg_loop_create("http-0");
    fg_assert(fg_loop_start(served->loop, &err) == FG_OK);
    served->server =
        fg_http_server_create(&config, &(struct fg_http_lent){.bodies = &served->budget,
                                                              .work = served->work,
                                                              .registry = served->registry,
                                                              .guard = guard});
}

void served_start(struct served *served)
{
    struct fg_err err;

    fg_assert(fg_http_server_start(served->server, "127.0.0.1:0", &served->loop, 1, &err) == FG_OK);
}

unsigned served_ask(struct served *served, const char *request, const char *body)
{
    return http_ask(fg_http_server_port(served->server), request, body, &served->answer);
}

void served_stop(struct served *served)
{
    fg_http_server_stop(served->server);
    fg_http_server_destroy(served->server);
    fg_work_destroy(served->work);
    fg_loop_stop(served->loop);
    fg_loop_destroy(served->loop);
}

void served_close(struct served *served)
{
    fg_registry_destroy(served->registry);
    fg_buf_done(&served->answer);
}
