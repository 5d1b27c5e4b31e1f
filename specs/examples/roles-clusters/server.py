"""Gives out numbers, one a request, until there are none left; says in served.txt how many it gave."""

import http.server
import itertools
import pathlib
import sys

import humanize

numbers = itertools.count(1)
LAST = 20


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        n = next(numbers)
        body = str(n if n <= LAST else "").encode()
        if n <= LAST:
            pathlib.Path("served.txt").write_text(f"{humanize.apnumber(n)}\n")
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


http.server.HTTPServer(("", int(sys.argv[1])), Handler).serve_forever()
