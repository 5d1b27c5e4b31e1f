/* A provider as this process uses it: its file, its credentials, its token. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { PROGRAM_MS = 60000, PROGRAM_BYTES = 256 << 10, TOKEN_SPARE_MS = 60000, RENEW_MS = 2000 };

static void forget_token(struct account *s)
{
    if (s->token)
        explicit_bzero(s->token, strlen(s->token));
    free(s->token);
    s->token = NULL;
}

void account_free(struct account *s)
{
    loop_capture_destroy(s->capture);
    forget_token(s);
    provider_credentials_destroy(s->credentials);
    provider_credentials_destroy(s->former);
    provider_destroy(s->provider);
    free(s);
}

static void load(struct account *s)
{
    struct diagnostics d = {0};
    struct error *err = &s->fault;
    if (provider_load(s->name, s->rent->arena, &s->provider, &d, err) < 0) {
        s->provider = NULL;
        if (d.count > 0)
            error_prefix(err, "%s", d.items[0].message);
    }
    diagnostics_free(&d);
}

struct account *account_of(struct rent *r, const char *provider)
{
    for (size_t i = 0; i < r->account_count; i++)
        if (str_eq(r->accounts[i]->name, provider))
            return r->accounts[i];
    struct account *s = xcalloc(1, sizeof *s);
    s->rent = r;
    s->name = arena_strdup(r->arena, provider);
    r->accounts = xreallocarray(r->accounts, r->account_count + 1, sizeof *r->accounts);
    r->accounts[r->account_count++] = s;
    load(s);
    return s;
}

static void program_ended(void *arg, const struct loop_capture_result *result)
{
    struct account *s = arg;
    s->capture = NULL;
    if (result->status == 0 && result->signal == 0 && !result->timed_out && !result->too_long) {
        provider_credentials_take(s->provider, result->out, result->out_len, &s->credentials, &s->fault);
        return;
    }
    char said[200];
    snprintf(said, sizeof said, "%s", result->error_text);
    str_printable(said);
    error_set(&s->fault, ERROR_USAGE, "%s: the program that prints its credentials %s%s%s", s->name,
              result->timed_out ? "did not end in a minute" : "failed", said[0] ? ": " : "", said);
}

static void look_for_credentials(struct account *s)
{
    const char *const *program;
    s->looked = true;
    s->looked_ms = loop_now_ms(s->rent->loop);
    s->generation++;
    s->fault = (struct error)ERROR_INIT;
    switch (provider_credentials_find(s->provider, s->rent->arena, &s->credentials, &program, &s->fault)) {
    case PROVIDER_FOUND:
    case PROVIDER_MISSING:
        break;
    case PROVIDER_EXEC:
        s->capture =
            loop_capture(s->rent->loop, program, NULL, NULL, PROGRAM_BYTES, PROGRAM_MS, program_ended, s, &s->fault);
    }
}

static bool is_time_again(const struct account *s)
{
    return loop_now_ms(s->rent->loop) >= s->looked_ms + RENEW_MS;
}

enum account_state account_look(struct account *s)
{
    if (!s->provider)
        return ACCOUNT_FAULT;
    if (!s->looked || (!s->credentials && !s->capture && is_time_again(s)))
        look_for_credentials(s);
    return s->capture ? ACCOUNT_BUSY : s->credentials ? ACCOUNT_READY : ACCOUNT_FAULT;
}

bool account_renew(struct account *s, uint32_t generation)
{
    if (s->generation != generation)
        return true;
    if (s->capture || !is_time_again(s))
        return false;
    forget_token(s);
    if (s->credentials) {
        provider_credentials_destroy(s->former);
        s->former = s->credentials;
        s->credentials = NULL;
    }
    look_for_credentials(s);
    return true;
}

const struct provider_credentials *account_secrets(const struct account *s)
{
    return s->credentials ? s->credentials : s->former;
}

bool account_has_token(const struct account *s)
{
    return s->token && loop_now_ms(s->rent->loop) < s->token_until_ms;
}

void account_set_token(struct account *s, const char *token, uint64_t life_s)
{
    const uint64_t life = life_s < 86400 ? life_s * 1000 : 86400000;
    forget_token(s);
    s->token = xstrdup(token);
    s->token_until_ms = loop_now_ms(s->rent->loop) + (life > 2 * TOKEN_SPARE_MS ? life - TOKEN_SPARE_MS : life / 2);
}
