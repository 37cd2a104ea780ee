/* What services that wrap keys answer: successes and errors of Vault and KMS. The first byte is
 * half of what the status is above 200. */
#include "common/access/keys/key_answer.h"
#include "common/base/crc32c.h"

enum { ARENA_BYTES = 512 * 1024 };

/* All bytes of a result can be read. */
static void look(struct fg_slice text)
{
    fg_assert(text.ptr != NULL || text.len == 0);
    (void)fg_crc32c(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_slice document = fg_slice_sub(fg_bytes(data, size), 1, size), why, text;
    struct fg_seal_key key;
    unsigned status;

    if (size == 0)
        return 0;
    status = 200U + 2U * data[0];
    text = fg_key_answer_text(document, "Plaintext", arena);
    look(text);
    if (fg_key_answer_key(text, &key))
        fg_assert(text.len >= 43);
    look(fg_key_answer_text(document, "ciphertext", arena));
    fg_assert((fg_key_answer_vault_fault(status, document, arena, &why) == FG_KEY_FAULT_AWAY) ==
              (status >= 500));
    look(why);
    (void)fg_key_answer_kms_fault(status, document, arena, &why);
    look(why);
    return 0;
}
