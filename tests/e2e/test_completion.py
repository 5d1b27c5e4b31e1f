"""Completion in bash, zsh and fish: the files are valid, and each shell offers the words that the program knows."""
import json
import os
import subprocess

import pytest

from harness import RHRUN, require

SPEC = """
name: job-to-complete
params:
  lr: {type: number, default: 0.1, description: width of a step}
  model: {enum: [small, large], default: small}
setup: [{name: prepare, run: echo}]
metrics: [{name: loss, pattern: 'loss=(?<value>[0-9.]+)'}]
entrypoint: {run: 'echo loss=${{ params.lr }}'}
"""
NODES = "distributed: {nnodes: 2}\n"
SWEEP = "sweep: {matrix: {lr: [0.1, 0.2]}}\n"
SHELLS = ["bash", "zsh", "fish"]

BASH = """
. "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_rhrun rhrun "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""
# A real line editor: what it shows for each line until all words are there. A word that never comes is a test that is cut.
# Arguments: the file, then of each line the line, its words, and --.
ZSH = r"""
zmodload zsh/zpty
local line text word file=$1
shift
zpty z zsh -f -i
zpty -w z "PS1= PROMPT= COLUMNS=200; autoload -Uz compinit; compinit -D -u; . $file; bindkey '^I' list-choices; echo REA''DY"
zpty -r z line '*READY*'
while (($#)); do
    text=
    zpty -w -n z "$1"$'\t'
    for ((shift; $#; )); do
        word=$1
        shift
        [[ $word == -- ]] && break
        [[ $text == *$word* ]] && continue
        zpty -r z line "*$word*"
        text+=$line
    done
    print -rn -- "$text"$'\0'
    zpty -w z $'\C-u'"echo EN''D"
    zpty -r z line '*END*'
done
"""

LINES = [
    ("rhrun metr", ["metrics"]),
    ("rhrun run --ag", ["--again"]),
    ("rhrun plan jo", ["job.yaml"]),
    ("rhrun job.yaml -p l", ["lr="]),
    ("rhrun job.yaml -p model=", ["small", "large"]),
    ("rhrun job.yaml --from p", ["prepare"]),
    ("rhrun job.yaml --from=p", ["prepare"]),
    ("rhrun ssh job.yaml ", ["local-0", "local-1"]),
    ("rhrun exec job.yaml local-", ["local-0", "local-1"]),
    ("rhrun sweep.yml -p lr=", ["0.1", "0.2"]),
    ("rhrun sweep.yml --point l", ["lr=0.1", "lr=0.2"]),
    ("rhrun completion f", ["fish"]),
    ("rhrun metrics job.yaml l", ["loss"]),
]


class Shell:
    def __init__(self, box, name):
        require(name)
        self.name, self.folder = name, box.work
        (box.dir / "bin").mkdir()
        (box.dir / "bin" / "rhrun").symlink_to(RHRUN)
        (box.work / "job.yaml").write_text(SPEC + NODES)
        (box.work / "sweep.yml").write_text(SPEC + SWEEP)
        (box.work / "other.txt").write_text("")
        self.env = {**box.env, "PATH": f"{box.dir}/bin:{os.environ['PATH']}", "TERM": "xterm"}
        self.file = box.dir / f"completion.{name}"
        self.file.write_text(self.run("rhrun", "completion", name))

    def run(self, *argv):
        done = subprocess.run(argv, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0 and not done.stderr, done
        return done.stdout

    def complete(self, *lines):
        """The words that the shell shows for each of the (line, words); zsh only until the words are there."""
        if self.name == "bash":  # which splits words at "="
            return [self.run("bash", "-c", BASH, "bash", self.file, *line.replace("=", " = ").split(" ")) for line, _ in lines]
        if self.name == "zsh":
            asked = [word for line, words in lines for word in [line, *words, "--"]]
            return self.run("zsh", "-f", "-c", ZSH, "zsh", self.file, *asked).split("\0")[:-1]
        return [self.run("fish", "-c", f"source {self.file}; complete -C '{line}'") for line, _ in lines]


@pytest.fixture(params=SHELLS)
def shell(request, box):
    return Shell(box, request.param)


def test_what_a_spec_has(shell):
    shell.run(shell.name, "-n", shell.file)
    for (line, expected), text in zip(LINES, shell.complete(*LINES), strict=True):
        for word in expected:  # bash splits words at "=", and gets the part after it
            assert word in text or (shell.name == "bash" and word.split("=")[-1] in text), (line, text)
        assert "other.txt" not in text, (line, text)


def test_runs_and_last(shell):
    shell.run("rhrun", "--json", "job.yaml")
    [run] = json.loads(shell.run("rhrun", "runs", "--json"))
    lines = [("rhrun status ", ["last", run["run"], "job.yaml"]),
             ("rhrun logs --step p", ["prepare"])]
    if shell.name != "bash":  # which has no descriptions
        lines += [("rhrun logs l", ["job-to-complete, done"]), ("rhrun logs --node 1", ["local-1"])]
    for (line, expected), text in zip(lines, shell.complete(*lines), strict=True):
        for word in expected:
            assert word in text, (line, text)


def test_what_is_wrong_offers_nothing_and_says_nothing(rhrun, box):
    bad = box.spec("a: [\n")
    for words in (["plan", "no-such.yaml", "-p", ""], ["status", "no-such-run", "--step", ""], [bad, "--from", ""], [bad, "-p", ""],
                  ["no-such-command", "x"], ["plan", "--no-such", "x"], []):
        r = rhrun("completion", "candidates", "--", *words).ok()
        assert not r.err, r
        assert not words or "\t" not in r.out, r
