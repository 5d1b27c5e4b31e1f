/*
 * XML replies, by libxml2 and XPath 1.0. A DTD is refused before the parser sees it, so there are no entities but the
 * five of XML itself; the encoding is UTF-8 whatever the text says, so a DTD cannot hide in another encoding. Nothing
 * is fetched. Namespaces are removed: a path says //instancesSet/item, whatever version the provider's namespace has.
 * The library is loaded when it is first needed: it brings ICU, which would slow the start of every command.
 */
#include "internal.h"

#include <dlfcn.h>
#include <libxml/parser.h>
#include <libxml/xpath.h>
#include <stdlib.h>
#include <string.h>

enum { XPATH_STEPS_MAX = 2000000 };

/* The library must match the headers at compile time, because of the layout of its structs. */
#if LIBXML_VERSION >= 21400
#define LIBRARY "libxml2.so.16"
#define PACKAGE "libxml2-16"
#else
#define LIBRARY "libxml2.so.2"
#define PACKAGE "libxml2"
#endif

/* All functions of libxml2 that are used; xmlFree is a variable that holds a function. */
#define SYMBOLS(X)          \
    X(xmlNewParserCtxt)     \
    X(xmlFreeParserCtxt)    \
    X(xmlCtxtReadMemory)    \
    X(xmlDocGetRootElement) \
    X(xmlNodeGetContent)    \
    X(xmlFreeDoc)           \
    X(xmlFree)              \
    X(xmlXPathNewContext)   \
    X(xmlXPathFreeContext)  \
    X(xmlXPathCtxtCompile)  \
    X(xmlXPathFreeCompExpr) \
    X(xmlXPathEval)         \
    X(xmlXPathCastToString) \
    X(xmlXPathFreeObject)

#define MEMBER(name) __typeof__(&name) name;
static struct {
    void *handle; /* NULL: not loaded yet. Never given back */
    SYMBOLS(MEMBER)
} lib;

struct xml {
    xmlDocPtr doc;
    xmlXPathContextPtr context;
};

#if RHRUN_STATIC /* it is linked */
int xml_open(struct error *err)
{
    (void)err;
#define TAKE(name) lib.name = &name;
    SYMBOLS(TAKE)
    lib.handle = &lib;
    return 0;
}
#else
int xml_open(struct error *err)
{
#define ROW(name) {#name, &lib.name},
    static const struct {
        const char *name;
        void *at;
    } rows[] = {SYMBOLS(ROW)};
    if (lib.handle)
        return 0;
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool good = handle != NULL;
    for (size_t i = 0; good && i < ARRAY_LEN(rows); i++) {
        void *symbol = dlsym(handle, rows[i].name);
        memcpy(rows[i].at, &symbol, sizeof symbol);
        good = symbol != NULL;
    }
    if (good) {
        lib.handle = handle;
        return 0;
    }
    const char *why = dlerror();
    error_set(err, ERROR_IO, "replies in XML are read by libxml2, which cannot be loaded: %s", why ? why : LIBRARY);
    error_hint(err, "install it; on Debian and Ubuntu: apt-get install %s", PACKAGE);
    if (handle)
        dlclose(handle);
    return -1;
}
#endif

const char *provider_xml_version(struct error *err)
{
    return xml_open(err) == 0 ? LIBXML_DOTTED_VERSION : NULL;
}

#if LIBXML_VERSION >= 21200
static void quiet(void *data, const xmlError *fault)
#else
static void quiet(void *data, xmlErrorPtr fault)
#endif
{
    (void)data;
    (void)fault;
}

/* Iterative, because a reply may be deep, and a chain of next may be as long as the reply. */
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
        memmem(text, len, "<!ENTITY", 8) || xml_open(NULL) < 0)
        return NULL;
    xmlParserCtxtPtr parser = lib.xmlNewParserCtxt();
    if (!parser)
        return NULL;
    xmlDocPtr doc = lib.xmlCtxtReadMemory(parser, text, (int)len, NULL, "UTF-8",
                                          XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING |
                                              XML_PARSE_NOCDATA | XML_PARSE_NOBLANKS);
    lib.xmlFreeParserCtxt(parser);
    xmlNodePtr root = doc ? lib.xmlDocGetRootElement(doc) : NULL;
    xmlXPathContextPtr context = root && !doc->intSubset && !doc->extSubset ? lib.xmlXPathNewContext(doc) : NULL;
    if (!context) {
        lib.xmlFreeDoc(doc);
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
    lib.xmlXPathFreeContext(x->context);
    lib.xmlFreeDoc(x->doc);
    free(x);
}

void *xml_root(struct xml *x)
{
    return x->doc;
}

bool xml_path_good(const char *path)
{
    xmlXPathContextPtr context = xml_open(NULL) == 0 ? lib.xmlXPathNewContext(NULL) : NULL;
    if (!context)
        return false;
    context->error = quiet;
    xmlXPathCompExprPtr compiled = lib.xmlXPathCtxtCompile(context, BAD_CAST path);
    lib.xmlXPathFreeCompExpr(compiled);
    lib.xmlXPathFreeContext(context);
    return compiled != NULL;
}

static xmlXPathObjectPtr evaluate(struct xml *x, void *at, const char *path)
{
    x->context->node = at;
    x->context->opCount = 0;
    return lib.xmlXPathEval(BAD_CAST path, x->context);
}

const char *xml_text(struct xml *x, void *at, const char *path, struct arena *arena)
{
    xmlXPathObjectPtr found = evaluate(x, at, path);
    xmlChar *text = NULL;
    const char *ret = NULL;
    if (found && found->type == XPATH_NODESET) {
        if (found->nodesetval && found->nodesetval->nodeNr > 0)
            text = lib.xmlNodeGetContent(found->nodesetval->nodeTab[0]);
    } else if (found) {
        text = lib.xmlXPathCastToString(found);
    }
    if (text && text[0])
        ret = arena_strdup(arena, (const char *)text);
    (*lib.xmlFree)(text);
    lib.xmlXPathFreeObject(found);
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
    lib.xmlXPathFreeObject(found);
    return count;
}
