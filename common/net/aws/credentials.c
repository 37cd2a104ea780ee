/* STS: AssumeRoleWithWebIdentity of the "Query API", version 2011-06-15. */
#include "common/net/aws/credentials.h"

#include "common/base/str.h"
#include "common/net/aws/answer.h"
#include "common/net/aws/endpoint.h"
#include "common/runtime/config.h"
#include "common/runtime/log.h"

#include <openssl/crypto.h>

enum {
    STS_TRIES = 3,                  /* a fault of seconds; after it AGAIN_NS */
    ANSWER_MAX_BYTES = 64 * 1024,   /* the answer of AssumeRoleWithWebIdentity has about 2 KiB */
    KEY_FILE_MAX_BYTES = 32 * 1024, /* STS takes tokens of 20,000 bytes */
    URL_MAX_BYTES = 512,
};

static const int64_t FILES_EVERY_NS = 30 * FG_SECOND_NS; /* rotated keys overlap for minutes */
static const int64_t AGAIN_NS = 5 * FG_SECOND_NS;        /* after a failure, while keys are valid */
static const int64_t PAUSE_NS = FG_SECOND_NS;            /* after STS gave none */
static const int64_t AHEAD_NS = 5 * FG_MINUTE_NS;        /* of the keys' end */
static const int64_t STS_TIMEOUT_NS = 10 * FG_SECOND_NS;
static const int64_t MARGIN_NS = 10 * FG_SECOND_NS; /* clocks differ, and requests take a while */

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
    if (code == FG_OK && file.full)
        code = fg_fail(err, FG_E_INVALID, "%s: is too large for a key or a token", path);
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
    if (file.cap > 0)
        OPENSSL_cleanse(file.ptr, file.cap);
    fg_buf_done(&file);
    return code;
}

/* Reads the files again if they have changed; else `changed` stays false. */
static enum fg_code look_in_files(struct fg_aws_credentials *credentials, struct fg_err *err)
{
    const struct fg_aws_sources *sources = credentials->config.sources;
    const char *const paths[FG_AWS_KEY_FILES] = {sources->access_key_file, sources->secret_key_file,
                                                 sources->session_token_file};
    struct fg_file_version versions[FG_AWS_KEY_FILES];
    struct fg_aws_keys keys = {0};
    bool same = true;

    for (size_t i = 0; i < FG_AWS_KEY_FILES; i++) {
        versions[i] = fg_file_version(paths[i]);
        same = same && fg_file_version_eq(&versions[i], &credentials->found.versions[i]);
    }
    if (same)
        return FG_OK;
    if (read_secret(paths[0], &keys.access, err) != FG_OK ||
        read_secret(paths[1], &keys.secret, err) != FG_OK ||
        read_secret(paths[2], &keys.token, err) != FG_OK) {
        fg_aws_keys_done(&keys);
        return err->code;
    }
    memcpy(credentials->found.versions, versions, sizeof versions);
    credentials->found.keys = keys;
    credentials->found.end_wall_ns = INT64_MAX;
    credentials->found.changed = true;
    return FG_OK;
}

/* ---- STS ---- */

static void put_parameter(struct fg_buf *out, const char *name, const char *value)
{
    fg_buf_printf(out, "&%s=", name);
    fg_buf_url(out, fg_cstr(value));
}

static enum fg_code write_body(const struct fg_aws_sources *sources, struct fg_buf *out,
                               struct fg_err *err)
{
    char *token = NULL;

    if (read_secret(sources->web_identity_token_file, &token, err) != FG_OK)
        return err->code;
    fg_buf_puts(out, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
    put_parameter(out, "RoleArn", sources->role_arn);
    put_parameter(out, "RoleSessionName", sources->role_session_name);
    put_parameter(out, "WebIdentityToken", token);
    OPENSSL_cleanse(token, strlen(token));
    free(token);
    return FG_OK;
}

/* ret_again: another try may help. */
static enum fg_code read_answer(struct fg_aws_credentials *credentials,
                                const struct fg_client_request *http, bool *ret_again,
                                struct fg_err *err)
{
    struct fg_aws_error error;

