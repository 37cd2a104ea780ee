/*
 * Keys: given once, read from files that somebody keeps fresh, or those of a role that a token
 * stands for (AssumeRoleWithWebIdentity of STS, "Query API", version 2011-06-15). Looking for them
 * takes files and requests, so it is a job; the loop takes over what was found.
 */
#include "common/base/str.h"
#include "common/runtime/config.h"
#include "common/runtime/log.h"
#include "common/storage/bucket/s3_impl.h"

#include <errno.h>

enum {
    STS_TRIES = 3,
    ANSWER_MAX_BYTES = 64 * 1024,
    KEY_FILE_MAX_BYTES = 16 * 1024,
};

static const int64_t FILES_EVERY_NS = 30 * FG_SECOND_NS;
static const int64_t AGAIN_NS = 5 * FG_SECOND_NS; /* after a failure */
static const int64_t AHEAD_NS = 5 * FG_MINUTE_NS; /* of the keys' end */
static const int64_t STS_TIMEOUT_NS = 10 * FG_SECOND_NS;
static const int64_t MARGIN_NS = 10 * FG_SECOND_NS; /* clocks differ, and requests take a while */

static void keys_done(struct fg_aws_keys *keys)
{
    free(keys->access);
    free(keys->secret);
    free(keys->token);
    *keys = (struct fg_aws_keys){0};
}

static char *text_of(struct fg_slice text)
{
    char *copy = fg_malloc(text.len + 1);

    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    return copy;
}

/* ---- files ---- */

/* Reads a file of one line, without blanks around it. path "": gives an empty text. */
static enum fg_code read_secret(const char *path, char **ret_text, struct fg_err *err)
{
    struct fg_slice text;
    struct fg_buf file;
    enum fg_code code = FG_OK;

    fg_buf_init(&file, KEY_FILE_MAX_BYTES);
    if (path[0] != '\0')
        code = fg_conf_read_file(path, &file, err);
    text = fg_trim(fg_buf_slice(&file));
    for (size_t i = 0; code == FG_OK && i < text.len; i++)
        if (text.ptr[i] < 0x20 || text.ptr[i] >= 0x7f)
            code = fg_fail(err, FG_E_INVALID, "%s: must contain one line of text", path);
    if (code == FG_OK && path[0] != '\0' && text.len == 0)
        code = fg_fail(err, FG_E_INVALID, "%s: is empty", path);
    if (code == FG_OK)
        *ret_text = text_of(text);
    else
        code = err->code = FG_E_INVALID; /* a file that is missing is no object that is */
    fg_buf_done(&file);
    return code;
}

/* Reads the files again if they have changed; else `changed` stays false. */
static enum fg_code look_in_files(struct fg_s3 *s3, struct fg_err *err)
{
    const struct fg_bucket_s3_config *config = &s3->config;
    const char *const paths[] = {config->access_key_file, config->secret_key_file,
                                 config->session_token_file};
    struct fg_file_version versions[FG_COUNT(paths)];
    struct fg_s3_auth *auth = &s3->auth;
    bool same = true;

    for (size_t i = 0; i < FG_COUNT(paths); i++) {
        versions[i] = fg_file_version(paths[i]);
        same = same && fg_file_version_eq(&versions[i], &auth->versions[i]);
    }
    if (same)
        return FG_OK;
    struct fg_aws_keys keys = {0};
    if (read_secret(paths[0], &keys.access, err) != FG_OK ||
        read_secret(paths[1], &keys.secret, err) != FG_OK ||
        read_secret(paths[2], &keys.token, err) != FG_OK) {
        keys_done(&keys);
        return err->code;
    }
    memcpy(auth->versions, versions, sizeof versions);
    auth->found = keys;
    auth->found_end_wall_ns = INT64_MAX;
    auth->changed = true;
    return FG_OK;
}

/* ---- STS ---- */

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

static void put_parameter(struct fg_buf *out, const char *name, const char *value)
{
    fg_buf_printf(out, "&%s=", name);
    fg_buf_url(out, fg_cstr(value));
}

static enum fg_code write_body(struct fg_s3 *s3, struct fg_buf *out, struct fg_err *err)
{
    const struct fg_bucket_s3_config *config = &s3->config;
    char *token = NULL;

