"""Providers to rent from, for tests: their APIs on this machine's loopback, and a machine with a real sshd for each instance.

    cloud = clouds.start("hetzner")     # the fixture `clouds`: the test's box then knows its address and credentials
    cloud.fault("create", "drop_after") # the fault, and the request that it strikes (server.Cloud.fault)
    cloud.machines()                    # the machines that exist and would be billed
    cloud.log, cloud.of("create")       # the requests so far

The cloud checks each request against the known facts about the provider, and against its API document if that is here. A request that the
provider would not know fails the test at its end. A provider waits too long for a test: so the box gets a copy of the
provider's file with short waits, and two offers of the provider in its catalog (Cloud.offers).
"""
import pathlib
import re

import harness

from . import machine
from .metadata import Metadata


def classes():
    from .aws import Aws
    from .digitalocean import DigitalOcean
    from .gcp import Gcp
    from .hetzner import Hetzner
    from .lambdacloud import Lambda
    from .runpod import RunPod
    from .vultr import Vultr
    return {c.name: c for c in (Aws, DigitalOcean, Gcp, Hetzner, Lambda, RunPod, Vultr)}


COLUMNS = "provider,region,zone,instance_type,accelerator,count,vcpus,memory_gib,price_usd_hour,spot_usd_hour,source,as_of\n"
# Those that rhrun brings. vultr is another one: its file, beside this one, is a user's.
NAMES = ("aws", "digitalocean", "gcp", "hetzner", "lambda", "runpod")


def hasty(name, within):
    """The provider's file with short waits; within: how long a machine may take until it is ready."""
    folder = harness.ROOT / "providers" if name in NAMES else pathlib.Path(__file__).parent
    text = (folder / f"{name}.yaml").read_text(encoding="utf-8")
    for pattern, new in ((r"(?m)^throttle: .*$", "throttle: {default: 0}"), (r"(?m)^settle: \S+", "settle: 500ms\nlate: 5s"),
                         (r"(?m)^poll: .*$", f"poll: {{every: 100ms, within: {within}}}"), (r"retry_after: \S+?}", "retry_after: 100ms}")):
        text, count = re.subn(pattern, new, text)
        assert count or "retry_after" in pattern, f"{name}: {pattern}"
    return text


class Clouds:
    def __init__(self, box):
        self.box = box
        self.started = []

    def start(self, name, within="60s"):
        machine.require()
        cloud = classes()[name](self.box.dir)
        self.started.append(cloud)
        self.box.env.update(cloud.env)
        config = self.box.home / ".config/rhrun"
        (config / "providers").mkdir(parents=True, exist_ok=True)
        text = hasty(name, within)
        if "notice:" in text:  # what its machines ask on themselves
            cloud.metadata = Metadata(cloud)
            text = re.sub(r"every: \d+s", "every: 200ms", text.replace("http://169.254.169.254", cloud.metadata.base))
        (config / f"providers/{name}.yaml").write_text(text, encoding="utf-8")
        if not (config / "catalog.csv").exists():
            (config / "catalog.csv").write_text(COLUMNS)
        with open(config / "catalog.csv", "a", encoding="utf-8") as rows:
            for region, zone, kind, accelerator, price in cloud.offers:
                rows.write(f"{name},{region},{zone},{kind},{accelerator},{1 if accelerator else 0},2,4,{price},,test,2026-01-01\n")
        return cloud

    def end(self):
        """Ends all; what they were asked in vain."""
        for cloud in self.started:
            cloud.end()
        return [violation for cloud in self.started for violation in cloud.violations]
