"""Hetzner Cloud: servers and SSH keys, as its API document describes them."""
import re

from . import document
from .server import Cloud, Reply, Wrong, bearer, no_others

TOKEN = "hetzner-test-token"
OTHER = "hetzner-token-of-another-project"  # in which there is nothing
NOW = "2026-01-01T00:00:00+00:00"
SERVER_FIELDS = ("name", "server_type", "image", "location", "ssh_keys", "user_data", "start_after_create", "labels", "networks", "volumes",
                 "placement_group", "public_net", "firewalls", "automount")
LABEL_KEY = r"([a-z0-9A-Z][a-z0-9A-Z._-]*/)?[a-z0-9A-Z]([a-z0-9A-Z._-]{0,61}[a-z0-9A-Z])?"
LABEL_VALUE = r"([a-z0-9A-Z]([a-z0-9A-Z._-]{0,61}[a-z0-9A-Z])?)?"


class Hetzner(Cloud):
    name = "hetzner"
    user = "root"
    refusals = {
        "429": (429, "rate_limit_exceeded", "limit of 3600 requests per hour reached"),
        "capacity": (412, "resource_unavailable", "server type not available in this location"),
        "quota": (403, "resource_limit_exceeded", "server limit reached"),
        "auth": (401, "unauthorized", "unable to authenticate"),
    }
    offers = (("fsn1", "", "cx22", "", 0.006), ("nbg1", "", "cx22", "", 0.007))
    types = {"cx22": (2, 4, 40), "cx32": (4, 8, 80), "cpx51": (16, 32, 360), "ccx63": (48, 192, 960)}
    locations = ("fsn1", "nbg1", "hel1", "ash")

    def __init__(self, folder):
        super().__init__(folder)
        self.keys = {}
        self.token = self.env["HCLOUD_TOKEN"] = TOKEN
        self.other = False
        self.document = document.of(self.name)

    def prefix(self):
        return "/v1"

    def kind(self, request):
        path, method = request.path, request.method
        if path == "/v1/servers" and method == "GET":
            return "sweep" if request.query.get("label_selector") == "rhrun-run" else "list"
        return {("POST", "/v1/servers"): "create", ("GET", "/v1/ssh_keys"): "key_list", ("POST", "/v1/ssh_keys"): "key_create",
                ("GET", "/v1/server_types"): "stock", ("GET", "/v1/pricing"): "pricing"}.get((method, path)) or \
            ({"GET": "get", "DELETE": "delete"}.get(method) if re.fullmatch(r"/v1/servers/[0-9]+", path) else None) or \
            ("key_delete" if method == "DELETE" and re.fullmatch(r"/v1/ssh_keys/[0-9]+", path) else None)

    def authorize(self, request):
        if request.headers.get("Authorization") == f"Bearer {OTHER}":
            self.other = True
            return
        self.other = False
        bearer(request, self.token)

    def error(self, wrong):
        return Reply(wrong.status, {"error": {"code": wrong.code, "message": wrong.message, "details": {}}}, wrong.headers)

    def check(self, kind, request, reply):
        if self.document:
            for fault in self.document.faults(request, reply):
                self.violation(request, fault)

    def answer(self, kind, request, making):
        return getattr(self, kind)(request, making)

    def shown(self, look=True):
        return [] if self.other else super().shown(look)

    def find(self, id, look=True):
        return None if self.other else super().find(id, look)

    # ---- servers ----
    def create(self, request, making):
        body = request.json
        no_others(body, SERVER_FIELDS, "a server")
        if not re.fullmatch(r"[a-zA-Z0-9]([a-zA-Z0-9.-]{0,61}[a-zA-Z0-9])?", body["name"]):
            raise Wrong(422, "invalid_input", "invalid input in field 'name'", violation=True)
        if any(i.name == body["name"] and i.state != "gone" for i in self.instances):
            raise Wrong(409, "uniqueness_error", "server name is already used")
        if body["server_type"] not in self.types:
            raise Wrong(422, "invalid_input", "invalid input in field 'server_type'")
        if body.get("location", "fsn1") not in self.locations:
            raise Wrong(422, "invalid_input", "invalid input in field 'location'")
        if not re.fullmatch(r"(ubuntu|debian)-[0-9.]+", body["image"]):
            raise Wrong(422, "invalid_input", "invalid input in field 'image'")
        keys = [k for k in self.keys.values() if str(k["id"]) in body["ssh_keys"] or k["name"] in body["ssh_keys"]]
        if len(keys) != len(body["ssh_keys"]):
            raise Wrong(422, "invalid_input", "SSH key not found")
        data = body.get("user_data", "").encode()
        if len(data) > 32768:
            raise Wrong(422, "invalid_input", "user_data is too long", violation=True)
        for key, value in body["labels"].items():
            if not re.fullmatch(LABEL_KEY, key) or not re.fullmatch(LABEL_VALUE, value):
                raise Wrong(422, "invalid_input", f"label {key}={value} is not valid", violation=True)
        i = self.make(self.number("server"), body["name"], body["labels"].get("rhrun-run"), making, keys=[k["public_key"] for k in keys],
                      user_data=data, labels=body["labels"], type=body["server_type"], location=body.get("location", "fsn1"))
        return Reply(201, {"server": self.server_of(i), "action": self.action("create_server", i), "next_actions": [], "root_password": None})

    def list(self, request, making):
        wanted, page, size = request.query.get("label_selector", ""), int(request.query.get("page", 1)), int(request.query.get("per_page", 25))
        if size > 50:
            raise Wrong(400, "invalid_input", "per_page is more than 50", violation=True)
        key, _, value = wanted.partition("==")
        shown = [i for i in self.shown() if key in i.facts["labels"] and (not value or i.facts["labels"][key] == value)]
        return Reply(200, {"servers": [self.server_of(i) for i in shown[(page - 1) * size:page * size]], "meta": self.meta(page, size, len(shown))})

    sweep = list

    def one(self, request):
        i = self.find(request.path.rpartition("/")[2])
        if not i:
            raise Wrong(404, "not_found", "server not found")
        return i

    def get(self, request, making):
        return Reply(200, {"server": self.server_of(self.one(request))})

    def delete(self, request, making):
        i = self.one(request)
        i.end()
        return Reply(200, {"action": self.action("delete_server", i)})

    # ---- keys ----
    def key_create(self, request, making):
        body = request.json
        no_others(body, ("name", "public_key", "labels"), "a key")
        if not re.fullmatch(r"(ssh-ed25519|ssh-rsa|ecdsa-\S+) \S+( .*)?", body["public_key"].strip()):
            raise Wrong(422, "invalid_input", "invalid input in field 'public_key'", violation=True)
        material = body["public_key"].split()[1]
        if any(k["name"] == body["name"] or k["public_key"].split()[1] == material for k in self.keys.values()):
            raise Wrong(409, "uniqueness_error", "SSH key not unique")
        key = {"id": self.number("key"), "name": body["name"], "public_key": body["public_key"], "labels": body.get("labels", {}), "created": NOW,
               "fingerprint": "b7:2f:30:a0:2f:6c:58:6c:21:04:58:61:ba:06:3b:2f"}
        self.keys[key["id"]] = key
        return Reply(201, {"ssh_key": key})

    def key_list(self, request, making):
        keys = [k for k in self.keys.values() if request.query.get("name", k["name"]) == k["name"] and not self.other]
        return Reply(200, {"ssh_keys": keys, "meta": self.meta(1, 25, len(keys))})

    def key_delete(self, request, making):
        if not self.keys.pop(int(request.path.rpartition("/")[2]), None):
            raise Wrong(404, "not_found", "SSH key not found")
        return Reply(204)

    def stock(self, request, making):
        return Reply(200, {"server_types": [self.type_of(t) for t in self.types], "meta": self.meta(1, 50, len(self.types))})

    currency = "EUR"

    def pricing(self, request, making):
        price = {"net": "1.0000", "gross": "1.1900"}
        return Reply(200, {"pricing": {
            "currency": self.currency, "vat_rate": "19.00", "image": {"price_per_gb_month": price}, "floating_ip": {"price_monthly": price},
            "floating_ips": [], "primary_ips": [], "load_balancer_types": [], "traffic": {"price_per_tb": price},
            "server_backup": {"percentage": "20.00"}, "volume": {"price_per_gb_month": price},
            "server_types": [{"id": kind["id"], "name": kind["name"], "prices": kind["prices"]} for kind in map(self.type_of, self.types)]}})

    # ---- shapes ----
    @staticmethod
    def meta(page, size, count):
        last = max(1, -(-count // size))
        return {"pagination": {"page": page, "per_page": size, "previous_page": page - 1 or None, "next_page": page + 1 if page < last else None,
                               "last_page": last, "total_entries": count}}

    def action(self, command, i):
        return {"id": self.number("action"), "command": command, "error": None, "finished": None, "progress": 0, "started": NOW, "status": "running",
                "resources": [{"id": i.id, "type": "server"}]}

    def type_of(self, name):
        cores, memory, disk = self.types[name]
        number = list(self.types).index(name) + 1
        price = {"net": "0.0060", "gross": "0.0071"}
        return {"id": number, "name": name, "description": name.upper(), "cores": cores, "memory": memory, "disk": disk, "architecture": "x86",
                "cpu_type": "shared", "storage_type": "local", "deprecated": None, "deprecation": None, "category": "Shared vCPU",
                "locations": [{"id": n + 1, "name": place, "deprecation": None} for n, place in enumerate(self.locations)],
                "prices": [{"location": place, "included_traffic": 0, "price_hourly": price, "price_monthly": price, "price_per_tb_traffic": price}
                           for place in self.locations]}

    def location(self, name):
        return {"id": self.locations.index(name) + 1, "name": name, "city": "x", "country": "DE", "description": name, "latitude": 50.1,
                "longitude": 12.3, "network_zone": "eu-central"}

    def server_of(self, i):
        status = {"coming": "initializing", "running": "running", "stopped": "off", "going": "deleting"}[i.state]
        place = self.location(i.facts["location"])
        ipv4 = {"id": i.id, "ip": i.address, "blocked": False, "dns_ptr": "x.example"}
        ipv6 = {"id": i.id, "ip": "2001:db8::/64", "blocked": False, "dns_ptr": []}
        kind = self.type_of(i.facts["type"])
        return {"id": i.id, "name": i.name, "status": status, "created": NOW, "labels": i.facts["labels"], "location": place, "backup_window": None,
                "datacenter": {"id": place["id"], "name": place["name"] + "-dc14", "description": "x", "location": place,
                               "server_types": {"available": [1], "available_for_migration": [1], "supported": [1]}},
                "image": None, "included_traffic": 0, "ingoing_traffic": 0, "outgoing_traffic": 0, "iso": None, "load_balancers": [], "locked": False,
                "placement_group": None, "primary_disk_size": kind["disk"], "private_net": [], "protection": {"delete": False, "rebuild": False},
                "public_net": {"ipv4": ipv4, "ipv6": ipv6, "floating_ips": [], "firewalls": []}, "rescue_enabled": False, "server_type": kind,
                "volumes": []}