    if (read_secret(config->web_identity_token_file, &token, err) != FG_OK)
        return err->code;
    fg_buf_puts(out, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
    put_parameter(out, "RoleArn", config->role_arn);
    put_parameter(out, "RoleSessionName", config->role_session_name);
    put_parameter(out, "WebIdentityToken", token);
    free(token);
    return FG_OK;
}

/* ret_again: another try may help. */
static enum fg_code read_answer(struct fg_s3 *s3, const struct fg_client_request *http,
                                bool *ret_again, struct fg_err *err)
{
    struct fg_s3_auth *auth = &s3->auth;
    struct fg_aws_error error;

    if (http->code != FG_OK) {
        *err = http->err;
        *ret_again = true;
        return http->code;
    }
    if (http->status == 200)
        return fg_aws_read_role(fg_buf_slice(&http->answer), &auth->found, &auth->found_end_wall_ns,
                                err);
    fg_aws_read_error(fg_buf_slice(&http->answer), &error);
    *ret_again = http->status >= 500 || strcmp(error.code, "IDPCommunicationError") == 0;
    return fg_fail(err, *ret_again ? FG_E_UNAVAILABLE : FG_E_DENIED, "%s responded %u %s: %s",
                   http->url, http->status, error.code, error.message);
}

static enum fg_code ask_sts(struct fg_s3 *s3, const char *url, struct fg_slice body,
                            struct fg_err *err)
{
    static const char *const headers[] = {"Content-Type: application/x-www-form-urlencoded",
                                          "Accept: application/xml", NULL};
    bool again = true;
    enum fg_code code = FG_E_UNAVAILABLE;

    for (unsigned i = 0; i < STS_TRIES && again && code != FG_OK; i++) {
        const struct timespec pause = {.tv_nsec = (long)(100 * FG_MS_NS * i * i)};
        struct ask ask = {.s3 = s3,
                          .http = {.method = "POST",
                                   .url = url,
                                   .headers = headers,
                                   .body = body,
                                   .tls = &s3->tls,
                                   .connect_timeout_ns = s3->config.connect_timeout_ns,
                                   .timeout_ns = STS_TIMEOUT_NS,
                                   .body_max_bytes = ANSWER_MAX_BYTES,
                                   .done = on_answer}};

        (void)nanosleep(&pause, NULL);
        again = false;
        fg_assert(sem_init(&ask.ended, 0, 0) == 0);
        ask.msg.run = on_ask;
        fg_loop_post(s3->loop, &ask.msg);
        while (sem_wait(&ask.ended) != 0)
            fg_assert(errno == EINTR);
        (void)sem_destroy(&ask.ended);
        code = read_answer(s3, &ask.http, &again, err);
        fg_client_clear(&ask.http);
    }
    return code;
}

static enum fg_code look_at_sts(struct fg_s3 *s3, struct fg_err *err)
{
    const char *endpoint = s3->config.sts_endpoint;
    struct fg_buf body;
    char url[512];
    enum fg_code code;

    if (endpoint[0] != '\0')
        (void)snprintf(url, sizeof url, "%s", endpoint);
    else
        (void)snprintf(url, sizeof url, "https://sts.%s.amazonaws.com/", s3->config.region);
    fg_buf_init(&body, SIZE_MAX);
    code = write_body(s3, &body, err);
    if (code == FG_OK)
        code = ask_sts(s3, url, fg_buf_slice(&body), err);
    fg_buf_done(&body);
    if (code != FG_OK)
        return fg_wrap(err, "keys of the role %s", s3->config.role_arn);
    s3->auth.changed = true;
    return FG_OK;
}

/* ---- the loop's side ---- */

static struct fg_s3 *s3_of(struct fg_job *job)
{
    return fg_container(fg_container(job, struct fg_s3_auth, job), struct fg_s3, auth);
}

static enum fg_code look(struct fg_job *job, struct fg_err *err)
{
    struct fg_s3 *s3 = s3_of(job);

