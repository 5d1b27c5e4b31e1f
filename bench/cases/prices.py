"""prices: a catalog of 500 offers over 7 providers, and one of 60,000 rows, against Python's start alone."""
import random
import sys

from lib import row

LIMIT_S = 0.020
HEADER = "provider,region,zone,instance_type,accelerator,count,vcpus,memory_gib,price_usd_hour,spot_usd_hour,source,as_of\n"
PROVIDERS = ["aws", "azure", "digitalocean", "gcp", "hetzner", "lambda", "runpod"]


def catalog(count, offers):
    """So many rows, of which `offers` have 8 A100."""
    dice = random.Random(count)
    lines = [HEADER]
    for i in range(count):
        price = dice.randint(900_000, 40_000_000) / 1e6
        name, each = ("A100", 8) if i < offers else (dice.choice(["H100", "T4", "L4", "A10G"]), 1)
        spot = f"{price / 2:.6f}" if i % 3 else ""
        lines.append(f"{PROVIDERS[i % 7]},region-{i % 20},zone-{i % 60},type-{i},{name},{each},{dice.randint(4, 192)},{dice.randint(16, 2048)},"
                     f"{price:.6f},{spot},bench,2026-{1 + i % 9:02}-{1 + i % 28:02}\n")
    dice.shuffle(rest := lines[1:])
    return "".join([HEADER, *rest])


def rows(bench):
    for count, offers, wanted in ((500, 500, LIMIT_S), (60_000, 500, None)):
        home = bench.dir / f"config-{count}"
        (home / "rhrun").mkdir(parents=True)
        (home / "rhrun/catalog.csv").write_text(catalog(count, offers))
        env = {"XDG_CONFIG_HOME": str(home)}
        command = [bench.rhrun, "prices", "A100:8", "--json"]
        bench.seconds(command, env=env)
        found = bench.output().count('"as_of"')
        if found < offers:
            raise RuntimeError(f"{found} offers were found, not {offers}")
        timed = bench.ab(lambda: bench.seconds(command, env=env), lambda: bench.seconds([sys.executable, "-c", ""]))
        work = f"prices A100:8 of {count:,} rows, {offers} offers over 7 providers"
        yield row(work, "python3 -c ''", timed, None)
        yield {"work": f"{work}: the whole command", "against": "", "value": f"{timed['a'] * 1000:.1f} ms",
               "wanted": f"< {wanted * 1000:.0f} ms" if wanted else "", **({"met": timed["a"] < wanted} if wanted else {})}
