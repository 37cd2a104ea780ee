/*
 * Settings: one table gives the YAML keys, the --flags, the FG_… environment, range checks, GET
 * /config and the settings page of the docs. Structs hold parsed values in base units; nobody
 * re-reads strings.
 *
 *     struct ingester_config { uint64_t head_max_bytes; ... };
 *     #define CONF(field) FG_CONF_AT(struct ingester_config, field)
 *     static const struct fg_conf_field ingester_fields[] = {
 *         {"head_max_bytes", FG_CONF_BYTES, CONF(head_max_bytes), .def = "512MiB", .min = "16MiB",
 *          .doc = "Memory for …"},
 *     };
 *
 * A section ("ingester") gives the key ingester.head_max_bytes: in YAML a map of that name, in the
 * environment FG_INGESTER_HEAD_MAX_BYTES, as a flag --ingester.head_max_bytes (or with - in place
 * of _). Later wins: default, YAML file, environment, flags. A section named "" holds top-level
 * keys; a name with dots ("store.cache") is a map in a map. Two sections may have one name.
 *
 * A setting of type YAML may be a list or map in the file; in the environment and in flags it is
 * given in YAML's own short form, [{action: drop}]. Whoever owns it reads the text.
 */
#ifndef FG_COMMON_RUNTIME_CONFIG_H
#define FG_COMMON_RUNTIME_CONFIG_H

#include "common/base/buf.h"
#include "common/base/err.h"

enum fg_conf_type {
    FG_CONF_BOOL,   /* bool; true, false, yes, no, on, off, 1, 0 */
    FG_CONF_UINT,   /* uint64_t */
    FG_CONF_BYTES,  /* uint64_t bytes; 512MiB, 1GiB, 64kB, plain number */
    FG_CONF_NS,     /* int64_t nanoseconds; 250us, 5ms, 10s, 1h30m, 7d, 0 */
    FG_CONF_FLOAT,  /* double */
    FG_CONF_STRING, /* char *, never NULL, owned by the config */
    FG_CONF_SECRET, /* as string, shown as *** */
    FG_CONF_ENUM,   /* unsigned: index into .choices */
    FG_CONF_YAML,   /* char *, owned by the config: YAML text, for what is no single value */
};

struct fg_conf_field {
    const char *key;
    enum fg_conf_type type;
    size_t offset;
    /* As a user would write them; min and max may be NULL. Those of a text bound its length. */
    const char *def, *min, *max;
    const char *choices; /* ENUM: "debug|info|warn|error" */
    const char *doc;
};
#define FG_CONF_AT(type, field) offsetof(type, field)

struct fg_conf_section {
    const char *name; /* "" for top-level keys */
    const struct fg_conf_field *fields;
    size_t n_fields;
    void *values; /* the struct that the fields' offsets are in; zeroed by the caller */
};

/*
 * Settings that other programs have and this one has not, so that all programs of a cluster can
 * have one YAML file: they are passed over in it, whatever their values. In flags they are unknown,
 * as in the environment.
 */
struct fg_conf_other {
    const char
        *name; /* a section, with all that is below it; where keys are given only they are: */
    const char *const *keys; /* ends with NULL; or NULL */
};

struct fg_conf {
    struct fg_conf_section *sections;
    size_t n_sections;
    const struct fg_conf_other *others; /* a section that is here, too, counts as here */
    size_t n_others;
};

/*
 * Fills the sections' structs: defaults, then the YAML file (NULL or "": none), then env (NULL:
 * none; "NAME=value" strings, NULL-terminated, those beginning with FG_; unknown ones are logged
 * and passed over), then flags ("--key=value" or
 * "--key" "value"). What is in `flags` has to be settings only.
 *
 * FG_E_INVALID with file and line (or the name of the variable or flag), what is wrong, and for an
 * unknown key the nearest known one. Unknown and duplicate keys, aliases, anchors, tags and several
 * documents in the YAML are errors.
 */
enum fg_code fg_conf_load(struct fg_conf *conf, const char *yaml_path, char *const *env,
                          char *const *flags, size_t n_flags, struct fg_err *err) fg_must_check;

/* The YAML part alone, from memory; `name` stands for the file in errors. (Fuzz target.) */
enum fg_code fg_conf_parse_yaml(struct fg_conf *conf, struct fg_slice yaml, const char *name,
                                struct fg_err *err) fg_must_check;

/*
 * The keys of the one map that the YAML has at its top, in their order: for files whose maps are
 * named by the user ("overrides:", with a map for each tenant). Values are passed over; an empty
 * document has no keys. FG_E_INVALID as above, also for anything else at the top.
 */
enum fg_code fg_conf_yaml_keys(struct fg_slice yaml, const char *name, const char *map,
                               void (*each)(struct fg_slice key, void *arg), void *arg,
                               struct fg_err *err) fg_must_check;

/* A whole file of at most 1 MiB into `out`, which is initialised. FG_E_INVALID with its name. */
enum fg_code fg_conf_read_file(const char *path, struct fg_buf *out,
                               struct fg_err *err) fg_must_check;

/* The section's values again, in `values`, which is a struct of the same type: its strings are its
 * own. */
void fg_conf_copy(const struct fg_conf_section *section, void *values);

/* An empty string setting becomes this host's name. FG_E_UNAVAILABLE, with the setting's name: it
 * has none. */
enum fg_code fg_conf_default_host(char **value, const char *setting,
                                  struct fg_err *err) fg_must_check;

/* Frees the strings in the sections' structs. */
void fg_conf_done(struct fg_conf *conf);

void fg_conf_write_yaml(const struct fg_conf *conf, struct fg_buf *out); /* secrets masked */
void fg_conf_write_docs(const struct fg_conf *conf, struct fg_buf *out); /* Markdown */
void fg_conf_write_help(const struct fg_conf *conf, struct fg_buf *out); /* for --help */

/* As a setting's value reads: "30d", "1h30m", "0". Not negative. */
void fg_conf_write_duration(int64_t ns, struct fg_buf *out);

/* The other way; returns NULL, or what is wrong with the text ("needs a unit (ns us …)"). */
const char *fg_conf_read_duration(struct fg_slice text, int64_t *ret_ns) fg_must_check;

#endif
