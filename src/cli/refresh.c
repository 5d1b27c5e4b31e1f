/*
 * rhrun prices --refresh: asks the providers that publish prices, all at once, and keeps their answers in the cache
 * folder. Providers are independent: one that fails keeps its former prices.
 */
#include "renting.h"

#include <stdlib.h>
#include <string.h>

enum { TOLD_MAX = 5, RATES_MAX = 32 };

struct refresh;
struct asked {
    struct refresh *r;
    const char *provider;
    struct rent_asking *asking;
};
struct refresh {
    struct cli *c;
    struct loop *loop;
    struct arena *arena;
    const char *folder;
    struct catalog *catalog; /* the built-in one: names of accelerators */
    struct catalog_regions regions;
    struct rent_rate rates[RATES_MAX];
    size_t rate_count;
    struct asked *asked;
    size_t count, waiting;
    struct buf failed;     /* names of providers that failed */
    enum error_code worst; /* of the worst failure: decides the exit status */
};

/* ---- messages ---- */

static void say(const struct refresh *r, const char *fmt, ...) FORMAT(2, 3);
static void say(const struct refresh *r, const char *fmt, ...)
{
    va_list ap;
    if (r->c->given[OPT_QUIET])
        return;
    fputs("rhrun: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

/* The first of the refused rows; a provider may send thousands. */
static void say_refused(const struct refresh *r, const char *provider, struct diagnostics *d)
{
    struct buf text = {0};
    struct diagnostics some = *d;
    if (r->c->given[OPT_QUIET] || d->count == 0)
        return;
    some.count = d->count < TOLD_MAX ? d->count : TOLD_MAX;
    diagnostics_format(&some, r->c->color_err, &text);
    fputs(text.data, stderr);
    buf_free(&text);
    if (d->count > some.count)
        say(r, "%s: %zu more faults of that kind", provider, d->count - some.count);
}

static void failed(struct refresh *r, const char *provider, const struct error *err)
{
    cli_print_error(r->c, err);
    buf_printf(&r->failed, "%s%s", r->failed.len ? ", " : "", provider);
    if (r->worst == ERROR_NONE || err->code != ERROR_USAGE)
        r->worst = err->code;
}

/* ---- asking ---- */

static void keep(struct refresh *r, const char *provider, const struct rent_prices *p)
{
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    struct buf more = {0};
    size_t rows = 0;
    const int rc = catalog_replace(r->folder, provider, p->csv, p->len, r->regions, r->arena, &rows, &d, &err);
    say_refused(r, provider, &d);
    if (d.count > 0)
        buf_printf(&more, "; %zu faults, whose rows are left out", d.count);
    if (p->unpriced > 0)
        buf_printf(&more, "; %zu without a price", p->unpriced);
    if (rc < 0)
        failed(r, provider, &err);
    else
        say(r, "%s: %zu price%s%s", provider, rows, rows == 1 ? "" : "s", more.data ? more.data : "");
    buf_free(&more);
    diagnostics_free(&d);
}

static void on_prices(void *arg, const struct rent_prices *prices, const struct error *err)
{
    struct asked *a = arg;
    a->asking = NULL;
    if (prices)
        keep(a->r, a->provider, prices);
    else
        failed(a->r, a->provider, err);
    if (--a->r->waiting == 0)
        loop_stop(a->r->loop);
}

static int ask_all(struct refresh *r, struct error *err)
{
    struct renting renting;
    r->loop = loop_create();
    renting_begin(&renting, r->c, r->loop);
    int rc = renting_connect(&renting, err);
    for (size_t i = 0; rc == 0 && i < r->count; i++) {
        struct asked *a = &r->asked[i];
        /* If a provider has an address for each region, one of them is asked. */
        const char *region = r->regions.count == 1 ? r->regions.items[0] : "";
        a->asking = rent_prices(renting.rent, a->provider, region, r->catalog, r->rates, r->rate_count, on_prices, a);
        r->waiting++;
    }
    if (r->waiting > 0)
        loop_run(r->loop);
    for (size_t i = 0; i < r->count; i++)
        rent_asking_end(r->asked[i].asking);
    renting_end(&renting);
    loop_destroy(r->loop);
    return rc;
}

/* ---- which providers ---- */

static bool tells_prices(const char *name, struct arena *arena, struct error *err)
{
    struct provider *p = NULL;
    struct diagnostics d = {0};
    bool tells = false;
    if (provider_load(name, arena, &p, &d, err) == 0) {
        tells = provider_has(p, PROVIDER_STOCK);
        if (!tells)
            error_set(err, ERROR_USAGE, "%s publishes no prices, or rhrun cannot ask for them", name);
    } else if (d.count > 0) {
        error_prefix(err, "%s", d.items[0].message);
    }
    provider_destroy(p);
    diagnostics_free(&d);
    return tells;
}

/* A provider that the user names must be able to answer; of the others, those that can are asked. */
static int choose(struct refresh *r, struct error *err)
{
    struct cli *c = r->c;
    const bool named = c->value_count[OPT_PROVIDER] > 0;
    const char *const *names = named ? (const char *const *)c->values[OPT_PROVIDER] : provider_list(r->arena);
    size_t count = 0;
    while (named ? count < c->value_count[OPT_PROVIDER] : names[count] != NULL)
        count++;
    r->asked = arena_array(r->arena, count + 1, sizeof *r->asked);
    for (size_t i = 0; i < count; i++) {
        struct error why = ERROR_INIT;
        const char *missing = NULL;
        bool again = false;
        for (size_t k = 0; k < r->count; k++)
            again |= str_eq(r->asked[k].provider, names[i]);
        if (again || (!tells_prices(names[i], r->arena, &why) && !named))
            continue;
        if (why.code == ERROR_NONE)
            missing = rent_credentials_missing(names[i], r->arena);
        if (missing && named)
            error_set(&why, ERROR_USAGE, "%s", missing);
        if (why.code != ERROR_NONE) {
            *err = why;
            return -1;
        }
        if (missing)
            say(r, "%s is skipped: %s", names[i], missing);
        else
            r->asked[r->count++] = (struct asked){.r = r, .provider = names[i]};
    }
    if (r->count > 0)
        return 0;
    error_set(err, ERROR_USAGE, "no provider can be asked for its prices");
    error_hint(err, "docs/renting.md lists where rhrun looks for the credentials of each");
    return -1;
}

/* "EUR=1.09" */
static int read_rates(struct refresh *r, struct error *err)
{
    for (size_t i = 0; i < r->c->value_count[OPT_RATE]; i++) {
        const char *text = r->c->values[OPT_RATE][i];
        uint64_t micro;
        if (r->rate_count == RATES_MAX)
            return error_set(err, ERROR_USAGE, "--rate is given more than %d times", RATES_MAX);
        if (strcspn(text, "=") != 3 || !catalog_parse_usd(text + 4, &micro) || micro == 0) {
            error_set(err, ERROR_USAGE, "--rate: \"%s\" is not a rate", text);
            error_hint(err, "--rate EUR=1.09: one euro is 1.09 US dollars");
            return -1;
        }
        r->rates[r->rate_count++] = (struct rent_rate){arena_strndup(r->arena, text, 3), micro};
    }
    return 0;
}

int cli_refresh_prices(struct cli *c, struct error *err)
{
    struct diagnostics d = {0};
    struct refresh r = {.c = c,
                        .arena = c->arena,
                        .folder = catalog_places(c->arena).cache_dir,
                        .regions = {c->values[OPT_REGION], c->value_count[OPT_REGION]}};
    int rc = catalog_load(&(struct catalog_places){0}, c->arena, &r.catalog, &d, err);
    diagnostics_free(&d);
    if (rc == 0 && !r.folder)
        rc = error_set(err, ERROR_IO,
                       "there is no folder for prices: neither HOME nor XDG_CACHE_HOME is an absolute path");
    if (rc < 0 || read_rates(&r, err) < 0 || choose(&r, err) < 0 || ask_all(&r, err) < 0)
        return -1;
    if (r.worst == ERROR_NONE)
        return 0;
    error_set(err, r.worst, "the old prices stay where new ones could not be fetched: %s", r.failed.data);
    buf_free(&r.failed);
    return 1;
}
