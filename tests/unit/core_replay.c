/* Reads a trace, builds the plan and state for a core, and gives it the recorded inputs: see core_replay.h. */
#include "core_replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORDS_MAX = 16 };

/* ---- lines and words ---- */

bool replay_stands(const struct replay *p)
{
    return p->cut || p->fault.len > 0;
}

const char *replay_peek(struct replay *p)
{
    if (replay_stands(p))
        return NULL;
    if (p->at == p->count || str_starts(p->lines[p->at], "trace ")) {
        p->cut = true;
        return NULL;
    }
    return p->lines[p->at];
}

void replay_differs(struct replay *p, const char *came)
{
    if (replay_stands(p))
        return;
    buf_printf(&p->fault, "%s:%zu:\n  wanted: %.2000s\n  came:   %.2000s", p->name, p->at + 1,
               p->at < p->count ? p->lines[p->at] : "the end", came);
    fprintf(stderr, "%s\n", p->fault.data); /* at once: the core may crash on what follows */
}

void replay_quote(struct buf *b, const char *text)
{
    buf_putc(b, ' ');
    buf_json_string(b, text, strlen(text));
}

static const struct doc_node *json(struct replay *p, const char *text, size_t len)
{
    struct doc *doc;
    struct diagnostics d = {0};
    bool good = doc_load_text(p->name, text, len, DOC_FORMAT_JSON, p->arena, &doc, &d, NULL) == 0;
    diagnostics_free(&d);
    if (!good)
        replay_differs(p, "a line that can be read");
    return good ? doc->root : doc_new_string(p->arena, "");
}

/* Up to a blank; a quoted text is one word, without its quotes. */
static size_t words_of(struct replay *p, const char *line, const char *ret[WORDS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < WORDS_MAX; i++)
        ret[i] = "";
    while (*line && count < WORDS_MAX) {
        const char *end = line;
        for (bool quoted = false; *end && (quoted || *end != ' '); end++) {
            quoted = quoted != (*end == '"');
            end += *end == '\\' && end[1];
        }
        ret[count++] = *line == '"' ? json(p, line, (size_t)(end - line))->text
                                    : arena_strndup(p->arena, line, (size_t)(end - line));
        line = *end ? end + 1 : end;
    }
    return count;
}

static uint64_t number(const char *word)
{
    return strtoull(word, NULL, 10);
}

static uint32_t number32(const char *word)
{
    return (uint32_t)number(word);
}

static const uint8_t *bytes(struct replay *p, const char *hex, size_t *ret_len)
{
    *ret_len = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
    uint8_t *data = arena_alloc(p->arena, *ret_len + 1);
    if (*ret_len && !hex_decode(hex, data, *ret_len))
        replay_differs(p, "bytes as hex");
    return data;
}

/* ---- requests of the core ---- */

const char *replay_ask(struct replay *p, const char *fmt, ...)
{
    struct buf came = {0};
    const char *line, *answer = NULL;
    va_list ap;
    while ((line = replay_peek(p)) && strstr(line, "\"type\":\"metrics\"") && str_starts(line, "> event ")) {
        p->at++; /* of the hands alone */
        replay_own_event(p, replay_event(p, line));
    }
    va_start(ap, fmt);
    buf_vprintf(&came, fmt, ap);
    va_end(ap);
    if (line && str_starts(line, "untraced "))
        replay_differs(p, "nothing: a trace does not have that");
    else if (line && (!str_starts(line, came.data) || (line[came.len] && line[came.len] != ' ')))
        replay_differs(p, came.data);
    else if (line) {
        answer = line + came.len + (line[came.len] == ' ');
        p->at++;
    }
    buf_free(&came);
    return answer;
}

struct event *replay_event(struct replay *p, const char *line)
{
    struct event *e = arena_alloc(p->arena, sizeof *e);
    line += strlen("> event ");
    if (event_from_json(line, strlen(line), p->arena, e, NULL) < 0)
        replay_differs(p, "an event that can be read");
    return e;
}

/* ---- inputs of the core ---- */

