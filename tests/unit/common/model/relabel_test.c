#include "common/model/relabel.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { LABELS_MAX = 16, WORK = 1 << 20 };

/* "a=1 b=2", sorted by name, as a set; values end at the blank. */
static struct fg_labels labels_of(const char *text, struct fg_label *items)
{
    struct fg_slice rest = fg_cstr(text);
    struct fg_labels labels = {items, 0};

    while (rest.len > 0) {
        struct fg_slice pair = fg_slice_sub(rest, 0, fg_slice_find(rest, ' '));
        size_t equals = fg_slice_find(pair, '=');

        assert_true(labels.count < LABELS_MAX && equals != SIZE_MAX);
        items[labels.count++] = (struct fg_label){fg_slice_sub(pair, 0, equals),
                                                  fg_slice_sub(pair, equals + 1, pair.len)};
        rest = fg_slice_sub(rest, pair.len + 1, rest.len);
    }
    return labels;
}

/* What the rules make of the set: written again in that form, or "dropped". In the arena. */
static const char *apply(const struct fg_relabel *rules, const char *text, struct fg_arena *arena)
{
    struct fg_label items[LABELS_MAX];
    struct fg_labels labels = labels_of(text, items);
    uint64_t work = WORK;
    const char *out;
    struct fg_buf buf;
    struct fg_err err;
    bool kept;

    assert_int_equal(fg_relabel_apply(rules, arena, &work, &labels, &kept, &err), FG_OK);
    if (!kept)
        return "dropped";
    fg_buf_init(&buf, 4096);
    for (size_t i = 0; i < labels.count; i++) {
        assert_true(labels.items[i].value.len > 0);
        if (i > 0)
            assert_true(fg_slice_cmp(labels.items[i - 1].name, labels.items[i].name) < 0);
        fg_buf_printf(&buf, "%s%.*s=%.*s", i > 0 ? " " : "", FG_S(labels.items[i].name),
                      FG_S(labels.items[i].value));
    }
    out = fg_arena_text(arena, fg_buf_slice(&buf));
    fg_buf_done(&buf);
    return out;
}

static struct fg_relabel *parse(const char *yaml, enum fg_relabel_defaults defaults)
{
    struct fg_relabel *rules = NULL;
    struct fg_err err = {.msg = ""};

    if (fg_relabel_parse(fg_cstr(yaml), "rules", defaults, &rules, &err) != FG_OK)
        fail_msg("%s", err.msg);
    return rules;
}

