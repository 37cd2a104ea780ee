#include "common/access/keys/key_answer.h"

#include "common/base/json.h"
#include "common/base/str.h"
#include "common/net/aws/answer.h"

#include <openssl/crypto.h>

enum { KEY_TEXT_BYTES = 44 }; /* 32 bytes in base64, with padding */

struct fg_slice fg_key_answer_text(struct fg_slice document, const char *key,
                                   struct fg_arena *arena)
{
    struct fg_json json = fg_json(document);
    bool next = false;

    for (;;) {
        enum fg_json_token token = fg_json_next(&json);

        if (token == FG_JSON_BAD || token == FG_JSON_END)
            return fg_bytes(NULL, 0);
        if (token == FG_JSON_STRING && next)
            return fg_json_text(&json, arena);
        next = (token == FG_JSON_KEY && fg_slice_is(json.text, key)) ||
               (next && token == FG_JSON_ARRAY);
    }
}

bool fg_key_answer_key(struct fg_slice text, struct fg_seal_key *ret_key)
{
    uint8_t bytes[FG_SEAL_KEY_BYTES + 8];
    size_t len = 0;
    bool good = text.len <= KEY_TEXT_BYTES && fg_parse_base64(text, bytes, &len) &&
                len == FG_SEAL_KEY_BYTES;

    if (good)
        memcpy(ret_key->bytes, bytes, sizeof ret_key->bytes);
    OPENSSL_cleanse(bytes, sizeof bytes);
    return good;
}

enum fg_key_fault fg_key_answer_vault_fault(unsigned status, struct fg_slice document,
                                            struct fg_arena *arena, struct fg_slice *ret_why)
{
    *ret_why = fg_key_answer_text(document, "errors", arena);
    return status == 429 || status >= 500 ? FG_KEY_FAULT_AWAY : FG_KEY_FAULT_REFUSED;
}

/* Errors of KMS whose status does not say what they are ("Common Errors", AWS KMS API reference).
 * Statuses 401 and 403 are about credentials, else 4xx about what was asked. */
static const struct {
    const char *type;
    enum fg_key_fault fault;
} kms_faults[] = {
    {"AccessDenied", FG_KEY_FAULT_REFUSED},
    {"AccessDeniedException", FG_KEY_FAULT_REFUSED},
    {"ExpiredTokenException", FG_KEY_FAULT_CREDENTIALS},
    {"IncompleteSignature", FG_KEY_FAULT_CREDENTIALS},
    {"InvalidSignatureException", FG_KEY_FAULT_CREDENTIALS},
    {"LimitExceededException", FG_KEY_FAULT_AWAY},
    {"RequestExpired", FG_KEY_FAULT_CREDENTIALS},
    {"Throttling", FG_KEY_FAULT_AWAY},
    {"ThrottlingException", FG_KEY_FAULT_AWAY},
    {"UnrecognizedClientException", FG_KEY_FAULT_CREDENTIALS},
};

/* {"__type": "com.amazonaws.kms#DisabledException", "message": "..."}; the namespace is optional,
 * some errors write "Message", and compatible servers answer some in XML. */
enum fg_key_fault fg_key_answer_kms_fault(unsigned status, struct fg_slice document,
                                          struct fg_arena *arena, struct fg_slice *ret_why)
{
    struct fg_slice type = fg_key_answer_text(document, "__type", arena);
    struct fg_slice message = fg_key_answer_text(document, "message", arena);
    size_t hash = fg_slice_find(type, '#');
    struct fg_aws_error error;
    const char *why;

    if (hash != SIZE_MAX)
        type = fg_slice_sub(type, hash + 1, type.len);
    if (message.ptr == NULL)
        message = fg_key_answer_text(document, "Message", arena);
    if (type.ptr == NULL) {
        fg_aws_read_error(document, &error);
        type = fg_cstr(error.code);
        message = fg_cstr(error.message);
    }
    why = fg_arena_printf(arena, "%.*s%s%.*s", FG_S(type), message.len == 0 ? "" : ": ",
                          FG_S(message));
    *ret_why = fg_cstr(why == NULL ? "" : why);
    for (size_t i = 0; i < FG_COUNT(kms_faults); i++)
        if (fg_slice_is(type, kms_faults[i].type))
            return kms_faults[i].fault;
    if (status == 401 || status == 403)
        return FG_KEY_FAULT_CREDENTIALS;
    return status == 429 || status >= 500 ? FG_KEY_FAULT_AWAY : FG_KEY_FAULT_REFUSED;
}
