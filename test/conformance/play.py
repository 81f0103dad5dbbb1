# SPDX-License-Identifier: Apache-2.0
"""play.py CLUSTER_DIR CLUSTER_PROGRAM MODEL: plays script.py to a real API server and to the model, and compares. TAP on standard output."""
import difflib
import json
import re
import sys
from pprint import pformat

import script
from meaning import Meaning
from sides import Model, Real

HOLE = re.compile(r"\{(\w+)\.(\w+)\}")


class Player:
    """One side: what it answered under a name is put into later requests."""

    def __init__(self, side):
        self.side, self.meaning, self.saved, self.watches = side, Meaning(), {}, {}

    def fill(self, text):
        return HOLE.sub(lambda m: self.saved[m.group(1)][m.group(2)], text) if text is not None else None

    def save(self, name, text):
        try:
            self.saved[name] = json.loads(text).get("metadata", {})
        except (ValueError, AttributeError):
            self.saved[name] = {}

    def request(self, step):
        body = step.get("body")
        if body is not None and not isinstance(body, str):
            body = json.dumps(body)
        answer = self.side.request(step["method"], self.fill(step["url"]), self.fill(body), step.get("kind"), step.get("accept"))
        if "save" in step:
            self.save(step["save"], answer.text)
        if "watch=" in step["url"] and answer.status == 200:
            return self.told(answer)
        if step.get("only") == "status":
            return answer.status
        return self.head(answer), self.meaning.text(answer.text)

    @staticmethod
    def head(answer):
        return answer.status, answer.content_type.split(";")[0], answer.retry_after

    def told(self, answer):
        return self.head(answer), self.meaning.events(answer.text)

    def open(self, step):
        self.watches[step["name"]] = self.side.open(self.fill(step["url"]))
        return self.watches[step["name"]].answer.status

    def collect(self, step):
        answer, ended = self.watches[step["name"]].collect(step["events"], step["seconds"])
        return (*self.told(answer), ended if step["events"] is None else "open")

    def play(self, step):
        do = step["do"]
        if do in ("request", "open", "collect"):
            return getattr(self, do)(step)
        if do == "settle":
            self.side.settle(step["url"], step["status"], step["text"])
        elif do == "compact":
            self.side.compact(self.fill(step["url"]))
        elif do == "orphan":
            answer = self.side.orphan(step["url"])
            return self.head(answer), self.meaning.text(answer.text)
        elif do == "restart":
            self.side.restart()
        elif do == "close":
            self.watches.pop(step["name"]).close()
        return None


def differences(real, model):
    """Lines that begin with - are the real one's, those with + the model's."""
    a, b = (pformat(x, width=110).splitlines() for x in (real, model))
    return list(difflib.unified_diff(a, b, lineterm="", n=2))[2:60]


def main(cluster_dir, cluster_program, model):
    sides = [Player(Real(cluster_dir, cluster_program)), Player(Model(model))]
    checks = wrong = 0
    for step in script.steps():
        answers = []
        for side in sides:
            try:
                answers.append(side.play(step))
            except KeyError as e:  # an earlier answer was not what it should be, and has been reported
                answers.append(f"{side.side.name} has no {e}")
        if answers[0] is None and answers[1] is None:
            continue
        checks += 1
        same = answers[0] == answers[1]
        print(f"{'ok' if same else 'not ok'} {checks} - {step['label']}", flush=True)
        if not same:
            wrong += 1
            print("".join(f"#   {line}\n" for line in differences(*answers)), end="", flush=True)
    for side in sides:
        side.side.close()
    print(f"1..{checks}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
