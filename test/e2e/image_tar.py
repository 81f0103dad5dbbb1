# SPDX-License-Identifier: Apache-2.0
# image_tar.py TAR NAME DIRECTORY ENTRYPOINT...: a container image of one layer, the directory, for `podman load` and `docker load`.
import hashlib
import io
import json
import platform
import sys
import tarfile

out, name, root, entrypoint = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
arch = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}.get(platform.machine(), platform.machine())
layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode="w") as t:
    t.add(root, arcname=".")
digest = hashlib.sha256(layer.getvalue()).hexdigest()
config = json.dumps(
    {
        "architecture": arch,
        "os": "linux",
        "config": {"Entrypoint": entrypoint, "Cmd": ["echo from the image; trap 'exit 143' TERM; while :; do sleep 1; done"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
    }
).encode()
config_name = hashlib.sha256(config).hexdigest() + ".json"
manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
with tarfile.open(out, "w") as t:
    for member, data in (("layer.tar", layer.getvalue()), (config_name, config), ("manifest.json", manifest)):
        info = tarfile.TarInfo(member)
        info.size = len(data)
        t.addfile(info, io.BytesIO(data))
