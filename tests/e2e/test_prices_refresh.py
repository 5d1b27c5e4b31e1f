"""rhrun prices --refresh: the prices that providers report are kept; which providers are asked, and which are skipped; hostile answers."""
import datetime
import json

import pytest

from clouds.server import Reply


def kept(box, name):
    path = box.home / f".cache/rhrun/catalog/{name}.csv"
    return path.read_text() if path.exists() else None


def rows(result):
    return {(o["instance_type"], o["region"]): o for o in result.json() if o["layer"] == "refreshed"}


@pytest.fixture
def cloud(box, clouds):
    """A provider whose catalog is what it tells itself."""
    def start(name):
        one = clouds.start(name)
        (box.home / ".config/rhrun/catalog.csv").unlink()
        return one
    return start


def test_prices_of_lambda(box, rhrun, cloud):
    cloud("lambda")
    r = rhrun("prices", "A100-80GB:8", "--refresh", "--json").ok()
    assert "lambda: 30 prices" in r.err, r
    found = rows(r)[("gpu_8x_a100_80gb_sxm4", "us-west-2")]
    assert (found["price_usd_hour"], found["accelerator"], found["count"], found["vcpus"], found["memory_gib"]) == (14.32, "A100-80GB", 8, 30, 200)
    assert found["source"] == "API of Lambda Cloud" and found["as_of"] == datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    assert rows(rhrun("prices", "H100-PCIE:1", "--json").ok())[("gpu_1x_h100_pcie", "us-east-1")]["price_usd_hour"] == 2.49  # it is kept
    assert ("cpu_4x_general", "us-east-1") in rows(rhrun("prices", "cpu:30", "--json").ok())


def test_prices_of_digitalocean(box, rhrun, cloud):
    cloud("digitalocean")
    found = rows(rhrun("prices", "H100:8", "--refresh", "--provider", "digitalocean", "--json").ok())[("gpu-h100x8-640gb", "tor1")]
    assert (found["price_usd_hour"], found["memory_gib"], found["gpu_memory_gib"]) == (23.92, 1, None)


def test_prices_in_another_currency(box, rhrun, cloud):
    hetzner = cloud("hetzner")
    r = rhrun("prices", "--refresh", "--provider", "hetzner").expect(2)
    assert "in EUR" in r.err and "--rate EUR=NUMBER" in r.err and kept(box, "hetzner") is None, r
    r = rhrun("prices", "cpu:2", "--refresh", "--provider", "hetzner", "--rate", "EUR=1.5", "--json").ok()
    found = rows(r)[("cx22", "hel1")]
    assert found["price_usd_hour"] == 0.009 and found["source"] == "API of Hetzner Cloud, EUR at 1.5", r
    hetzner.currency = "USD"
    assert rows(rhrun("prices", "cpu:2", "--refresh", "--provider", "hetzner", "--json").ok())[("cx22", "hel1")]["price_usd_hour"] == 0.006
    for wrong in ("EUR", "EUR=", "EUR=0", "EUR=-1", "EURO=1", "EUR=x"):
        assert "--rate" in rhrun("prices", "--refresh", "--rate", wrong).expect(2).err
    assert "--refresh" in rhrun("prices", "--rate", "EUR=1").expect(2).err


def test_who_is_asked(box, rhrun, cloud):
    lambda_cloud, ocean = cloud("lambda"), cloud("digitalocean")
    r = rhrun("prices", "--refresh", env={"LAMBDA_API_KEY": None}).ok()
    assert "lambda is skipped" in r.err and "LAMBDA_API_KEY" in r.err and "digitalocean: 20 prices" in r.err, r
    assert not lambda_cloud.log and len(ocean.of("stock")) == 1 and "aws" not in r.err
    r = rhrun("prices", "--refresh", "--provider", "lambda", env={"LAMBDA_API_KEY": None}).expect(2)
    assert "LAMBDA_API_KEY" in r.err and not r.out and not lambda_cloud.log
    r = rhrun("prices", "--refresh", env={"LAMBDA_API_KEY": None, "DIGITALOCEAN_TOKEN": None}).expect(2)
    assert "no provider can be asked for its prices" in r.err, r
    assert "publishes no prices" in rhrun("prices", "--refresh", "--provider", "aws").expect(2).err
    assert "lamda" in rhrun("prices", "--refresh", "--provider", "lamda").expect(2).err


def test_some_regions(box, rhrun, cloud):
    ocean = cloud("digitalocean")
    rhrun("prices", "--refresh").ok()
    ocean.sizes = {"c-2": 0.05}
    r = rhrun("prices", "--refresh", "--region", "NYC3").ok()
    assert "digitalocean: 1 price" in r.err, r
    found = rows(rhrun("prices", "cpu:1", "--json").ok())
    assert found[("c-2", "nyc3")]["price_usd_hour"] == 0.05 and found[("c-2", "ams3")]["price_usd_hour"] == 0.0625
    assert ("s-1vcpu-1gb", "nyc3") not in found and ("s-1vcpu-1gb", "ams3") in found
    before = kept(box, "digitalocean")
    r = rhrun("prices", "cpu:1", "--refresh", "--region", "nowhere")
    assert r.rc != 0 and "for these regions" in r.err and kept(box, "digitalocean") == before, r


