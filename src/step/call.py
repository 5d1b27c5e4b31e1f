"""The entrypoint `function`, run as `PYTHON -u -c TEXT` in its working directory.

RHRUN_CALL is JSON: module, function, args, kwargs, rank (or the name of the variable that has it), and result: a folder
whose RANK.json gets the return value as JSON. The file gets its name once it is complete. A coroutine is awaited. An
exception is printed as usual, without the lines of this program, and the exit status is 1; sys.exit works as usual.
Needs Python 3.6.
"""
import sys

sys.path[:1] = [""] if sys.path[:1] != [""] else sys.path[:1]

import importlib
import inspect
import json
import os
import traceback


def plain(value):
    if hasattr(value, "tolist"):  # arrays and scalars of numpy and torch
        return value.tolist()
    raise TypeError("no JSON for %s" % type(value).__name__)


def as_json(value):
    try:
        return json.dumps(value, allow_nan=False, default=plain)
    except (TypeError, ValueError, RecursionError) as e:
        print("rhrun: the returned %s is kept as text: %s" % (type(value).__name__, e), file=sys.stderr)
        return json.dumps(repr(value))


def write(path, text):
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = "%s.%d" % (path, os.getpid())
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
        f.write(text + "\n")
        f.flush()
        os.fsync(f.fileno())
    os.replace(temporary, path)


def run(awaitable):
    import asyncio

    async def wait():
        return await awaitable

    if hasattr(asyncio, "run"):
        return asyncio.run(wait())
    return asyncio.get_event_loop().run_until_complete(wait())


def find(call):
    module = importlib.import_module(call["module"])
    function = module
    for name in call["function"].split("."):
        if not hasattr(function, name):
            sys.exit('rhrun: "%s" has no function "%s" (%s)' % (call["module"], call["function"], module.__file__))
        function = getattr(function, name)
    if not callable(function):
        sys.exit('rhrun: "%s" of "%s" cannot be called: it is a %s' % (call["function"], call["module"], type(function).__name__))
    return function


def own(frame):
    name = frame.tb_frame.f_code.co_filename
    return name == "<string>" or name.startswith("<frozen importlib") or name == importlib.__file__


def main():
    call = json.loads(os.environ.pop("RHRUN_CALL"))
    sys.argv = [call["module"]]
    value = None
    try:
        value = find(call)(*call["args"], **call["kwargs"])
        if inspect.isawaitable(value):
            value = run(value)
    except SystemExit as e:
        if e.code not in (None, 0):
            raise
    except Exception as e:
        frame = e.__traceback__
        while frame and own(frame):
            frame = frame.tb_next
        traceback.print_exception(type(e), e, frame)
        sys.stderr.flush()
        sys.exit(1)
    rank = call["rank"]
    if isinstance(rank, str):
        rank = os.environ.get(rank, "0")
    write(os.path.join(call["result"], "%s.json" % rank), as_json(value))


main()
