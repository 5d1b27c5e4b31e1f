/* rhrun validate SPEC... and rhrun validate --schema FILE DOC...: 0 valid, 2 not. --schema provider: provider files. */
#include "internal.h"

#include "rhrun/provider.h"
#include "rhrun/schema.h"

/* An error that is not a fault in a spec's text (a file that cannot be read) is reported and counted like one. */
static void add_error(struct diagnostics *all, const struct error *err)
{
    struct diagnostic *d = diagnostics_add(all, SEVERITY_ERROR, (struct place){0}, "%s", err->text);
    if (err->hint[0])
        diagnostic_hint(d, "%s", err->hint);
}

/* Any document against any schema. */
static int validate_against(struct cli *c, const struct schema *schema, const char *path, struct diagnostics *d)
{
    struct arena *arena = c->arena;
    struct doc *doc;
    struct error err = ERROR_INIT;
    size_t errors = d->errors;
    if (doc_load_file(path, DOC_FORMAT_AUTO, arena, &doc, d, &err) < 0) {
        if (d->errors == errors)
            add_error(d, &err);
        return 2;
    }
    doc_hidden_says(doc, "the value here does not fit the schema");
    return schema_validate(schema, doc->root, d) ? 0 : 2;
}

/* A provider file has rules that a schema cannot express: its templates, its paths. */
static int validate_provider(struct cli *c, const char *path, struct diagnostics *d)
{
    struct provider *provider = NULL;
    struct error err = ERROR_INIT;
    size_t errors = d->errors;
    int rc = provider_load_file(path, c->arena, &provider, d, &err);
    if (rc < 0 && d->errors == errors)
        add_error(d, &err);
    provider_destroy(provider);
    return rc < 0 ? 2 : 0;
}

static int with_schema(struct cli *c)
{
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    struct doc *doc;
    struct schema *schema = NULL;
    bool providers = str_eq(c->value[OPT_SCHEMA], "provider");
    int rc = 0;
    if (!providers && (doc_load_file(c->value[OPT_SCHEMA], DOC_FORMAT_AUTO, c->arena, &doc, &d, &err) < 0 ||
                       schema_compile(doc->root, c->arena, &schema, &d, &err) < 0)) {
        if (d.count)
            cli_print_diagnostics(c, &d);
        cli_print_error(c, &err);
        diagnostics_free(&d);
        return 2;
    }
    for (size_t i = 0; i < c->word_count; i++)
        if (providers ? validate_provider(c, c->words[i], &d) : validate_against(c, schema, c->words[i], &d))
            rc = 2;
    if (d.count || c->given[OPT_JSON])
        cli_print_diagnostics(c, &d);
    if (rc && !c->given[OPT_JSON])
        fprintf(stderr, "rhrun: not valid: %zu fault%s\n", d.errors, d.errors == 1 ? "" : "s");
    else if (!rc && !c->given[OPT_QUIET] && !c->given[OPT_JSON])
        fprintf(stderr, "rhrun: valid: %zu document%s\n", c->word_count, c->word_count == 1 ? "" : "s");
    schema_destroy(schema);
    diagnostics_free(&d);
    return rc;
}

static int cmd_validate(struct cli *c)
{
    int rc = 0;
    if (c->given[OPT_SCHEMA])
        return with_schema(c);
    struct diagnostics all = {0};
    for (size_t i = 0; i < c->word_count; i++) {
        struct spec_overrides o = cli_overrides(c);
        o.thorough = true;
        struct error err = ERROR_INIT;
        struct spec *spec;
        struct rent_offers offers;
        size_t errors = all.errors;
        if (spec_load(c->words[i], &o, c->arena, &spec, &all, &err) < 0) {
            rc = 2;
            if (all.errors == errors)
                add_error(&all, &err);
        } else if (spec->rent && !spec->rent->cluster &&
                   rent_offers(spec->rent, spec->nnodes, c->arena, &offers, &all, &err) < 0) {
            rc = 2;
            if (all.errors == errors)
                add_error(&all, &err);
        } else if (!c->given[OPT_QUIET] && !c->given[OPT_JSON]) {
            fprintf(stderr, "%s: valid\n", c->words[i]);
        }
    }
    if (all.count || c->given[OPT_JSON])
        cli_print_diagnostics(c, &all);
    if (rc && !c->given[OPT_JSON])
        fprintf(stderr, "rhrun: not valid: %zu fault%s\n", all.errors, all.errors == 1 ? "" : "s");
    diagnostics_free(&all);
    return rc;
}

static const enum cli_option_id options[] = {OPT_SCHEMA, OPT_SET, OPT_PARAM, OPT_ON, OPT_COUNT};
const struct cli_command cmd_validate_command = {
    "validate",
    "SPEC... | --schema FILE DOC...",
    "Check specs, or any YAML or JSON against a schema",
    "Reports every fault at once with its place; `bash -n` checks shell text if this\n"
    "machine has a bash. Touches nothing, asks no host. --schema provider checks\n"
    "files of providers (providers/NAME.yaml). Exit status 0 if all are valid, else\n"
    "2.",
    options,
    1,
    10000,
    true,
    cmd_validate};
