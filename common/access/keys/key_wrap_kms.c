/*
 * AWS KMS (docs.aws.amazon.com/kms/latest/APIReference, version 2014-11-01, JSON 1.1): keys of
 * tenants are encrypted and decrypted there, by a key that never leaves it. The encryption context
 * {"flamegrid-owner": TENANT} binds a key to its tenant; policies may demand it, and CloudTrail has
 * it.
 */
#include "common/access/keys/key_service.h"
#include "common/access/keys/key_wrap.h"
#include "common/net/aws/endpoint.h"
#include "common/net/aws/request.h"
#include "common/net/aws/settings.h"
#include "common/runtime/log.h"

#include <openssl/crypto.h>

enum {
    KEY_MAX_BYTES = FG_KEY_WRAP_NAME_MAX_BYTES - 8, /* "kms:" is before it in the name */
    REGION_BYTES = 64,
    BODY_MAX_BYTES = 16 * 1024,
};

struct wrap_kms {
    struct fg_key_wrap wrap;
    struct fg_key_wrap_kms config; /* texts are borrowed, except the key */
    struct fg_client_tls tls;
    char region[REGION_BYTES];
    char url[FG_AWS_ENDPOINT_BYTES + 1], host[FG_AWS_ENDPOINT_BYTES];
    struct fg_key_service service;
    pthread_mutex_t signing; /* of the next two; held while keys are looked for */
    struct fg_aws_credentials credentials;
    uint64_t generation; /* of the keys of the last request */
};

static struct wrap_kms *kms_of(struct fg_key_wrap *wrap)
{
    return fg_container(wrap, struct wrap_kms, wrap);
}

/* ---- signing ---- */

/* Gets new keys if it is time. `signing` is held. */
static enum fg_code need_keys(struct wrap_kms *kms, struct fg_err *err)
{
    struct fg_err why = {0};
    enum fg_code code;

    if (fg_aws_credentials_due(&kms->credentials)) {
        code = fg_aws_credentials_look(&kms->credentials, &why);
        if (fg_aws_credentials_looked(&kms->credentials, code, &why))
            return FG_OK;
    } else if (fg_aws_credentials_valid(&kms->credentials)) {
        return FG_OK;
    }
    *err = kms->credentials.err;
    return err->code;
}

/* x-amz-target is the only header that the request has. */
static enum fg_code sign(struct fg_key_service *service, struct fg_client_request *http,
                         struct fg_arena *arena, struct fg_err *err)
{
    struct wrap_kms *kms = fg_container(service, struct wrap_kms, service);
    const struct fg_aws_header headers[] = {{"content-type", "application/x-amz-json-1.1"},
                                            {"x-amz-target", http->headers[0]}};
    char hash[FG_AWS_HASH_BYTES];
    enum fg_code code;

    fg_aws_payload_hash(http->body, hash);
    (void)pthread_mutex_lock(&kms->signing);
    code = need_keys(kms, err);
    if (code == FG_OK) {
        http->headers =
            fg_aws_request_headers(&(struct fg_aws_request){.method = "POST",
                                                            .path = "/",
                                                            .query = "",
                                                            .host = kms->host,
                                                            .region = kms->region,
                                                            .service = "kms",
                                                            .headers = headers,
                                                            .n_headers = FG_COUNT(headers),
                                                            .payload_hash = hash},
                                   &kms->credentials.keys, fg_wall_ns(kms->config.clock), arena);
        kms->generation = kms->credentials.generation;
    }
    (void)pthread_mutex_unlock(&kms->signing);
    return code;
}

static bool renew(struct fg_key_service *service)
{
    struct wrap_kms *kms = fg_container(service, struct wrap_kms, service);
    bool others;

    (void)pthread_mutex_lock(&kms->signing);
    others = fg_aws_credentials_renew(&kms->credentials, kms->generation);
    (void)pthread_mutex_unlock(&kms->signing);
    return others;
}

/* ---- the two calls ---- */

/* Returns a request. target: its action, which sign() makes a header of, and NULL. */
static struct fg_client_request request_to(const struct wrap_kms *kms, const char *const *target,
                                           struct fg_slice body)
{
    return (struct fg_client_request){
        .url = kms->url, .headers = target, .body = body, .tls = &kms->tls};
}

/* Begins a body. KMS refuses a ciphertext of another key than this one. */
static struct fg_json_writer begin_body(const struct wrap_kms *kms, struct fg_slice owner,
                                        struct fg_buf *body)
{
    struct fg_json_writer json;

    fg_buf_init(body, BODY_MAX_BYTES);
    json = fg_json_writer(body);
    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "KeyId", kms->config.key);
    fg_json_begin_object(&json, "EncryptionContext");
    fg_json_put_text(&json, "flamegrid-owner", owner);
    fg_json_end(&json);
    return json;
}

/* The wrapped form is the ciphertext in base64, as KMS writes it. */
static enum fg_code wrap_key(struct fg_key_wrap *wrap, struct fg_slice owner,
                             const struct fg_seal_key *key, struct fg_buf *out, struct fg_err *err)
{
    static const char *const target[] = {"TrentService.Encrypt", NULL};
    struct wrap_kms *kms = kms_of(wrap);
    struct fg_client_request http;
    struct fg_buf body;
    struct fg_json_writer json = begin_body(kms, owner, &body);
    enum fg_code code;

    fg_key_service_put_base64(&json, "Plaintext", fg_bytes(key->bytes, sizeof key->bytes));
    fg_json_end(&json);
    http = request_to(kms, target, fg_buf_slice(&body));
    code = fg_key_service_ask(&kms->service, &http, "CiphertextBlob", out, err);
    OPENSSL_cleanse(body.ptr, body.len);
    fg_buf_done(&body);
    return code;
}

