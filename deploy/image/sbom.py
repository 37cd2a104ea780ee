"""What an image has, as SPDX 2.3 in JSON: our programs, Debian's packages, the libraries that deploy/deps built in, and those of the page."""

import json
import re
import urllib.parse

from system import field

NONE = "NOASSERTION"


def package(name, version, purl, licence=NONE, checksum=None, supplier=NONE):
    made = {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", "%s-%s" % (name, version)),
        "name": name, "versionInfo": version, "downloadLocation": NONE, "filesAnalyzed": False, "supplier": supplier,
        "licenseConcluded": NONE, "licenseDeclared": licence, "copyrightText": NONE,
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]}
    if checksum:
        made["checksums"] = [{"algorithm": checksum[0], "checksumValue": checksum[1]}]
    return made


def of_debian(status, release):
    name, version, arch = (field(status, key) for key in ("Package", "Version", "Architecture"))
    made = package(name, version, "pkg:deb/debian/%s@%s?arch=%s&distro=debian-%s" %
                   (urllib.parse.quote(name), urllib.parse.quote(version), arch, release),
                   supplier="Organization: Debian")
    source = field(status, "Source")
    if source:
        made["sourceInfo"] = "built from the source package " + source
    return made


def of_sources(text):
    """build/deps/sources: name, version, licence, PyPI package that has the sources, its SHA-256."""
    for line in text.splitlines():
        name, version, licence, origin, sha256 = line.split()
        yield package(name, version, "pkg:pypi/" + origin.replace("==", "@"), licence, ("SHA256", sha256))


def of_page(lock):
    """querier/ui/package-lock.json: what the page is built from, without the tools that build it."""
    for path, entry in sorted(lock["packages"].items()):
        if path and not entry.get("dev") and not entry.get("optional"):
            name = path.rpartition("node_modules/")[2]
            yield package(name, entry["version"], "pkg:npm/%s@%s" % (urllib.parse.quote(name, safe="/"), entry["version"]),
                          entry.get("license", NONE))


def document(ours, parts, digest, date_text):
    parts = sorted(parts, key=lambda part: part["SPDXID"])
    return json.dumps({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": "%s-%s" % (ours["name"], ours["versionInfo"]),
        "documentNamespace": "https://spdx.org/spdxdocs/flamegrid-%s-%s" % (ours["versionInfo"], digest),
        "creationInfo": {"created": date_text, "creators": ["Tool: deploy/image/sbom.py"]},
        "packages": [ours] + parts,
        "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": ours["SPDXID"]}] +
                         [{"spdxElementId": ours["SPDXID"], "relationshipType": "DEPENDS_ON", "relatedSpdxElement": part["SPDXID"]}
                          for part in parts]}, indent=1, sort_keys=True).encode() + b"\n"
