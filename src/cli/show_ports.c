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

static void status_line(struct buf *b, const struct doc_node *port)
{
    buf_puts(b, "  ");
    put_what(b, (uint32_t)doc_get_int(port, "port", 0), doc_get_string(port, "host", "?"),
             doc_get_string(port, "name", NULL), doc_get_string(port, "role", NULL));
    buf_printf(b, ": %s\n", doc_get_string(port, "address", "?"));
}

void status_ports(const struct journal *j, const struct state_run *run, bool json, struct buf *b)
{
    struct error none = ERROR_INIT;
    struct diagnostics d = {0};
    struct arena *arena = arena_create();
    struct doc *doc = NULL;
    struct buf text = {0};
    pid_t pid;
    CLEANUP(cleanup_free) char *path = xasprintf("%s/runs/%s/%s", journal_path(j), run->id, PORTS_FILE);
    const bool good = run->status == RUN_OPEN && journal_holder(j, &pid, NULL) &&
                      file_read(path, FILE_MAX, &text, &none) == 0 && text.len &&
                      doc_load_text(PORTS_FILE, text.data, text.len, DOC_FORMAT_JSON, arena, &doc, &d, &none) == 0 &&
                      doc->root->type == DOC_ARRAY;
    if (json && good)
        buf_printf(b, ",\"ports\":%.*s", (int)strcspn(text.data, "\n"), text.data);
    for (size_t i = 0; !json && good && i < doc->root->count; i++)
        status_line(b, doc->root->items[i]);
    diagnostics_free(&d);
    buf_free(&text);
    arena_destroy(arena);
}
