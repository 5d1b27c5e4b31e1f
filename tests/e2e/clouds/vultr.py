"""Vultr, only the requests of a user's file (vultr.yaml). No document of its API is here, so this is general knowledge."""
import base64
import re

from .server import Cloud, Reply, Wrong, bearer, no_others

TOKEN = "vultr-test-token"
FIELDS = ("region", "plan", "os_id", "label", "hostname", "sshkey_id", "user_data", "enable_ipv6", "backups", "tags")


class Vultr(Cloud):
    name = "vultr"
    refusals = {
        "429": (429, "", "Rate limit reached"),
        "capacity": (400, "", "The selected plan is not available in the selected location."),
        "quota": (400, "", "You have reached the maximum number of active virtual machines for this account."),
        "auth": (401, "", "Invalid API token."),
    }
    offers = (("ewr", "", "vc2-2c-4gb", "", 0.03), ("ams", "", "vc2-2c-4gb", "", 0.031))
    plans = {"vc2-1c-1gb": (1, 1024, 5), "vc2-2c-4gb": (2, 4096, 20)}
    regions = ("ewr", "ams")
    systems = {2136: "Debian 12 x64 (bookworm)", 2284: "Ubuntu 24.04 LTS x64"}

    def __init__(self, folder):
        super().__init__(folder)
        self.keys = {}
        self.env["VULTR_API_KEY"] = TOKEN

    def kind(self, request):
        path, method = request.path, request.method
        if (method, path) == ("GET", "/instances"):
            return "sweep" if request.query.get("tag") == "rhrun" else "list"
        return {("POST", "/instances"): "create", ("GET", "/ssh-keys"): "key_list", ("POST", "/ssh-keys"): "key_create", ("GET", "/plans"): "stock",
                ("GET", "/os"): "prepare"}.get((method, path)) or \
            ({"GET": "get", "DELETE": "delete"}.get(method) if re.fullmatch(r"/instances/[0-9a-f-]+", path) else None) or \
            ("key_delete" if method == "DELETE" and re.fullmatch(r"/ssh-keys/[0-9a-f-]+", path) else None)

    def authorize(self, request):
        bearer(request, TOKEN)

    def error(self, wrong):
        return Reply(wrong.status, {"error": wrong.message, "status": wrong.status}, wrong.headers)

    def answer(self, kind, request, making):
        return getattr(self, kind)(request, making)

    def id(self, kind):
        return f"cb676a46-66fd-4dfb-b839-{self.number(kind):012x}"

    @staticmethod
    def page(request, name, items):
        """One item on a page: a client that does not turn pages is found out."""
        at = int(base64.b64decode(request.query["cursor"])) if "cursor" in request.query else 0
        following = base64.b64encode(b"%d" % (at + 1)).decode() if at + 1 < len(items) else ""
        return Reply(200, {name: items[at:at + 1], "meta": {"total": len(items), "links": {"next": following, "prev": ""}}})

    # ---- instances ----
    def create(self, request, making):
        body = request.json
        no_others(body, FIELDS, "an instance")
        if body["plan"] not in self.plans or body["region"] not in self.regions or body["os_id"] not in self.systems:
            raise Wrong(400, "", "Invalid plan, location or os.", violation=isinstance(body["os_id"], str))
        keys = [self.keys.get(k) for k in body["sshkey_id"]]
        if None in keys:
            raise Wrong(400, "", "Invalid ssh key.")
        run = next((t.partition(":")[2] for t in body["tags"] if t.startswith("rhrun-run:")), None)
        i = self.make(self.id("instance"), body["label"], run, making, keys=[k["ssh_key"] for k in keys], user_data=base64.b64decode(body["user_data"]),
                      tags=body["tags"], plan=body["plan"], region=body["region"])
        return Reply(202, {"instance": self.instance(i)})

    def list(self, request, making):
        return self.page(request, "instances", [self.instance(i) for i in self.shown("cursor" not in request.query)
                                                if request.query.get("tag", i.facts["tags"][0]) in i.facts["tags"]])

    sweep = list

    def one(self, request):
        i = self.find(request.path.rpartition("/")[2])
        if not i:
            raise Wrong(404, "", "Invalid instance.")
        return i

    def get(self, request, making):
        return Reply(200, {"instance": self.instance(self.one(request))})

    def delete(self, request, making):
        self.one(request).end()
        return Reply(204)

    def instance(self, i):
        status = {"coming": "pending", "running": "active", "stopped": "active", "going": "active"}[i.state]
        return {"id": i.id, "label": i.name, "hostname": i.name, "status": status, "power_status": "stopped" if i.state == "stopped" else "running",
                "server_status": "ok" if status == "active" else "none", "main_ip": i.address if status == "active" else "0.0.0.0", "internal_ip": "",
                "region": i.facts["region"], "plan": i.facts["plan"], "os": "Debian", "tags": i.facts["tags"], "date_created": "2026-01-01T00:00:00+00:00"}

    # ---- what else there is ----
    def key_create(self, request, making):
        body = request.json
        no_others(body, ("name", "ssh_key"), "a key")
        key = {"id": self.id("key"), "name": body["name"], "ssh_key": body["ssh_key"], "date_created": "2026-01-01T00:00:00+00:00"}
        self.keys[key["id"]] = key
        return Reply(201, {"ssh_key": key})

    def key_list(self, request, making):
        return self.page(request, "ssh_keys", list(self.keys.values()))

    def key_delete(self, request, making):
        if not self.keys.pop(request.path.rpartition("/")[2], None):
            raise Wrong(404, "", "Invalid SSH key.")
        return Reply(204)

    def prepare(self, request, making):
        return self.page(request, "os", [{"id": id, "name": name, "arch": "x64", "family": name.split()[0].lower()} for id, name in self.systems.items()])

    def stock(self, request, making):
        return self.page(request, "plans", [{"id": id, "vcpu_count": cpus, "ram": ram, "disk": 25, "monthly_cost": cost, "type": "vc2",
                                             "locations": list(self.regions)} for id, (cpus, ram, cost) in self.plans.items()])