static struct error *error_of(struct replay *p, const char *const *w)
{
    struct error *err = arena_alloc(p->arena, sizeof *err);
    err->code = (enum error_code)number(w[0]);
    err->why = (enum error_why)number(w[1]);
    snprintf(err->text, sizeof err->text, "%s", w[2]);
    snprintf(err->hint, sizeof err->hint, "%s", w[3]);
    return err;
}

static struct wire_in frame_of(struct replay *p, const char *hex)
{
    struct buf frame = {0};
    enum wire_type type;
    const uint8_t *payload = NULL;
    uint32_t payload_len = 0;
    size_t len;
    frame.data = (char *)(uintptr_t)bytes(p, hex, &len);
    frame.len = frame.cap = len;
    if (wire_peek(&frame, &type, &payload, &payload_len) != 1)
        replay_differs(p, "a whole frame");
    return (struct wire_in){.p = payload, .end = payload ? payload + payload_len : NULL, .arena = p->arena};
}

static const struct plan_step *step_of(struct replay *p, const char *word, bool *good)
{
    const struct plan *plan = p->hands->run->plan;
    *good = *good && number(word) < plan->step_count && plan->steps[number(word)].kind->fetch;
    return *good ? &plan->steps[number(word)] : NULL;
}

/* w: after "take". */
static void tell_input(struct replay *p, const char *const *w)
{
    struct input in = {.node = number32(w[0])};
    const char *kind = w[1];
    struct wire_record record = {0};
    struct wire_sync_state state = {0};
    bool good = in.node < p->hands->run->plan->node_count;
    if (str_eq(kind, "ready")) {
        struct wire_in frame = frame_of(p, w[3]);
        struct wire_facts *facts = arena_alloc(p->arena, sizeof *facts);
        in.kind = INPUT_READY;
        in.again = number(w[2]);
        in.facts = facts;
        good = good && wire_get_facts(&frame, facts);
    } else if (str_eq(kind, "lost") || str_eq(kind, "gone")) {
        in.kind = str_eq(kind, "lost") ? INPUT_LOST : INPUT_GONE;
        in.error = error_of(p, w + 2);
    } else if (str_eq(kind, "record") || str_eq(kind, "ended")) {
        struct wire_in frame = frame_of(p, w[2]);
        in.kind = str_eq(kind, "record") ? INPUT_RECORD : INPUT_ENDED;
        in.record = &record;
        good = good && wire_get_record(&frame, &record);
    } else if (str_eq(kind, "patched")) {
        struct wire_in frame = frame_of(p, w[2]);
        in.kind = INPUT_PATCHED;
        in.state = &state;
        good = good && wire_get_patched(&frame, &state);
    } else if (str_eq(kind, "vanished") || str_eq(kind, "machine")) {
        in.kind = str_eq(kind, "vanished") ? INPUT_VANISHED : INPUT_MACHINE;
    } else if (str_eq(kind, "listed")) {
        in.kind = INPUT_LISTED;
    } else if (str_eq(kind, "checked")) {
        size_t count;
        in.kind = INPUT_CHECKED;
        in.exists = bytes(p, w[2], &count);
        in.count = (uint32_t)count;
    } else if (str_eq(kind, "started") || str_eq(kind, "fault") || str_eq(kind, "busy")) {
        in.kind = str_eq(kind, "started") ? INPUT_STARTED : str_eq(kind, "fault") ? INPUT_FAULT : INPUT_BUSY;
        in.attempt = w[2];
        in.text = in.live = w[3];
        in.slot = w[4];
    } else if (str_eq(kind, "settled")) {
        in.kind = INPUT_SETTLED;
        in.text = w[2];
    } else if (str_eq(kind, "port")) {
        in.kind = INPUT_PORT;
        in.token = number(w[2]);
        in.port = number32(w[3]);
    } else if (str_eq(kind, "durable")) {
        in.kind = INPUT_DURABLE;
        in.seq = number(w[2]);
    } else if (str_eq(kind, "findings")) {
        in.kind = INPUT_FINDINGS;
        in.token = number(w[2]);
        in.port_taken = number(w[3]);
        in.findings = p->findings;
        in.finding_count = p->finding_count;
        good = good && number(w[4]) == p->finding_count;
        p->finding_count = 0;
    } else if (str_eq(kind, "fetched")) {
        in.kind = INPUT_FETCHED;
        in.step = step_of(p, w[2], &good);
        in.how = (enum fetch_end)number(w[3]);
        in.periodic = number(w[4]);
        in.files = number(w[5]);
        in.bytes = number(w[6]);
        in.error = error_of(p, w + 7);
    } else if (str_eq(kind, "rank0")) {
        in.kind = INPUT_RANK0;
        in.token = number(w[2]);
        in.at_ns = number(w[3]);
    } else if (str_eq(kind, "installed")) {
        in.kind = INPUT_INSTALLED;
        in.slot = w[2];
        in.text = w[3];
    } else if (str_eq(kind, "looked")) {
        in.kind = INPUT_LOOKED;
        in.step = step_of(p, w[2], &good);
        in.token = number(w[3]);
        in.files = number(w[4]);
        in.sum = number(w[5]);
    } else {
        good = false;
    }
    if (good && !replay_stands(p))
        core_take(p->hands->run, &in);
    else
        replay_differs(p, "an input that can be read");
}

