"""Google Compute Engine: instances of a zone, made and deleted by operations; the client signs a JWT, which openssl verifies."""
import base64
import functools
import json
import re
import subprocess
import tempfile
import time
import uuid

from .server import Cloud, Reply, Wrong, no_others

PROJECT = "test-project"
EMAIL = "rhrun@test-project.iam.gserviceaccount.com"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
ZONES = ("us-central1-a", "us-central1-b", "us-east1-b", "europe-west4-a", "us-west1-b")
NAME = r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"
INSTANCE_FIELDS = ("name", "machineType", "labels", "disks", "networkInterfaces", "scheduling", "metadata", "tags",
                   "serviceAccounts", "minCpuPlatform")


@functools.cache
def private_key():
    """One for all tests of a process: making it takes a moment."""
    done = subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], capture_output=True, check=True)
    return done.stdout.decode()


def verified(jwt):
    """The claims of a JWT that our key has signed, by openssl."""
    head, claims, signature = jwt.split(".")
    plain = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in (head, claims, signature)]
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (("key", private_key().encode()), ("signature", plain[2]), ("signed", f"{head}.{claims}".encode())):
            with open(f"{folder}/{name}", "wb") as f:
                f.write(data)
        subprocess.run(["openssl", "pkey", "-in", f"{folder}/key", "-pubout", "-out", f"{folder}/public"], check=True)
        done = subprocess.run(["openssl", "dgst", "-sha256", "-verify", f"{folder}/public", "-signature", f"{folder}/signature", f"{folder}/signed"],
                              capture_output=True)
    if done.returncode != 0:
        raise Wrong(400, "invalid_grant", "Invalid JWT Signature.", violation=True)
    head, claims = json.loads(plain[0]), json.loads(plain[1])
    if head != {"alg": "RS256", "typ": "JWT", "kid": "key-1"}:
        raise Wrong(400, "invalid_grant", f"Invalid JWT: {head}", violation=True)
    return claims


