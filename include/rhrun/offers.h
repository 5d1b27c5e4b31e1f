/*
 * offers: the machines that can be rented for a spec, in the order in which rhrun tries them. This is the part of
 * module rent (rent.h) that asks no provider: from the spec's wish (struct spec_rent), the catalog's prices and the
 * providers' files it makes the offers that a cluster's ledger freezes. No network; it reads the catalog, the
 * providers' files and files of credentials.
 *
 * `cheapest` means every provider that has prices in the catalog and a provider file, except free ones: a provider that
 * costs nothing (docker) must be named. Offers are sorted by price, as catalog_offers does; a spot machine with an
 * unknown price counts with the on-demand price, which it never exceeds. A provider without spot machines has no spot
 * offers.
 *
 * With any_of, each alternative has its own offers: all of the first alternative by price, then those of the second,
 * and so on.
 *
 * A fault in the spec becomes a diagnostic at its place, with the name that was probably meant or the other place
 * involved.
 */
#ifndef RHRUN_OFFERS_H
#define RHRUN_OFFERS_H

#include "rhrun/catalog.h"
#include "rhrun/fleet.h"
#include "rhrun/provider.h"
#include "rhrun/spec.h"

struct rent_provider { /* a provider that has offers, or that was left out */
    const char *name;
    struct provider_facts facts;
    const char *left_out; /* why its machines are not among the offers; NULL: they are */
    const char *missing;  /* which credentials were looked for and not found; NULL: found, or not looked for */
};
struct rent_offers {
    struct fleet_offer *items;
    /* beside each: */
    const struct catalog_row **rows; /* NULL: the provider is free, and no catalog has it */
    const struct rent_provider **of;
    bool *at_most;                   /* the spot price is not known; price is the on-demand price */
    size_t count;
    size_t cut; /* further offers, all dearer, that were dropped: at most FLEET_OFFERS_MAX are kept */
    struct rent_provider *providers; /* first the providers of the offers, in the order of their first offer, then those
                                        left out */
    size_t provider_count;
    const struct spec_rent *rent;
    uint32_t nodes; /* not with any_of: there each offer has its own number */
};

/* All results are in the arena. Credentials are not looked for. -1: no offer suits, or a provider's file or the user's
 * catalog is faulty; then d has the faults that have a place, and err a summary (ERROR_SPEC). Warnings in d are about
 * the catalog. */
int rent_offers(const struct spec_rent *rent, uint32_t nodes, struct arena *arena, struct rent_offers *ret,
                struct diagnostics *d, struct error *err);
/* Looks for the credentials of each provider that has offers; a program that prints them counts as found and is not
 * run. With `cheapest`, providers without credentials are left out. -1 and err (ERROR_SPEC, ERROR_WHY_CREDENTIALS) if
 * no provider is left, or one that the spec names has none; then the offers are unchanged, and `missing` says what was
 * looked for. */
int rent_credentials_check(struct rent_offers *o, struct arena *arena, struct error *err);
/* Which credentials of a provider were looked for and not found; NULL: they were found. */
const char *rent_credentials_missing(const char *provider, struct arena *arena);

#endif
