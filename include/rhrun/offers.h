/*
 * offers: what can be rented for a spec, in the order in which it is tried. The part of module rent (rent.h) that asks
 * nobody: out of the spec's wish (struct spec_rent), the catalog's prices and the providers' files it makes the offers
 * that a cluster's ledger freezes. No network; files are read: the catalog's, the providers', those of credentials.
 *
 * `cheapest` is each provider that has prices in the catalog and a file here, and that is not free: what costs nothing
 * (docker) is taken only when it is named. By price, as catalog_offers sorts; spot machines whose price nobody knows
 * count with the price on demand, which they never exceed. Of a provider without spot machines there is no spot offer.
 *
 * Of any_of each alternative has its own offers, one alternative after the other; within one they go by price.
 *
 * Faults of what the spec says are told where it says so, with the name that was meant or the other place.
 */
#ifndef RHRUN_OFFERS_H
#define RHRUN_OFFERS_H

#include "rhrun/catalog.h"
#include "rhrun/fleet.h"
#include "rhrun/provider.h"
#include "rhrun/spec.h"

struct rent_provider { /* one that has offers, or that was left out */
    const char *name;
    struct provider_facts facts;
    const char *left_out; /* why its machines are not among the offers; NULL: they are */
    const char *missing;  /* which credentials were looked for, and are not there; NULL: they are there, or not asked */
};
struct rent_offers {
    struct fleet_offer *items;
    /* beside each: */
    const struct catalog_row **rows; /* NULL: the provider is free, and no catalog has it */
    const struct rent_provider **of;
    bool *at_most;                   /* a spot price that nobody knows: what it says is the one on demand */
    size_t count;
    size_t cut; /* further ones, all of them dearer: no more than FLEET_OFFERS_MAX are kept */
    struct rent_provider *providers; /* those of the offers in the order of their first, then those left out */
    size_t provider_count;
    const struct spec_rent *rent;
    uint32_t nodes; /* but for any_of: there each offer says it */
};

/* All in the arena. Credentials are not looked at. -1: none suits, or a provider's file or the user's catalog is
 * faulty; then d has what can be said with a place, and err a summary (ERROR_SPEC). Warnings in d are about the
 * catalog. */
int rent_offers(const struct spec_rent *rent, uint32_t nodes, struct arena *arena, struct rent_offers *ret,
                struct diagnostics *d, struct error *err);
/* Looks for the credentials of each provider that has offers; a program that prints them counts as found and is not
 * run. Of `cheapest` those without are left out. -1 and err (ERROR_SPEC, ERROR_WHY_CREDENTIALS) where none is left, or
 * a provider that the spec names has none; then the offers are as they were, and `missing` says what was looked for. */
int rent_credentials_check(struct rent_offers *o, struct arena *arena, struct error *err);
/* Which credentials of a provider were looked for and are not there; NULL: they are there. */
const char *rent_credentials_missing(const char *provider, struct arena *arena);

#endif