@pytest.mark.parametrize("what, said, rc", [("auth", "Unable to authenticate", 2), ("500_before", "digitalocean", 3), ("garbage", "cannot be read", 3),
                                            ("drop_before", "digitalocean", 3), ("429", "Rate limit", 3)])
def test_a_provider_that_fails_keeps_its_prices(box, rhrun, cloud, what, said, rc):
    ocean = cloud("digitalocean")
    rhrun("prices", "--refresh").ok()
    before = kept(box, "digitalocean")
    cloud("lambda")
    ocean.sizes = {"c-2": 0.05}
    ocean.fault("stock", what, times=100)
    r = rhrun("prices", "--refresh").expect(rc)
    assert said in r.err and "could not be fetched: digitalocean" in r.err and "lambda: 30 prices" in r.err, r
    assert kept(box, "digitalocean") == before and kept(box, "lambda")
    assert "gpu_8x_a100_80gb_sxm4" in rhrun("prices", "A100-80GB:8").ok().out


def size(slug="s-1", price=1.0, **more):
    return {"slug": slug, "memory": 1024, "vcpus": 1, "price_hourly": price, "regions": ["nyc3"], "available": True, **more}


def answers(ocean, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    ocean.stock = lambda request, making: Reply(200, data, {"Content-Type": "application/json"})


def test_dirty_rows_are_refused(box, rhrun, cloud):
    ocean = cloud("digitalocean")
    answers(ocean, {"sizes": [
        size("good"), size("zero", 0), size("negative", -1), size("huge", 1e300), size("large", 5000), size("text", "NaN"), size("word", "free"),
        size("none", None), size("list", [1]), size("gpu", 61, gpu_info={"count": 1, "model": "nvidia_h100"}), size("\x1b[2J"), size("x" * 300),
        size('quo"te,', 1.5), size(None), size("vcpus", vcpus=-3), size("half", vcpus=1.5), size("memory", memory=1e18), {"slug": "bare"}, 7,
        size("=cmd", 2), {"slug": "elsewhere", "price_hourly": 1, "available": True, "regions": [None, {}, ["a"], "", " nyc1"]}]})
    r = rhrun("prices", "cpu:1", "--refresh", "--json").ok()
    assert set(t for t, _ in rows(r)) == {"good", 'quo"te,', "=cmd"} | ({"?[2J"} if "?[2J" in r.out else set()), r
    assert "\x1b" not in r.err and "more faults of that kind" in r.err and "not a decimal number" in r.err, r
    assert "2 without a price" in r.err, r
    quiet = rhrun("prices", "cpu:1", "--refresh", "--quiet").ok()
    assert not quiet.err, quiet


@pytest.mark.parametrize("body", [b'{"sizes": [{"slug": "x", "price_hourly": NaN}]}', b"", b"[]", b'{"sizes": {}}', b'{"sizes": []}', b'{"sizes": "x"}',
                                  b'{"sizes": [' + b"[" * 5000, b'{"sizes": [{"slug": "s", "available": true, "regions": ["r"], "price_hourly": 0}]}',
                                  b"\xff\xfe", {"sizes": [size(f"s-{i}") for i in range(10001)]}], ids=lambda b: str(b)[:30])
def test_hostile_answers(box, rhrun, cloud, body):
    ocean = cloud("digitalocean")
    rhrun("prices", "--refresh").ok()
    before = kept(box, "digitalocean")
    answers(ocean, body)
    r = rhrun("prices", "cpu:1", "--refresh").expect(3)
    assert "the old prices stay" in r.err and len(r.err) < 5000 and kept(box, "digitalocean") == before, r


def test_thousands_of_rows(box, rhrun, cloud):
    ocean = cloud("digitalocean")
    answers(ocean, {"sizes": [size(f"s-{i}", 1 + i / 1e6 if i % 2 else -1) for i in range(9000)]})
    r = rhrun("prices", "cpu:1", "--refresh", "--limit", 1).ok()
    assert "digitalocean: 4500 prices" in r.err and len(r.err) < 5000, r
    assert len(kept(box, "digitalocean").splitlines()) == 4501


@pytest.mark.soak
def test_pages_without_an_end(box, rhrun, cloud):
    ocean = cloud("digitalocean")

    def endless(request, making):
        page = int(request.query.get("page", 1))
        return Reply(200, {"sizes": [size(f"s-{page}")], "links": {"pages": {"next": f"{ocean.base}/v2/sizes?page={page + 1}"}}})
    ocean.stock = endless
    r = rhrun("prices", "cpu:1", "--refresh").expect(3)
    assert "does not end" in r.err and kept(box, "digitalocean") is None, r


def test_a_folder_that_cannot_be_written(box, rhrun, cloud):
    cloud("digitalocean")
    (box.home / ".cache").mkdir(exist_ok=True)
    (box.home / ".cache/rhrun").write_text("in the way")
    r = rhrun("prices", "--refresh").expect(3)
    assert "the old prices stay" in r.err, r


def test_no_secret_is_kept_or_shown(box, rhrun, cloud):
    ocean = cloud("digitalocean")
    secret = ocean.secrets()[0]
    answers(ocean, {"sizes": [size("good"), size(secret, -1), size(secret, 1)]})
    r = rhrun("prices", "cpu:1", "--refresh", "-v").ok()
    assert secret not in r.text and secret not in kept(box, "digitalocean")
