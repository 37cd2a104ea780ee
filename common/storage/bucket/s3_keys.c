/* The keys for the store. Looking for them takes files and requests, so it is a job; the loop takes
 * over what was found. */
#include "common/storage/bucket/s3_impl.h"

#include <errno.h>

/* ---- requests to STS: sent by the loop, while the worker waits ---- */

struct ask {
    struct fg_client_request http;
    struct fg_s3 *s3;
    struct fg_msg msg;
    sem_t ended;
};

static void on_answer(struct fg_client_request *http)
{
    fg_assert(sem_post(&fg_container(http, struct ask, http)->ended) == 0);
}

static void on_ask(struct fg_msg *msg)
{
    struct ask *ask = fg_container(msg, struct ask, msg);

    fg_client_send(ask->s3->client, &ask->http);
}

static void ask_sts(void *arg, struct fg_client_request *http)
{
    struct ask ask = {.http = *http, .s3 = arg, .msg.run = on_ask};

    ask.http.done = on_answer;
    fg_assert(sem_init(&ask.ended, 0, 0) == 0);
    fg_loop_post(ask.s3->loop, &ask.msg);
    while (sem_wait(&ask.ended) != 0)
        fg_assert(errno == EINTR);
    (void)sem_destroy(&ask.ended);
    *http = ask.http;
}

/* ---- the job ---- */

static struct fg_s3 *s3_of(struct fg_job *job)
{
    return fg_container(fg_container(job, struct fg_s3_auth, job), struct fg_s3, auth);
}

static enum fg_code renew_keys(struct fg_job *job, struct fg_err *err)
{
    return fg_aws_credentials_look(&s3_of(job)->auth.credentials, err);
}

static void looked(struct fg_job *job)
{
    struct fg_s3 *s3 = s3_of(job);
    struct fg_aws_credentials *credentials = &s3->auth.credentials;
    bool usable = fg_aws_credentials_looked(credentials, job->code, &job->err);

    s3->auth.looking = false;
    fg_s3_wake_at(s3, credentials->next_mono_ns);
    fg_s3_calls_with_keys(s3, usable);
}

bool fg_s3_auth_ready(struct fg_s3 *s3)
{
    struct fg_s3_auth *auth = &s3->auth;

    if (!auth->looking && !s3->closing && fg_aws_credentials_due(&auth->credentials)) {
        auth->job = (struct fg_job){.home = s3->loop, .run = renew_keys, .done = looked};
        /* A lane of its own: uploads that wait for keys must not keep them from coming. */
        auth->looking = true;
        fg_assert(fg_work_submit(s3->work, FG_LANE_QUERY, &auth->job));
    }
    return fg_aws_credentials_valid(&auth->credentials);
}

enum fg_code fg_s3_auth_init(struct fg_s3 *s3, struct fg_err *err)
{
    return fg_aws_credentials_init(
        &s3->auth.credentials,
        &(struct fg_aws_credentials_config){.sources = &s3->config.keys,
                                            .region = s3->config.region,
                                            .user = "the bucket",
                                            .tls = &s3->tls,
                                            .connect_timeout_ns = s3->config.connect_timeout_ns,
                                            .clock = fg_s3_clock(s3),
                                            .ask = ask_sts,
                                            .arg = s3},
        err);
}
