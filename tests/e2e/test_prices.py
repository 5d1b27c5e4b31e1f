"""rhrun prices: the catalog as a table and as JSON; its layers; rows that are refused."""
import json
import os
import stat

import pytest

HEADER = "provider,region,instance_type,accelerator,count,vcpus,memory_gib,price_usd_hour,spot_usd_hour,source,as_of\n"
KEYS = {"provider", "region", "zone", "instance_type", "accelerator", "count", "vcpus", "memory_gib", "gpu_memory_gib", "price_usd_hour",
        "spot_usd_hour", "usd_hour_per_accelerator", "as_of", "source", "layer", "file"}


@pytest.fixture
def mine(box):
    """Writes the user's file."""
    path = box.home / ".config/rhrun/catalog.csv"

    def write(rows, header=HEADER):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header + rows)
        return path
    return write


@pytest.fixture
def refreshed(box):
    """Writes the prices of a provider, as refreshed ones."""
    def write(provider, text):
        path = box.home / f".cache/rhrun/catalog/{provider}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path
    return write


def types(result):
    return [o["instance_type"] for o in result.ok().json()]


def test_table(rhrun):
    r = rhrun("prices", "A100:8").ok()
    lines = r.out.splitlines()
    assert lines[0].split() == ["PROVIDER", "REGION", "TYPE", "ACCELERATOR", "VCPUS", "GIB", "USD/H", "SPOT/H", "EACH/H", "AGE", "SOURCE"]
    first = lines[1].split()
    assert first[:7] == ["aws", "us-east-1", "p4d.24xlarge", "A100:8", "96", "1152", "21.9576"] and first[-1] == "[1]", r
    assert int(first[-3]) > 100 and first[-2] == "d"  # its age
    assert any(line.startswith("[1] ") and "built in" in line for line in lines)
    assert "A100-80GB" in lines[-1] and "40 GB" in lines[-1]  # of the name that others use otherwise
    assert not r.err


def test_without_a_word_the_cheapest_of_each_kind(rhrun):
    offers = rhrun("prices", "--json").ok().json()
    kinds = [(o["accelerator"], o["count"]) if o["accelerator"] else (o["vcpus"], o["memory_gib"]) for o in offers]
    assert len(set(kinds)) == len(kinds) > 20
    for name in ("T4", "A100", "H100", "V100"):
        assert (name, 1) in kinds
    for offer in offers:
        if offer["accelerator"] == "A100" and offer["count"] == 8:
            assert offer["instance_type"] == "p4d.24xlarge"
    assert len(rhrun("prices", "--json", "--limit", 3).ok().json()) == 3
    assert "--limit" in rhrun("prices", "--limit", "x").expect(2).err


def test_json(rhrun):
    offers = rhrun("prices", "H100:8", "--json").ok().json()
    prices = [o["price_usd_hour"] for o in offers]
    assert prices == sorted(prices) and len(prices) > 3
    for offer in offers:
        assert set(offer) == KEYS
        assert offer["accelerator"] in ("H100", "H100-MEGA") and offer["count"] == 8
        assert offer["usd_hour_per_accelerator"] == pytest.approx(offer["price_usd_hour"] / 8, abs=1e-6)
        assert offer["layer"] == "built-in" and offer["file"] is None and offer["source"] and offer["as_of"].startswith("20")


def test_the_answers_of_the_seed(rhrun):
    """As the collection itself names them, but for the prices that are not built in."""
    for request, provider, price in (("A100:8", "aws", 21.957642), ("T4:1", "aws", 0.526), ("L4:1", "gcp", 0.706832), ("V100:1", "aws", 3.06),
                                     ("A100-80GB:8", "aws", 27.44705), ("H100:8", "digitalocean", 23.92)):
        best = rhrun("prices", request, "--json").ok().json()[0]
        assert (best["provider"], best["price_usd_hour"]) == (provider, price), request


def test_requests(rhrun):
    assert types(rhrun("prices", "aws:p4d.24xlarge", "--json")) == ["p4d.24xlarge"]
    both = rhrun("prices", "a100|A100_80GB:8", "--json").ok().json()
    assert {o["accelerator"] for o in both} == {"A100", "A100-80GB"}
    assert rhrun("prices", "NVIDIA A100 80GB PCIe", "--json").out == rhrun("prices", "A100-80GB:1", "--json").out
    sizes = rhrun("prices", "cpu:8+ memory:32+", "--json").ok().json()
    assert sizes and all(o["vcpus"] >= 8 and o["memory_gib"] >= 32 and o["accelerator"] is None and o["count"] == 0 for o in sizes)


def test_filters(rhrun):
    spot = rhrun("prices", "A100:8", "--spot", "--json").ok().json()
    assert spot and all(o["spot_usd_hour"] and o["usd_hour_per_accelerator"] == pytest.approx(o["spot_usd_hour"] / 8, abs=1e-6) for o in spot)
    assert {o["provider"] for o in rhrun("prices", "A100:8", "--provider", "azure", "--provider", "gcp", "--json").ok().json()} == {"azure", "gcp"}
    assert {o["region"] for o in rhrun("prices", "--region", "US-Central1", "--json").ok().json()} == {"us-central1"}


