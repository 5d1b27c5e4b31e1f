/* A comparison as text for people, and as JSON. */
#include "diffing.h"

#include <string.h>
#include <unistd.h>

enum { VALUE_MAX = 200, DURATIONS_MAX = 20, DURATION_MIN_MS = 100 };

struct out_text {
    struct buf *b;
    bool color;
    bool raw; /* a program reads it: lines of files are unchanged */
};

/* ---- lines ---- */

static void put_line(struct out_text *o, const char *color, const char *text, size_t len)
{
    if (o->color && *color)
        buf_printf(o->b, "\033[%sm", color);
    for (size_t i = 0; i < len; i++) { /* no control character reaches the terminal */
        const unsigned char ch = (unsigned char)text[i];
        buf_putc(o->b, !o->raw && ((ch < 0x20 && ch != '\t') || ch == 0x7f) ? '?' : text[i]);
    }
    if (o->color && *color)
        buf_puts(o->b, "\033[0m");
    buf_putc(o->b, '\n');
}

static void put_patch(struct out_text *o, const char *indent, const char *text)
{
    while (*text) {
        const size_t len = strcspn(text, "\n");
        struct buf line = {0};
        buf_puts(&line, indent);
        buf_append(&line, text, len);
        const bool head = str_starts(text, "--- ") || str_starts(text, "+++ ") || str_starts(text, "diff --git ");
        const char *color = head ? "1" : *text == '+' ? "32" : *text == '-' ? "31" : *text == '@' ? "36" : "";
        put_line(o, color, line.data ? line.data : "", line.len);
        buf_free(&line);
        text += len + (text[len] == '\n');
    }
}

/* ---- rows ---- */

static bool is_long(const struct doc_node *v)
{
    return v && v->type == DOC_STRING && (v->text_len > 80 || strchr(v->text, '\n'));
}

/* Text that reads the same without quotes. */
static bool is_bare(const struct doc_node *v)
{
    if (v->type != DOC_STRING || v->text_len == 0)
        return false;
    for (const char *p = v->text; *p; p++)
        if (*p <= 0x20 || *p >= 0x7f || strchr("\"'[]{},\\", *p))
            return false;
    return strcmp(v->text, "->") != 0;
}

static void put_value(struct buf *b, const struct doc_node *v)
{
    struct buf json = {0};
    if (is_bare(v))
        buf_puts(&json, v->text);
    else if (v->type == DOC_STRING || v->type == DOC_ARRAY || v->type == DOC_OBJECT || v->type == DOC_NULL)
        doc_to_json(v, DOC_JSON_PLAIN, &json);
    else
        buf_puts(&json, v->text);
    size_t keep = json.len <= VALUE_MAX ? json.len : VALUE_MAX;
    while (keep < json.len && keep > 0 && ((unsigned char)json.data[keep] & 0xc0) == 0x80)
        keep--;
    buf_append(b, json.data, keep);
    if (keep < json.len)
        buf_puts(b, "...");
    buf_free(&json);
}

/* The difference, if both are numbers: easier to read for a metric. */
static void put_change(struct buf *b, const struct doc_node *x, const struct doc_node *y)
{
    if ((x->type != DOC_FLOAT && y->type != DOC_FLOAT) || (x->type != DOC_INT && x->type != DOC_FLOAT) ||
        (y->type != DOC_INT && y->type != DOC_FLOAT) || x->number == 0 || x->number != x->number ||
        y->number != y->number)
        return;
    const double percent = (y->number - x->number) / (x->number < 0 ? -x->number : x->number) * 100;
    if (percent > -1e6 && percent < 1e6)
        buf_printf(b, " (%+.3g %%)", percent);
}