/* Each checked against Prometheus 3.7's model/relabel with UTF-8 names. */
/* clang-format off */
static const struct {
    const char *yaml, *in, *want;
} rewritten[] = {
    {"", "a=1", "a=1"},
    {"[]", "a=1", "a=1"},
    {"~", "", ""},

    /* replace */
    {"- {source_labels: [a], target_label: b}", "a=1", "a=1 b=1"},
    {"- {source_labels: [a], target_label: c}", "a=1 b=2 d=3", "a=1 b=2 c=1 d=3"},
    {"- {source_labels: [a], target_label: a}", "a=1", "a=1"},
    {"- {source_labels: [z], target_label: a}", "a=1 b=2", "b=2"}, /* a becomes empty */
    {"- {source_labels: [z], target_label: y}", "a=1", "a=1"},
    {"- {target_label: cluster, replacement: eu-1}", "a=1 d=2", "a=1 cluster=eu-1 d=2"},
    {"- {target_label: a, replacement: ''}", "a=1 d=2", "d=2"},
    {"- {source_labels: [a, b], target_label: ab}", "a=1 b=2", "a=1 ab=1;2 b=2"},
    {"- {source_labels: [a, z, b], target_label: x, separator: '//'}", "a=1 b=2", "a=1 b=2 x=1////2"},
    {"- {source_labels: [a, b], target_label: x, separator: ''}", "a=1 b=2", "a=1 b=2 x=12"},
    {"- {source_labels: [a], regex: 'f(.*)', target_label: x, replacement: '$1$1'}", "a=foo", "a=foo x=oooo"},
    {"- {source_labels: [a], regex: 'o', target_label: x}", "a=foo", "a=foo"}, /* the whole has to match */
    {"- {source_labels: [a], regex: '(f)(.)(.)', target_label: '${2}_$3', replacement: '$1'}", "a=fab", "a=fab a_b=f"},
    {"- {source_labels: [a], regex: '(f)(x)?.*', target_label: '$2', replacement: y}", "a=foo", "a=foo"}, /* no name */
    {"- {source_labels: [a], regex: '(f)(x)?.*', target_label: x, replacement: '$2'}", "a=foo x=1", "a=foo"},
    {"- {source_labels: [a], regex: '(?P<id>[0-9]+).*', target_label: id, replacement: 'n-${id}'}", "a=12ab", "a=12ab id=n-12"},
    {"- {source_labels: [k8s.pod], target_label: pod/name}", "k8s.pod=x", "k8s.pod=x pod/name=x"},
    {"- {source_labels: [a], target_label: b}\n- {source_labels: [b], target_label: c}", "a=1", "a=1 b=1 c=1"},
    {"- {source_labels: [a], regex: '', target_label: b, replacement: none}", "c=1", "b=none c=1"},
    {"- {source_labels: [a], regex: '', target_label: b, replacement: none}", "a=1", "a=1"},
    {"- {replacement: x, target_label: 9}", "a=1", "9=x a=1"},
    {"- {replacement: $$1, target_label: b}", "a=1", "a=1 b=$1"},

    /* keep and drop */
    {"- {source_labels: [env], regex: prod, action: keep}", "env=prod", "env=prod"},
    {"- {source_labels: [env], regex: prod, action: keep}", "env=production", "dropped"},
    {"- {source_labels: [env], regex: prod, action: keep}", "a=1", "dropped"},
    {"- {source_labels: [env], regex: 'dev|test', action: drop}", "env=test", "dropped"},
    {"- {source_labels: [env], regex: 'dev|test', action: drop}", "env=prod", "env=prod"},
    {"- {source_labels: [env, zone], regex: 'a;b', action: drop}", "env=a zone=b", "dropped"},
    {"- {action: drop}", "a=1", "dropped"}, /* (.*) matches nothing at all, too */
    {"- {action: keep}", "a=1", "a=1"},
    {"- {source_labels: [a], regex: '', action: keep}", "b=1", "b=1"},
    {"- {source_labels: [a], regex: x, action: drop}\n- {target_label: a, replacement: z}", "a=x", "dropped"},
    {"- {source_labels: [env], regex: prod, action: KEEP}", "env=prod", "env=prod"},

    /* keepequal and dropequal */
    {"- {source_labels: [a], target_label: b, action: keepequal}", "a=1 b=1", "a=1 b=1"},
    {"- {source_labels: [a], target_label: b, action: keepequal}", "a=1 b=2", "dropped"},
    {"- {source_labels: [a], target_label: b, action: keepequal}", "c=1", "c=1"}, /* both are empty */
    {"- {source_labels: [a], target_label: b, action: dropequal}", "a=1 b=1", "dropped"},
    {"- {source_labels: [a], target_label: b, action: dropequal}", "a=1", "a=1"},
    {"- {source_labels: [a, b], target_label: c, action: dropequal}", "a=1 b=2 c=1;2", "dropped"},

    /* hashmod: md5("foo;bar")'s last eight bytes are 15973639978189266750, of "" 16825458760271544958 */
    {"- {source_labels: [a], modulus: 18446744073709551615, target_label: h, action: hashmod}", "a=a", "a=a h=3585878926028121697"},
    {"- {source_labels: [a, b], modulus: 1000, target_label: h, action: hashmod}", "a=foo b=bar", "a=foo b=bar h=750"},
    {"- {source_labels: [a], modulus: 10, target_label: h, action: hashmod}", "b=1", "b=1 h=8"},
    {"- {source_labels: [a], modulus: 1, target_label: a, action: hashmod}", "a=x", "a=0"},

    /* lowercase and uppercase */
    {"- {source_labels: [a], target_label: b, action: lowercase}", "a=Foo-Bar_1", "a=Foo-Bar_1 b=foo-bar_1"},
    {"- {source_labels: [a], target_label: b, action: uppercase}", "a=foo-Bar_1", "a=foo-Bar_1 b=FOO-BAR_1"},
    {"- {source_labels: [a], target_label: a, action: lowercase}", "a=ÀÉΣЖİ", "a=àéσжi"},
    {"- {source_labels: [a], target_label: a, action: uppercase}", "a=àéßσжÿıȿ", "a=ÀÉßΣЖŸIⱾ"},
    {"- {source_labels: [a, b], target_label: c, action: uppercase}", "a=x b=y", "a=x b=y c=X;Y"},
    {"- {source_labels: [z], target_label: a, action: uppercase}", "a=x b=y", "b=y"},

    /* labelmap */
    {"- {regex: '__meta_(.+)', action: labelmap}", "__meta_pod=x __meta_zone=y a=1", "__meta_pod=x __meta_zone=y a=1 pod=x zone=y"},
    {"- {regex: '(.)(.)', replacement: '$2$1', action: labelmap}", "ab=1 ba=2 cd=3", "ab=2 ba=1 cd=3 dc=3"},
    {"- {regex: 'a|b', replacement: x, action: labelmap}", "a=1 b=2", "a=1 b=2 x=2"},
    {"- {regex: 'a', replacement: b, action: labelmap}", "a=1 b=2", "a=1 b=1"},
    {"- {regex: '(x?)a', replacement: '$1', action: labelmap}", "xa=1", "x=1 xa=1"},
    {"- {action: labelmap}", "a=1 b=2", "a=1 b=2"},
    {"- {regex: '(a|b)', replacement: 'x_${1}', action: labelmap}", "a=1 b=2", "a=1 b=2 x_a=1 x_b=2"},

    /* labeldrop and labelkeep */
    {"- {regex: '__meta_.*', action: labeldrop}", "__meta_a=1 __meta_b=2 c=3", "c=3"},
    {"- {regex: 'a', action: labeldrop}", "a=1 aa=2", "aa=2"},
    {"- {action: labeldrop}", "a=1 aa=2", ""},
    {"- {regex: 'a|c', action: labelkeep}", "a=1 b=2 c=3", "a=1 c=3"},
    {"- {regex: 'z', action: labelkeep}", "a=1", ""},
    {"- {regex: 'a', action: labeldrop, separator: ;, replacement: $1}", "a=1 b=2", "b=2"},

    /* the ways to write YAML */
    {"# comment\n- source_labels:\n  - a\n  target_label: 'b'\n  regex: >-\n    (x)\n", "a=x", "a=x b=x"},
    {"[{\"source_labels\": [\"a\"], \"regex\": \"x\\\\.y\", \"action\": \"drop\"}]", "a=x.y", "dropped"},
    {"- {source_labels: [], target_label: b, replacement: c}", "a=1", "a=1 b=c"},
    {"---\n- {target_label: b, replacement: c}\n...\n", "a=1", "a=1 b=c"},

    /* examples of Prometheus' documentation: an address by a parameter, a path, a shard */
    {"- {source_labels: [__address__], target_label: __param_target}\n"
     "- {source_labels: [__param_target], target_label: instance}\n"
     "- {target_label: __address__, replacement: '127.0.0.1:9115'}", "__address__=prometheus.io",
     "__address__=127.0.0.1:9115 __param_target=prometheus.io instance=prometheus.io"},
    {"- source_labels: [__address__, __meta_port]\n  action: replace\n  regex: '([^:]+)(?::\\d+)?;(\\d+)'\n"
     "  replacement: '$1:$2'\n  target_label: __address__", "__address__=10.0.0.1:80 __meta_port=9102",
     "__address__=10.0.0.1:9102 __meta_port=9102"},
    {"- {source_labels: [__address__], modulus: 4, target_label: __tmp_hash, action: hashmod}\n"
     "- {source_labels: [__tmp_hash], regex: ^3$, action: keep}\n- {regex: __tmp_hash, action: labeldrop}",
     "__address__=host-1", "dropped"},
};
/* clang-format on */

