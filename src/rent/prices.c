/* A provider's present offers as rows of a catalog, which judges them. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MICROUSD 1000000u

struct rent_asking {
    struct arena *arena;
    struct exchange *exchange;
    struct account *account;
    const struct catalog *catalog;
    const struct rent_rate *rates;
    size_t rate_count;
    void (*done)(void *arg, const struct rent_prices *prices, const struct error *err);
    void *arg;
};

void rent_asking_end(struct rent_asking *a)
{
    if (!a)
        return;
    exchange_end(a->exchange);
    arena_destroy(a->arena);
    free(a);
}

/* Cut to the longest field that a catalog takes; no name is that long, so a cut one is refused. */
static void put_field(struct buf *b, const char *text)
{
    char field[CATALOG_FIELD_MAX + 1];
    snprintf(field, sizeof field, "%s", text ? text : "");
    catalog_csv_field(b, field);
}

/* In dollars; a text that is no price stays as it is, and is refused. */
static void put_price(struct buf *b, const char *text, uint64_t rate)
{
    uint64_t micro;
    char usd[32];
    if (!text || rate == MICROUSD || !catalog_parse_usd(text, &micro) || micro > UINT32_MAX * (uint64_t)MICROUSD) {
        put_field(b, text);
        return;
    }
    const double product = (double)micro * (double)rate / MICROUSD;
    catalog_format_usd((uint64_t)(product + 0.5), 0, usd);
    put_field(b, usd);
}

static void put_row(const struct rent_asking *a, const struct provider_offer *o, const char *source, const char *date,
                    uint64_t rate, struct buf *b)
{
    const char *accelerator = o->accelerator && !str_eq(o->count, "0") ? o->accelerator : NULL;
    if (accelerator)
        accelerator =
            catalog_accelerator_called(a->catalog, accelerator, o->accelerator_form, o->gpu_memory_gib, a->arena);
    const char *const fields[] = {a->account->name, o->region, o->type,       accelerator,
                                  o->count,         o->vcpus,  o->memory_gib, accelerator ? o->gpu_memory_gib : NULL};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        put_field(b, fields[i]);
        buf_putc(b, ',');
    }
    put_price(b, o->price, rate);
    buf_putc(b, ',');
    put_price(b, o->spot_price, rate);
    buf_putc(b, ',');
    put_field(b, source);
    buf_printf(b, ",%s\n", date);
}

/* 0: the rate is not known. */
static uint64_t rate_of(const struct rent_asking *a, const char *currency)
{
    for (size_t i = 0; i < a->rate_count; i++)
        if (strcasecmp(a->rates[i].currency, currency) == 0)
            return a->rates[i].microusd;
    return strcasecmp(currency, "USD") == 0 ? MICROUSD : 0;
}

static void give(struct rent_asking *a, const struct exchange_answer *answer, const char *currency, uint64_t rate)
{
    const char *title = provider_facts(a->account->provider)->title;
    char date[32], usd[32];
    struct buf b = {0};
    struct rent_prices prices = {0};
    catalog_format_date((uint32_t)(wall_ms() / 86400000), date);
    catalog_format_usd(rate, 0, usd);
    const char *source = arena_printf(a->arena, "API of %s", title);
    if (rate != MICROUSD)
        source = arena_printf(a->arena, "API of %s, %s at %s", title, currency, usd);
    buf_puts(&b, "provider,region,instance_type,accelerator,count,vcpus,memory_gib,gpu_memory_gib,price_usd_hour,"
                 "spot_usd_hour,source,as_of\n");
    for (size_t i = 0; i < answer->offer_count; i++) {
        prices.unpriced += !answer->offers[i].price;
        prices.rows += answer->offers[i].price != NULL;
        if (answer->offers[i].price)
            put_row(a, &answer->offers[i], source, date, rate, &b);
    }
    provider_redact(a->account->credentials, b.data); /* faulty rows are shown to people */
    prices.csv = b.data;
    prices.len = strlen(b.data);
    a->done(a->arg, &prices, NULL);
    buf_free(&b);
}

static void answered(void *arg, const struct exchange_answer *answer)
{
    struct rent_asking *a = arg;
    struct error err = ERROR_INIT;
    a->exchange = NULL;
    char currency[12] = "USD";
    snprintf(currency, sizeof currency, "%s", doc_get_string(answer->values, "currency", "USD"));
    str_printable(currency);
    const uint64_t rate = rate_of(a, currency);
    if (answer->class != PROVIDER_CLASS_NONE) {
        error_set(&err, answer->class == PROVIDER_CLASS_AUTH ? ERROR_USAGE : ERROR_INFRA, "%s: %s", a->account->name,
                  answer->text);
    } else if (rate == 0) {
        error_set(&err, ERROR_USAGE, "%s gives its prices in %s, and its rate to USD is not known", a->account->name,
                  currency);
        error_hint(&err, "--rate %s=NUMBER gives the rate", currency);
    }
    if (err.code != ERROR_NONE)
        a->done(a->arg, NULL, &err);
    else
        give(a, answer, currency, rate);
    rent_asking_end(a);
}

struct rent_asking *rent_prices(struct rent *r, const char *provider, const char *region, const struct catalog *catalog,
                                const struct rent_rate *rates, size_t rate_count,
                                void (*done)(void *arg, const struct rent_prices *prices, const struct error *err),
                                void *arg)
{
    struct rent_asking *a = xcalloc(1, sizeof *a);
    a->arena = arena_create();
    a->account = account_of(r, provider);
    a->catalog = catalog;
    a->rates = rates;
    a->rate_count = rate_count;
    a->done = done;
    a->arg = arg;
    struct doc_node *in = doc_new_object(a->arena);
    put_text(a->arena, in, "region", region);
    const struct exchange_ask ask = {.operation = PROVIDER_STOCK, .inputs = in};
    a->exchange = exchange_begin(a->account, &ask, answered, a);
    return a;
}
