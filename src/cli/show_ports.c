/* Forwarded ports, for people and programs. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 20 };

static void put_what(struct buf *b, uint32_t port, const char *host, const char *name, const char *role)
{
    buf_printf(b, "port %u of %s", port, host);
    if (name || role)
        buf_printf(b, " (%s)", name ? name : role);
}

void plain_port(struct buf *b, const struct run_port *p)
{
    if (!p->address && !p->trouble)
        return; /* the launch is over */
    put_what(b, p->port, p->node_name, p->name, p->role);
    if (p->trouble)
        buf_printf(b, " cannot be reached from here: %s", p->trouble);
    else
        buf_printf(b, ": %s", p->address);
    if (!p->trouble && p->taken)
        buf_printf(b, ", as port %u is taken here", p->taken);
    else if (!p->trouble && !p->forwarded)
        buf_puts(b, ", the node's own");
}

void cli_json_port(struct buf *b, const char *run, const struct run_port *port)
{
    buf_puts(b, "{\"type\":\"port\"");
    cli_json_string(b, "run", run);
    buf_putc(b, ',');
    run_port_json(port, b);
    buf_puts(b, "}\n");
}

unsigned live_ports(struct canvas *v, const struct run *r, unsigned lines)
{
    size_t count = 0;
    unsigned used = 0;
    const struct run_port *all = r ? run_ports(r, &count) : NULL;
    for (size_t i = 0; i < count && used < lines; i++) {
        struct buf b = {0};
        if (!all[i].address)
            continue;
        used++;
        if (v) {
            put_what(&b, all[i].port, all[i].node_name, all[i].name, all[i].role);
            canvas_printf(v, "", "   %s: ", b.data);
            canvas_printf(v, "36", "%s", all[i].address);
            canvas_end_line(v);
        }
        buf_free(&b);
    }
    return used;
}

/* "port 6006 of gpu1 (tensorboard): 127.0.0.1:6006" */
static void put_line(struct buf *b, const struct doc_node *port)
{
    put_what(b, (uint32_t)doc_get_int(port, "port", 0), doc_get_string(port, "host", "?"),
             doc_get_string(port, "name", NULL), doc_get_string(port, "role", NULL));
    buf_printf(b, ": %s", doc_get_string(port, "address", "?"));
}

/* The latest ports file of an open run's controller. False: there is none, or no controller. */
static bool read_text(const struct journal *j, const struct state_run *run, struct buf *text)
{
    struct error none = ERROR_INIT;
    pid_t pid;
    CLEANUP(cleanup_free) char *path = xasprintf("%s/runs/%s/%s", journal_path(j), run->id, PORTS_FILE);
    return run->status == RUN_OPEN && journal_holder(j, &pid, NULL) && file_read(path, FILE_MAX, text, &none) == 0 &&
           text->len;
}

static struct doc *read_ports(const struct buf *text, struct arena *arena)
{
    struct error none = ERROR_INIT;
    struct diagnostics d = {0};
    struct doc *doc = NULL;
    int rc = doc_load_text(PORTS_FILE, text->data, text->len, DOC_FORMAT_JSON, arena, &doc, &d, &none);
    diagnostics_free(&d);
    return rc == 0 && doc->root->type == DOC_ARRAY ? doc : NULL;
}

void status_ports(struct cli *c, const struct journal *j, const struct state_run *run, bool json, struct buf *b)
{
    struct buf text = {0};
    const struct doc *doc = read_text(j, run, &text) ? read_ports(&text, c->arena) : NULL;
    if (json && doc)
        buf_printf(b, ",\"ports\":%.*s", (int)strcspn(text.data, "\n"), text.data);
    for (size_t i = 0; !json && doc && i < doc->root->count; i++) {
        buf_puts(b, "  ");
        put_line(b, doc->root->items[i]);
        buf_putc(b, '\n');
    }
    buf_free(&text);
}

void attach_ports(const struct journal *j, const struct state_run *run, struct buf *last, struct buf *ret_lines)
{
    struct buf text = {0};
    if (!read_text(j, run, &text) || (last->len == text.len && memcmp(last->data, text.data, text.len) == 0)) {
        buf_free(&text);
        return;
    }
    struct arena *arena = arena_create();
    const struct doc *before = last->len ? read_ports(last, arena) : NULL, *now = read_ports(&text, arena);
    for (size_t i = 0; now && i < now->root->count; i++) {
        bool told = false;
        struct buf line = {0};
        put_line(&line, now->root->items[i]);
        for (size_t k = 0; before && k < before->root->count && !told; k++) {
            struct buf other = {0};
            put_line(&other, before->root->items[k]);
            told = str_eq(other.data, line.data);
            buf_free(&other);
        }
        if (!told)
            buf_printf(ret_lines, "%s\n", line.data);
        buf_free(&line);
    }
    arena_destroy(arena);
    buf_free(last);
    *last = text;
}