static void rules_rewrite_as_in_prometheus(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(rewritten); i++) {
        fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
        fg_auto(fg_relabel) *rules = parse(rewritten[i].yaml, FG_RELABEL_DEFAULTS_DISABLED);

        print_message("  %s\n    %s\n", rewritten[i].yaml, rewritten[i].in);
        assert_string_equal(apply(rules, rewritten[i].in, arena), rewritten[i].want);
    }
}

/* distributor/API.md#relabelling */
static void default_rules_know_old_agents(void **state)
{
    /* clang-format off */
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"__name__=process_cpu service_name=a", "__name__=process_cpu service_name=a"},
        {"service_name=a", "service_name=a"},
        {"__name__=godeltaprof_memory service_name=a",
         "__delta__=false __name__=memory __name_replaced__=godeltaprof_memory service_name=a"},
        {"__delta__=true __name__=godeltaprof_block", "__delta__=false __name__=block __name_replaced__=godeltaprof_block"},
        {"__name__=godeltaprof_", "__delta__=false __name_replaced__=godeltaprof_"},
        {"__name__=wall", "__name__=wall"},
        {"__name__=wall __type__=cpu", "__name__=process_cpu __name_replaced__=wall __type__=cpu"},
        {"__name__=wall __type__=samples", "__name__=wall __type__=samples"},
        {"__name__=godeltaprof_wall __type__=cpu",
         "__delta__=false __name__=process_cpu __name_replaced__=wall __type__=cpu"},
    };
    /* clang-format on */
    fg_auto(fg_relabel) *rules = parse("", FG_RELABEL_DEFAULTS_FIRST);

    (void)state;
    assert_int_equal(fg_relabel_count(rules), 5);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);

        print_message("  %s\n", cases[i].in);
        assert_string_equal(apply(rules, cases[i].in, arena), cases[i].want);
    }
}

