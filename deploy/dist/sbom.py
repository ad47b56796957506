"""The software bill of materials of a wheel, in CycloneDX: packages of requirements-run.lock, and their dependencies.

The lock has the packages of the container: those of the wheel (scope `required`), and those of `EXTRAS` (`optional`).

Versions, markers and hashes are from the lock. Licences and dependencies are from the metadata of the packages in this
environment, which must have the locked versions.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, metadata, version
from itertools import chain
from pathlib import Path
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PRODUCT: Final = "location-monitor"
LOCK: Final = "requirements-run.lock"
EXTRAS: Final = ("page",)
"""The extras whose packages are in the lock (`make lock`)."""

LONGEST_NAME: Final = 80
MARKER: Final = "location-monitor:marker"
_PIN: Final = re.compile(r"(?P<name>[a-z0-9.-]+)==(?P<version>[^ \\]+)(?: ; (?P<marker>[^\\]+?))? *\\?")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Release:
    """The wheel that is described: version, file name, SHA-256, and the time of its source in seconds since 1970."""

    version: str
    wheel: str
    sha256: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Pin:
    """A package of a lock file. `marker` says where it is needed; empty: everywhere."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


def read_lock(path: Path) -> Iterator[Pin]:
    """Yield the packages of a lock file with hashes.

    Raises:
        ValueError: a line is neither a package nor a comment.
    """
    for block in re.split(r"\n(?=\S)", path.read_text(encoding="utf-8").strip()):
        if block.startswith("#"):
            continue
        first = block.splitlines()[0]
        match = _PIN.fullmatch(first)
        if match is None:
            raise ValueError(f"{path.name}: expected NAME==VERSION, found {first!r}. Run make lock")
        yield Pin(match["name"], match["version"], match["marker"] or "", tuple(_HASH.findall(block)))


def make_sbom(root: Path, release: Release) -> str:
    """Return the bill of materials as JSON. The same lock and the same wheel give the same bytes.

    Raises:
        ValueError: a package of this environment does not have the locked version.
    """
    pins: dict[str, list[Pin]] = {}  # several versions of a package have different markers
    for pin in read_lock(root / LOCK):
        pins.setdefault(pin.name, []).append(pin)
    extras = _find_extras(pins)
    required = _find_required(extras)
    components = {
        name: [_describe(pin, _find_licenses(found), required=name in required and not pin.marker) for pin in found]
        for name, found in pins.items()
    }
    product = _describe_product(release)
    serial_number = uuid.uuid5(uuid.NAMESPACE_OID, release.sha256)
    bom = Bom(components=chain.from_iterable(components.values()), serial_number=serial_number)
    bom.metadata.timestamp = datetime.fromtimestamp(release.epoch, UTC)
    bom.metadata.component = product
    for name, described in {PRODUCT: [product], **components}.items():
        needed = {needs for needs, _ in _requirements(name, extras.get(name, [""])) if needs in components}
        for component in described:
            bom.register_dependency(component, chain.from_iterable(components[needs] for needs in sorted(needed)))
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _describe_product(release: Release) -> Component:
    return Component(
        name=PRODUCT,
        version=release.version,
        type=ComponentType.APPLICATION,
        bom_ref=PRODUCT,
        purl=PackageURL("pypi", None, PRODUCT, release.version, {"file_name": release.wheel}),
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=release.sha256)],
    )


def _describe(pin: Pin, licenses: Sequence[License], *, required: bool) -> Component:
    purl = PackageURL("pypi", None, pin.name, pin.version)
    # A version has one file per platform, so the hashes are those of its files and not of one component.
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(purl.to_string()),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=content) for content in pin.hashes],
        comment="the SHA-256 of each file that the lock accepts",
    )
    return Component(
        name=pin.name,
        version=pin.version,
        type=ComponentType.LIBRARY,
        bom_ref=purl.to_string(),
        purl=purl,
        scope=ComponentScope.REQUIRED if required else ComponentScope.OPTIONAL,
        licenses=licenses,
        external_references=[files],
        properties=[Property(name=MARKER, value=pin.marker)] if pin.marker else [],
    )


def _find_licenses(pins: Sequence[Pin]) -> list[License]:
    """Return the licence that a package states, if it is installed. Packages for other platforms are not.

    Raises:
        ValueError: a version is installed that the lock does not have.
    """
    name = pins[0].name
    try:
        installed = version(name)
    except PackageNotFoundError:
        return []
    if installed not in {pin.version for pin in pins}:
        raise ValueError(f"{name}: expected the locked version {pins[0].version}, found {installed}. Install the lock")
    fields = metadata(name)
    stated = [*fields.get_all("License-Expression", []), *fields.get_all("License", [])]
    if stated and len(stated[0]) <= LONGEST_NAME:  # some packages have the whole text of their licence there
        return [LicenseFactory().make_from_string(stated[0])]
    names = [value.rpartition(" :: ")[2] for value in fields.get_all("Classifier", []) if value.startswith("License")]
    return [LicenseFactory().make_with_name(name) for name in names]


def _find_extras(pins: Iterable[str]) -> Mapping[str, Iterable[str]]:
    """Return the extras of each package that the product or another package asks for; "" stands for the package."""
    extras: dict[str, set[str]] = {PRODUCT: {"", *EXTRAS}}
    for asking in (PRODUCT, *pins):
        for name, wanted in _requirements(asking, extras.get(asking, [""])):
            extras.setdefault(name, {""}).update(wanted)
    return extras


def _find_required(extras: Mapping[str, Iterable[str]]) -> set[str]:
    """Return all packages that the product needs without its extras, directly or indirectly."""
    found: set[str] = set()
    waiting = [name for name, _ in _requirements(PRODUCT, [""])]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [needed for needed, _ in _requirements(name, extras.get(name, [""]))]
    return found


def _requirements(name: str, extras: Iterable[str]) -> Iterator[tuple[str, set[str]]]:
    """Yield the packages that an installed package needs with these extras, each with the extras that it needs."""
    try:
        lines = metadata(name).get_all("Requires-Dist", [])
    except PackageNotFoundError:
        return
    for requirement in map(Requirement, lines):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            yield canonicalize_name(requirement.name), requirement.extras
