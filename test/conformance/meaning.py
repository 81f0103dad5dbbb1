# SPDX-License-Identifier: Apache-2.0
"""meaning: what two answers must have in common, as values that can be compared.

What differs between any two servers is replaced: a uid by the object and a number, a resourceVersion of an object by "this
object, its nth version", one of a list by the word that it is one, times of the server's own clock by a word. managedFields go. Of a message
only the words count that a program reads.
"""
import json
import re

# Go's own words for bytes that it cannot read; ours are others.
UNREADABLE = ("error decoding", "is unrecognized", "unable to parse", "cannot be handled", "invalid selector", "continue", "found '")


class Meaning:
    """One for each side: the names it gives last as long as the script."""

    def __init__(self):
        self.uids, self.versions = {}, {}

    def uid(self, value, owner=None):
        if value not in self.uids and owner is not None:
            self.uids[value] = "uid %d of %s" % (sum(o == owner for _, o in self.uids.values()) + 1, owner), owner
        return self.uids.get(value, ("an unknown uid", None))[0]

    def version(self, owner, value):
        known = self.versions.setdefault(owner, {})
        return "version %d" % known.setdefault(value, len(known) + 1)

    def metadata(self, meta, owner):
        meta = {k: v for k, v in meta.items() if k not in ("managedFields", "selfLink")}
        if "uid" in meta:
            owner = owner + (meta["uid"],)
            meta["uid"] = self.uid(meta["uid"], owner[:2])
        if "resourceVersion" in meta:
            meta["resourceVersion"] = self.version(owner, meta["resourceVersion"])
        for key in ("creationTimestamp", "deletionTimestamp"):
            if meta.get(key):
                meta[key] = "a time"
        return meta

    def object(self, o, kind=None):
        o = dict(o)
        # The items of a list of a built-in kind do not say what they are.
        o.pop("kind", None), o.pop("apiVersion", None)
        meta = o.get("metadata", {})
        o["metadata"] = self.metadata(meta, (meta.get("namespace"), meta.get("name")))
        for key in [k for k, v in o.items() if k.startswith("deprecated") and not v]:
            del o[key]
        return o

    def list(self, o):
        meta = o.get("metadata", {})
        return {
            "kind": o["kind"],
            "apiVersion": o["apiVersion"],
            "items": [self.object(i) for i in o["items"] or []],
            "resourceVersion": "a number" if re.fullmatch("[0-9]+", meta.get("resourceVersion", "")) else meta,
            "continue": bool(meta.get("continue")),
            "remaining": meta.get("remainingItemCount"),
        }

    def status(self, o):
        details = dict(o.get("details") or {})
        if "uid" in details:
            details["uid"] = self.uid(details["uid"])
        causes = details.pop("causes", None)
        out = {k: o.get(k) for k in ("kind", "status", "reason", "code")}
        out["details"] = details
        out["continue"] = bool(o.get("metadata", {}).get("continue"))
        if causes is not None:
            out["causes"] = sorted({(c.get("reason", ""), c.get("field", "")) for c in causes})
        else:
            out["message"] = self.message(o.get("message") or "")
        return out

    def message(self, text):
        if any(word in text for word in UNREADABLE):
            return "something cannot be read"
        # resourceVersions of the whole server, and values that Go prints in its own form
        text = re.sub(r"\(\d+\)|current: \d+|version: \d+", "(...)", text)
        return re.sub(r"(expected (?:string|list|map|boolean)), got .*", r"\1", text)

    def any(self, o):
        if not isinstance(o, dict):
            return o
        if o.get("kind") == "Status":
            return self.status(o)
        if "items" in o and str(o.get("kind", "")).endswith("List"):
            return self.list(o)
        return {"kind": o.get("kind"), "apiVersion": o.get("apiVersion"), **self.object(o)}

    def text(self, text):
        try:
            return self.any(json.loads(text))
        except ValueError:
            return text.strip()

    def events(self, text):
        """The lines of a watch, without bookmarks that do not end a first list: these come when the server thinks fit."""
        out = []
        for line in text.splitlines():
            e = json.loads(line)
            if "type" not in e:
                out.append(self.any(e))
            elif e["type"] != "BOOKMARK":
                out.append((e["type"], self.any(e["object"])))
            elif e["object"]["metadata"].get("annotations"):
                out.append(("END OF THE FIRST LIST", e["object"]["kind"], e["object"]["metadata"]["annotations"]))
        return out
