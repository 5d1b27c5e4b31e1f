/* A fleet whose ledger is durable at once; its effects are one line of words. For tests of the reaction to each answer
 * of a provider. */
#ifndef RHRUN_TEST_FLEET_SCENE_H
#define RHRUN_TEST_FLEET_SCENE_H

#include "../../src/fleet/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ID "c0ffee00"
#define FIRST "rhrun-" ID "-1"

struct scene {
    struct fleet *fleet;
    uint64_t now_ms;
    struct buf did;
    uint64_t number; /* of the last list */
    const char *token;
    uint64_t price;
    struct buf ledger; /* a line each */
};

static const char *const tells[] = {"trying",     "waiting", "retreat", "ready", "complete", "lost",
                                    "unreplaced", "notice",  "refused", "dearer",  "left",    "finished"};

static void note(struct scene *s, const struct fleet_effect *e)
{
    if (s->did.len)
        buf_putc(&s->did, ' ');
    switch (e->kind) {
    case FLEET_EFFECT_APPEND:
        buf_puts(&s->did, fleet_event_name(e->event->type));
        fleet_event_to_json(e->event, &s->ledger);
        buf_putc(&s->ledger, '\n');
        break;
    case FLEET_EFFECT_CREATE:
        buf_printf(&s->did, "create:%s", e->order->name + strlen("rhrun-" ID "-"));
        s->token = e->order->token;
        break;
    case FLEET_EFFECT_LIST:
        buf_printf(&s->did, "list:%s", e->region);
        s->number = e->number;
        break;
    case FLEET_EFFECT_DELETE:
        buf_printf(&s->did, "delete:%s", e->machine->id);
        break;
    case FLEET_EFFECT_MEET:
        buf_printf(&s->did, "meet:%s@%s", e->machine->id, e->address);
        break;
    case FLEET_EFFECT_TELL:
        buf_printf(&s->did, "tell:%s", tells[e->tell]);
        if (e->tell == FLEET_TELL_LEFT) {
            buf_puts(&s->did, " <");
            fleet_left_text(e, &s->did);
            buf_putc(&s->did, '>');
        }
        if (e->tell == FLEET_TELL_FINISHED)
            buf_printf(&s->did, ":%u,%s", e->left, provider_class_name(e->fault));
        break;
    }
}

static bool take(struct scene *s, const struct fleet_input *in)
{
    size_t count;
    bool appended = false;
    fleet_take(s->fleet, in, (struct fleet_clock){.wall_ms = s->now_ms + 1000000, .mono_ms = s->now_ms});
    const struct fleet_effect *e = fleet_effects(s->fleet, &count);
    for (size_t i = 0; i < count; i++) {
        note(s, &e[i]);
        appended = appended || e[i].kind == FLEET_EFFECT_APPEND;
    }
    return appended;
}

/* The effects of the fleet, until nothing more follows at once. */
static const char *does(struct scene *s, const struct fleet_input *in)
{
    buf_clear(&s->did);
    buf_puts(&s->did, "");
    bool appended = take(s, in);
    while (appended)
        appended = take(s, &(struct fleet_input){.kind = FLEET_INPUT_DURABLE, .seq = fleet_ledger_of(s->fleet)->seq});
    return s->did.data ? s->did.data : "";
}

static const char *later(struct scene *s, uint64_t ms)
{
    s->now_ms += ms;
    return does(s, &(struct fleet_input){.kind = FLEET_INPUT_TICK});
}

static const char *answers(struct scene *s, const char *name, enum provider_class fault, enum provider_scope scope,
                           const char *id)
{
    return does(s, &(struct fleet_input){.kind = FLEET_INPUT_CREATED,
                                         .name = name,
                                         .fault = fault,
                                         .scope = scope,
                                         .ids = &id,
                                         .id_count = id ? 1 : 0});
}

static const char *unsure(struct scene *s, const char *name)
{
    return does(s, &(struct fleet_input){
                       .kind = FLEET_INPUT_CREATED, .name = name, .fault = PROVIDER_CLASS_TRANSIENT, .unsure = true});
}

static const char *lists(struct scene *s, const struct fleet_item *items, size_t count)
{
    return does(
        s, &(struct fleet_input){.kind = FLEET_INPUT_LISTED, .number = s->number, .items = items, .item_count = count});
}

static const char *shows(struct scene *s, const char *id, enum provider_state state, const char *address)
{
    return lists(s, &(struct fleet_item){.run = ID, .id = id, .name = FIRST, .state = state, .address = address}, 1);
}

static const char *met(struct scene *s, const char *id, const char *key)
{
    return does(s, &(struct fleet_input){.kind = FLEET_INPUT_MET, .provider = "p", .id = id, .host_key = key});
}

static const char *deleted(struct scene *s, const char *id, enum provider_class fault)
{
    return does(s, &(struct fleet_input){.kind = FLEET_INPUT_DELETED, .provider = "p", .id = id, .fault = fault});
}

static const char *asks(struct scene *s, enum fleet_input_kind kind)
{
    return does(s, &(struct fleet_input){.kind = kind, .text = "because"});
}

static const struct fleet_offer plain = {.provider = "p",
                                         .region = "here",
                                         .zone = "a",
                                         .type = "big",
                                         .nodes = 1,
                                         .gang_max = 1,
                                         .price = 4100000,
                                         .idem = PROVIDER_IDEM_LIST,
                                         .settle_ms = 0};

static struct scene begin(const struct fleet_wanted *w)
{
    struct scene s = {.fleet = fleet_create(), .now_ms = 1000};
    assert_string_equal(asks(&s, FLEET_INPUT_START), "");
    if (w)
        does(&s, &(struct fleet_input){.kind = FLEET_INPUT_WANT, .wanted = w});
    return s;
}

static struct fleet_wanted wish(const struct fleet_offer *offers, uint32_t count)
{
    return (struct fleet_wanted){
        .id = ID, .name = "train", .owner = "me", .down = FLEET_DOWN_NEVER, .offers = offers, .offer_count = count};
}

/* Another process continues from the ledger. */
static void again(struct scene *s)
{
    struct arena *arena = arena_create();
    struct error err = ERROR_INIT;
    fleet_destroy(s->fleet);
    s->fleet = fleet_create();
    for (char *at = s->ledger.data, *end; at && *at; at = end + 1) {
        struct fleet_event e;
        end = strchr(at, '\n');
        assert_int_equal(fleet_event_from_json(at, (size_t)(end - at), arena, &e, &err), 0);
        assert_int_equal(fleet_replay(s->fleet, &e, &err), 0);
    }
    arena_destroy(arena);
}

static void finish(struct scene *s)
{
    fleet_destroy(s->fleet);
    buf_free(&s->did);
    buf_free(&s->ledger);
}

/* A complete cluster of one machine, i-1. */
static struct scene complete(const struct fleet_wanted *w)
{
    struct scene s = begin(w);
    answers(&s, FIRST, PROVIDER_CLASS_NONE, 0, "i-1");
    shows(&s, "i-1", PROVIDER_STATE_READY, "10.0.0.1");
    assert_string_equal(met(&s, "i-1", "key-1"), "ready complete settled tell:ready tell:complete");
    return s;
}

#endif