    if (http->code != FG_OK) {
        *err = http->err;
        *ret_again = true;
        return http->code;
    }
    if (http->status == 200)
        return fg_aws_read_role(fg_buf_slice(&http->answer), &credentials->found.keys,
                                &credentials->found.end_wall_ns, err);
    fg_aws_read_error(fg_buf_slice(&http->answer), &error);
    *ret_again = http->status >= 500 || strcmp(error.code, "IDPCommunicationError") == 0;
    return fg_fail(err, *ret_again ? FG_E_UNAVAILABLE : FG_E_DENIED, "%s responded %u %s: %s",
                   http->url, http->status, error.code, error.message);
}

static enum fg_code ask_sts(struct fg_aws_credentials *credentials, const char *url,
                            struct fg_slice body, struct fg_err *err)
{
    static const char *const headers[] = {"Content-Type: application/x-www-form-urlencoded",
                                          "Accept: application/xml", NULL};
    const struct fg_aws_credentials_config *config = &credentials->config;
    bool again = true;
    enum fg_code code = FG_E_UNAVAILABLE;

    for (unsigned i = 0; i < STS_TRIES && again && code != FG_OK; i++) {
        const struct timespec pause = {.tv_nsec = (long)(100 * FG_MS_NS * i * i)};
        struct fg_client_request http = {.method = "POST",
                                         .url = url,
                                         .headers = headers,
                                         .body = body,
                                         .tls = config->tls,
                                         .connect_timeout_ns = config->connect_timeout_ns,
                                         .timeout_ns = STS_TIMEOUT_NS,
                                         .body_max_bytes = ANSWER_MAX_BYTES};

        (void)nanosleep(&pause, NULL);
        again = false;
        config->ask(config->arg, &http);
        code = read_answer(credentials, &http, &again, err);
        if (http.answer.len > 0) /* it has keys */
            OPENSSL_cleanse(http.answer.ptr, http.answer.len);
        fg_client_clear(&http);
    }
    return code;
}

static enum fg_code look_at_sts(struct fg_aws_credentials *credentials, struct fg_err *err)
{
    const struct fg_aws_credentials_config *config = &credentials->config;
    struct fg_buf body;
    char url[URL_MAX_BYTES], aws[FG_AWS_ENDPOINT_BYTES];
    enum fg_code code;