@pytest.mark.parametrize("args, said, hint", [
    (["A100:3"], "no machine with A100:3", "A100:1, A100:2, A100:8"),
    (["A10O:8"], 'no accelerator "A10O"', "did you mean A10"),
    (["p4d.24xlarg"], '"p4d.24xlarg" is neither', "did you mean p4d.24xlarge?"),
    (["A100:8+"], '"8+" is not a count', "exact"),
    (["A100:8", "--region", "us-east-2"], "A100:8 in us-east-2", "did you mean us-east-1?"),
    (["A100:8", "--provider", "asw"], "A100:8 at asw", "did you mean aws?"),
    (["H100-NVL:1", "--spot"], "no spot price of H100-NVL:1", "without spot there is 1 offer"),
    ([""], "empty", "forms"),
    (["x" * 300], "300 bytes", ""),
    (["A100\x1b[2J:8"], "A100?[2J", ""),
], ids=lambda a: a[0][:12] if isinstance(a, list) else None)
def test_what_is_not_there(rhrun, args, said, hint):
    r = rhrun("prices", *args).expect(2)
    assert said in r.err and hint in r.err and not r.out
    r = rhrun("prices", *args, "--json").expect(2)
    assert said in r.err and said in r.json()["error"]


def test_layers(rhrun, mine, refreshed):
    cache = refreshed("aws", HEADER + "aws,us-east-1,p4d.24xlarge,A100,8,96,1152,20,9,api,2026-11-20\n")
    best = rhrun("prices", "A100:8", "--json").ok().json()[0]
    assert (best["price_usd_hour"], best["spot_usd_hour"], best["layer"], best["file"]) == (20, 9, "refreshed", str(cache))
    path = mine("aws,us-east-1,p4d.24xlarge,A100,8,96,1152,14.9,,our contract,\nlab,basement,dgx-1,V100-32GB,8,80,512,,,power,\n")
    best = rhrun("prices", "A100:8", "--json").ok().json()[0]
    assert (best["price_usd_hour"], best["spot_usd_hour"], best["layer"], best["file"]) == (14.9, None, "user", str(path))
    unknown = rhrun("prices", "V100-32GB:8").ok().out.splitlines()[1].split()
    assert unknown == ["lab", "basement", "dgx-1", "V100-32GB:8", "80", "512", "-", "-", "-", "?", "[1]"]
    assert f"[1] power ({path})" in rhrun("prices", "V100-32GB:8").out


def test_places_of_the_layers(box, rhrun):
    for variable, name in (("XDG_CONFIG_HOME", "rhrun/catalog.csv"), ("XDG_CACHE_HOME", "rhrun/catalog/lab.csv")):
        path = box.dir / variable / name
        path.parent.mkdir(parents=True)
        path.write_text(HEADER + f"lab,here,{variable},,0,8,32,1,,s,\n")
        assert types(rhrun("prices", variable, "--json", env={variable: box.dir / variable})) == [variable]
        rhrun("prices", variable).expect(2)


def test_a_fault_of_ones_own_file_is_an_error(rhrun, mine):
    path = mine("aws,us-east-1,p4d.24xlarge,A100,8,96,1152,0,,contract,\naws,us-east-1,x,T4,1,4,16,700.0,,s,\n")
    r = rhrun("prices", "A100:8").expect(2)
    assert f"{path}:2:43: error: price_usd_hour is 0" in r.err
    assert f"{path}:3:27: error: a price of 700.0 is not a real price" in r.err
    assert f"{path}: 2 faults in your prices" in r.err and not r.out
    mine("x\n", header="")
    assert 'unknown column "x"' in rhrun("prices").expect(2).err


def test_a_fault_of_a_refreshed_file_is_a_warning(rhrun, refreshed):
    refreshed("aws", HEADER + "aws,us-east-1,p4d.24xlarge,A100,8,96,1152,20,0.00,api,\naws,us-east-1,good,A100,8,96,1152,19,,api,2026-11-20\n")
    refreshed("gcp", "<html>busy</html>")
    r = rhrun("prices", "A100:8", "--json").ok()
    assert "aws.csv:2:" in r.err and "warning: spot_usd_hour is 0" in r.err and "gcp.csv:1:" in r.err
    found = {o["instance_type"]: o["price_usd_hour"] for o in r.json()}
    assert found["good"] == 19 and found["p4d.24xlarge"] == 21.957642 and "a2-highgpu-8g" in found
    assert not rhrun("prices", "A100:8", "--quiet").ok().err


def test_a_file_that_cannot_be_read(box, rhrun, mine, refreshed):
    path = mine("")
    path.unlink()
    path.mkdir()
    assert "catalog.csv" in rhrun("prices").expect(3).err
    path.rmdir()
    os.mkfifo(path)  # not waited for
    assert "catalog.csv" in rhrun("prices").expect(3).err
    path.unlink()
    cache = refreshed("aws", HEADER)
    cache.unlink()
    os.mkfifo(cache)
    r = rhrun("prices", "A100:8").ok()
    assert "refreshed prices of aws are left out" in r.err and "p4d.24xlarge" in r.out
    assert stat.S_ISFIFO(cache.stat().st_mode)


def test_it_writes_nothing(box, rhrun):
    before = sorted(p.relative_to(box.home) for p in box.home.rglob("*"))
    rhrun("prices").ok()
    assert sorted(p.relative_to(box.home) for p in box.home.rglob("*")) == before
    assert not box.state.exists()


def test_json_of_odd_names(rhrun, mine):
    mine('lab,"a ""b"", c",ty\\pe,,0,8,32,1.000001,,"é",2026-01-01\n')
    offer = json.loads(rhrun("prices", "ty\\pe", "--json").ok().out)[0]
    assert (offer["region"], offer["instance_type"], offer["source"], offer["price_usd_hour"]) == ('a "b", c', "ty\\pe", "é", 1.000001)
