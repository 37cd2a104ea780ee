"""Writes an OCI layout (OCI image specification 1.1: image layout, manifest, configuration): same files, same bytes."""

import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
EMPTY = "application/vnd.oci.empty.v1+json"


class Files:
    """The files of a layer by their paths: bytes and mode, links, folders. Folders above them are added."""

    def __init__(self):
        self.entries = {}

    def folder(self, path, mode=0o755, owner=0):
        if path and path not in self.entries:
            self.folder(os.path.dirname(path))
            self.entries[path] = ("folder", None, mode, owner)

    def file(self, path, data, mode=0o644):
        self.folder(os.path.dirname(path))
        self.entries[path] = ("file", data, mode, 0)

    def link(self, path, target):
        self.folder(os.path.dirname(path))
        self.entries[path] = ("link", target, 0o777, 0)

    def tar(self, date):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for path, (kind, data, mode, owner) in sorted(self.entries.items()):
                info = tarfile.TarInfo(path)
                info.mtime, info.mode, info.uid, info.gid = date, mode, owner, owner
                if kind == "folder":
                    info.type = tarfile.DIRTYPE
                elif kind == "link":
                    info.type, info.linkname = tarfile.SYMTYPE, data
                else:
                    info.size = len(data)
                tar.addfile(info, io.BytesIO(data) if kind == "file" else None)
        return out.getvalue()


def as_json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class Layout:
    """A layout folder, which is made again if it is there."""

    def __init__(self, folder):
        self.folder = folder
        self.manifests = []
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.join(folder, "blobs", "sha256"))

    def blob(self, data, media_type):
        digest = hashlib.sha256(data).hexdigest()
        with open(os.path.join(self.folder, "blobs", "sha256", digest), "wb") as file:
            file.write(data)
        return {"mediaType": media_type, "digest": "sha256:" + digest, "size": len(data)}

    def image(self, layers, arch, config, date_text, name, annotations):
        """Adds an image of layers [(what, tar)] under a name; returns the descriptor of its manifest."""
        diffs, blobs = [], []
        for _, tar in layers:
            diffs.append("sha256:" + hashlib.sha256(tar).hexdigest())
            blobs.append(self.blob(gzip.compress(tar, 9, mtime=0), LAYER))
        config = self.blob(as_json({
            "architecture": arch, "os": "linux", "created": date_text, "config": config,
            "rootfs": {"type": "layers", "diff_ids": diffs},
            "history": [{"created": date_text, "created_by": what} for what, _ in layers]}), CONFIG)
        manifest = self.blob(as_json({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": blobs,
                                      "annotations": annotations}), MANIFEST)
        self.manifests.append(dict(manifest, platform={"architecture": arch, "os": "linux"},
                                   annotations={"org.opencontainers.image.ref.name": name}))
        return manifest

    def referrer(self, subject, data, media_type, date_text):
        """Adds a document about an image, which registries list as its referrer."""
        manifest = self.blob(as_json({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": media_type, "config": self.blob(b"{}", EMPTY),
            "layers": [self.blob(data, media_type)], "subject": subject,
            "annotations": {"org.opencontainers.image.created": date_text}}), MANIFEST)
        self.manifests.append(dict(manifest, artifactType=media_type))

    def close(self):
        for name, value in (("oci-layout", {"imageLayoutVersion": "1.0.0"}),
                            ("index.json", {"schemaVersion": 2, "mediaType": INDEX, "manifests": self.manifests})):
            with open(os.path.join(self.folder, name), "wb") as file:
                file.write(as_json(value))
