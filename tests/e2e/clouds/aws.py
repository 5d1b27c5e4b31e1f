"""Amazon EC2: moto's server answers, and this cloud stands in front of it. It gives a machine to each instance that moto makes, and writes the
machine's address and state into the answers. It adds the ClientToken, which moto lacks, and the faults."""
import base64
import re
import urllib.parse
import xml.etree.ElementTree as ET

from . import moto
from .server import Cloud, Reply, Wrong

NS = "http://ec2.amazonaws.com/doc/2016-11-15"
ET.register_namespace("", NS)
KINDS = {"RunInstances": "create", "TerminateInstances": "delete", "ImportKeyPair": "key_create", "DescribeKeyPairs": "key_list",
         "DeleteKeyPair": "key_delete", "CreateSecurityGroup": "prepare", "DescribeSecurityGroups": "prepare",
         "AuthorizeSecurityGroupIngress": "prepare", "DeleteSecurityGroup": "cleanup"}
STATES = {"coming": (0, "pending"), "running": (16, "running"), "stopped": (80, "stopped"), "going": (32, "shutting-down"), "gone": (48, "terminated")}


class Aws(Cloud):
    name = "aws"
    user = "ubuntu"
    offers = (("us-east-1", "", "t3.micro", "", 0.0104), ("us-west-2", "", "t3.micro", "", 0.0105))
    refusals = {
        "429": (503, "RequestLimitExceeded", "Request limit exceeded."),
        "capacity": (500, "InsufficientInstanceCapacity", "We currently do not have sufficient capacity in the Availability Zone you requested."),
        "quota": (400, "VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of 0 allows."),
        "auth": (401, "AuthFailure", "AWS was not able to validate the provided access credentials"),
    }

    def __init__(self, folder):
        super().__init__(folder)
        self.access_key, self.secret_key = moto.fresh()
        self.tokens, self.keys = {}, {}
        self.env.update(AWS_ACCESS_KEY_ID=self.access_key, AWS_SECRET_ACCESS_KEY=self.secret_key)

    def kind(self, request):
        form = request.form if request.method == "POST" else {}
        if form.get("Action") == "DescribeInstances":
            return "get" if "InstanceId.1" in form else "sweep" if form.get("Filter.1.Name") == "tag-key" else "list"
        return KINDS.get(form.get("Action"))

    def authorize(self, request):
        pass  # moto does

    def error(self, wrong):
        return Reply(wrong.status, f"<Response><Errors><Error><Code>{wrong.code}</Code><Message>{wrong.message}</Message></Error></Errors>"
                     "<RequestID>R</RequestID></Response>".encode(), {"Content-Type": "text/xml", **(wrong.headers or {})})

    def forward(self, request):
        """As it came, signature and all."""
        headers = {n: v for n, v in request.headers.items() if n.lower() not in ("content-length", "connection")}
        status, body = moto.send(request.method, request.target, request.body, headers)
        return Reply(status, body, {"Content-Type": "text/xml"})

    def own(self, region, **form):
        """A request of ours, of which rhrun knows nothing."""
        body = urllib.parse.urlencode({**form, "Version": "2016-11-15"}).encode()
        return moto.send("POST", "/", body, moto.signed(moto.server(), "/", body, self.access_key, self.secret_key, region))

    def answer(self, kind, request, making):
        form = request.form
        if form.get("Version") != "2016-11-15":
            raise Wrong(400, "InvalidParameterValue", f"the version is {form.get('Version')}", violation=True)
        self.end_what_ended()
        if kind == "create":
            return self.create(request, form, making)
        if kind == "cleanup" and any(i.state != "gone" for i in self.instances if f"rhrun-{i.run}" == form.get("GroupName")):
            raise Wrong(400, "DependencyViolation", f"resource {form['GroupName']} has a dependent object")
        wanted = [self.find_any(v) for k, v in form.items() if k.startswith("InstanceId.")]
        if kind == "get" and any(i and not i.look() for i in wanted):
            raise Wrong(400, "InvalidInstanceID.NotFound", f"The instance ID '{form['InstanceId.1']}' does not exist")
        if kind == "delete":
            for i in wanted:
                if i:
                    i.end()
        reply = self.forward(request)
        if kind == "key_create" and reply.status == 200:
            self.keys[form["KeyName"]] = base64.b64decode(form["PublicKeyMaterial"], validate=True).decode()
        if kind == "key_delete" and reply.status == 200:
            self.keys.pop(form["KeyName"], None)
        if kind in ("get", "list", "sweep", "delete") and reply.status == 200:
            return self.rewrite(reply, look=kind in ("list", "sweep"))
        return reply

    def find_any(self, id):
        return next((i for i in self.instances if i.id == id), None)

    def end_what_ended(self):
        """A machine that shut itself down is terminated, as its request asked for."""
        for i in self.instances:
            if not i.deleted and (i.vanished or i.dead or i.machine.state == "ended"):
                i.reason = "Server.SpotInstanceTermination" if i.vanished else "Client.InstanceInitiatedShutdown"
                i.deleted, i.going, i.vanished = True, 0, False
                self.own(i.facts["region"], Action="TerminateInstances", **{"InstanceId.1": i.id})

    def machines(self):
        with self.lock:
            self.end_what_ended()
            return super().machines()

    # ---- create ----
    def create(self, request, form, making):
        self.check_create(form)
        token, region = form["ClientToken"], re.search(r"/([a-z0-9-]+)/ec2/aws4_request", request.headers["Authorization"])[1]
        if token in self.tokens:
            known, reply = self.tokens[token]
            if known != form:
                raise Wrong(400, "IdempotentParameterMismatch", "the parameters are not those of the first request with this token", violation=True)
            return self.rewrite(reply, look=False)
        reply = self.forward(request)
        if reply.status != 200:
            return reply
        self.tokens[token] = (form, reply)
        tags = {form[k]: form[k[:-3] + "Value"] for k in form if re.fullmatch(r"TagSpecification\.1\.Tag\.\d+\.Key", k)}
        ids = [item.findtext(f"{{{NS}}}instanceId") for item in ET.fromstring(reply.body).iterfind(f".//{{{NS}}}instancesSet/{{{NS}}}item")]
        for n, id in enumerate(ids):
            if making and making.what == "half" and n >= len(ids) // 2:
                self.own(region, Action="TerminateInstances", **{"InstanceId.1": id})
                continue
            i = self.make(id, tags["Name"], tags["rhrun-run"], making, keys=[self.keys[form["KeyName"]]] if "KeyName" in form else [],
                          user_data=base64.b64decode(form.get("UserData", "")), form=form, region=region)
            i.reason = None
        if making and making.what == "half":
            raise Wrong(500, "InternalError", "An internal error has occurred")
        return self.rewrite(reply, look=False)

    def check_create(self, form):
        tags = [form.get(f"TagSpecification.{n}.ResourceType") for n in range(1, 5)]
        right = {
            "MinCount": form["MinCount"] == form["MaxCount"] and 1 <= int(form["MinCount"]) <= 100,
            "ImageId": re.fullmatch(r"ami-[0-9a-f]+|resolve:ssm:/\S+", form["ImageId"]),
            "ClientToken": re.fullmatch(r"[!-~]{1,64}", form["ClientToken"]),
            "UserData": len(base64.b64decode(form.get("UserData", ""), validate=True)) <= 16384,
            "InstanceInitiatedShutdownBehavior": form["InstanceInitiatedShutdownBehavior"] == "terminate",
            "TagSpecification": tags[:3] == ["instance", "volume", "network-interface"] and
            (tags[3] == "spot-instances-request") == ("InstanceMarketOptions.MarketType" in form),
            "SecurityGroupId": form["SecurityGroupId.1"].startswith("sg-"),
        }
        for field, good in right.items():
            if not good:
                raise Wrong(400, "InvalidParameterValue", f"Value for parameter {field} is invalid", violation=True)

    # ---- answers ----
    def rewrite(self, reply, look):
        root = ET.fromstring(reply.body)
        for holder in root.iter(f"{{{NS}}}instancesSet"):
            for item in list(holder):
                i = self.find_any(item.findtext(f"{{{NS}}}instanceId"))
                if i is None or (look and not i.look()):  # one that is hidden, or that a fault did not let be made
                    holder.remove(item)
                else:
                    self.rewrite_item(item, i)
        return Reply(reply.status, ET.tostring(root, encoding="utf-8", xml_declaration=True), reply.headers)

    def rewrite_item(self, item, i):
        code, name = STATES[i.state]
        for state in ("instanceState", "currentState"):
            if item.find(f"{{{NS}}}{state}") is not None:
                item.find(f"{{{NS}}}{state}/{{{NS}}}code").text = str(code)
                item.find(f"{{{NS}}}{state}/{{{NS}}}name").text = name
        there = i.state == "running"
        for field, value in (("ipAddress", i.address if there else None), ("privateIpAddress", i.private_address if name != "terminated" else None)):
            at = item.find(f"{{{NS}}}{field}")
            if at is not None and value is None:
                item.remove(at)
            elif value is not None and (at is not None or item.find(f"{{{NS}}}imageId") is not None):
                at = ET.SubElement(item, f"{{{NS}}}{field}") if at is None else at
                at.text = value
        if i.reason and item.find(f"{{{NS}}}imageId") is not None:
            reason = item.find(f"{{{NS}}}stateReason")
            reason = ET.SubElement(item, f"{{{NS}}}stateReason") if reason is None else reason
            for part, text in (("code", i.reason), ("message", i.reason)):
                at = reason.find(f"{{{NS}}}{part}")
                at = ET.SubElement(reason, f"{{{NS}}}{part}") if at is None else at
                at.text = text