static void put_row(struct out_text *o, const struct diff_row *r, bool digest)
{
    struct buf line = {0}, lines = {0};
    if (digest) {
        buf_printf(&line, "%s %s%s",
                   r->a && r->b ? " "
                   : r->a       ? "-"
                                : "+",
                   r->path, r->a && r->b ? ": another value" : "");
        put_line(o, r->a && r->b ? "" : r->a ? "31" : "32", line.data, line.len);
    } else if (is_long(r->a) && is_long(r->b) &&
               tree_diff_text(r->a->text, r->a->text_len, r->b->text, r->b->text_len, &lines, NULL) == 0 &&
               lines.len > 0) {
        buf_printf(&line, "  %s:", r->path);
        put_line(o, "", line.data, line.len);
        put_patch(o, "    ", lines.data);
    } else {
        buf_printf(&line, "%s %s: ", r->a && r->b ? " " : r->a ? "-" : "+", *r->path ? r->path : "all");
        put_value(&line, r->a ? r->a : r->b);
        if (r->a && r->b) {
            buf_puts(&line, " -> ");
            put_value(&line, r->b);
            put_change(&line, r->a, r->b);
        }
        put_line(o, r->a && r->b ? "" : r->a ? "31" : "32", line.data, line.len);
    }
    buf_free(&line);
    buf_free(&lines);
}

/* ---- runs, code, durations ---- */

static void put_side(struct out_text *o, const char *mark, const char *color, const struct diff_side *s)
{
    const struct doc_node *run = doc_get(s->lock, "run");
    struct buf line = {0};
    buf_printf(&line, "%s %s", mark, s->is_run ? "" : "lock of ");
    buf_printf(&line, "run %s of %s, %s, %s", doc_get_string(run, "id", "?"),
               doc_get_string(doc_get(s->lock, "job"), "name", "?"), doc_get_string(run, "opened", "?"),
               doc_get_string(run, "status", "?"));
    put_line(o, color, line.data, line.len);
    buf_free(&line);
}

static void put_tree(struct out_text *o, const struct diff_tree *t)
{
    struct buf line = {0};
    if (!t->a || !t->b)
        buf_printf(&line, "%s files of %s: %s", t->a ? "-" : "+", t->name, t->a ? t->a : t->b);
    else if (!t->has_a || !t->has_b)
        buf_printf(&line, "files of %s: %.12s -> %.12s; the snapshot%s not here, or not complete", t->name, t->a, t->b,
                   t->has_a   ? " of the second is"
                   : t->has_b ? " of the first is"
                              : "s are");
    else
        buf_printf(&line, "files of %s: %zu differ%s", t->name, t->count, t->count == 1 ? "s" : "");
    put_line(o, "1", line.data, line.len);
    buf_free(&line);
    for (size_t i = 0; i < t->count; i++) {
        o->raw = !isatty(1);
        put_patch(o, "", t->files[i].text);
        o->raw = false;
        if (t->files[i].fault) {
            CLEANUP(cleanup_free) char *fault = xasprintf("%s: %s", t->files[i].change->path, t->files[i].fault);
            put_line(o, "31", fault, strlen(fault));
        }
    }
}

static void put_duration(struct out_text *o, const char *step, const struct doc_node *a, const struct doc_node *b)
{
    char x[32] = "-", y[32] = "-";
    struct buf line = {0};
    if (a)
        cli_duration((uint64_t)a->integer, x);
    if (b)
        cli_duration((uint64_t)b->integer, y);
    buf_printf(&line, "  %s: %s -> %s", step, x, y);
    put_line(o, "", line.data, line.len);
    buf_free(&line);
}

/* The run, and the steps that took noticeable time. */
static void put_durations(struct out_text *o, const struct diff *d)
{
    const struct doc_node *lists[] = {d->durations_a, d->durations_b};
    unsigned shown = 0;
    if (!d->durations_a || !d->durations_b)
        return;
    put_line(o, "1", "durations", strlen("durations"));
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k]->count && shown < DURATIONS_MAX; i++) {
            const char *step = lists[k]->members[i].key;
            const struct doc_node *a = doc_get(d->durations_a, step), *b = doc_get(d->durations_b, step);
            const bool longer = (a && a->integer >= DURATION_MIN_MS) || (b && b->integer >= DURATION_MIN_MS);
            if ((k == 1 && a) || (!longer && strcmp(step, "run") != 0))
                continue;
            put_duration(o, step, a, b);
            shown++;
        }
}