static enum fg_code unwrap_key(struct fg_key_wrap *wrap, struct fg_slice owner,
                               struct fg_slice wrapped, struct fg_seal_key *ret_key,
                               struct fg_err *err)
{
    static const char *const target[] = {"TrentService.Decrypt", NULL};
    struct wrap_kms *kms = kms_of(wrap);
    struct fg_client_request http;
    struct fg_buf body;
    struct fg_json_writer json = begin_body(kms, owner, &body);
    enum fg_code code;

    fg_json_put_text(&json, "CiphertextBlob", wrapped);
    fg_json_end(&json);
    http = request_to(kms, target, fg_buf_slice(&body));
    code = fg_key_service_ask_key(&kms->service, &http, "Plaintext", ret_key, err);
    fg_buf_done(&body);
    return code;
}

/* ---- life ---- */

static void destroy(struct fg_key_wrap *wrap)
{
    struct wrap_kms *kms = kms_of(wrap);

    fg_aws_credentials_done(&kms->credentials);
    fg_key_service_done(&kms->service);
    (void)pthread_mutex_destroy(&kms->signing);
    free(kms);
}

static bool is_key(const char *key)
{
    for (const char *at = key; *at != '\0'; at++)
        if (*at <= 0x20 || *at >= 0x7f || *at == ',')
            return false;
    return key[0] != '\0' && strlen(key) <= KEY_MAX_BYTES;
}

/* Returns the region of arn:aws:kms:REGION:ACCOUNT:key/ID; len 0: it is not in this form. */
static struct fg_slice region_of(const char *key)
{
    struct fg_slice rest = fg_cstr(key);

    if (!fg_slice_starts(rest, "arn:"))
        return fg_bytes(NULL, 0);
    for (unsigned i = 0; i < 3; i++) {
        rest = fg_slice_sub(rest, FG_MIN(fg_slice_find(rest, ':'), rest.len), rest.len);
        rest = fg_slice_sub(rest, 1, rest.len);
    }
    return fg_slice_sub(rest, 0, FG_MIN(fg_slice_find(rest, ':'), rest.len));
}

static enum fg_code make_address(struct wrap_kms *kms, struct fg_err *err)
{
    const struct fg_key_wrap_kms *config = &kms->config;
    struct fg_slice region = region_of(config->key), scheme, host;
    char aws[FG_AWS_ENDPOINT_BYTES];

    if (config->region[0] != '\0' || region.len == 0)
        region = fg_cstr(fg_aws_region(config->region));
    if (region.len >= sizeof kms->region)
        return fg_fail(err, FG_E_INVALID, "encryption.kms.region is too long");
    memcpy(kms->region, region.ptr, region.len);
    fg_aws_endpoint("kms", kms->region, aws);
    if (fg_aws_endpoint_split(config->endpoint[0] == '\0' ? aws : config->endpoint, &scheme, &host,
                              err) != FG_OK)
        return fg_wrap(err, "encryption.kms");
    (void)snprintf(kms->host, sizeof kms->host, "%.*s", FG_S(host));
    (void)snprintf(kms->url, sizeof kms->url, "%.*s%.*s/", FG_S(scheme), FG_S(host));
    if (fg_slice_is(scheme, "http://"))
        fg_log_warn("connections to KMS do not use TLS", fg_ls("endpoint", kms->url));
    return FG_OK;
}

static void ask(void *arg, struct fg_client_request *request)
{
    (void)arg;
    fg_client_run(request);
}

static enum fg_code init_credentials(struct wrap_kms *kms, struct fg_err *err)
{
    const struct fg_aws_credentials_config config = {
        .sources = &kms->config.keys,
        .region = kms->region,
        .user = kms->wrap.name,
        .tls = &kms->tls,
        .connect_timeout_ns = FG_KEY_SERVICE_CONNECT_TIMEOUT_NS,
        .clock = kms->config.clock,
        .ask = ask,
    };

    if (fg_aws_credentials_init(&kms->credentials, &config, err) != FG_OK)
        return fg_wrap(err, "encryption.kms");
    return FG_OK;
}

enum fg_code fg_key_wrap_kms(const struct fg_key_wrap_kms *config, struct fg_key_wrap **ret_wrap,
                             struct fg_err *err)
{
    static const struct fg_key_service_ops ops = {
        .sign = sign, .renew = renew, .read_fault = fg_key_answer_kms_fault};
    struct wrap_kms *kms;

    if (!is_key(config->key))
        return fg_fail(err, FG_E_INVALID,
                       "encryption.kms.key has to be the ARN, the id or alias/NAME of a key");
    kms = fg_new(struct wrap_kms);
    kms->wrap = (struct fg_key_wrap){.wrap = wrap_key, .unwrap = unwrap_key, .destroy = destroy};
    (void)snprintf(kms->wrap.name, sizeof kms->wrap.name, "kms:%s", config->key);
    kms->config = *config;
    kms->config.key = kms->wrap.name + strlen("kms:");
    if (config->ca_file[0] != '\0')
        kms->tls.ca_file = config->ca_file;
    fg_key_service_init(&kms->service, kms->wrap.name, &ops);
    fg_assert(pthread_mutex_init(&kms->signing, NULL) == 0);
    if (make_address(kms, err) != FG_OK || init_credentials(kms, err) != FG_OK) {
        destroy(&kms->wrap);
        return err->code;
    }
    *ret_wrap = &kms->wrap;
    return FG_OK;
}