static void default_rules_are_placed_as_configured(void **state)
{
    static const char own[] = "- {source_labels: [__name__], target_label: seen}\n"
                              "- {target_label: __name__, replacement: godeltaprof_x}\n";
    static const char *const want[] = {
        [FG_RELABEL_DEFAULTS_FIRST] =
            "__delta__=false __name__=godeltaprof_x __name_replaced__=godeltaprof_y seen=y",
        [FG_RELABEL_DEFAULTS_LAST] =
            "__delta__=false __name__=x __name_replaced__=godeltaprof_x seen=godeltaprof_y",
        [FG_RELABEL_DEFAULTS_DISABLED] = "__name__=godeltaprof_x seen=godeltaprof_y",
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(want); i++) {
        fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
        fg_auto(fg_relabel) *rules = parse(own, (enum fg_relabel_defaults)i);

        assert_int_equal(fg_relabel_count(rules), i == FG_RELABEL_DEFAULTS_DISABLED ? 2 : 7);
        assert_string_equal(apply(rules, "__name__=godeltaprof_y", arena), want[i]);
    }
}

/* clang-format off */
static const struct {
    const char *yaml, *msg;
} bad[] = {
    {"a: b", "rules must be a list at rules:1"},
    {"drop", "rules must be a list at rules:1"},
    {"- drop", "rule 1: must be a map with keys such as source_labels and regex at rules:1"},
    {"- [a]", "rule 1: must be a map with keys such as source_labels and regex at rules:1"},
    {"-", "rule 1: must be a map with keys such as source_labels and regex at rules:1"},
    {"- {target_label: a}\n---\n- {target_label: a}\n", "a second document at rules:2"},
    {"- {target_label: a\n", "did not find expected ',' or '}' at rules:2"},
    {"- {target_label: \"\xff\"}", "invalid leading UTF-8 octet at rules:1"},

    {"- {source_label: [a]}", "rule 1: unknown key \"source_label\" (did you mean \"source_labels\"?) at rules:1"},
    {"- target_label: a\n\n- target_label: a\n  replace: b\n", "rule 2: unknown key \"replace\" at rules:4"},
    {"- {Regex: a}", "rule 1: unknown key \"Regex\" (did you mean \"regex\"?) at rules:1"},
    {"- {? [a] : b}", "rule 1: expected a key, found a list or map at rules:1"},
    {"- regex: a\n  regex: a\n", "rule 1: regex is given twice at rules:2"},

    {"- {regex: &x a}", "an anchor is not a setting at rules:1"},
    {"- &x {regex: a}", "an anchor is not a setting at rules:1"},
    {"- {source_labels: &x [a]}", "an anchor is not a setting at rules:1"},
    {"- {regex: *x}", "an alias is not a setting at rules:1"},
    {"- {modulus: !!int 1}", "a tag is not a setting at rules:1"},

    {"- {source_labels: a}", "rule 1: source_labels must be a list, such as [namespace, pod] at rules:1"},
    {"- {source_labels: }", "rule 1: source_labels must be a list, such as [namespace, pod] at rules:1"},
    {"- {source_labels: {a: b}}", "rule 1: source_labels must be a list, such as [namespace, pod] at rules:1"},
    {"- {source_labels: [[a]]}", "rule 1: source_labels must be a string, not a list or map at rules:1"},
    {"- {source_labels: ['']}", "rule 1: source_labels has a label without a name at rules:1"},
    {"- {source_labels: [~]}", "rule 1: source_labels has no value; an empty text is '' at rules:1"},
    {"- {regex: [a]}", "rule 1: regex must be a string, not a list or map at rules:1"},
    {"- {target_label: {a: b}}", "rule 1: target_label must be a string, not a list or map at rules:1"},
    {"- target_label: a\n  replacement:\n", "rule 1: replacement has no value; an empty text is '' at rules:2"},
    {"- {regex: }", "rule 1: regex has no value; an empty text is '' at rules:1"},
    {"- {modulus: many}", "rule 1: modulus \"many\" is not a whole number at rules:1"},
    {"- {modulus: -1}", "rule 1: modulus \"-1\" is not a whole number at rules:1"},
    {"- {modulus: 18446744073709551616}", "rule 1: modulus \"18446744073709551616\" is not a whole number at rules:1"},
    {"- {action: replcae}", "rule 1: unknown action \"replcae\" (did you mean \"replace\"?) at rules:1"},
    {"- {action: encrypt}", "rule 1: unknown action \"encrypt\" at rules:1"},
    {"- {action: ''}", "rule 1: unknown action \"\" at rules:1"},

    {"- {}", "rule 1: replace needs a target_label at rules:1"},
    {"- {source_labels: [a]}", "rule 1: replace needs a target_label at rules:1"},
    {"- regex: a\n  target_label: ''\n", "rule 1: replace needs a target_label at rules:1"},
    {"- {action: hashmod, modulus: 1}", "rule 1: hashmod needs a target_label at rules:1"},
    {"- {action: hashmod, target_label: a}", "rule 1: hashmod needs a modulus above 0 at rules:1"},
    {"- {action: hashmod, target_label: a, modulus: 0}", "rule 1: hashmod needs a modulus above 0 at rules:1"},
    {"- {action: lowercase}", "rule 1: lowercase needs a target_label at rules:1"},
    {"- {action: uppercase}", "rule 1: uppercase needs a target_label at rules:1"},
    {"- {action: keepequal}", "rule 1: keepequal needs a target_label at rules:1"},
    {"- {action: dropequal}", "rule 1: dropequal needs a target_label at rules:1"},
    {"- {action: lowercase, target_label: a, replacement: b}", "rule 1: lowercase takes no replacement at rules:1"},
    {"- {action: uppercase, target_label: a, replacement: ''}", "rule 1: uppercase takes no replacement at rules:1"},
    {"- {action: keepequal, target_label: a, regex: b}", "rule 1: keepequal takes only source_labels and target_label at rules:1"},
    {"- {action: keepequal, target_label: a, modulus: 1}", "rule 1: keepequal takes only source_labels and target_label at rules:1"},
    {"- {action: dropequal, target_label: a, separator: '-'}", "rule 1: dropequal takes only source_labels and target_label at rules:1"},
    {"- {action: dropequal, target_label: a, replacement: x}", "rule 1: dropequal takes only source_labels and target_label at rules:1"},
    {"- {action: labelmap, replacement: ''}", "rule 1: labelmap needs a replacement, which is the new name at rules:1"},
    {"- {action: labeldrop, source_labels: [a]}", "rule 1: labeldrop takes only regex at rules:1"},
    {"- {action: labeldrop, target_label: a}", "rule 1: labeldrop takes only regex at rules:1"},
    {"- {action: labelkeep, modulus: 2}", "rule 1: labelkeep takes only regex at rules:1"},
    {"- {action: labelkeep, separator: ','}", "rule 1: labelkeep takes only regex at rules:1"},
    {"- {action: labelkeep, replacement: a}", "rule 1: labelkeep takes only regex at rules:1"},

    {"- {target_label: a}\n- target_label: a\n  regex: '('\n", "rule 2: regex: missing ): ( at rules:2"},
    {"- {action: drop, regex: 'a{2000}'}", "rule 1: regex: invalid repetition size: {2000} at rules:1"},
};
/* clang-format on */

