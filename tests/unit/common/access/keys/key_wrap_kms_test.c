/* Keys in a KMS that is slow, hangs, refuses, or answers what it should not; and what requests to
 * it are signed with. Real signatures are checked in tests/bucket/encryption.py and in
 * tests/unit/common/net/aws. */
#include "common/access/keys/key_answer.h"
#include "common/access/keys/key_wrap.h"
#include "common/base/str.h"
#include "tests/lib/fake_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { TEXT_BYTES = 4096, WRAPPED_MAX_BYTES = 1024 };

enum mood { WELL, SLOW, HANGS, BREAKS_OFF, SAYS };

struct kms {
    struct fake_server *server;
    struct fg_key_wrap *wrap;
    char endpoint[64], folder[64], token_file[96], key_file[96];
    char bound_to[256]; /* the encryption context of the last key */
    _Atomic enum mood mood;
    unsigned status; /* of SAYS, with the next */
    const char *says;
    _Atomic unsigned calls, sts_calls;
    _Atomic bool sts_is_down, wants_role, wants_new_file;
    _Atomic unsigned good_role; /* which of STS's keys are taken */
    struct fg_err err;
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

/* ---- the double ---- */

/* Copies what is between two texts; "" if they are not there. */
static void between(const char *text, const char *before, const char *after, char *out, size_t size)
{
    const char *begin = strstr(text, before), *end;

    out[0] = '\0';
    if (begin == NULL)
        return;
    begin += strlen(before);
    end = strstr(begin, after);
    if (end != NULL && (size_t)(end - begin) < size)
        (void)snprintf(out, size, "%.*s", (int)(end - begin), begin);
}

static void answer_sts(struct kms *kms, struct fake_connection *connection)
{
    unsigned n = atomic_fetch_add(&kms->sts_calls, 1) + 1;
    char answer[TEXT_BYTES];

    if (atomic_load(&kms->sts_is_down)) {
        (void)fake_respond(connection, 400, "",
                           FG_LIT("<ErrorResponse><Error><Code>AccessDenied</Code><Message>no "
                                  "role</Message></Error></ErrorResponse>"));
        return;
    }
    (void)snprintf(answer, sizeof answer,
                   "<A><Credentials><AccessKeyId>ASIA%u</AccessKeyId><SecretAccessKey>s"
                   "</SecretAccessKey><SessionToken>session%u</SessionToken>"
                   "<Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></A>",
                   n, n);
    (void)fake_respond(connection, 200, "", fg_cstr(answer));
}

static bool knows(struct kms *kms, const char *request)
{
    char session[64];

    (void)snprintf(session, sizeof session, "session%u\r\n", atomic_load(&kms->good_role));
    if (atomic_load(&kms->wants_new_file))
        return strstr(request, "Credential=new/") != NULL;
    return !atomic_load(&kms->wants_role) || strstr(request, session) != NULL;
}

/* The ciphertext is the plaintext, and the context is remembered. */
static void answer_well(struct kms *kms, struct fake_connection *connection, const char *request)
{
    bool encrypts = strstr(request, "x-amz-target: TrentService.Encrypt") != NULL;
    char text[256], context[256], answer[TEXT_BYTES];

    if (strstr(request, "{\"KeyId\":\"alias/flamegrid\",") == NULL) {
        (void)fake_respond(connection, 400, "", FG_LIT("{\"__type\":\"NotFoundException\"}"));
        return;
    }
    between(request, "\"EncryptionContext\":{", "}", context, sizeof context);
    between(request, encrypts ? "\"Plaintext\":\"" : "\"CiphertextBlob\":\"", "\"", text,
            sizeof text);
    if (encrypts)
        (void)snprintf(kms->bound_to, sizeof kms->bound_to, "%s", context);
    if (strcmp(kms->bound_to, context) != 0) {
        (void)fake_respond(connection, 400, "",
                           FG_LIT("{\"__type\":\"InvalidCiphertextException\"}"));
        return;
    }
    (void)snprintf(answer, sizeof answer, "{\"KeyId\":\"arn\",\"%s\":\"%s\"}",
                   encrypts ? "CiphertextBlob" : "Plaintext", text);
    (void)fake_respond(connection, 200, "", fg_cstr(answer));
}

static void answer_kms(struct kms *kms, struct fake_connection *connection, const char *request)
{
    (void)atomic_fetch_add(&kms->calls, 1);
    if (!knows(kms, request)) {
        (void)fake_respond(
            connection, 400, "",
            FG_LIT("{\"__type\":\"UnrecognizedClientException\",\"message\":\"who?\"}"));
        return;
    }
    switch (atomic_load(&kms->mood)) {
    case SLOW:
        (void)usleep(300000);
        answer_well(kms, connection, request);
        return;
    case HANGS:
        fake_wait_gone(connection);
        return;
    case BREAKS_OFF:
        (void)fake_write(connection,
                         FG_LIT("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"Cip"));
        return;
    case SAYS:
        (void)fake_respond(connection, kms->status, "", fg_cstr(kms->says));
        return;
    case WELL:
        answer_well(kms, connection, request);
        return;
    }
}

static void serve(struct fake_connection *connection, void *arg)
{
    struct kms *kms = arg;
    char request[TEXT_BYTES];

    while (fake_read(connection, request, sizeof request)) {
        enum mood mood = atomic_load(&kms->mood);

        if (strstr(request, "Action=AssumeRoleWithWebIdentity&") != NULL)
            answer_sts(kms, connection);
        else
            answer_kms(kms, connection, request);
        if (mood == HANGS || mood == BREAKS_OFF)
            return;
    }
}

/* ---- the client ---- */

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static struct fg_aws_sources no_keys(void)
{
    return (struct fg_aws_sources){"", "", "", "", "", "", "", "", "flamegrid", ""};
}

static void open_kms(struct kms *kms)
{
    *kms = (struct kms){.server = NULL};
    (void)snprintf(kms->folder, sizeof kms->folder, "/tmp/key_wrap_kms_test_XXXXXX");
    assert_non_null(mkdtemp(kms->folder));
    (void)snprintf(kms->token_file, sizeof kms->token_file, "%s/token", kms->folder);
    (void)snprintf(kms->key_file, sizeof kms->key_file, "%s/key", kms->folder);
    write_file(kms->token_file, "a-token\n");
    write_file(kms->key_file, "old\n");
    kms->server = fake_server_start(NULL, false, serve, kms);
    (void)snprintf(kms->endpoint, sizeof kms->endpoint, "http://127.0.0.1:%u",
                   fake_server_port(kms->server));
}

/* The text of the key is gone afterwards. */
static enum fg_code make(struct kms *kms, const char *key, const struct fg_aws_sources *keys)
{
    char text[128];
    enum fg_code code;

    (void)snprintf(text, sizeof text, "%s", key);
    code = fg_key_wrap_kms(&(struct fg_key_wrap_kms){.key = text,
                                                     .region = "",
                                                     .endpoint = kms->endpoint,
                                                     .ca_file = "",
                                                     .keys = *keys,
                                                     .clock = fg_clock_real()},
                           &kms->wrap, &kms->err);
    memset(text, 'x', sizeof text);
    return code;
}

static void open_with_keys(struct kms *kms)
{
    struct fg_aws_sources keys = no_keys();

    keys.access_key = "AKIA";
    keys.secret_key = "secret";
    open_kms(kms);
    must(make(kms, "alias/flamegrid", &keys), &kms->err);
}

static void open_with_role(struct kms *kms)
{
    struct fg_aws_sources keys = no_keys();

    open_kms(kms);
    keys.role_arn = "arn:aws:iam::1:role/r";
    keys.web_identity_token_file = kms->token_file;
    keys.sts_endpoint = kms->endpoint;
    kms->wants_role = true;
    kms->good_role = 1;
    must(make(kms, "alias/flamegrid", &keys), &kms->err);
}

static void close_kms(struct kms *kms)
{
    fg_key_wrap_destroy(kms->wrap);
    fake_server_stop(kms->server);
    assert_int_equal(unlink(kms->token_file), 0);
    assert_int_equal(unlink(kms->key_file), 0);
    assert_int_equal(rmdir(kms->folder), 0);
}

static const struct fg_seal_key secret = {{1, 2, 3, 250}};

static enum fg_code wrap_for(struct kms *kms, const char *tenant, struct fg_buf *out)
{
    fg_buf_init(out, WRAPPED_MAX_BYTES);
    return kms->wrap->wrap(kms->wrap, fg_cstr(tenant), &secret, out, &kms->err);
}

/* Only whether it works. */
static enum fg_code try_wrap(struct kms *kms)
{
    struct fg_buf wrapped;
    enum fg_code code = wrap_for(kms, "acme", &wrapped);

    fg_buf_done(&wrapped);
    return code;
}

static void say(struct kms *kms, unsigned status, const char *text)
{
    kms->status = status;
    kms->says = text;
    atomic_store(&kms->mood, SAYS);
}

static void expect_error(struct kms *kms, const char *text)
{
    assert_int_equal(try_wrap(kms), FG_E_UNAVAILABLE);
    if (strstr(kms->err.msg, text) == NULL)
        fail_msg("%s", kms->err.msg);
}

/* Waits until a rest is over and it works. */
static void expect_well_again(struct kms *kms)
{
    atomic_store(&kms->mood, WELL);
    while (try_wrap(kms) != FG_OK)
        (void)usleep(10000);
}

/* ---- tests ---- */

static void a_key_comes_back_for_its_tenant_alone(void **state)
{
    struct fg_seal_key again;
    struct fg_buf wrapped;
    struct kms kms;

    (void)state;
    open_with_keys(&kms);
    assert_string_equal(kms.wrap->name, "kms:alias/flamegrid");
    for (unsigned round = 0; round < 2; round++) {
        must(wrap_for(&kms, "acme", &wrapped), &kms.err);
        assert_string_equal(kms.bound_to, "\"flamegrid-owner\":\"acme\"");
        must(kms.wrap->unwrap(kms.wrap, FG_LIT("acme"), fg_buf_slice(&wrapped), &again, &kms.err),
             &kms.err);
        assert_memory_equal(again.bytes, secret.bytes, sizeof secret.bytes);
        assert_int_equal(
            kms.wrap->unwrap(kms.wrap, FG_LIT("zeta"), fg_buf_slice(&wrapped), &again, &kms.err),
            FG_E_UNAVAILABLE);
        assert_non_null(strstr(kms.err.msg, "status 400: InvalidCiphertextException"));
        fg_buf_done(&wrapped);
        kms.mood = SLOW;
    }
    close_kms(&kms);
}

static void what_kms_says_of_one_key_does_not_stop_the_others(void **state)
{
    static const char *const texts[][2] = {
        {"{\"__type\":\"AccessDeniedException\",\"Message\":\"not you\"}", "kms:alias/flamegrid: "},
        {"{\"__type\":\"com.amazonaws.kms#DisabledException\",\"message\":\"k is disabled\"}",
         ": status 400: DisabledException: k is disabled"},
        {"{\"__type\":\"NotFoundException\",\"message\":\"no alias\"}", "NotFoundException"},
        {"{\"__type\":\"KMSInvalidStateException\"}", "KMSInvalidStateException"},
        {"{\"__type\":\"IncorrectKeyException\"}", "IncorrectKeyException"},
    };
    struct kms kms;

    (void)state;
    open_with_keys(&kms);
    for (size_t i = 0; i < FG_COUNT(texts); i++) {
        say(&kms, 400, texts[i][0]);
        expect_error(&kms, texts[i][1]);
        kms.mood = WELL;
        must(try_wrap(&kms), &kms.err); /* at once */
    }
    close_kms(&kms);
}

static void a_kms_in_trouble_is_left_alone_for_a_moment(void **state)
{
    enum { TENANTS = 30 };
    static const struct {
        unsigned status;
        const char *text, *shown;
    } faults[] = {
        {400, "{\"__type\":\"ThrottlingException\",\"message\":\"slow\"}", "ThrottlingException"},
        {400, "{\"__type\":\"LimitExceededException\"}", "LimitExceededException"},
        {500, "{\"__type\":\"KMSInternalException\"}", "status 500: KMSInternalException"},
        {503, "<html><body>no backend</body></html>", "status 503"},
        {429, "", "status 429"},
        {403, "{\"__type\":\"ExpiredTokenException\"}", "ExpiredTokenException"},
        {403, "<Error><Code>SignatureDoesNotMatch</Code></Error>", "SignatureDoesNotMatch"},
    };
    struct kms kms;

    (void)state;
    open_with_keys(&kms);
    for (size_t i = 0; i < FG_COUNT(faults); i++) {
        kms.calls = 0;
        say(&kms, faults[i].status, faults[i].text);
        for (unsigned tenant = 0; tenant < TENANTS; tenant++)
            expect_error(&kms, faults[i].shown);
        assert_in_range(kms.calls, 1, TENANTS - 1);
        expect_well_again(&kms);
    }
    close_kms(&kms);
}

/* One time limit for all tenants, and not one for each. */
static void a_kms_that_hangs_costs_one_time_limit(void **state)
{
    struct kms kms;

    (void)state;
    open_with_keys(&kms);
    kms.mood = HANGS;
    expect_error(&kms, "kms:alias/flamegrid: http://127.0.0.1");
    expect_error(&kms, "kms:alias/flamegrid: http://127.0.0.1");
    assert_int_equal(kms.calls, 1);
    expect_well_again(&kms);
    kms.mood = BREAKS_OFF;
    expect_error(&kms, "kms:alias/flamegrid: http://127.0.0.1");
    expect_well_again(&kms);
    close_kms(&kms);
}

static void garbage_is_no_key(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "null",
        "[]",
        "{\"CiphertextBlob\":null}",
        "{\"CiphertextBlob\":\"\"}",
        "{\"CiphertextBlob\":17}",
        "<html><body>log in to the hotel</body></html>",
        "{\"Plaintext\":\"AAAA\"}",
        "{\"Plaintext\":\"====\"}",
        "{\"Plaintext\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIj\"}",
    };
    struct fg_seal_key key;
    struct kms kms;

    (void)state;
    open_with_keys(&kms);
    for (size_t i = 0; i < FG_COUNT(texts); i++) {
        say(&kms, 200, texts[i]);
        expect_error(&kms, "the answer has no CiphertextBlob");
        assert_int_equal(kms.wrap->unwrap(kms.wrap, FG_LIT("acme"), FG_LIT("x"), &key, &kms.err),
                         FG_E_UNAVAILABLE);
        assert_non_null(strstr(kms.err.msg, "the answer has no "));
    }
    close_kms(&kms);
}

static void keys_of_a_role_are_kept_and_renewed(void **state)
{
    struct kms kms;

    (void)state;
    open_with_role(&kms);
    for (unsigned i = 0; i < 3; i++)
        must(try_wrap(&kms), &kms.err);
    assert_int_equal(kms.sts_calls, 1);
    kms.good_role = 2; /* the first ones were revoked */
    must(try_wrap(&kms), &kms.err);
    assert_int_equal(kms.sts_calls, 2);
    kms.good_role = 99;
    expect_error(&kms, "UnrecognizedClientException: who?");
    assert_int_equal(kms.sts_calls, 3); /* and not again and again */
    kms.sts_is_down = true;
    do {
        assert_int_equal(try_wrap(&kms), FG_E_UNAVAILABLE);
        (void)usleep(10000);
    } while (strstr(kms.err.msg, "keys of the role arn:aws:iam::1:role/r") == NULL);
    kms.sts_is_down = false;
    kms.wants_role = false;
    expect_well_again(&kms);
    close_kms(&kms);
}

static void keys_in_files_are_read_again(void **state)
{
    struct fg_aws_sources keys = no_keys();
    struct kms kms;

    (void)state;
    open_kms(&kms);
    keys.access_key_file = keys.secret_key_file = kms.key_file;
    must(make(&kms, "alias/flamegrid", &keys), &kms.err);
    must(try_wrap(&kms), &kms.err);
    kms.wants_new_file = true;
    expect_error(&kms, "the keys in the key files are rejected");
    write_file(kms.key_file, "new\n");
    expect_well_again(&kms);
    close_kms(&kms);
}

static void settings_are_checked(void **state)
{
    struct fg_aws_sources keys = no_keys();
    struct kms kms;

    (void)state;
    open_kms(&kms);
    assert_int_equal(make(&kms, "alias/flamegrid", &keys), FG_E_INVALID);
    assert_non_null(strstr(kms.err.msg, "encryption.kms: no keys: "));
    keys.access_key = keys.secret_key = "x";
    assert_int_equal(make(&kms, "", &keys), FG_E_INVALID);
    assert_int_equal(make(&kms, "two words", &keys), FG_E_INVALID);
    assert_non_null(strstr(kms.err.msg, "encryption.kms.key has to be the ARN"));
    must(make(&kms, "arn:aws:kms:eu-central-1:1:key/k", &keys), &kms.err);
    fg_key_wrap_destroy(kms.wrap);
    must(make(&kms, "arn:", &keys), &kms.err);
    fg_key_wrap_destroy(kms.wrap);
    (void)snprintf(kms.endpoint, sizeof kms.endpoint, "kms.example");
    assert_int_equal(make(&kms, "alias/flamegrid", &keys), FG_E_INVALID);
    assert_non_null(strstr(kms.err.msg, "encryption.kms: endpoint kms.example: needs https://"));
    kms.wrap = NULL;
    close_kms(&kms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_comes_back_for_its_tenant_alone),
        cmocka_unit_test(what_kms_says_of_one_key_does_not_stop_the_others),
        cmocka_unit_test(a_kms_in_trouble_is_left_alone_for_a_moment),
        cmocka_unit_test(a_kms_that_hangs_costs_one_time_limit),
        cmocka_unit_test(garbage_is_no_key),
        cmocka_unit_test(keys_of_a_role_are_kept_and_renewed),
        cmocka_unit_test(keys_in_files_are_read_again),
        cmocka_unit_test(settings_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