    fg_aws_endpoint("sts", config->region, aws);
    if (config->sources->sts_endpoint[0] != '\0')
        (void)snprintf(url, sizeof url, "%s", config->sources->sts_endpoint);
    else
        (void)snprintf(url, sizeof url, "%s/", aws);
    fg_buf_init(&body, SIZE_MAX);
    code = write_body(config->sources, &body, err);
    if (code == FG_OK)
        code = ask_sts(credentials, url, fg_buf_slice(&body), err);
    if (body.len > 0)
        OPENSSL_cleanse(body.ptr, body.len);
    fg_buf_done(&body);
    if (code != FG_OK)
        return fg_wrap(err, "keys of the role %s", config->sources->role_arn);
    credentials->found.changed = true;
    return FG_OK;
}

/* ---- the owner's side ---- */

static int64_t now_mono_ns(const struct fg_aws_credentials *credentials)
{
    return fg_mono_ns(credentials->config.clock);
}

static bool has_ended(const struct fg_aws_credentials *credentials)
{
    return credentials->end_wall_ns != INT64_MAX &&
           fg_wall_ns(credentials->config.clock) > credentials->end_wall_ns - MARGIN_NS;
}

static void take_over(struct fg_aws_credentials *credentials)
{
    fg_aws_keys_done(&credentials->keys);
    credentials->keys = credentials->found.keys;
    credentials->found.keys = (struct fg_aws_keys){0};
    credentials->end_wall_ns = credentials->found.end_wall_ns;
    credentials->generation++;
    credentials->good = true;
}

/* Keys are renewed well ahead of their end, and short-lived ones in the middle of their life. */
static int64_t next_look_ns(const struct fg_aws_credentials *credentials)
{
    int64_t left_ns;

    if (credentials->end_wall_ns == INT64_MAX)
        return FILES_EVERY_NS;
    left_ns = credentials->end_wall_ns - fg_wall_ns(credentials->config.clock);
    return FG_MAX(left_ns > 2 * AHEAD_NS ? left_ns - AHEAD_NS : left_ns / 2, FG_SECOND_NS);
}

bool fg_aws_credentials_valid(struct fg_aws_credentials *credentials)
{
    if (has_ended(credentials))
        credentials->good = false;
    return credentials->good;
}

bool fg_aws_credentials_due(struct fg_aws_credentials *credentials)
{
    int64_t now_ns = now_mono_ns(credentials);

    return credentials->kind != FG_AWS_KEYS_FIXED && now_ns >= credentials->pause_end_mono_ns &&
           (!fg_aws_credentials_valid(credentials) || now_ns >= credentials->next_mono_ns);
}

enum fg_code fg_aws_credentials_look(struct fg_aws_credentials *credentials, struct fg_err *err)
{
    credentials->found.changed = false;
    return credentials->kind == FG_AWS_KEYS_ROLE ? look_at_sts(credentials, err)
                                                 : look_in_files(credentials, err);
}

bool fg_aws_credentials_looked(struct fg_aws_credentials *credentials, enum fg_code code,
                               const struct fg_err *err)
{
    int64_t now_ns = now_mono_ns(credentials);
    struct fg_err why = *err;
    bool usable;

    if (code == FG_OK && credentials->found.changed)
        take_over(credentials);
    if (code == FG_OK && has_ended(credentials))
        code = fg_fail(&why, FG_E_DENIED, "the keys from STS are already expired");
    else if (code == FG_OK && !credentials->good)
        code = fg_fail(&why, FG_E_DENIED, "the keys in the key files are rejected");
    usable = fg_aws_credentials_valid(credentials);
    credentials->next_mono_ns = now_ns + (code == FG_OK ? next_look_ns(credentials) : AGAIN_NS);
    credentials->pause_end_mono_ns =
        code != FG_OK && credentials->kind == FG_AWS_KEYS_ROLE ? now_ns + PAUSE_NS : 0;
    if (code != FG_OK) {
        credentials->err = why;
        fg_log_warn("keys for AWS could not be renewed", fg_ls("of", credentials->config.user),
                    fg_ls("err", why.msg));
    }
    /* The cause may pass, so the next request tries again. */
    if (credentials->kind == FG_AWS_KEYS_FILES)
        credentials->good = true;
    return usable;
}

bool fg_aws_credentials_renew(struct fg_aws_credentials *credentials, uint64_t generation)
{
    if (credentials->kind == FG_AWS_KEYS_FIXED)
        return false;
    /* Keys that are newer than those of the refused request may be good. */
    if (credentials->generation == generation)
        credentials->good = false;
    return true;
}

/* ---- life ---- */

static bool is_set(const char *text)
{
    return text[0] != '\0';
}

static enum fg_code init_files(struct fg_aws_credentials *credentials, struct fg_err *err)
{
    credentials->kind = FG_AWS_KEYS_FILES;
    if (look_in_files(credentials, err) != FG_OK)
        return err->code;
    if (!credentials->found.changed)
        return fg_fail(err, FG_E_INVALID, "%s cannot be read",
                       credentials->config.sources->access_key_file);
    take_over(credentials);
    credentials->next_mono_ns = now_mono_ns(credentials) + FILES_EVERY_NS;
    return FG_OK;
}

enum fg_code fg_aws_credentials_init(struct fg_aws_credentials *credentials,
                                     const struct fg_aws_credentials_config *config,
                                     struct fg_err *err)
{
    const struct fg_aws_sources *sources = config->sources;

    *credentials = (struct fg_aws_credentials){.config = *config, .end_wall_ns = INT64_MAX};
    if (is_set(sources->access_key) && is_set(sources->secret_key)) {
        credentials->kind = FG_AWS_KEYS_FIXED;
        credentials->good = true;
        credentials->keys = (struct fg_aws_keys){text_of(fg_cstr(sources->access_key)),
                                                 text_of(fg_cstr(sources->secret_key)),
                                                 text_of(fg_cstr(sources->session_token))};
        return FG_OK;
    }
    if (is_set(sources->access_key_file) && is_set(sources->secret_key_file))
        return init_files(credentials, err);
    if (is_set(sources->role_arn) && is_set(sources->web_identity_token_file)) {
        credentials->kind = FG_AWS_KEYS_ROLE;
        return FG_OK;
    }
    return fg_fail(err, FG_E_INVALID,
                   "no keys: set access_key and secret_key, their files, or role_arn and "
                   "web_identity_token_file");
}

void fg_aws_credentials_done(struct fg_aws_credentials *credentials)
{
    fg_aws_keys_done(&credentials->keys);
    fg_aws_keys_done(&credentials->found.keys);
}
