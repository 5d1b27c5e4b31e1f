"""The API document of a provider, if it is here: RHRUN_OPENAPI names the folder."""
import functools
import importlib.machinery
import importlib.util
import os
import pathlib
import re

import harness


@functools.cache
def checker():
    """scripts/provider-requests, which reads such documents; None where jsonschema is not here."""
    path = harness.ROOT / "scripts/provider-requests"
    loader = importlib.machinery.SourceFileLoader("provider_requests", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("provider_requests", loader))
    loader.exec_module(module)
    return module


@functools.cache
def of(name):
    """What holds requests and answers to the document of a provider; None where it is not here."""
    folder = pathlib.Path(os.environ.get("RHRUN_OPENAPI", "/nonexistent"))
    try:
        path = folder / checker().DOCUMENTS.get(name, "none")
    except ImportError:
        return None
    return Answers(checker().Document(path)) if path.is_file() else None


class Answers:
    def __init__(self, document):
        self.document = document

    def faults(self, request, reply):
        """Sentences; empty where both are as the document says."""
        module, before = checker(), len(checker().faults)
        case = {"method": request.method, "url": request.target}
        if request.body:
            case["json"] = request.json
        if reply.status not in (400, 404, 422):  # the provider said itself what is wrong with it
            module.check_request(self.document, "request", case)
        found = module.faults[before:]
        del module.faults[before:]
        return found + self.of_answer(request, reply)

    def of_answer(self, request, reply):
        operation, _ = self.document.operation(request.method, request.path[len(self.document.prefix):])
        if operation is None or reply.json is None:
            return []
        for status, answer in operation["responses"].items():
            if re.fullmatch(status.replace("x", "."), str(reply.status)):
                content = self.document.follow(answer).get("content")
                return [] if not content else [
                    f"answer {reply.status}: {'/'.join(map(str, e.absolute_path))}: {e.message[:300]}"
                    for e in self.document.errors(content["application/json"]["schema"], reply.json)]
        return [] if reply.status >= 400 else [f"answer {reply.status}: the document has no such status"]
