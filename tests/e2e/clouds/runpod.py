"""RunPod's REST API v1: pods, which are containers whose sshd has a port of a shared address. There is no user data: the image takes PUBLIC_KEY."""
import re

from . import document
from .server import Cloud, Reply, Wrong, bearer, no_others

TOKEN = "runpod-test-token"
POD_FIELDS = ("allowedCudaVersions", "cloudType", "computeType", "containerDiskInGb", "containerRegistryAuthId", "countryCodes", "cpuFlavorIds",
              "cpuFlavorPriority", "dataCenterIds", "dataCenterPriority", "dockerEntrypoint", "dockerStartCmd", "env", "globalNetworking", "gpuCount",
              "gpuTypeIds", "gpuTypePriority", "imageName", "interruptible", "locked", "minDiskBandwidthMBps", "minDownloadMbps", "minRAMPerGPU",
              "minUploadMbps", "minVCPUPerGPU", "name", "networkVolumeId", "ports", "supportPublicIp", "templateId", "vcpuCount", "volumeInGb",
              "volumeMountPath")


class RunPod(Cloud):
    name = "runpod"
    user = "root"
    offers = (("EU-RO-1", "", "NVIDIA A40", "A40", 0.4), ("CA-MTL-1", "", "NVIDIA A40", "A40", 0.41))
    going_looks = 0
    port = None  # one that is free: the pods of a machine share its address
    refusals = {
        "429": (429, "", "too many requests"),
        "capacity": (500, "", "create pod: There are no longer any instances available with the requested specifications."),
        "quota": (400, "", "you have reached the maximum number of pods"),
        "auth": (401, "", "unauthorized"),
    }

    def __init__(self, folder):
        super().__init__(folder)
        self.env["RUNPOD_API_KEY"] = TOKEN
        self.document = document.of(self.name)

    def prefix(self):
        return "/v1"

    def kind(self, request):
        method, path = request.method, request.path
        return {("POST", "/v1/pods"): "create", ("GET", "/v1/pods"): "list"}.get((method, path)) or \
            ({"GET": "get", "DELETE": "delete"}.get(method) if re.fullmatch(r"/v1/pods/[0-9a-z]+", path) else None)

    def authorize(self, request):
        bearer(request, TOKEN)

    def error(self, wrong):
        return Reply(wrong.status, {"error": wrong.message, "status": wrong.status}, wrong.headers)

    def check(self, kind, request, reply):
        if self.document and reply.status < 400:
            for fault in self.document.faults(request, reply):
                self.violation(request, fault)

    def answer(self, kind, request, making):
        return getattr(self, kind)(request, making)

    def create(self, request, making):
        body = request.json
        no_others(body, POD_FIELDS, "a pod")
        if not 1 <= len(body["name"]) <= 191 or not body["imageName"] or not body["gpuTypeIds"] or body["gpuCount"] < 1:
            raise Wrong(400, "", "name, imageName, gpuTypeIds or gpuCount is wrong", violation=True)
        if not all(isinstance(v, str) for v in body["env"].values()) or "22/tcp" not in body["ports"]:
            raise Wrong(400, "", "env or ports is wrong", violation=True)
        run = re.match(r"rhrun-([0-9a-zA-Z-]+)-[0-9]+-[0-9]+-t[0-9]+-", body["name"])
        i = self.make(f"pod{self.number('pod')}x", body["name"], run and run[1], making, keys=[body["env"]["PUBLIC_KEY"]], env=body["env"], body=body)
        return Reply(201, self.pod(i, new=True))

    def list(self, request, making):
        return Reply(200, [self.pod(i) for i in self.shown()])

    def one(self, request):
        i = self.find(request.path.rpartition("/")[2])
        if not i:
            raise Wrong(404, "", "pod not found")
        return i

    def get(self, request, making):
        return Reply(200, self.pod(self.one(request)))

    def delete(self, request, making):
        self.one(request).end()
        return Reply(204)

    def pod(self, i, new=False):
        body = i.facts["body"]
        there = not new and i.state == "running"
        status = {"coming": "RUNNING", "running": "RUNNING", "stopped": "EXITED", "going": "TERMINATED"}[i.state]
        return {"id": i.id, "name": i.name, "desiredStatus": status, "image": body["imageName"], "env": body["env"], "ports": body["ports"],
                "interruptible": body.get("interruptible", False), "costPerHr": 0.74, "adjustedCostPerHr": 0.69, "machineId": "s194cr8pls2z",
                "containerDiskInGb": body.get("containerDiskInGb", 50), "lastStatusChange": "Rented by User: Fri Jul 12 2024",
                "publicIp": i.address if there else "", "portMappings": {"22": i.machine.port} if there else None,
                "machine": {"gpuTypeId": body["gpuTypeIds"][0], "dataCenterId": (body.get("dataCenterIds") or ["EU-RO-1"])[0]}}