static void errors_name_rule_and_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(bad); i++) {
        struct fg_relabel *rules = NULL;
        struct fg_err err;

        print_message("  %s\n", bad[i].yaml);
        assert_int_equal(fg_relabel_parse(fg_cstr(bad[i].yaml), "rules", FG_RELABEL_DEFAULTS_FIRST,
                                          &rules, &err),
                         FG_E_INVALID);
        assert_string_equal(err.msg, bad[i].msg);
        assert_null(rules);
    }
}

static void the_number_of_rules_is_limited(void **state)
{
    struct fg_relabel *rules = NULL;
    struct fg_buf yaml;
    struct fg_err err;

    (void)state;
    fg_buf_init(&yaml, 4 << 20);
    for (size_t i = 0; i < FG_RELABEL_RULES_MAX; i++)
        fg_buf_puts(&yaml, "- {target_label: a}\n");
    assert_int_equal(
        fg_relabel_parse(fg_buf_slice(&yaml), "r", FG_RELABEL_DEFAULTS_LAST, &rules, &err), FG_OK);
    assert_int_equal(fg_relabel_count(rules), FG_RELABEL_RULES_MAX + 5);
    fg_relabel_unref(rules);
    fg_buf_puts(&yaml, "- {target_label: a}\n");
    assert_int_equal(
        fg_relabel_parse(fg_buf_slice(&yaml), "r", FG_RELABEL_DEFAULTS_LAST, &rules, &err),
        FG_E_INVALID);
    assert_string_equal(err.msg, "more than 128 rules at r:129");

    fg_buf_clear(&yaml);
    fg_buf_puts(&yaml, "- {action: drop, source_labels: [a");
    for (size_t i = 0; i < FG_RELABEL_SOURCES_MAX; i++)
        fg_buf_puts(&yaml, ", a");
    fg_buf_puts(&yaml, "]}");
    assert_int_equal(fg_relabel_parse_types(fg_buf_slice(&yaml), "r", &rules, &err), FG_E_INVALID);
    assert_string_equal(err.msg, "rule 1: more than 64 source_labels at r:1");

    fg_buf_clear(&yaml);
    fg_buf_puts(&yaml, "- {replacement: ");
    for (size_t i = 0; i < FG_RELABEL_TEXT_MAX_BYTES + 1; i++)
        fg_buf_putc(&yaml, 'x');
    fg_buf_puts(&yaml, "}");
    assert_int_equal(fg_relabel_parse_types(fg_buf_slice(&yaml), "r", &rules, &err), FG_E_INVALID);
    assert_string_equal(err.msg, "rule 1: replacement of 4097 bytes is longer than 4096 at r:1");

    fg_buf_clear(&yaml); /* each $ is a part of its own */
    for (size_t i = 0; i < 100; i++) {
        fg_buf_puts(&yaml, "- {target_label: a, replacement: '");
        for (size_t n = 0; n < FG_RELABEL_TEXT_MAX_BYTES; n++)
            fg_buf_putc(&yaml, '$');
        fg_buf_puts(&yaml, "'}\n");
    }
    assert_int_equal(
        fg_relabel_parse(fg_buf_slice(&yaml), "r", FG_RELABEL_DEFAULTS_FIRST, &rules, &err),
        FG_E_INVALID);
    assert_non_null(strstr(err.msg, ": the list needs more than 8388608 bytes of memory at r:"));

    fg_buf_clear(&yaml);
    for (size_t i = 0; i <= 1 << 20; i++)
        fg_buf_putc(&yaml, '[');
    assert_int_equal(fg_relabel_parse_types(fg_buf_slice(&yaml), "r", &rules, &err), FG_E_INVALID);
    assert_string_equal(err.msg, "r is larger than 1 MiB");
    yaml.len = 1 << 20;
    assert_int_equal(fg_relabel_parse_types(fg_buf_slice(&yaml), "r", &rules, &err), FG_E_INVALID);
    assert_string_equal(err.msg,
                        "rule 1: must be a map with keys such as source_labels and regex at r:1");
    fg_buf_done(&yaml);
}

