# SPDX-License-Identifier: Apache-2.0
"""tap: what test/run.sh reads."""
import sys


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def ok(self, good, description, detail=None):
        self.count += 1
        print(f"{'ok' if good else 'not ok'} {self.count} - {description}", flush=True)
        if not good:
            self.failed += 1
            for line in [detail] if isinstance(detail, str) else list(detail or [])[:20]:
                self.diag(line)

    @staticmethod
    def diag(text):
        print("\n".join("# " + line for line in str(text).splitlines()), flush=True)

    @staticmethod
    def bail_out(reason):
        print(f"Bail out!  {reason}", flush=True)
        sys.exit(255)

    def done(self):
        """The plan, and the exit status of the program."""
        print(f"1..{self.count}", flush=True)
        return 1 if self.failed or not self.count else 0