class Gcp(Cloud):
    name = "gcp"
    user = "ubuntu"
    offers = (("us-central1", "us-central1-a", "e2-small", "", 0.017), ("us-east1", "us-east1-b", "e2-small", "", 0.018))
    polls = 1  # so many looks an operation goes on
    refusals = {
        "429": (403, "rateLimitExceeded", "Rate Limit Exceeded"),
        "capacity": (503, "insufficientCapacity", "The zone does not have enough resources available to fulfill the request."),
        "quota": (403, "quotaExceeded", "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally."),
        "auth": (401, "authError", "Invalid Credentials"),
    }

    def __init__(self, folder):
        super().__init__(folder)
        self.tokens, self.operations, self.requests = [], {}, {}
        self.unreachable = None  # a zone that does not answer
        credentials = folder / "gcp-service-account.json"
        credentials.write_text(json.dumps({"type": "service_account", "project_id": PROJECT, "private_key_id": "key-1", "private_key": private_key(),
                                           "client_email": EMAIL, "client_id": "1", "token_uri": f"{self.base}/token"}))
        credentials.chmod(0o600)
        self.env.update(GOOGLE_APPLICATION_CREDENTIALS=str(credentials), GOOGLE_CLOUD_PROJECT=PROJECT)

    def secrets(self):
        return [private_key().splitlines()[1], *self.tokens]

    def prefix(self):
        return "/compute/v1"

    def kind(self, request):
        path, method = request.path, request.method
        if (method, path) == ("POST", "/token"):
            return "token"
        path = path.removeprefix(f"/compute/v1/projects/{PROJECT}")
        if (method, path) == ("GET", "/aggregated/instances"):
            return "sweep" if request.query.get("filter") == "labels.rhrun-run:*" else "list"
        if re.fullmatch(r"/zones/[a-z0-9-]+/instances", path) and method == "POST":
            return "create"
        if re.fullmatch(r"/zones/[a-z0-9-]+/operations/[a-z0-9-]+", path) and method == "GET":
            return "poll"
        if re.fullmatch(r"/zones/[a-z0-9-]+/instances/[a-z0-9-]+", path):
            return {"GET": "get", "DELETE": "delete"}.get(method)
        return None

    def authorize(self, request):
        given = request.headers.get("Authorization", "")
        if self.kind(request) != "token" and given.removeprefix("Bearer ") not in self.tokens:
            raise Wrong(401, "authError", "Request had invalid authentication credentials.")

    def error(self, wrong):
        if wrong.code == "invalid_grant":
            return Reply(wrong.status, {"error": wrong.code, "error_description": wrong.message})
        return Reply(wrong.status, {"error": {"code": wrong.status, "message": wrong.message, "errors": [
            {"message": wrong.message, "domain": "global", "reason": wrong.code}]}}, wrong.headers)

    def answer(self, kind, request, making):
        return getattr(self, kind)(request, making)

    def token(self, request, making):
        form = request.form
        if set(form) != {"grant_type", "assertion"} or form["grant_type"] != "urn:ietf:params:oauth:grant-type:jwt-bearer":
            raise Wrong(400, "invalid_grant", f"not a JWT grant: {sorted(form)}", violation=True)
        claims, now = verified(form["assertion"]), time.time()
        if claims["iss"] != EMAIL or claims["scope"] != SCOPE or claims["aud"] != f"{self.base}/token" or \
                not now - 300 < claims["iat"] < now + 300 or not 0 < claims["exp"] - claims["iat"] <= 3600:
            raise Wrong(400, "invalid_grant", f"Invalid JWT: {claims}", violation=True)
        self.tokens.append(f"ya29.test-{uuid.uuid4()}")
        return Reply(200, {"access_token": self.tokens[-1], "expires_in": 3599, "token_type": "Bearer"})

    # ---- instances ----
    def zone(self, request):
        zone = request.path.split("/zones/")[1].split("/")[0]
        if zone not in ZONES:
            raise Wrong(404, "notFound", f"The resource 'projects/{PROJECT}/zones/{zone}' was not found")
        return zone

    def create(self, request, making):
        body, zone, id = request.json, self.zone(request), request.query.get("requestId", "")
        no_others(request.query, ("requestId",), "insert")
        if str(uuid.UUID(id)) != id:
            raise Wrong(400, "invalid", "Invalid value for field 'requestId': it is no UUID", violation=True)
        if id in self.requests:
            return Reply(200, self.operation(self.requests[id]))
        self.check_instance(body, zone)
        if any(i.name == body["name"] and i.facts["zone"] == zone and i.state != "gone" for i in self.instances):
            raise Wrong(409, "alreadyExists", f"The resource 'projects/{PROJECT}/zones/{zone}/instances/{body['name']}' already exists")
        meta = {item["key"]: item["value"] for item in body["metadata"]["items"]}
        user, _, key = meta["ssh-keys"].partition(":")
        data = meta.get("user-data") or meta.get("startup-script") or ""
        i = self.make(body["name"], body["name"], body["labels"].get("rhrun-run"), making, user=user, keys=[key], user_data=data.encode(), body=body,
                      zone=zone)
        i.ends_at = time.time() + int(body["scheduling"]["maxRunDuration"]["seconds"])
        self.requests[id] = self.begin("insert", i)
        return Reply(200, self.operation(self.requests[id]))

    def check_instance(self, body, zone):
        no_others(body, INSTANCE_FIELDS, "an instance")
        scheduling, disk, net = body["scheduling"], body["disks"][0], body["networkInterfaces"][0]
        no_others(scheduling, ("provisioningModel", "instanceTerminationAction", "maxRunDuration", "onHostMaintenance", "automaticRestart"), "scheduling")
        right = {
            "name": re.fullmatch(NAME, body["name"]),
            "machineType": re.fullmatch(rf"zones/{zone}/machineTypes/[a-z0-9-]+", body["machineType"]),
            "labels": all(re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", k) and re.fullmatch(r"[a-z0-9_-]{0,63}", v) for k, v in body["labels"].items()),
            "disks": disk["boot"] is True and disk["autoDelete"] is True and disk["initializeParams"]["sourceImage"].startswith("projects/"),
            "diskSizeGb": re.fullmatch(r"[0-9]+", disk["initializeParams"].get("diskSizeGb", "10")),
            "networkInterfaces": net["network"] == "global/networks/default" and net["accessConfigs"][0]["type"] == "ONE_TO_ONE_NAT",
            "provisioningModel": scheduling.get("provisioningModel", "STANDARD") in ("SPOT", "STANDARD"),
            "instanceTerminationAction": scheduling["instanceTerminationAction"] == "DELETE",
            "maxRunDuration": 30 <= int(scheduling["maxRunDuration"]["seconds"]) <= 120 * 86400,
            "metadata": all(set(item) == {"key", "value"} for item in body["metadata"]["items"]),
            "ssh-keys": any(item["key"] == "ssh-keys" and re.fullmatch(r"[a-z_][a-z0-9_-]*:ssh-ed25519 \S+( .*)?\s*", item["value"])
                            for item in body["metadata"]["items"]),
        }
        for field, good in right.items():
            if not good:
                raise Wrong(400, "invalid", f"Invalid value for field 'resource.{field}'", violation=True)

    def list(self, request, making):
        query = request.query
        no_others(query, ("filter", "maxResults", "pageToken", "returnPartialSuccess"), "aggregatedList")
        label = re.fullmatch(r"labels\.([a-z0-9_-]+)(=|:)(.*)", query["filter"])
        if not label or not 1 <= int(query["maxResults"]) <= 500:
            raise Wrong(400, "invalid", "Invalid value for field 'filter'", violation=True)
        items = {f"zones/{zone}": {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "x"}} for zone in ZONES}
        for i in self.shown():
            if i.facts["zone"] == self.unreachable:
                continue
            value = i.facts["body"]["labels"].get(label[1])
            if value is not None and (label[3] == "*" or value == label[3]):
                items[f"zones/{i.facts['zone']}"].setdefault("instances", []).append(self.instance(i))
        missing = {"unreachables": [f"projects/{PROJECT}/zones/{self.unreachable}"]} if self.unreachable else {}
        return Reply(200, {"kind": "compute#instanceAggregatedList", "id": "x", "items": items, "selfLink": request.target, **missing})

    sweep = list

    def one(self, request):
        zone, i = self.zone(request), self.find(request.path.rpartition("/")[2])
        if zone == self.unreachable:
            raise Wrong(503, "backendError", "The zone is not available.")
        if not i or i.facts["zone"] != zone:
            raise Wrong(404, "notFound", f"The resource '{request.path.removeprefix('/compute/v1/')}' was not found")
        return i

    def get(self, request, making):
        return Reply(200, self.instance(self.one(request)))

    def delete(self, request, making):
        i = self.one(request)
        i.end()
        return Reply(200, self.operation(self.begin("delete", i)))

    # ---- operations ----
    def begin(self, what, i):
        name = f"operation-{self.number('operation')}-{what}"
        error = None
        if what == "insert" and i.dead:  # a zone without machines says so in the operation, after a good answer to the create
            i.deleted, i.going = True, 0
            error = {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "The zone does not have enough resources available to fulfill the request."}
        self.operations[name] = [what, i, self.polls + 1, error]
        return name

    def poll(self, request, making):
        name = request.path.rpartition("/")[2]
        if name not in self.operations or self.operations[name][1].facts["zone"] != self.zone(request):
            raise Wrong(404, "notFound", f"The resource '{name}' was not found")
        self.operations[name][2] = max(0, self.operations[name][2] - 1)
        return Reply(200, self.operation(name))

    def operation(self, name):
        what, i, left, error = self.operations[name]
        zone = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{i.facts['zone']}"
        one = {"kind": "compute#operation", "id": "1", "name": name, "operationType": what, "status": "RUNNING" if left else "DONE",
               "progress": 0 if left else 100, "targetLink": f"{zone}/instances/{i.id}", "zone": zone, "selfLink": f"{zone}/operations/{name}"}
        if error and not left:
            one.update(error={"errors": [error]}, httpErrorStatusCode=503)
        return one

    def instance(self, i):
        body, zone = i.facts["body"], f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{i.facts['zone']}"
        status = {"coming": "STAGING", "running": "RUNNING", "stopped": "TERMINATED", "going": "STOPPING"}[i.state]
        net = {"network": body["networkInterfaces"][0]["network"], "name": "nic0", "networkIP": i.private_address, "accessConfigs": [
            {"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]}
        if i.state == "running":
            net["accessConfigs"][0]["natIP"] = i.address
        return {"kind": "compute#instance", "id": "1", "name": i.name, "status": status, "zone": zone, "labels": body["labels"],
                "machineType": f"{zone}/machineTypes/{body['machineType'].rpartition('/')[2]}", "networkInterfaces": [net],
                "scheduling": body["scheduling"], "metadata": {"kind": "compute#metadata", "fingerprint": "x", "items": body["metadata"]["items"]}}