/* w: step, node, rank, stream, time and bytes of the line. */
static void tell_line(struct replay *p, const char *const *w, bool ready)
{
    struct run *r = p->hands->run;
    size_t len;
    const struct plan_step *step = &r->plan->steps[number(w[0]) % r->plan->step_count];
    const uint8_t *text = bytes(p, w[5], &len);
    const struct watch_line line = {.rank = number32(w[2]),
                                    .stream = (uint8_t)number(w[3]),
                                    .wall_ms = number(w[4]),
                                    .text = (const char *)text,
                                    .len = len};
    if (ready)
        ready_line(r, step, number32(w[1]), &line);
    else
        rules_line(launch_of(r, step), step, number32(w[1]), &line);
}

static void tell_end(struct replay *p, const char *const *w)
{
    struct run *r = p->hands->run;
    const struct plan_step *step = &r->plan->steps[number(w[0]) % r->plan->step_count];
    const struct wire_worker_end end = {.rank = number32(w[2]),
                                        .cause = (uint8_t)number(w[3]),
                                        .value = (int32_t)strtol(w[4], NULL, 10),
                                        .end_mono_ns = number(w[5])};
    rules_end(launch_of(r, step), step, number32(w[1]), &end);
}

/* Of the next input. line: "finding CODE "text" "cure" NODE,..." */
static void take_finding(struct replay *p, const char *line)
{
    const char *w[WORDS_MAX];
    words_of(p, line, w);
    p->at++;
    if (p->finding_count == REPLAY_FINDINGS_MAX) {
        replay_differs(p, "fewer findings");
        return;
    }
    uint32_t *nodes = arena_array(p->arena, strlen(w[4]) + 1, sizeof *nodes), count = 0;
    for (char *at = arena_strdup(p->arena, w[4]); *at;) {
        nodes[count++] = (uint32_t)strtoul(at, &at, 10) % p->hands->run->plan->node_count;
        at += *at == ',';
    }
    p->findings[p->finding_count++] = (struct run_finding){.what = "",
                                                           .code = (enum error_code)number(w[1]),
                                                           .nodes = nodes,
                                                           .node_count = count,
                                                           .text = w[2],
                                                           .cure = w[3]};
}

static void tell_log(struct replay *p, const char *attempt, uint64_t size)
{
    for (struct replay_log *log = p->hands->logs; log; log = log->next)
        if (strcmp(log->log.attempt, attempt) == 0)
            log->log.size = size;
}

static void tell(struct replay *p, const char *line)
{
    const char *words[WORDS_MAX], *const *w = words + 2;
    struct run *r = p->hands->run;
    struct error err = ERROR_INIT;
    words_of(p, line, words);
    const char *what = words[1];
    if (replay_stands(p))
        return;
    p->at++;
    if (str_eq(what, "take"))
        tell_input(p, w);
    else if (str_eq(what, "alarm"))
        replay_alarm(p, "fire", number(w[0]));
    else if (str_eq(what, "due"))
        run_due(r, (enum due)number(w[0]));
    else if (str_eq(what, "log"))
        tell_log(p, w[0], number(w[1]));
    else if (str_eq(what, "line") || str_eq(what, "ready"))
        tell_line(p, w, str_eq(what, "ready"));
    else if (str_eq(what, "worker_end"))
        tell_end(p, w);
    else if (str_eq(what, "open"))
        run_open(r, &err); /* -1: then there is no "begin" */
    else if (str_eq(what, "begin"))
        core_begin(r);
    else if (str_eq(what, "interrupt"))
        run_interrupt(r, (int)number(w[0]));
    else if (str_eq(what, "detach"))
        run_detach(r);
    else if (str_eq(what, "note"))
        run_note(r, number32(w[0]), "%s", w[1]);
    else {
        p->at--;
        replay_differs(p, "something that a core can be told");
    }
}