static void sample_types_are_kept_or_dropped_only(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    struct fg_relabel *rules = NULL;
    struct fg_err err;

    (void)state;
    assert_int_equal(
        fg_relabel_parse_types(FG_LIT("- {source_labels: [__type__], regex: 'alloc_.*', "
                                      "action: drop}\n"
                                      "- {source_labels: [service_name], regex: a, action: keep}"),
                               "t", &rules, &err),
        FG_OK);
    assert_int_equal(fg_relabel_count(rules), 2);
    assert_string_equal(apply(rules, "__type__=alloc_space service_name=a", arena), "dropped");
    assert_string_equal(apply(rules, "__type__=cpu service_name=b", arena), "dropped");
    assert_string_equal(apply(rules, "__type__=cpu service_name=a", arena),
                        "__type__=cpu service_name=a");
    fg_relabel_unref(rules);
    assert_int_equal(fg_relabel_parse_types(FG_LIT("- {target_label: a}"), "t", &rules, &err),
                     FG_E_INVALID);
    assert_string_equal(
        err.msg,
        "rule 1: sample types can only be kept or dropped; replace is not available at t:1");
}

/* What the rules put into a set is good without them. */
static void label_sets_outlive_their_rules(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    struct fg_relabel *rules = parse("- {target_label: new, replacement: text}\n"
                                     "- {source_labels: [new], target_label: copy}\n",
                                     FG_RELABEL_DEFAULTS_DISABLED);
    struct fg_label items[LABELS_MAX];
    struct fg_labels labels = labels_of("a=1", items);
    uint64_t work = WORK;
    struct fg_err err;
    bool kept;

    (void)state;
    assert_ptr_equal(fg_relabel_ref(rules), rules);
    fg_relabel_unref(rules);
    assert_int_equal(fg_relabel_apply(rules, arena, &work, &labels, &kept, &err), FG_OK);
    fg_relabel_unref(rules);
    fg_relabel_unref(NULL);
    assert_true(fg_slice_is(fg_labels_get(&labels, "new"), "text"));
    assert_true(fg_slice_is(fg_labels_get(&labels, "copy"), "text"));
}

