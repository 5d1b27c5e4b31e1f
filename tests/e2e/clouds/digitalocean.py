"""DigitalOcean: droplets and keys. A list has no GPU droplets unless the request asks only for them, and such a request takes no tag."""
import re

from .server import Cloud, Reply, Wrong, bearer, no_others

TOKEN = "digitalocean-test-token"
NOW = "2026-01-01T00:00:00Z"
DROPLET_FIELDS = ("name", "region", "size", "image", "ssh_keys", "user_data", "tags", "backups", "ipv6", "monitoring", "vpc_uuid", "volumes",
                  "with_droplet_agent", "backup_policy", "private_networking")


class DigitalOcean(Cloud):
    name = "digitalocean"
    user = "root"
    refusals = {
        "429": (429, "too_many_requests", "API Rate limit exceeded."),
        "capacity": (422, "unprocessable_entity", "Size is not available in this region."),
        "quota": (422, "unprocessable_entity", "creating this/these droplet(s) will exceed your droplet limit"),
        "auth": (401, "unauthorized", "Unable to authenticate you"),
    }
    offers = (("nyc3", "", "c-2", "", 0.0625), ("ams3", "", "c-2", "", 0.0626))
    sizes = {"s-1vcpu-1gb": 0.00893, "c-2": 0.0625, "gpu-h100x1-80gb": 3.39, "gpu-h100x8-640gb": 23.92}
    regions = ("nyc2", "nyc3", "tor1", "ams3", "atl1")

    def __init__(self, folder):
        super().__init__(folder)
        self.keys = {}
        self.env["DIGITALOCEAN_TOKEN"] = TOKEN

    def kind(self, request):
        path, method = request.path, request.method
        if path == "/v2/droplets" and method == "GET":
            return "sweep" if request.query.get("tag_name") == "rhrun" else "list"
        return {("POST", "/v2/droplets"): "create", ("GET", "/v2/account/keys"): "key_list", ("POST", "/v2/account/keys"): "key_create",
                ("GET", "/v2/sizes"): "stock"}.get((method, path)) or \
            ({"GET": "get", "DELETE": "delete"}.get(method) if re.fullmatch(r"/v2/droplets/[0-9]+", path) else None) or \
            ("key_delete" if method == "DELETE" and re.fullmatch(r"/v2/account/keys/[0-9]+", path) else None)

    def authorize(self, request):
        bearer(request, TOKEN)

    def error(self, wrong):
        return Reply(wrong.status, {"id": wrong.code, "message": wrong.message, "request_id": "4d9d8375-3c56-4925-a3e7-eb137fed17e9"}, wrong.headers)

    def answer(self, kind, request, making):
        return getattr(self, kind)(request, making)

    def create(self, request, making):
        body = request.json
        no_others(body, DROPLET_FIELDS, "a droplet")
        if not re.fullmatch(r"[a-zA-Z0-9]([a-zA-Z0-9.-]{0,253}[a-zA-Z0-9])?", body["name"]):
            raise Wrong(422, "unprocessable_entity", "Name Only valid hostname characters are allowed. (a-z, A-Z, 0-9, . and -)", violation=True)
        if body["region"] not in self.regions or body["size"] not in self.sizes:
            raise Wrong(422, "unprocessable_entity", "You specified an invalid region or size for Droplet creation.")
        if not isinstance(body["image"], (str, int)) or not isinstance(body["ssh_keys"], list):
            raise Wrong(422, "unprocessable_entity", "You specified an invalid image for Droplet creation.", violation=True)
        keys = [self.keys.get(int(k)) for k in body["ssh_keys"]]
        if None in keys:
            raise Wrong(422, "unprocessable_entity", "There was a problem with your SSH key.")
        data = body.get("user_data", "").encode()
        if len(data) > 65536:
            raise Wrong(422, "unprocessable_entity", "user_data is too long", violation=True)
        for tag in body["tags"]:
            if not re.fullmatch(r"[A-Za-z0-9:_-]{1,255}", tag):
                raise Wrong(422, "unprocessable_entity", f"tag {tag} is not valid", violation=True)
        run = next((t.partition(":")[2] for t in body["tags"] if t.startswith("rhrun-run:")), None)
        i = self.make(self.number("droplet", 300000000), body["name"], run, making, keys=[k["public_key"] for k in keys], user_data=data,
                      tags=body["tags"], size=body["size"], region=body["region"], image=body["image"])
        links = {"actions": [{"id": self.number("action"), "rel": "create", "href": f"{self.base}/v2/actions/1"}]}
        return Reply(202, {"droplet": self.droplet(i, new=True), "links": links})

    def list(self, request, making):
        query = request.query
        kind, tag, size, page = query.get("type", "droplets"), query.get("tag_name"), int(query.get("per_page", 20)), int(query.get("page", 1))
        if tag and "type" in query:
            raise Wrong(400, "bad_request", "tag_name cannot be combined with type", violation=True)
        if not 1 <= size <= 200:
            raise Wrong(422, "unprocessable_entity", "per_page is at most 200", violation=True)
        shown = [i for i in self.shown() if i.facts["size"].startswith("gpu-") == (kind == "gpus") and (not tag or tag in i.facts["tags"])]
        more = page * size < len(shown)
        given = "&".join(f"{k}={v}" for k, v in query.items() if k != "page")
        links = {"pages": {"next": f"{self.base}/v2/droplets?{given}&page={page + 1}"}} if more else {}
        return Reply(200, {"droplets": [self.droplet(i) for i in shown[(page - 1) * size:page * size]], "links": links, "meta": {"total": len(shown)}})

    sweep = list

    def one(self, request):
        i = self.find(request.path.rpartition("/")[2])
        if not i:
            raise Wrong(404, "not_found", "The resource you were accessing could not be found.")
        return i

    def get(self, request, making):
        return Reply(200, {"droplet": self.droplet(self.one(request))})

    def delete(self, request, making):
        self.one(request).end()
        return Reply(204)

    def key_create(self, request, making):
        body = request.json
        no_others(body, ("name", "public_key"), "a key")
        if not re.fullmatch(r"(ssh-ed25519|ssh-rsa|ecdsa-\S+) \S+( .*)?", body["public_key"].strip()):
            raise Wrong(422, "unprocessable_entity", "Key invalid, key should be of the format `type key [comment]`", violation=True)
        if any(k["public_key"].split()[1] == body["public_key"].split()[1] for k in self.keys.values()):
            raise Wrong(422, "unprocessable_entity", "SSH Key is already in use on your account")
        key = {"id": self.number("key"), "name": body["name"], "public_key": body["public_key"],
               "fingerprint": "3b:16:bf:e4:8b:00:8b:b8:59:8c:a9:d3:f0:19:45:fa"}
        self.keys[key["id"]] = key
        return Reply(201, {"ssh_key": key})

    def key_list(self, request, making):
        return Reply(200, {"ssh_keys": list(self.keys.values()), "links": {}, "meta": {"total": len(self.keys)}})

    def key_delete(self, request, making):
        if not self.keys.pop(int(request.path.rpartition("/")[2]), None):
            raise Wrong(404, "not_found", "The resource you were accessing could not be found.")
        return Reply(204)

    def stock(self, request, making):
        return Reply(200, {"sizes": [self.size(s) for s in self.sizes], "links": {}, "meta": {"total": len(self.sizes)}})

    def size(self, slug):
        one = {"slug": slug, "memory": 1024, "vcpus": 1, "disk": 25, "transfer": 1.0, "price_monthly": self.sizes[slug] * 672,
               "price_hourly": self.sizes[slug], "regions": list(self.regions), "available": True, "description": "Basic"}
        gpu = re.fullmatch(r"gpu-(\w+)x([0-9])-([0-9]+)gb", slug)
        if gpu:
            one["gpu_info"] = {"count": int(gpu[2]), "model": f"nvidia_{gpu[1]}", "vram": {"amount": int(gpu[3]), "unit": "gib"}}
        return one

    def droplet(self, i, new=False):
        # The answer to a create has no address yet.
        v4 = [] if new or i.state == "coming" else [
            {"ip_address": i.private_address, "netmask": "255.240.0.0", "gateway": "127.0.0.1", "type": "private"},
            {"ip_address": i.address, "netmask": "255.240.0.0", "gateway": "127.0.0.1", "type": "public"}]
        status = "new" if new else {"coming": "new", "running": "active", "stopped": "off", "going": "archive"}[i.state]
        return {"id": i.id, "name": i.name, "memory": 1024, "vcpus": 1, "disk": 25, "locked": False, "status": status, "kernel": None,
                "created_at": NOW, "features": [], "backup_ids": [], "next_backup_window": None, "snapshot_ids": [], "volume_ids": [],
                "image": {"id": 1, "slug": i.facts["image"], "distribution": "Ubuntu"}, "size": self.size(i.facts["size"]),
                "size_slug": i.facts["size"], "networks": {"v4": v4, "v6": []}, "tags": i.facts["tags"], "vpc_uuid": "x",
                "region": {"slug": i.facts["region"], "name": "x", "sizes": list(self.sizes), "available": True, "features": []}}
