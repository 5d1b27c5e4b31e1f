/*
 * Offers in replies: machines that are available now, with their prices. Values are returned as text even if they make
 * no sense: the catalog's rules refuse them, with the reason.
 */
#include "internal.h"

#include <math.h>
#include <string.h>

enum { VALUE_MAX = 64 };
#define PLAIN_MAX 1e12 /* a larger number is returned as written */

/* The text of a scalar in the arena, printable and bounded; NULL: there is none. */
static const char *text_at(const struct answer *a, const struct doc_node *item, const char *pointer)
{
    const struct doc_node *node = pointer ? doc_get_path(item, pointer) : NULL;
    if (!node || node->type == DOC_NULL || node->type == DOC_ARRAY || node->type == DOC_OBJECT || !node->text_len)
        return NULL;
    char *text = arena_strndup(a->arena, node->text, node->text_len);
    str_printable(text);
    return text;
}

/* A number times the scale, as a decimal number; what is not a number stays as it is. */
static const char *number_at(const struct answer *a, const struct doc_node *item, const char *pointer, double scale)
{
    const char *text = text_at(a, item, pointer);
    const struct doc_node *value = text ? doc_new_plain(a->arena, text) : NULL;
    if (!value)
        return NULL;
    const bool number = value->type == DOC_INT || value->type == DOC_FLOAT;
    if (!number || !isfinite(value->number * scale) || fabs(value->number * scale) > PLAIN_MAX)
        return arena_strndup(a->arena, text, strnlen(text, VALUE_MAX));
    char *decimal = arena_printf(a->arena, "%.6f", value->number * scale);
    for (size_t len = strlen(decimal); decimal[len - 1] == '0' || decimal[len - 1] == '.';) {
        const bool point = decimal[--len] == '.';
        decimal[len] = 0;
        if (point)
            break;
    }
    return decimal;
}

static double scale_of(const struct doc_node *how, const char *key)
{
    const struct doc_node *scale = doc_get(how, key);
    return scale ? scale->number : 1;
}

static const char *group_of(const struct answer *a, const struct regex *re, const char *text, const char *name)
{
    size_t at, len;
    const int number = regex_group(re, name);
    return number >= 0 && regex_span(re, number, &at, &len) && len ? arena_strndup(a->arena, text + at, len) : NULL;
}

/* Reads "H100 (80 GB SXM5)" by a pattern, or a plain name. */
static void read_accelerator(const struct answer *a, const struct step *step, const char *text,
                             struct provider_offer *o)
{
    struct regex *re = step->accelerator_pattern;
    if (!re) {
        o->accelerator = text;
    } else if (text && regex_match(re, text, strlen(text)) == REGEX_YES) {
        o->accelerator = group_of(a, re, text, "name");
        o->accelerator_form = group_of(a, re, text, "form");
        o->gpu_memory_gib = group_of(a, re, text, "memory");
    }
}

/* An offer in one region: region is an item of the type's list of regions, or NULL. */
static const char *put_offer(const struct answer *a, const struct step *step, const struct doc_node *item,
                             const struct doc_node *region, struct provider_result *result)
{
    const struct doc_node *how = doc_get(step->node, "offers");
    const char *type = text_at(a, item, doc_get_string(how, "type", "")), *key = doc_get_string(how, "price", NULL);
    const char *in_region = doc_get_string(how, "region_price", NULL);
    if (!type)
        return NULL;
    if (result->offer_count == PROVIDER_ITEMS_MAX)
        return "the reply has too many offers";
    struct provider_offer *o = &result->offers[result->offer_count++];
    *o = (struct provider_offer){
        .type = type,
        .region = region ? text_at(a, region, doc_get_string(how, "region", "")) : NULL,
        .price = number_at(a, in_region ? region : item, in_region ? in_region : key, scale_of(how, "scale")),
        .spot_price = number_at(a, item, doc_get_string(how, "spot_price", NULL), scale_of(how, "scale")),
        .count = number_at(a, item, doc_get_string(how, "count", NULL), 1),
        .vcpus = number_at(a, item, doc_get_string(how, "vcpus", NULL), 1),
        .memory_gib = number_at(a, item, doc_get_string(how, "memory", NULL), scale_of(how, "memory_scale"))};
    read_accelerator(a, step, text_at(a, item, doc_get_string(how, "accelerator", NULL)), o);
    return NULL;
}

static bool is_offered(const struct answer *a, const struct doc_node *how, const struct doc_node *item)
{
    const char *only = doc_get_string(how, "only", NULL);
    const struct doc_node *flag = only ? doc_get_path(item, only) : NULL;
    return (!only || (flag && flag->type == DOC_BOOL && flag->boolean)) && item_fits(a, how, item);
}

const char *offers_read(const struct answer *a, const struct step *step, struct provider_result *result)
{
    const struct doc_node *how = doc_get(step->node, "offers");
    const struct doc_node *list = how && a->json ? doc_get_path(a->json, doc_get_string(how, "in", "")) : NULL;
    const char *regions_at = doc_get_string(how, "regions", NULL), *fault = NULL;
    if (!how)
        return NULL;
    if (!list || (list->type != DOC_ARRAY && list->type != DOC_OBJECT))
        return "the reply has no list of offers where one should be";
    result->offers = arena_array(a->arena, PROVIDER_ITEMS_MAX, sizeof *result->offers);
    for (size_t i = 0; i < list->count && !fault; i++) {
        const struct doc_node *item = list->type == DOC_ARRAY ? list->items[i] : list->members[i].value;
        const struct doc_node *regions = regions_at ? doc_get_path(item, regions_at) : NULL;
        if (!is_offered(a, how, item))
            continue;
        if (!regions_at)
            fault = put_offer(a, step, item, NULL, result);
        for (size_t k = 0; regions && regions->type == DOC_ARRAY && k < regions->count && !fault; k++)
            fault = put_offer(a, step, item, regions->items[k], result);
    }
    return fault;
}
