#include "common/net/client_run.h"

#include <pthread.h>

struct client_run {
    struct fg_client *client;
    struct fg_client_request request;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool is_over;
};

static void on_done(struct fg_client_request *request)
{
    struct client_run *run = fg_container(request, struct client_run, request);

    (void)pthread_mutex_lock(&run->lock);
    run->is_over = true;
    (void)pthread_cond_signal(&run->ended);
    (void)pthread_mutex_unlock(&run->lock);
}

static void send_request(void *arg)
{
    struct client_run *run = arg;

    fg_client_send(run->client, &run->request);
}

static void close_client(void *arg)
{
    struct client_run *run = arg;

    fg_client_close(run->client);
}

static void wait_for_end(struct client_run *run, struct fg_loop *loop)
{
    fg_assert(pthread_mutex_init(&run->lock, NULL) == 0);
    fg_assert(pthread_cond_init(&run->ended, NULL) == 0);
    fg_loop_call(loop, send_request, run);
    (void)pthread_mutex_lock(&run->lock);
    while (!run->is_over)
        (void)pthread_cond_wait(&run->ended, &run->lock);
    (void)pthread_mutex_unlock(&run->lock);
    fg_loop_call(loop, close_client, run);
    fg_loop_stop(loop);
    (void)pthread_cond_destroy(&run->ended);
    (void)pthread_mutex_destroy(&run->lock);
}

void fg_client_run(struct fg_client_request *request)
{
    struct client_run run = {.request = *request};
    struct fg_loop *loop;

    request->code = fg_loop_try_create("request", &loop, &request->err);
    if (request->code != FG_OK)
        return;
    run.request.done = on_done;
    run.client = fg_client_create(
        &(struct fg_client_config){.loop = loop, .running_max = 1, .waiting_max = 1});
    run.request.code = fg_loop_start(loop, &run.request.err);
    if (run.request.code == FG_OK)
        wait_for_end(&run, loop);
    else
        fg_client_close(run.client); /* its handles: the loop does not run and is this thread's */
    fg_client_destroy(run.client);
    fg_loop_destroy(loop);
    *request = run.request;
}
