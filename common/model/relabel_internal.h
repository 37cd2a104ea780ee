/* Internals that the files of relabel share. */
#ifndef FG_COMMON_MODEL_RELABEL_INTERNAL_H
#define FG_COMMON_MODEL_RELABEL_INTERNAL_H

#include "common/model/pattern.h"
#include "common/model/relabel.h"

#include <locale.h>
#include <openssl/evp.h>

enum fg_relabel_action {
    FG_RELABEL_REPLACE,
    FG_RELABEL_KEEP,
    FG_RELABEL_DROP,
    FG_RELABEL_KEEPEQUAL,
    FG_RELABEL_DROPEQUAL,
    FG_RELABEL_HASHMOD,
    FG_RELABEL_LABELMAP,
    FG_RELABEL_LABELDROP,
    FG_RELABEL_LABELKEEP,
    FG_RELABEL_LOWERCASE,
    FG_RELABEL_UPPERCASE,
};

struct fg_relabel_rule {
    enum fg_relabel_action action;
    struct fg_slice *sources;
    size_t n_sources;
    struct fg_slice separator;
    struct fg_pattern pattern;
    uint64_t modulus;
    struct fg_slice target;             /* as written: for all actions but replace a label's name */
    struct fg_template target_template; /* for replace */
    struct fg_template replacement;     /* for replace and labelmap */
};

struct fg_relabel {
    _Atomic uint32_t refs;
    struct fg_arena *arena; /* of all the rules' texts */
    struct fg_relabel_rule *rules;
    size_t n_rules, cap_rules;
    locale_t locale; /* for lowercase and uppercase; 0: no rule needs it */
    EVP_MD *md5;     /* for hashmod; NULL: no rule needs it */
};

#endif