const char *replay_told(struct replay *p)
{
    const char *line;
    while ((line = replay_peek(p)) && line[0] != '=') {
        const char *words[WORDS_MAX];
        if (str_starts(line, "< ")) {
            tell(p, line);
        } else if (str_starts(line, "> alarm_set ") || str_starts(line, "> alarm_clear ")) {
            words_of(p, line, words);
            p->at++;
            replay_alarm(p, words[1] + strlen("alarm_"), number(words[2]));
        } else {
            replay_differs(p, str_starts(line, "untraced ") ? "nothing: a trace does not have that"
                                                            : "nothing: the hands have nothing more to tell");
        }
    }
    if (!line)
        return NULL;
    p->at++;
    return line[1] ? line + 2 : line + 1;
}

/* ---- parts ---- */

static const char *const *texts(struct replay *p, const struct doc_node *list, size_t *ret_count)
{
    const char **items = arena_array(p->arena, (list ? list->count : 0) + 1, sizeof *items);
    for (size_t i = 0; list && i < list->count; i++)
        items[i] = list->items[i]->text;
    *ret_count = list ? list->count : 0;
    return items;
}

/* As it was loaded, from another file with the same text. */
static struct spec *load_spec(struct replay *p, const struct doc_node *from)
{
    char dir[] = "/tmp/replay.XXXXXX";
    struct error err = ERROR_INIT;
    struct diagnostics d = {0};
    struct spec *spec = NULL;
    struct spec_overrides o = {.on = doc_get_string(from, "on", NULL)};
    const char *text = doc_get_string(from, "text", "");
    o.sets = texts(p, doc_get(from, "sets"), &o.set_count);
    o.params = texts(p, doc_get(from, "params"), &o.param_count);
    o.args = texts(p, doc_get(from, "args"), &o.arg_count);
    const char *path = mkdtemp(dir) ? arena_printf(p->arena, "%s/job.yaml", dir) : "";
    if (file_write_atomic(path, text, strlen(text), 0600, &err) < 0 ||
        spec_load(path, &o, p->arena, &spec, &d, &err) < 0) {
        struct buf all = {0};
        diagnostics_format(&d, false, &all);
        replay_differs(p, all.data ? all.data : err.text);
        buf_free(&all);
        spec = NULL;
    }
    diagnostics_free(&d);
    unlink(path);
    rmdir(dir);
    if (!spec)
        return NULL;
    spec->path = doc_get_string(from, "path", NULL);
    spec->real_path = doc_get_string(from, "real_path", NULL);
    spec->origin = doc_get_string(from, "origin", NULL);
    spec->variant = doc_get_string(from, "variant", NULL);
    return spec;
}

/* The keys are the recorded ones: how they are made does not matter to the core. */
static bool take_step(struct replay *p, struct plan *plan, const char *const *w)
{
    size_t i = number(w[1]);
    if (i >= plan->step_count || !str_eq(plan->steps[i].name, w[2])) {
        replay_differs(p, "another step of the plan");
        return false;
    }
    plan->steps[i].key = w[3];
    return true;
}

static void take_options(const struct doc_node *from, struct run_options *ret)
{
    *ret = (struct run_options){.mode = (enum run_mode)doc_get_int(from, "mode", 0),
                                .flags = (uint32_t)doc_get_int(from, "flags", 0),
                                .take_over = doc_get_bool(from, "take_over", false),
                                .replace = doc_get_bool(from, "replace", false),
                                .reconnect_ms = (uint64_t)doc_get_int(from, "reconnect_ms", 0),
                                .late_ms = (uint64_t)doc_get_int(from, "late_ms", 0),
                                .join_ms = (uint64_t)doc_get_int(from, "join_ms", 0),
                                .from_step = doc_get_string(from, "from_step", NULL),
                                .owner_name = doc_get_string(from, "owner_name", ""),
                                .recorded = true};
}

