/* The packages that items of set-up have installed in the Pythons of a node, for the run's lock. Each item writes a
 * list beside its marker (step/install.py), which is fetched from there after an installation and when a launch begins.
 * The core records a list that differs from the one that it has. A file that is not a list counts as missing. A launch
 * goes on meanwhile, but its end waits: while a list is under way, the END of an attempt after set-up is held back here
 * and reported after the list. So a controller that has recorded an end has recorded the list, too, and a controller
 * that was killed before has recorded neither: the next one asks for both when it attaches to the attempt. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INSTALLED_TOKEN (UINT64_C(1) << 61) /* of a GLOB or GET; the lower bits: serial number << 8, and the Python */

enum { LIST_MAX = 4 << 20, PYTHONS_MAX = 65 };

struct installed {
    const struct spec_role *role; /* the role whose Python it is; NULL: the job's */
    struct installed *next;
    uint64_t token;
    uint64_t size;
    struct buf text;
    bool waits; /* an answer is missing */
};

struct held_end { /* frames of records, in order */
    struct held_end *next;
    struct buf frame;
};

static void drop_lists(struct lane *lane)
{
    struct installed *at;
    while ((at = lane_hands(lane)->installed)) {
        lane_hands(lane)->installed = at->next;
        buf_free(&at->text);
        free(at);
    }
}

void installed_stop(struct lane *lane)
{
    struct held_end *end;
    drop_lists(lane);
    while ((end = lane_hands(lane)->held)) {
        lane_hands(lane)->held = end->next;
        buf_free(&end->frame);
        free(end);
    }
}

static bool is_waiting(struct lane *lane)
{
    for (const struct installed *at = lane_hands(lane)->installed; at; at = at->next)
        if (at->waits)
            return true;
    return false;
}

bool installed_holds(struct lane *lane, const struct wire_record *rec)
{
    struct held_end **last = &lane_hands(lane)->held;
    if (!is_waiting(lane) && !*last)
        return false;
    while (*last)
        last = &(*last)->next;
    *last = xcalloc(1, sizeof **last);
    wire_put_record(&(*last)->frame, WIRE_EXIT, rec);
    return true;
}

static void tell_end(struct lane *lane, const struct buf *frame)
{
    struct wire_record rec;
    struct arena *arena = arena_create();
    const uint8_t *data = (const uint8_t *)frame->data;
    struct wire_in in = {.p = data + WIRE_HEADER_SIZE, .end = data + frame->len, .arena = arena};
    if (wire_get_record(&in, &rec)) {
        const struct input said = {.kind = INPUT_ENDED, .node = lane->index, .record = &rec};
        trace_input(lane->run, &said);
        core_take(lane->run, &said);
    }
    arena_destroy(arena);
}

static void tell_held(struct lane *lane)
{
    struct held_end *end;
    while (!is_waiting(lane) && (end = lane_hands(lane)->held)) {
        lane_hands(lane)->held = end->next;
        tell_end(lane, &end->frame);
        buf_free(&end->frame);
        free(end);
    }
}

static void on_held(void *arg)
{
    struct run *r = arg;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        tell_held(&r->lanes[n]);
}

/* If no list is awaited, reports the held ends in the next turn: not at once, because the core is the caller. */
static void tell_soon(struct lane *lane)
{
    struct hands *h = lane->run->hands;
    if (!lane_hands(lane)->held || is_waiting(lane))
        return;
    if (!h->held_turn)
        h->held_turn = loop_timer_create(h->session->loop, on_held, lane->run);
    loop_timer_start(h->held_turn, 0);
}

/* The list has come, or there is none. */
static void answered(struct lane *lane, struct installed *at)
{
    at->waits = false;
    tell_held(lane);
}

static void ask(struct lane *lane, const struct spec_role *role, uint64_t token, struct arena *arena)
{
    struct step_bind bind = run_bind(lane->run, NULL, lane->index);
    bind.role = role;
    const char *path = step_installed_path(lane->run->plan, &bind, arena);
    if (!path)
        return;
    struct installed *at = xcalloc(1, sizeof *at);
    *at = (struct installed){.role = role, .next = lane_hands(lane)->installed, .token = token, .waits = true};
    lane_hands(lane)->installed = at;
    node_glob(lane_hands(lane)->node, token, path);
}

void installed_ask(struct lane *lane, bool anew)
{
    const struct spec *spec = lane->run->plan->spec;
    if (!anew && lane_hands(lane)->installed)
        return; /* nothing was installed since */
    struct arena *arena = arena_create();
    uint64_t token = INSTALLED_TOKEN | ++lane->run->hands->installed_serial << 8;
    drop_lists(lane);
    ask(lane, NULL, token, arena);
    for (size_t i = 0; i < spec->role_count && i + 1 < PYTHONS_MAX; i++)
        if (spec->roles[i].own_setup)
            ask(lane, &spec->roles[i], token | (i + 1), arena);
    arena_destroy(arena);
    tell_soon(lane);
}

static struct installed *find(struct lane *lane, uint64_t token)
{
    struct installed *at = lane_hands(lane)->installed;
    while (at && at->token != token)
        at = at->next;
    return at;
}

static bool is_ours(uint64_t token)
{
    return token >> 61 == 1;
}

bool installed_entries(struct lane *lane, const struct wire_entries *e)
{
    struct installed *at = find(lane, e->token);
    if (!is_ours(e->token))
        return false;
    if (!at)
        return true;
    if (*e->error || e->entry_count != 1 || !S_ISREG(e->entries[0].mode) || e->entries[0].size > LIST_MAX) {
        answered(lane, at);
        return true;
    }
    CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", e->prefix, e->entries[0].path);
    at->size = e->entries[0].size;
    node_get(lane_hands(lane)->node, at->token, path, 0, at->size, e->entries[0].mtime_ns);
    return true;
}

static void tell_list(struct lane *lane, const struct installed *at)
{
    struct arena *arena = arena_create();
    struct diagnostics d = {0};
    struct doc *doc;
    size_t len = at->text.len;
    while (len > 0 && at->text.data[len - 1] == '\n')
        len--;
    bool good = len > 0 && !memchr(at->text.data, 0, len) &&
                doc_load_text("installed", at->text.data, len, DOC_FORMAT_JSON, arena, &doc, &d, NULL) == 0 &&
                doc->root->type == DOC_OBJECT;
    diagnostics_free(&d);
    if (good) {
        const struct input in = {.kind = INPUT_INSTALLED,
                                 .node = lane->index,
                                 .slot = at->role ? at->role->name : NULL,
                                 .text = arena_strndup(arena, at->text.data, len)};
        trace_input(lane->run, &in);
        core_take(lane->run, &in);
    }
    arena_destroy(arena);
}

bool installed_data(struct lane *lane, uint64_t token, bool last, const char *error, const uint8_t *data, uint32_t len)
{
    struct installed *at = find(lane, token);
    if (!is_ours(token))
        return false;
    if (!at)
        return true;
    if (at->text.len + len > LIST_MAX)
        error = "too long";
    if (!*error)
        buf_append(&at->text, data, len);
    if (*error || last) {
        if (!*error && at->text.len == at->size)
            tell_list(lane, at);
        buf_clear(&at->text);
        answered(lane, at);
    }
    return true;
}