/* Every way of asking for much ends, with the arena or the work used up. */
static void work_and_memory_are_limited(void **state)
{
    static const char *const rules[] = {
        "- {source_labels: [a, a, a, a], target_label: b}",
        "- {source_labels: [a], target_label: a, replacement: $1$1$1$1}",
        "- {source_labels: [a], target_label: $1x$1}",
        "- {source_labels: [a], regex: '(x+).*', target_label: b}",
        "- {source_labels: [a], regex: '[x]+', action: drop}",
        "- {source_labels: [a], target_label: b, action: uppercase}",
        "- {source_labels: [a], target_label: b, action: hashmod, modulus: 7}",
        "- {source_labels: [a], target_label: b, action: dropequal}",
        "- {regex: '(.*)', replacement: '$1$1$1', action: labelmap}",
        "- {regex: '[x]+', action: labelkeep}",
    };
    static uint8_t text[100000];

    (void)state;
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < FG_COUNT(rules); i++) {
        fg_auto(fg_relabel) *list = parse(rules[i], FG_RELABEL_DEFAULTS_DISABLED);

        print_message("  %s\n", rules[i]);
        for (uint64_t limit = 0; limit < 2; limit++) {
            fg_auto(fg_arena) *arena = fg_arena_create(limit == 0 ? 1 << 30 : 0);
            struct fg_label items[] = {{FG_LIT("a"), fg_bytes(text, sizeof text)},
                                       {fg_bytes(text, sizeof text), FG_LIT("1")}};
            struct fg_labels labels = {items, FG_COUNT(items)};
            uint64_t work = limit == 0 ? sizeof text / 2 : UINT64_MAX;
            struct fg_err err = {.code = FG_OK};
            bool kept;

            if (fg_relabel_apply(list, arena, &work, &labels, &kept, &err) == FG_OK)
                assert_int_equal(limit, 1); /* matching alone needs no memory */
            else
                assert_int_equal(err.code, FG_E_TOO_LARGE);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_rewrite_as_in_prometheus),
        cmocka_unit_test(default_rules_know_old_agents),
        cmocka_unit_test(default_rules_are_placed_as_configured),
        cmocka_unit_test(errors_name_rule_and_line),
        cmocka_unit_test(the_number_of_rules_is_limited),
        cmocka_unit_test(sample_types_are_kept_or_dropped_only),
        cmocka_unit_test(label_sets_outlive_their_rules),
        cmocka_unit_test(work_and_memory_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
