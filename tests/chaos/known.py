"""Known faults of the program that are not corrected yet. Each line names things that must not come together in a round until the fault is corrected.

Whoever corrects a fault removes its line, and the chaos test covers it from then on. The list should be empty. RHRUN_CHAOS_ALL=1 plays as if
it were.
"""
import os

OPEN = {
}


def is_open(name):
    return name in OPEN and not os.environ.get("RHRUN_CHAOS_ALL")