static void on_finished(void *arg)
{
    (void)arg;
}

static struct plan *compile(struct replay *p, const struct doc_node *from)
{
    struct error err = ERROR_INIT;
    struct plan *plan = NULL;
    const struct spec *spec = load_spec(p, from);
    if (spec && plan_compile(spec, roster_create(spec, p->arena), step_kinds, NULL, NULL, p->arena, &plan, &err) < 0)
        replay_differs(p, err.text);
    return plan;
}

/* From its `trace` line on. False: it cannot be built. */
static bool begin_part(struct replay *p)
{
    struct run_options o = {0};
    struct hands *h = p->hands = xcalloc(1, sizeof *h);
    const char *line;
    p->parts++;
    p->at++;
    p->cut = false;
    h->replay = p;
    h->state = state_create();
    for (; (line = replay_peek(p)) && line[0] != '<' && line[0] != '>'; p->at++) {
        const char *words[WORDS_MAX];
        words_of(p, line, words);
        if (str_starts(line, "spec "))
            o.plan = compile(p, json(p, line + 5, strlen(line) - 5));
        else if (str_starts(line, "options ")) {
            struct plan *plan = o.plan;
            take_options(json(p, line + 8, strlen(line) - 8), &o);
            o.plan = plan;
        } else if (str_starts(line, "event "))
            state_apply(h->state, replay_event(p, line - 2));
        else if (o.plan && str_starts(line, "plan ")) {
            o.plan->hash = words[1];
            o.plan->job_hash = words[2];
        } else if (!o.plan || !str_starts(line, "step ") || !take_step(p, o.plan, words))
            break;
    }
    if (!o.plan || !line || replay_stands(p))
        return false;
    h->run = core_create(h, &o, h->state, on_finished, h);
    return true;
}

/* "end STATUS EXIT "error"" */
static void end_part(struct replay *p)
{
    const struct run_result *result = &p->hands->run->result;
    struct buf came = {0};
    buf_printf(&came, "end %s %d", run_status_name(result->status), result->exit_status);
    replay_quote(&came, result->error.code == ERROR_NONE ? "" : result->error.text);
    if (str_eq(came.data, p->lines[p->at])) {
        p->at++;
        p->ended++;
    } else {
        replay_differs(p, came.data);
    }
    buf_free(&came);
}

static void play_part(struct replay *p)
{
    const char *line;
    while ((line = replay_peek(p))) {
        if (str_starts(line, "< "))
            tell(p, line);
        else if (str_starts(line, "finding "))
            take_finding(p, line);
        else if (str_starts(line, "> event ") && strstr(line, "\"type\":\"metrics\"")) {
            p->at++;
            replay_own_event(p, replay_event(p, line));
        } else if (str_starts(line, "end ")) {
            end_part(p);
            break;
        } else
            replay_differs(p, str_starts(line, "untraced ") ? "nothing: a trace does not have that" : "nothing more");
    }
}

static void split(struct replay *p, const char *text)
{
    size_t cap = 0;
    for (const char *c = text; *c; c++)
        cap += *c == '\n';
    p->lines = arena_array(p->arena, cap + 1, sizeof *p->lines);
    for (const char *end; (end = strchr(text, '\n')); text = end + 1)
        p->lines[p->count++] = arena_strndup(p->arena, text, (size_t)(end - text));
}

bool replay_text(const char *name, const char *text, struct replay *ret)
{
    struct replay *p = ret;
    *p = (struct replay){.name = name, .arena = arena_create()};
    split(p, text);
    while (p->at < p->count && p->fault.len == 0) {
        p->cut = false;
        if (!str_starts(p->lines[p->at], "trace 1 ")) {
            replay_differs(p, "nothing more");
            break;
        }
        if (begin_part(p))
            play_part(p);
        p->cut = true; /* requests of the core after a cut are not compared */
        replay_hands_free(p->hands);
        p->hands = NULL;
    }
    return p->fault.len == 0;
}

void replay_free(struct replay *p)
{
    arena_destroy(p->arena);
    buf_free(&p->fault);
}
