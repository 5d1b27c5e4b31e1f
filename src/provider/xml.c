/*
 * XML replies, by libxml2 and XPath 1.0. A DTD is refused before the parser sees it, so there are no entities but the
 * five of XML itself; the encoding is UTF-8 whatever the text says, so a DTD cannot hide in another one. Nothing is fetched.
 * Namespaces are taken off: a path says //instancesSet/item, whatever version the provider's namespace names.
 */
#include "internal.h"

#include <libxml/parser.h>
#include <libxml/xpath.h>
#include <stdlib.h>
#include <string.h>

enum { XPATH_STEPS_MAX = 2000000 };

struct xml {
    xmlDocPtr doc;
    xmlXPathContextPtr context;
};

static void quiet(void *data, xmlErrorPtr fault)
{
    (void)data;
    (void)fault;
}

/* Iterative: a reply may be deep, and a chain of next is as long as the reply. */
static void drop_namespaces(xmlNodePtr root)
{
    xmlNodePtr at = root;
    while (at) {
        if (at->type == XML_ELEMENT_NODE)
            at->ns = NULL;
        if (at->type == XML_ELEMENT_NODE && at->children) {
            at = at->children;
            continue;
        }
        while (at != root && !at->next)
            at = at->parent;
        at = at == root ? NULL : at->next;
    }
}

struct xml *xml_parse(const char *text, size_t len)
{
    if (len == 0 || len > PROVIDER_REPLY_MAX || memchr(text, 0, len) || memmem(text, len, "<!DOCTYPE", 9) ||
        memmem(text, len, "<!ENTITY", 8))
        return NULL;
    xmlParserCtxtPtr parser = xmlNewParserCtxt();
    if (!parser)
        return NULL;
    xmlDocPtr doc = xmlCtxtReadMemory(parser, text, (int)len, NULL, "UTF-8",
                                      XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING | XML_PARSE_NOCDATA |
                                          XML_PARSE_NOBLANKS);
    xmlFreeParserCtxt(parser);
    xmlNodePtr root = doc ? xmlDocGetRootElement(doc) : NULL;
    xmlXPathContextPtr context = root && !doc->intSubset && !doc->extSubset ? xmlXPathNewContext(doc) : NULL;
    if (!context) {
        xmlFreeDoc(doc);
        return NULL;
    }
    drop_namespaces(root);
    context->error = quiet;
    context->opLimit = XPATH_STEPS_MAX;
    struct xml *x = xcalloc(1, sizeof *x);
    x->doc = doc;
    x->context = context;
    return x;
}

void xml_free(struct xml *x)
{
    if (!x)
        return;
    xmlXPathFreeContext(x->context);
    xmlFreeDoc(x->doc);
    free(x);
}

void *xml_root(struct xml *x)
{
    return x->doc;
}

bool xml_path_good(const char *path)
{
    xmlXPathContextPtr context = xmlXPathNewContext(NULL);
    if (!context)
        return false;
    context->error = quiet;
    xmlXPathCompExprPtr compiled = xmlXPathCtxtCompile(context, BAD_CAST path);
    xmlXPathFreeCompExpr(compiled);
    xmlXPathFreeContext(context);
    return compiled != NULL;
}

static xmlXPathObjectPtr evaluate(struct xml *x, void *at, const char *path)
{
    x->context->node = at;
    x->context->opCount = 0;
    return xmlXPathEval(BAD_CAST path, x->context);
}

const char *xml_text(struct xml *x, void *at, const char *path, struct arena *arena)
{
    xmlXPathObjectPtr found = evaluate(x, at, path);
    xmlChar *text = NULL;
    const char *ret = NULL;
    if (found && found->type == XPATH_NODESET) {
        if (found->nodesetval && found->nodesetval->nodeNr > 0)
            text = xmlNodeGetContent(found->nodesetval->nodeTab[0]);
    } else if (found) {
        text = xmlXPathCastToString(found);
    }
    if (text && text[0])
        ret = arena_strdup(arena, (const char *)text);
    xmlFree(text);
    xmlXPathFreeObject(found);
    return ret;
}

size_t xml_nodes(struct xml *x, void *at, const char *path, void **ret, size_t max)
{
    xmlXPathObjectPtr found = evaluate(x, at, path);
    size_t count = 0;
    if (found && found->type == XPATH_NODESET && found->nodesetval) {
        count = (size_t)found->nodesetval->nodeNr;
        if (count > max)
            count = SIZE_MAX;
        for (size_t i = 0; count != SIZE_MAX && i < count; i++)
            ret[i] = found->nodesetval->nodeTab[i];
    }
    xmlXPathFreeObject(found);
    return count;
}
