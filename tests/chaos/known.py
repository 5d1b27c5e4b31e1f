"""Faults of the program that are known and not yet corrected, by what must not come together in a round until they are.

Whoever corrects one removes its line, and the chaos test covers it from then on. It is to be empty. RHRUN_CHAOS_ALL=1 plays as if
it were.
"""
import os

OPEN = {
}


def is_open(name):
    return name in OPEN and not os.environ.get("RHRUN_CHAOS_ALL")
