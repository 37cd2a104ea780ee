/*
 * Settings. One table defines the YAML keys, the --flags, the FG_… environment variables, the range
 * checks, GET /config and the settings page of the docs. Structs hold parsed values in base units.
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
 * of _). Later sources override earlier ones: default, YAML file, environment, flags. A section
 * named "" holds top-level keys; a name with dots ("store.cache") is a map in a map. Two sections
 * may have the same name.
 *
 * A setting of type YAML may be a list or map in the file; in the environment and in flags it is
 * written in YAML's flow style, [{action: drop}]. Its owner parses the text.
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
    FG_CONF_YAML,   /* char *, owned by the config: YAML text of a list or map */
};

struct fg_conf_field {
    const char *key;
    enum fg_conf_type type;
    size_t offset;
    /* In the form that users write; min and max may be NULL. For texts they limit the length. */
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
 * Names settings that only other programs have. All programs of a cluster can share one YAML file,
 * because each program ignores the settings of the others in it. In flags and in the environment
 * they are unknown.
 */
struct fg_conf_other {
    const char *name;        /* a section, with all sections below it */
    const char *const *keys; /* ends with NULL: only these keys of it; NULL: all */
};

struct fg_conf {
    struct fg_conf_section *sections;
    size_t n_sections;
    const struct fg_conf_other *others; /* a section that is also in sections counts as known */
    size_t n_others;
};

/*
 * Fills the structs of the sections: first with the defaults, then from the YAML file (NULL or "":
 * none), then from env (NULL: none; else a NULL-terminated array of "NAME=value", of which those
 * that begin with FG_ are used and unknown ones are logged), then from flags ("--key=value" or
 * "--key" "value"), which contain settings only.
 *
 * FG_E_INVALID names the file and line (or the variable or flag), the fault, and for an unknown key
 * the nearest known one. Unknown and duplicate keys, aliases, anchors, tags and several documents
 * in the YAML are errors.
 */
enum fg_code fg_conf_load(struct fg_conf *conf, const char *yaml_path, char *const *env,
                          char *const *flags, size_t n_flags, struct fg_err *err) fg_must_check;

/* Applies YAML from memory; `name` stands for the file in errors. Errors are those of
 * fg_conf_load(). */
enum fg_code fg_conf_parse_yaml(struct fg_conf *conf, struct fg_slice yaml, const char *name,
                                struct fg_err *err) fg_must_check;

/*
 * Calls each() with the keys of the map `map`, which is the only key at the top level of the YAML,
 * in their order: for files whose keys users choose ("overrides:", with a map per tenant). It skips
 * the values. An empty document has no keys. FG_E_INVALID as above, and for any other key at the
 * top level.
 */
enum fg_code fg_conf_yaml_keys(struct fg_slice yaml, const char *name, const char *map,
                               void (*each)(struct fg_slice key, void *arg), void *arg,
                               struct fg_err *err) fg_must_check;

/* Appends a file to `out`, which is initialised. If less than 4 KiB of room are left then, the
 * content may be cut off: this returns FG_OK and sets out->full. Errors are those of the system and
 * name the file. May block. */
enum fg_code fg_conf_read_file(const char *path, struct fg_buf *out,
                               struct fg_err *err) fg_must_check;

/* Copies the values of a section to `values`, a struct of the same type that owns its strings. */
void fg_conf_copy(const struct fg_conf_section *section, void *values);

/* Sets an empty string setting to the name of this host. FG_E_UNAVAILABLE names the setting: the
 * host has no name. */
enum fg_code fg_conf_default_host(char **value, const char *setting,
                                  struct fg_err *err) fg_must_check;

/* Frees the strings in the structs of the sections. */
void fg_conf_done(struct fg_conf *conf);

/* A setting as it is in force. Texts are borrowed until the call that got it returns. */
struct fg_conf_setting {
    struct fg_slice name;  /* "ingester.head_max_bytes" */
    struct fg_slice value; /* as users write it; of a secret: "***", or "" if it is not set */
    bool differs;          /* from the default */
    const struct fg_conf_field *field;
};

/* Calls each() with all settings, those of one section together. */
void fg_conf_each(const struct fg_conf *conf,
                  void (*each)(void *arg, const struct fg_conf_setting *setting), void *arg);

/* Write all settings: as YAML with secrets masked, as Markdown, and for --help. */
void fg_conf_write_yaml(const struct fg_conf *conf, struct fg_buf *out);
void fg_conf_write_docs(const struct fg_conf *conf, struct fg_buf *out);
void fg_conf_write_help(const struct fg_conf *conf, struct fg_buf *out);

/* Appends the value of one setting as users write it; that of a secret is not shown. values: the
 * struct that the field's offset is in. */
void fg_conf_write_value(const struct fg_conf_field *field, const void *values, struct fg_buf *out);

/* Appends a duration, which is not negative, as a setting shows it: "30d", "1h30m", "0". */
void fg_conf_write_duration(int64_t ns, struct fg_buf *out);

/* Parses a duration. Returns NULL, or the fault of the text ("needs a unit (ns us …)"). */
const char *fg_conf_read_duration(struct fg_slice text, int64_t *ret_ns) fg_must_check;

#endif