    s3->auth.changed = false;
    return s3->auth.kind == S3_AUTH_ROLE ? look_at_sts(s3, err) : look_in_files(s3, err);
}

static void take_over(struct fg_s3_auth *auth)
{
    keys_done(&auth->keys);
    auth->keys = auth->found;
    auth->found = (struct fg_aws_keys){0};
    auth->end_wall_ns = auth->found_end_wall_ns;
    auth->generation++;
    auth->valid = true;
}

static int64_t now_wall_ns(struct fg_s3_auth *auth)
{
    return fg_wall_ns(fg_s3_clock(fg_container(auth, struct fg_s3, auth)));
}

/* Keys are renewed well ahead of their end, and short-lived ones in the middle of their life. */
static int64_t next_look_ns(struct fg_s3_auth *auth)
{
    int64_t left_ns;

    if (auth->end_wall_ns == INT64_MAX)
        return FILES_EVERY_NS;
    left_ns = auth->end_wall_ns - now_wall_ns(auth);
    return FG_MAX(left_ns > 2 * AHEAD_NS ? left_ns - AHEAD_NS : left_ns / 2, FG_SECOND_NS);
}

static bool has_ended(struct fg_s3_auth *auth)
{
    return auth->end_wall_ns != INT64_MAX && now_wall_ns(auth) > auth->end_wall_ns - MARGIN_NS;
}

static void looked(struct fg_job *job)
{
    struct fg_s3 *s3 = s3_of(job);
    struct fg_s3_auth *auth = &s3->auth;
    int64_t now_ns = fg_mono_ns(fg_clock_real());

    auth->looking = false;
    if (job->code == FG_OK && auth->changed)
        take_over(auth);
    if (job->code == FG_OK && has_ended(auth))
        job->code = fg_fail(&job->err, FG_E_DENIED, "the keys from STS are already expired");
    else if (job->code == FG_OK && !auth->valid)
        job->code = fg_fail(&job->err, FG_E_DENIED, "the store rejects the keys in the key files");
    auth->valid = auth->valid && !has_ended(auth);
    auth->next_mono_ns = now_ns + (job->code == FG_OK ? next_look_ns(auth) : AGAIN_NS);
    if (job->code != FG_OK) {
        auth->err = job->err;
        fg_log_warn("keys of the bucket could not be renewed", fg_ls("err", job->err.msg));
    }
    fg_s3_wake_at(s3, auth->next_mono_ns);
    fg_s3_calls_with_keys(s3);
    /* The cause may pass, so the next request tries again. */
    if (auth->kind == S3_AUTH_FILES)
        auth->valid = true;
}

bool fg_s3_auth_ready(struct fg_s3 *s3)
{
    struct fg_s3_auth *auth = &s3->auth;

    if (auth->kind == S3_AUTH_FIXED)
        return true;
    if (has_ended(auth))
        auth->valid = false;
    if (!auth->looking && !s3->closing &&
        (!auth->valid || fg_mono_ns(fg_clock_real()) >= auth->next_mono_ns)) {
        auth->job = (struct fg_job){.home = s3->loop, .run = look, .done = looked};
        /* A lane of its own: uploads that wait for keys must not keep them from coming. */
        auth->looking = true;
        fg_assert(fg_work_submit(s3->work, FG_LANE_QUERY, &auth->job));
    }
    return auth->valid;
}

bool fg_s3_auth_renew(struct fg_s3 *s3, uint64_t generation)
{
    struct fg_s3_auth *auth = &s3->auth;

    if (auth->kind == S3_AUTH_FIXED)
        return false;
    /* Keys that are newer than those of the refused request may be good. */
    if (auth->generation == generation)
        auth->valid = false;
    return true;
}

/* ---- outside ---- */

enum fg_code fg_s3_auth_init(struct fg_s3 *s3, struct fg_err *err)
{
    const struct fg_bucket_s3_config *config = &s3->config;
    struct fg_s3_auth *auth = &s3->auth;

    auth->end_wall_ns = INT64_MAX;
    if (config->access_key[0] != '\0' && config->secret_key[0] != '\0') {
        auth->kind = S3_AUTH_FIXED;
        auth->valid = true;
        auth->keys = (struct fg_aws_keys){text_of(fg_cstr(config->access_key)),
                                          text_of(fg_cstr(config->secret_key)),
                                          text_of(fg_cstr(config->session_token))};
        return FG_OK;
    }
    if (config->access_key_file[0] != '\0' && config->secret_key_file[0] != '\0') {
        auth->kind = S3_AUTH_FILES;
        if (look_in_files(s3, err) != FG_OK)
            return err->code;
        if (!auth->changed)
            return fg_fail(err, FG_E_INVALID, "%s cannot be read", config->access_key_file);
        take_over(auth);
        auth->next_mono_ns = fg_mono_ns(fg_clock_real()) + FILES_EVERY_NS;
        return FG_OK;
    }
    if (config->role_arn[0] != '\0' && config->web_identity_token_file[0] != '\0') {
        auth->kind = S3_AUTH_ROLE;
        return FG_OK;
    }
    return fg_fail(err, FG_E_INVALID,
                   "no keys: set access_key and secret_key, their files, or role_arn and "
                   "web_identity_token_file");
}

void fg_s3_auth_done(struct fg_s3 *s3)
{
    keys_done(&s3->auth.keys);
    keys_done(&s3->auth.found);
}
