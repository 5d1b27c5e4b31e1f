"""Lambda Cloud: instances without tags, one by one; an instance that ended stays in the list as "terminated" for a while."""
import re

from .server import Cloud, Reply, Wrong, bearer, no_others

TOKEN = "lambda-test-token"


class Lambda(Cloud):
    name = "lambda"
    user = "ubuntu"
    refusals = {
        "429": (429, "global/rate-limited", "Too many requests."),
        "capacity": (400, "instance-operations/launch/insufficient-capacity", "Not enough capacity to fulfill launch request."),
        "quota": (403, "global/quota-exceeded", "Quota exceeded."),
        "auth": (403, "global/invalid-api-key", "API key was invalid, expired, or deleted."),
    }
    offers = (("us-east-1", "", "cpu_4x_general", "", 0.2), ("us-west-1", "", "cpu_4x_general", "", 0.21))
    types = {"gpu_1x_a10": 75, "gpu_1x_h100_pcie": 249, "gpu_8x_a100": 1032, "gpu_8x_a100_80gb_sxm4": 1432, "gpu_8x_v100": 440, "cpu_4x_general": 20}
    regions = ("us-east-1", "us-west-1", "us-west-2", "us-south-1", "europe-central-1")

    def __init__(self, folder):
        super().__init__(folder)
        self.keys = {}
        self.env["LAMBDA_API_KEY"] = TOKEN

    def prefix(self):
        return "/api/v1"

    def kind(self, request):
        path = request.path.removeprefix("/api/v1")
        return {("POST", "/instance-operations/launch"): "create", ("POST", "/instance-operations/terminate"): "delete", ("GET", "/instances"): "list",
                ("GET", "/ssh-keys"): "key_list", ("POST", "/ssh-keys"): "key_create", ("GET", "/instance-types"): "stock"}.get((request.method, path)) or \
            ("get" if request.method == "GET" and re.fullmatch(r"/instances/[0-9a-f]+", path) else None) or \
            ("key_delete" if request.method == "DELETE" and re.fullmatch(r"/ssh-keys/[0-9a-f]+", path) else None)

    def authorize(self, request):
        try:
            bearer(request, TOKEN)
        except Wrong:
            raise Wrong(*self.refusals["auth"]) from None

    def error(self, wrong):
        return Reply(wrong.status, {"error": {"code": wrong.code, "message": wrong.message, "suggestion": ""}}, wrong.headers)

    def answer(self, kind, request, making):
        return getattr(self, kind)(request, making)

    def create(self, request, making):
        body = request.json
        no_others(body, ("region_name", "instance_type_name", "ssh_key_names", "file_system_names", "name", "image", "user_data", "hostname", "tags"),
                  "a launch")
        if body["region_name"] not in self.regions or body["instance_type_name"] not in self.types:
            raise Wrong(400, "global/invalid-parameters", "Invalid parameters: region_name or instance_type_name")
        if len(body["ssh_key_names"]) != 1 or body["ssh_key_names"][0] not in self.keys:
            raise Wrong(404, "global/object-does-not-exist", "Specified SSH key does not exist.", violation=len(body["ssh_key_names"]) != 1)
        if not isinstance(body["name"], str) or not 1 <= len(body["name"]) <= 64:
            raise Wrong(400, "global/invalid-parameters", "Invalid parameters: name", violation=True)
        if "image" in body and set(body["image"]) not in ({"id"}, {"family"}):
            raise Wrong(400, "global/invalid-parameters", "Invalid parameters: image", violation=True)
        run = re.match(r"rhrun-([0-9a-zA-Z-]+)-[0-9]+-[0-9]+-t[0-9]+-", body["name"])
        i = self.make(f"{self.number('instance', 0x0920582c7ff0):032x}", body["name"], run and run[1], making,
                      keys=[self.keys[body["ssh_key_names"][0]]["public_key"]], user_data=body.get("user_data", "").encode(),
                      type=body["instance_type_name"], region=body["region_name"], key_names=body["ssh_key_names"])
        return Reply(200, {"data": {"instance_ids": [i.id]}})

    def list(self, request, making):
        return Reply(200, {"data": [self.instance(i) for i in self.shown()]})

    def get(self, request, making):
        i = self.find(request.path.rpartition("/")[2])
        if not i:
            raise Wrong(404, "global/object-does-not-exist", "Specified instance does not exist.")
        return Reply(200, {"data": self.instance(i)})

    def delete(self, request, making):
        no_others(request.json, ("instance_ids",), "a termination")
        found = [self.find(id) for id in request.json["instance_ids"]]
        if None in found:
            raise Wrong(404, "global/object-does-not-exist", "Specified instance does not exist.")
        for i in found:
            i.end()
        return Reply(200, {"data": {"terminated_instances": [self.instance(i) for i in found if i.state != "gone"]}})

    def key_create(self, request, making):
        body = request.json
        no_others(body, ("name", "public_key"), "a key")
        if body["name"] in self.keys:
            raise Wrong(400, "global/duplicate", "An SSH key with that name already exists.")
        self.keys[body["name"]] = {"id": f"{self.number('key', 0xddf9a910):032x}", "name": body["name"], "public_key": body["public_key"]}
        return Reply(200, {"data": self.keys[body["name"]]})

    def key_list(self, request, making):
        return Reply(200, {"data": list(self.keys.values())})

    def key_delete(self, request, making):
        for name, key in self.keys.items():
            if key["id"] == request.path.rpartition("/")[2]:
                del self.keys[name]
                return Reply(200, {"data": {}})
        raise Wrong(404, "global/object-does-not-exist", "Specified SSH key does not exist.")

    def stock(self, request, making):
        return Reply(200, {"data": {name: {"instance_type": self.type_of(name), "regions_with_capacity_available": [
            {"name": r, "description": r} for r in self.regions]} for name in self.types}})

    gpus = {"gpu_1x_a10": "A10 (24 GB PCIe)", "gpu_1x_h100_pcie": "H100 (80 GB PCIe)", "gpu_8x_a100": "A100 (40 GB SXM4)",
            "gpu_8x_a100_80gb_sxm4": "A100 (80 GB SXM4)", "gpu_8x_v100": "Tesla V100 (16 GB)"}

    def type_of(self, name):
        count = int(name[4]) if name in self.gpus else 0
        return {"name": name, "description": f"{count}x {self.gpus.get(name)}", "gpu_description": self.gpus.get(name, "N/A"),
                "price_cents_per_hour": self.types[name], "specs": {"vcpus": 30, "memory_gib": 200, "storage_gib": 1400, "gpus": count}}

    def instance(self, i):
        status = {"coming": "booting", "running": "active", "stopped": "unhealthy", "going": "terminating"}[i.state]
        one = {"id": i.id, "name": i.name, "status": status, "ssh_key_names": i.facts["key_names"], "file_system_names": [],
               "region": {"name": i.facts["region"], "description": i.facts["region"]}, "instance_type": self.type_of(i.facts["type"]),
               "hostname": "x.cloud.lambdalabs.com", "jupyter_token": "x", "jupyter_url": "x", "is_reserved": False, "actions": {}}
        if i.state != "coming":
            one.update(ip=i.address, private_ip=i.private_address)
        return one