void diff_put_text(const struct cli *c, const struct diff *d, struct buf *ret)
{
    struct out_text o = {ret, c->color_out, false};
    if (!d->differs && !c->given[OPT_VERBOSE])
        return;
    put_side(&o, "---", "31", d->a);
    put_side(&o, "+++", "32", d->b);
    for (size_t i = 0; i < d->section_count; i++) {
        const struct diff_section *s = &d->sections[i];
        if (s->rows.count > 0)
            put_line(&o, "1", s->name, strlen(s->name));
        for (size_t k = 0; k < s->rows.count; k++)
            put_row(&o, &s->rows.items[k], strcmp(s->name, "env") == 0);
    }
    for (size_t i = 0; i < d->tree_count; i++)
        put_tree(&o, &d->trees[i]);
    put_durations(&o, d);
}

/* ---- JSON ---- */

static void json_side(struct buf *b, const char *key, const struct diff_side *s)
{
    const struct doc_node *run = doc_get(s->lock, "run");
    buf_printf(b, "\"%s\":{\"kind\":\"%s\"", key, s->is_run ? "run" : "lock");
    cli_json_string(b, "run", doc_get_string(run, "id", NULL));
    cli_json_string(b, "job", doc_get_string(doc_get(s->lock, "job"), "name", NULL));
    cli_json_string(b, "opened", doc_get_string(run, "opened", NULL));
    cli_json_string(b, "status", doc_get_string(run, "status", NULL));
    buf_putc(b, '}');
}

static void json_rows(struct buf *b, const struct diff_section *s)
{
    buf_printf(b, ",\"%s\":[", s->name);
    for (size_t i = 0; i < s->rows.count; i++) {
        const struct diff_row *r = &s->rows.items[i];
        buf_puts(b, i ? ",{" : "{");
        cli_json_string(b, "path", r->path);
        if (r->a) {
            buf_puts(b, ",\"a\":");
            doc_to_json(r->a, DOC_JSON_PLAIN, b);
        }
        if (r->b) {
            buf_puts(b, ",\"b\":");
            doc_to_json(r->b, DOC_JSON_PLAIN, b);
        }
        buf_putc(b, '}');
    }
    buf_putc(b, ']');
}

static void json_tree(struct buf *b, const struct diff_tree *t)
{
    buf_putc(b, '{');
    cli_json_string(b, "tree", t->name);
    cli_json_string(b, "a", t->a);
    cli_json_string(b, "b", t->b);
    const bool known = t->has_a && t->has_b;
    buf_puts(b, known ? ",\"files\":[" : ",\"files\":null}");
    for (size_t i = 0; i < t->count; i++) {
        const struct diff_file *f = &t->files[i];
        buf_puts(b, i ? ",{" : "{");
        cli_json_string(b, "path", f->change->path);
        cli_json_string(b, "change", !f->change->before ? "added" : !f->change->after ? "removed" : "changed");
        cli_json_string(b, "diff", f->fault ? NULL : f->text);
        buf_putc(b, '}');
    }
    if (known)
        buf_puts(b, "]}");
}

static void json_durations(struct buf *b, const struct diff *d)
{
    const struct doc_node *lists[] = {d->durations_a, d->durations_b};
    const char *comma = "";
    buf_puts(b, ",\"durations\":[");
    for (size_t k = 0; k < 2 && lists[0] && lists[1]; k++)
        for (size_t i = 0; i < lists[k]->count; i++) {
            const char *step = lists[k]->members[i].key;
            const struct doc_node *x = doc_get(lists[0], step), *y = doc_get(lists[1], step);
            if (k == 1 && x)
                continue;
            buf_printf(b, "%s{", comma);
            cli_json_string(b, "step", step);
            if (x)
                buf_printf(b, ",\"a_ms\":%s", x->text);
            if (y)
                buf_printf(b, ",\"b_ms\":%s", y->text);
            buf_putc(b, '}');
            comma = ",";
        }
    buf_putc(b, ']');
}

void diff_put_json(const struct diff *d, struct buf *ret)
{
    buf_printf(ret, "{\"same\":%s,", d->differs ? "false" : "true");
    json_side(ret, "a", d->a);
    buf_putc(ret, ',');
    json_side(ret, "b", d->b);
    for (size_t i = 0; i < d->section_count; i++)
        json_rows(ret, &d->sections[i]);
    buf_puts(ret, ",\"code\":[");
    for (size_t i = 0; i < d->tree_count; i++) {
        buf_puts(ret, i ? "," : "");
        json_tree(ret, &d->trees[i]);
    }
    buf_putc(ret, ']');
    json_durations(ret, d);
    buf_puts(ret, "}\n");
}
